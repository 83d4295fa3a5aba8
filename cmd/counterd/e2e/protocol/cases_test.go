package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// cases are sequences worth writing down: every row of the table of differences, and error texts that
// random sequences seldom reach. A line is one request; "1> " before it chooses another connection than 0.
var cases = slices.Concat(valueCases, transactionCases, commandCases)

// A writtenCase is a named sequence, a request a line.
type writtenCase struct{ name, script string }

// valueCases are about what commands do to keys and their values.
var valueCases = []writtenCase{
	{"values out of range", `
		DECR n:1
		DECRBY n:1 5
		INCRBY n:1 -1
		HSET h:1 a 1 b 2 c 3
		HINCRBY h:1 a -5
		SET n:1 9223372036854775807
		INCR n:1
		INCRBY n:1 1
		GET n:1
		DECRBY n:1 9223372036854775807
		GET n:1
		INCRBY n:1 9223372036854775807
		GET n:1
		DECRBY n:1 -9223372036854775808
		INCRBY n:1 -9223372036854775808
		SET n:1 9223372036854775808`},
	{"values that are no numbers", `
		SET n:1 abc
		SET n:1 ""
		SET n:1 -1
		SET n:1 1.5
		SET n:1 " 1"
		SET n:1 007
		SET n:1 +1
		GETSET n:1 abc
		SETNX n:2 abc
		MSET n:1 1 n:2 abc
		SET n:1 abc NX
		SET n:1 abc XX
		HSET h:1 a 1 b 2 c abc
		HSET h:1 a "" b 2 c 3
		INCRBY n:1 ""
		INCRBY n:1 " 1"
		INCRBY n:1 +1
		INCRBY n:1 007
		INCRBY n:1 -0
		INCRBY n:1 1e3
		INCRBY n:1 0x10`},
	{"options of SET", `
		SET n:1 5 NX
		SET n:1 6 NX
		SET n:1 6 XX
		SET n:1 7 GET
		SET n:1 8 NX GET
		SET n:2 8 XX GET
		SET n:2 8 NX GET
		SET n:1 9 KEEPTTL
		SET n:1 9 nx get keepttl
		SET n:1 9 NX XX
		SET n:1 9 GET GET
		SET n:1 9 XX XX
		SET n:1 9 FOO
		SET n:1 9 5
		SET n:1 9 EX 10
		SET n:1 9 PX 10000
		SET n:1 9 XX EX 10
		SET n:1 9 EXAT 99999999999
		SET n:1 9 EX
		SET n:1 9 EX abc
		SET n:1 9 EX 0
		SET n:1 9 EX 10 PX 10
		SET n:1 9 EX 10 KEEPTTL
		SET n:1
		GETSET n:1 10
		GETSET n:3 10
		GETDEL n:3
		GETDEL n:3
		GETDEL n:3 n:4`},
	{"keys of no form", `
		GET foo
		MGET foo n:x n: :1 12x "" n:1
		EXISTS foo n:x
		DEL foo n:x
		TYPE foo
		TTL foo
		PTTL foo
		STRLEN foo
		HGETALL foo
		HGET foo a
		HLEN foo
		HKEYS foo
		HEXISTS foo a
		GETDEL foo
		SET foo 1
		SETNX foo 1
		GETSET foo 1
		INCR foo
		INCR n:x
		INCRBY n: 1
		DECR 12x
		MSET n:1 5 foo 5
		HSET foo a 1
		GET n:1
		DBSIZE`},
	{"keys given twice", `
		MSET n:1 1 n:1 2 n:2 3
		MGET n:1 n:1 n:2 n:3
		EXISTS n:1 n:1 n:2 n:3
		DEL n:1 n:1 n:3
		UNLINK n:2 n:2
		HSET h:1 a 1 b 2 c 3
		HSET h:1 a 5 a 6
		HMGET h:1 a a nofield b
		HGETALL h:1
		EXISTS h:1 h:1
		DEL h:1 h:1`},
	{"whole items", `
		HGETALL h:1
		HLEN h:1
		HVALS h:1
		HKEYS h:1
		HMGET h:1 a b nofield
		HGET h:1 a
		HEXISTS h:1 a
		HSTRLEN h:1 a
		HSET h:1 a 10 b 200 c 3000
		HGETALL h:1
		HLEN h:1
		HVALS h:1
		HKEYS h:1
		HEXISTS h:1 a
		HEXISTS h:1 nofield
		HSTRLEN h:1 c
		HSETNX h:1 a 5
		HMSET h:1 a 6 b 7
		HINCRBY h:1 a 1
		HINCRBY h:1 a 9223372036854775807
		HINCRBY h:1 a abc
		HINCRBY h:1 a
		HSCAN h:1 0
		HSCAN h:1 0 MATCH [ab] COUNT 1
		HSCAN h:9 0
		HSCAN h:1 x
		HSCAN h:1 0 COUNT 0
		HSCAN n:9 0
		HDEL h:1 a
		HSET h:1 a 10 b 200 c 3000
		HDEL h:1 nofield
		HSET h:1 a 10 b 200 c 3000
		HSET h:1 a 1 b
		TYPE h:1
		TTL h:1
		EXISTS h:1
		GET h:1
		STRLEN h:1
		GETDEL h:1
		MGET h:1 n:1
		SET h:1 5
		HSET h:2 a 10 b 200 c 3000
		INCR h:2
		INCRBY h:2 5
		GETSET h:2 5
		SETNX h:2 5
		SET h:2 5 GET
		SET h:2 5 NX
		MSET n:1 1 h:2 5
		HSET h:2 a 10 b 200 c 3000
		HSET h:2 nofield 1
		HINCRBY h:2 nofield 1
		SETNX h:3 5
		INCR h:3
		GETSET h:3 5
		GET h:3
		STRLEN h:3
		GETDEL h:3
		SET h:3 5 XX
		SET n:1 5
		HGET n:1 a
		HGETALL n:1
		HSET n:1 a 5
		HLEN n:1
		HINCRBY n:1 a 1
		HDEL n:1 a
		HGETALL n:2
		HGET n:2 a
		HLEN n:2`},
	{"time to live", `
		TTL n:1
		PTTL n:1
		EXPIRETIME n:1
		PEXPIRETIME n:1
		PERSIST n:1
		SET n:1 5
		TTL n:1
		PTTL n:1
		EXPIRETIME n:1
		PEXPIRETIME n:1
		PERSIST n:1
		TOUCH n:1 n:2 n:1 foo
		EXPIRE n:1
		TTL
		PERSIST n:1 n:2`},
	{"conditional writes to whole items", `
		SETNX h:1 5
		SET h:1 5 NX
		SET h:1 5 XX
		SET h:1 abc XX
		HSET h:1 a 1 b 2 c 3
		SETNX h:1 5
		SETNX h:1 abc
		SET h:1 5 NX
		SET h:1 5 XX
		SET h:1 5 NX GET
		SET h:1 5 XX GET
		HGETALL h:1`},
	{"edges of numbers", `
		INCRBY n:1 9223372036854775807
		INCRBY n:1 9223372036854775808
		INCRBY n:1 -9223372036854775808
		INCRBY n:1 -9223372036854775809
		INCRBY n:1 18446744073709551616
		DECRBY n:1 -9223372036854775808
		DECRBY n:1 -9223372036854775809
		DECRBY n:1 9223372036854775808
		DECRBY n:1 9223372036854775807
		DECRBY n:1 -9223372036854775807
		INCRBY n:1 -1
		INCRBY n:1 0
		INCRBY n:1 -0
		INCRBY n:1 00
		INCRBY n:1 +5
		INCRBY n:1 "5 "
		INCRBY n:1 " 5"
		INCRBY n:1 "5\n"
		INCRBY n:1 "5\x00"
		INCRBY n:1 -
		INCRBY n:1 --5
		INCRBY n:1 1_000
		INCRBY n:1 0b1
		INCRBY n:1 5.0
		INCRBY n:1 inf
		DECRBY n:1 +5
		DECRBY n:1 05
		DECRBY n:1 ""
		DECRBY n:1 abc
		DECRBY n:2 -5
		GET n:1
		GET n:2
		SET n:3 -0
		SET n:3 +5
		SET n:3 05
		SET n:3 "5 "
		SET n:3 18446744073709551615
		GET n:3
		HSET h:1 a 0 b 0 c 0
		HINCRBY h:1 a 9223372036854775807
		HINCRBY h:1 a 1
		HINCRBY h:1 a 9223372036854775808
		HINCRBY h:1 b -9223372036854775809
		HINCRBY h:1 b +1
		HINCRBY h:1 b 01
		HINCRBY h:1 b ""
		HINCRBY h:1 b " 1"
		HINCRBY h:1 a -9223372036854775807
		HGETALL h:1
		INCRBY h:1 abc
		DECRBY h:1 -9223372036854775808
		HINCRBY n:1 a abc
		STRLEN n:1
		HSTRLEN h:1 a
		HSTRLEN h:1 nofield
		HSTRLEN h:2 a
		HSTRLEN n:1 a`},
	{"cursors", `
		HSET h:1 a 1 b 2 c 3
		SET n:1 5
		HSCAN h:1 0 COUNT
		HSCAN h:1 0 COUNT 0
		HSCAN h:1 0 COUNT -1
		HSCAN h:1 0 COUNT abc
		HSCAN h:1 0 COUNT 1 COUNT 2
		HSCAN h:1 0 MATCH ""
		HSCAN h:1 0 MATCH
		HSCAN h:1 0 MATCH a MATCH b
		HSCAN h:1 0 TYPE string
		HSCAN h:1 0 NOVALUES
		HSCAN h:1 -1
		HSCAN h:1 abc
		HSCAN h:1 " 0"
		HSCAN h:1 +0
		HSCAN h:1 00
		HSCAN h:1 0x0
		HSCAN h:1 ""
		HSCAN h:1 18446744073709551615
		HSCAN h:1 18446744073709551616
		HSCAN n:1 0
		HSCAN n:1 abc
		HSCAN h:9 abc
		HSCAN h:9 0 COUNT 0
		HSCAN foo 0
		HSCAN h:1 0 MATCH [a-b] COUNT 100
		SCAN 0 COUNT 0
		SCAN 0 COUNT -1
		SCAN 0 COUNT 9223372036854775808
		SCAN 0 MATCH ""
		SCAN 0 MATCH "" COUNT 1000
		SCAN 0 MATCH nothing* COUNT 1000
		SCAN 0 TYPE
		SCAN 0 TYPE nosuch COUNT 1000
		SCAN 0 TYPE list COUNT 1000
		SCAN 0 TYPE LIST COUNT 1000
		SCAN 0 TYPE zset COUNT 1000
		SCAN " 0"
		SCAN 0x0
		SCAN abc
		SCAN ""
		SCAN 18446744073709551616`},
	{"several keys", `
		SET n:1 5
		HSET h:1 a 1 b 2 c 3
		MGET n:1 h:1 n:1 foo n:2 h:2
		EXISTS n:1 n:1 n:1 h:1 foo n:2
		TOUCH n:1 n:1 h:1
		MSET n:1 1 n:2 2 n:1 3
		MGET n:1 n:2
		MSET n:1 4 n:2
		MSET n:1 4 n:2 2 n:3
		MGET n:1 n:2 n:3
		DEL n:1 h:1 n:1 foo
		UNLINK n:2 n:2 h:1
		EXISTS n:1 n:2 h:1
		HMGET h:1 a
		HMGET h:1 a a
		HSET h:1 a 1 a 2 b 2 c 3
		HDEL h:9 a
		HDEL h:9 a b a
		HMSET h:2 a 1 b 2 c 3
		HMSET h:2 a
		HMSET h:2 a 1 b
		HSETNX h:2 a 5
		HSETNX h:2 a abc
		HSETNX n:1 a 5
		SET n:1 1
		HSETNX n:1 a 5
		HMSET n:1 a 5
		HSET n:1 a 5
		OBJECT ENCODING n:1
		OBJECT REFCOUNT n:99
		OBJECT ENCODING h:9
		TYPE n:1
		TYPE h:1
		GETDEL n:1
		GETSET n:1 7
		GETSET n:1 8
		SET n:1 9 GET
		SET n:2 9 GET
		SET n:3 9 GET NX
		SET n:3 10 GET NX
		SET n:4 10 GET XX
		GET n:4`},
}

// parseCases reads the lines of a case.
func parseCases(t testing.TB, script string) []unit {
	t.Helper()
	var seq []unit
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		u := unit{}
		if len(line) > 3 && line[1:3] == "> " {
			u.client = int(line[0] - '0')
			line = line[3:]
		}
		var args []string
		for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
			word, _, _ := strings.Cut(line, " ")
			if line[0] == '"' {
				quoted, err := strconv.QuotedPrefix(line)
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				line = line[len(quoted):]
				word, _ = strconv.Unquote(quoted)
			} else {
				line = line[len(word):]
			}
			args = append(args, word)
		}
		u.reqs = [][]string{args}
		seq = append(seq, u)
	}
	return seq
}

// casesDone and protocolDone say that all written sequences and inputs have been compared, and found right.
var casesDone, protocolDone bool

// TestCases compares the written sequences.
func TestCases(t *testing.T) {
	for _, resp := range []int{2, 3} {
		d, ok := newDiffer(t, resp, 1)
		if !ok {
			return
		}
		for _, c := range cases {
			t.Run(fmt.Sprintf("RESP%d/%s", resp, c.name), func(t *testing.T) {
				d.t = t
				// All differences of a case are reported in one run: a request that differs is left out and the rest goes on.
				for seq := parseCases(t, c.script); ; {
					m := d.run(seq)
					if m == nil {
						return
					}
					t.Errorf("%s", d.report(d.shrink(seq, m)))
					if m.at >= len(seq) {
						return
					}
					seq = append(seq[:m.at:m.at], seq[m.at+1:]...)
				}
			})
		}
	}
	casesDone = !t.Failed()
}
