package protocol

import "strings"

// commandCases are about commands and arguments that are refused, and about the state of a connection.
var commandCases = []writtenCase{
	{"number of arguments", `
		GET
		GET n:1 n:2
		SET
		SET n:1
		SETNX n:1
		SETNX n:1 1 2
		GETSET n:1
		GETDEL
		MGET
		MSET
		MSET n:1
		MSET n:1 1 n:2
		INCR
		INCR n:1 1
		INCRBY n:1
		INCRBY n:1 1 2
		DECR
		DECRBY n:1
		STRLEN
		STRLEN n:1 n:2
		EXISTS
		DEL
		UNLINK
		TYPE
		TYPE n:1 n:2
		TTL
		PTTL n:1 n:2
		HSET
		HSET h:1
		HSET h:1 a
		HSET h:1 a 1 b
		HMSET h:1 a
		HMSET h:1 a 1 b
		HGET h:1
		HGET h:1 a b
		HMGET h:1
		HGETALL
		HGETALL h:1 a
		HKEYS
		HVALS
		HLEN
		HLEN h:1 a
		HEXISTS h:1
		HINCRBY h:1 a
		HINCRBY h:1 a 1 2
		HDEL h:1
		MULTI 1
		EXEC 1
		DISCARD 1
		WATCH
		UNWATCH 1
		DBSIZE 1
		ECHO
		ECHO a b
		PING a b
		SELECT
		SELECT 0 0
		CLIENT
		CONFIG
		SCAN
		TIME 1
		FLUSHALL 1
		FLUSHALL SYNC ASYNC
		SUBSCRIBE
		PUBLISH a
		QUIT 1 2`},
	{"replies off", `
		CLIENT REPLY ON
		CLIENT REPLY nosuch
		CLIENT REPLY
		MULTI
		CLIENT REPLY ON
		EXEC`},
	{"unknown commands", `
		nosuch
		nosuch a b c
		NOSUCH "a b" "c'd" "e\"f"
		"" a
		"no such" x
		"with\r\nline end" x
		nosuch "with\r\nline end"
		nosuch "\x00\x01\xff"
		nosuch ` + strings.Repeat("long", 50) + ` tail
		nosuch ` + strings.Repeat("0123456789 ", 30) + `
		` + strings.Repeat("n", 200) + ` x
		CLIENT nosuch
		CLIENT nosuch a b
		CLIENT ` + strings.Repeat("n", 200) + `
		CLIENT "a\r\nb"
		CONFIG nosuch
		CONFIG nosuch x
		COMMAND nosuch
		client NoSuch`},
	{"commands not offered", `
		APPEND n:1 5
		MSETNX n:1 5 n:2 6
		GETEX n:1
		SETEX n:1 100 5
		EXPIRE n:1 100
		PEXPIREAT n:1 99999999999999
		SETRANGE n:1 0 5
		LPUSH list 5
		SADD set 5
		ZADD zset 5 five
		XADD stream * a 5
		HINCRBYFLOAT h:1 a 0.5
		EVAL "return 1" 0
		SUBSCRIBE channel
		PUBLISH channel message`},
	{"subcommands", `
		CLIENT GETNAME
		CLIENT SETNAME worker-1
		CLIENT GETNAME
		CLIENT SETNAME "a b"
		CLIENT SETNAME ""
		CLIENT GETNAME
		CLIENT SETNAME
		CLIENT GETNAME x
		CLIENT ID x
		CLIENT KILL
		CONFIG GET
		CONFIG SET
		CONFIG SET maxmemory
		CONFIG SET nosuchparameter 1
		CONFIG GET nosuchparameter
		COMMAND COUNT x
		COMMAND INFO nosuchcommand
		COMMAND GETKEYS GET n:1
		COMMAND GETKEYS MSET n:1 1 n:2 2
		COMMAND GETKEYS PING
		COMMAND GETKEYS nosuch
		COMMAND GETKEYS GET
		OBJECT nosuch n:1
		MEMORY nosuch`},
	{"connection", `
		PING
		PING ""
		PING "a\r\nb"
		ECHO ""
		ECHO "a\r\nb"
		SELECT 0
		SELECT 1
		SELECT -1
		SELECT 99999999999999999999
		SELECT abc
		SELECT ""
		HELLO 1
		HELLO 4
		HELLO 99999999999999999999
		HELLO abc
		HELLO ""
		HELLO 3 nosuch
		HELLO 3 AUTH
		HELLO 3 AUTH default
		HELLO 3 SETNAME
		HELLO 3 SETNAME "a b"
		AUTH
		AUTH a b c
		AUTH secret
		AUTH nobody secret
		SCAN x
		SCAN -1
		SCAN 0 COUNT
		SCAN 0 COUNT 0
		SCAN 0 COUNT -1
		SCAN 0 COUNT abc
		SCAN 0 MATCH
		SCAN 0 nosuch 1
		SCAN 0
		SCAN 0 MATCH n:* COUNT 100 TYPE string
		SUBSCRIBE
		RESET
		PING`},
}
