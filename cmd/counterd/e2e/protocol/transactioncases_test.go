package protocol

// transactionCases are about MULTI, EXEC and WATCH.
var transactionCases = []writtenCase{
	{"transactions", `
		EXEC
		DISCARD
		MULTI
		MULTI
		WATCH n:1
		SET n:1 5
		INCR n:1
		GET n:1
		EXEC
		MULTI
		DISCARD
		DISCARD
		MULTI
		EXEC
		UNWATCH
		MULTI
		UNWATCH
		PING
		ECHO hello
		SELECT 0
		DBSIZE
		EXEC
		MULTI
		SET n:1 9223372036854775807
		INCR n:1
		HSET n:1 a 1 b 2 c 3
		INCRBY n:1 abc
		GET n:1
		EXEC
		GET n:1`},
	{"transactions refused", `
		MULTI
		SET n:1
		GET n:1
		EXEC
		GET n:1
		MULTI
		nosuch
		EXEC
		MULTI
		EXEC x
		EXEC
		MULTI
		CLIENT nosuch
		EXEC
		MULTI
		SET n:1 5
		nosuch a
		DISCARD
		EXEC`},
	{"watched keys", `
		WATCH n:1
		MULTI
		INCR n:1
		1> SET n:1 5
		EXEC
		WATCH n:1
		1> GET n:1
		MULTI
		INCR n:1
		EXEC
		WATCH n:1
		INCR n:1
		MULTI
		GET n:1
		EXEC
		WATCH n:1
		1> INCR n:1
		UNWATCH
		MULTI
		GET n:1
		EXEC
		WATCH n:1
		1> INCR n:1
		MULTI
		DISCARD
		MULTI
		GET n:1
		EXEC
		WATCH n:9
		1> DEL n:9
		MULTI
		EXEC
		WATCH n:9
		1> SET n:9 1
		MULTI
		EXEC
		WATCH n:9
		1> DEL n:9
		MULTI
		EXEC
		WATCH h:1
		1> HSET h:1 a 1 b 2 c 3
		MULTI
		EXEC
		WATCH h:1
		1> HSET h:1 a 1
		MULTI
		EXEC
		WATCH h:1
		1> HGETALL h:1
		MULTI
		EXEC
		WATCH n:1 h:1
		1> MULTI
		1> INCR n:2
		1> EXEC
		MULTI
		EXEC
		WATCH n:1 h:1
		1> MULTI
		1> INCR n:1
		1> EXEC
		MULTI
		EXEC
		WATCH n:1
		1> SET n:1 9223372036854775807
		MULTI
		EXEC
		WATCH n:1
		1> INCR n:1
		MULTI
		EXEC
		WATCH n:1
		1> SET n:1 5 NX
		MULTI
		EXEC
		WATCH n:1
		1> INCRBY n:1 0
		MULTI
		EXEC
		WATCH n:1
		1> FLUSHALL
		MULTI
		EXEC
		WATCH n:1
		1> FLUSHALL
		MULTI
		EXEC`},
	{"watches and what changes nothing", `
		WATCH n:1
		1> DEL n:1
		MULTI
		EXEC
		SET n:1 5
		WATCH n:1
		1> SETNX n:1 6
		MULTI
		EXEC
		WATCH n:1
		1> SET n:1 6 NX
		MULTI
		EXEC
		WATCH n:1
		1> INCRBY n:1 abc
		MULTI
		EXEC
		WATCH n:1
		1> DECRBY n:1 9223372036854775807
		1> HSET n:1 a 1
		MULTI
		EXEC
		WATCH n:1
		1> SET n:1 5
		MULTI
		EXEC
		WATCH n:1 n:1
		1> MGET n:1 n:2
		MULTI
		PING
		EXEC
		WATCH n:2
		1> GETDEL n:2
		MULTI
		PING
		EXEC
		WATCH n:2
		1> GETSET n:2 1
		MULTI
		PING
		EXEC
		WATCH h:1
		1> HDEL h:1 a
		MULTI
		PING
		EXEC
		WATCH h:1
		1> HSET h:1 a 1 b 2 c 3
		MULTI
		PING
		EXEC
		WATCH h:1
		1> HSETNX h:1 a 5
		MULTI
		PING
		EXEC
		WATCH h:1
		1> HINCRBY h:1 a 0
		MULTI
		PING
		EXEC
		WATCH n:1
		1> MSET n:9 1 n:1 1
		MULTI
		PING
		EXEC
		WATCH n:7
		1> EXISTS n:7
		MULTI
		PING
		EXEC
		MULTI
		WATCH n:1
		EXEC
		WATCH
		UNWATCH
		EXEC`},
}
