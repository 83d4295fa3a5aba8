// Scenario: clients of Redis find what they expect: INCREX, KEYS, hints for unknown commands, COUNTER.HOT, and the error for a wrong number of arguments.

package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/internal/testkit/racetest"
)

// TestIncrEx: additions within bounds, as Redis 8.8 documents them.
func TestIncrEx(t *testing.T) {
	for _, proto := range []int{2, 3} {
		s := wireServe(t, nil)
		c := wireDial(t, s, proto)
		for _, step := range [][2]string{
			{"INCREX 1.cntcm", "[:1 :1]"},
			{"INCREX 1.cntcm BYINT 5", "[:6 :5]"},
			{"INCREX 1.cntcm BYINT -2", "[:4 :-2]"},
			{"INCREX 1.cntcm BYINT 10 UBOUND 10", "[:4 :0]"}, // skipped
			{"INCREX 1.cntcm BYINT 10 UBOUND 10 SATURATE", "[:10 :6]"},
			{"INCREX 1.cntcm BYINT 1 UBOUND 10 SATURATE", "[:10 :0]"},
			{"INCREX 1.cntcm BYINT -100", "[:10 :0]"}, // the column's own bound is 0
			{"INCREX 1.cntcm BYINT -100 LBOUND 3 SATURATE", "[:3 :-7]"},
			{"increx 1.cntcm byint 4294967295 saturate", "[:4294967295 :4294967292]"}, // and 2^32-1
			{"INCREX 1.cntcm", "[:4294967295 :0]"},
			{"INCREX 2.cntcm BYINT 5 UBOUND 4", "[:0 :0]"},
			{"EXISTS 2", ":0"}, // skipped, and so not made
			{"INCREX 2.cntcm BYINT -5 SATURATE PERSIST", "[:0 :0]"},
			{"EXISTS 2", ":1"},
			{"INCREX 2.cntcm BYINT 9223372036854775807 UBOUND 9223372036854775807", "[:0 :0]"},
			{"INCREX 2.cntcm BYINT -9223372036854775808 LBOUND -9223372036854775808 SATURATE", "[:0 :0]"},
			{"SET 3.cntcm 150", "+OK"},
			{"INCREX 3.cntcm BYINT 1 UBOUND 100", "[:150 :0]"},
			{"INCREX 3.cntcm BYINT -60 UBOUND 100", "[:90 :-60]"}, // the result is what counts
			{"SET 3.cntcm 150", "+OK"},
			{"INCREX 3.cntcm UBOUND 100 SATURATE", "[:100 :-50]"},
			{"INCREX 3", "-WRONGTYPE Operation against a key holding the wrong kind of value"},
			{"INCREX 3.cntcm LBOUND 5 UBOUND 4", "-ERR LBOUND can't be greater than UBOUND"},
			{"INCREX 3.cntcm BYFLOAT 1.5", "-ERR counters are whole numbers: INCREX takes BYINT here"},
			{"INCREX 3.cntcm EX 10", "-ERR counters do not expire: INCREX takes BYINT, LBOUND, UBOUND, SATURATE and PERSIST here"},
			{"INCREX 3.cntcm ENX", "-ERR ENX flag requires an expiration"},
			{"INCREX 3.cntcm BYINT", "-ERR syntax error"},
			{"INCREX 3.cntcm BYINT 1 BYINT 2", "-ERR syntax error"},
			{"INCREX 3.cntcm SATURATE SATURATE", "-ERR syntax error"},
			{"INCREX 3.cntcm UBOUND x", "-ERR value is not an integer or out of range"},
			{"INCREX 3.cntcm BYINT 2 UBOUND 101 IDMP p 1", "[:100 :0]"},
			{"INCREX 3.cntcm BYINT 1 UBOUND 101 IDMP p 2", "[:101 :1]"},
			{"INCREX 3.cntcm BYINT 1 UBOUND 101 IDMP p 2", "[:101 :1]"},
			{"INCREX 3.cntcm BYINT 2 UBOUND 101 IDMP p 1", "[:100 :0]"},
			{"MULTI", "+OK"},
			{"INCREX 4.cntcm BYINT 7 UBOUND 8", "+QUEUED"},
			{"INCREX 4.cntcm BYINT 7 UBOUND 8", "+QUEUED"},
			{"INCREX 5.cntcm BYINT 7 UBOUND 6", "+QUEUED"},
			{"EXEC", "[[:7 :7] [:7 :0] [:0 :0]]"},
			{"EXISTS 5", ":0"},
		} {
			c.want(step[0], step[1])
		}
		wireDial(t, s, 5-proto).want("INCREX 3.cntcm BYINT 1 UBOUND 101 IDMP p 2", "[:101 :1]") // in the other protocol
	}
}

// TestKeys: KEYS lists what SCAN does, RANDOMKEY some of it.
func TestKeys(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	c.want("RANDOMKEY", "nil")
	c.want("KEYS *", "[]")
	var want []string
	for i := range 2500 {
		c.want(fmt.Sprintf("INCR %d.cntcm", 10_000+i), ":1")
		if i >= 2480 && i < 2490 {
			want = append(want, fmt.Sprintf(`"%d"`, 10_000+i))
		}
	}
	c.want("KEYS 1248?", "["+strings.Join(want, " ")+"]")
	c.want("KEYS 12489", `["12489"]`)
	c.want("KEYS 12489.cntcm", `["12489.cntcm"]`)
	c.want("KEYS nosuch*", "[]")
	c.want("KEYS ["+strings.Repeat("x", 1<<10)+"]", "-ERR a pattern has at most 1024 bytes") // a second for each 1,000 posts
	seen := map[string]bool{}
	for range 40 {
		key := c.do("RANDOMKEY").Text
		seen[key] = true
		c.want("EXISTS "+key, ":1")
	}
	if len(seen) < 5 {
		t.Errorf("40 times some of 2,500 keys gave %d", len(seen))
	}
}

// TestInstead: an unknown command of Redis is answered with an alternative, after the words by which clients recognize the
// error.
func TestInstead(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	for line, words := range map[string]string{
		"SETEX a 10 b":      "-ERR unknown command 'SETEX', with args beginning with: 'a' '10' 'b' (counters do not expire: SET sets one)",
		"zincrby a 1 b":     "COUNTER.TOP",
		"EVALSHA x 0":       "-ERR unknown command 'EVALSHA', with args beginning with: 'x' '0' (there are no scripts: INCREX",
		"SORT a":            "COUNTER.FIND",
		"HOTKEYS GET":       "COUNTER.HOT",
		"NOSUCHTHING a b c": "-ERR unknown command 'NOSUCHTHING', with args beginning with: 'a' 'b' 'c' ",
		"GTE a":             "-ERR unknown command 'GTE', with args beginning with: 'a' (did you mean GET?)",
		"counter.mgte a":    "-ERR unknown command 'counter.mgte', with args beginning with: 'a' (did you mean COUNTER.MGET?)",
		"CONFIG GTE a":      "-ERR unknown subcommand 'GTE'. Try CONFIG HELP. (did you mean CONFIG GET?)",
	} {
		if got := c.do(line).String(); !strings.Contains(got, words) {
			t.Errorf("%s: got %s, want %s", line, got, words)
		}
	}
	for _, row := range s.commands.List {
		if text := command.Instead([]byte(row.Name)); text != "" {
			t.Errorf("%s is here, and said not to be: %s", row.Name, text)
		}
	}
}

// TestHot: the posts that are used most come first, whatever the way they are used by.
func TestHot(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	s := wireServe(t, nil)
	c := wireDial(t, s, 3)
	c.want("COUNTER.HOT weibo", "[]")
	for i := range 3000 {
		for _, line := range []string{"INCR 7.cntcm", "COUNTER.MGET weibo 8 8 8 %d", "GET %d.cntcm"} {
			c.do(strings.Replace(line, "%d", strconv.Itoa(100+i), 1))
		}
	}
	writes, reads := c.do("COUNTER.HOT weibo COUNT 1").String(), c.do("COUNTER.HOT weibo BY READS COUNT 1").String()
	if !strings.Contains(writes, `"7"`) || strings.Contains(writes, `"8"`) || !strings.Contains(reads, `"8"`) {
		t.Errorf("most written %s, most read %s", writes, reads)
	}
	for _, field := range []string{"reads_at_least", "reads_at_most", "writes_at_least", "writes_at_most", "window_sec"} {
		if !strings.Contains(writes, field) {
			t.Errorf("no %s in %s", field, writes)
		}
	}
	c.want("COUNTER.HOT nosuch", "-ERR no counter 'nosuch' (see SCHEMA)")
	c.want("COUNTER.HOT weibo COUNT 0", "-ERR COUNT: want 1 to 1024")
	c.want("COUNTER.HOT weibo BY NAME", "-ERR syntax error")
	c.want("COUNTER.HOT weibo COUNT", "-ERR syntax error")
}

// TestWrongNumber checks that every error for a wrong number of arguments shows the syntax of the command table, also where
// the handler counts the arguments.
func TestWrongNumber(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	wrong := func(name, line string) {
		t.Helper()
		want := strings.TrimPrefix(s.commands.Lookup([]byte(name)).WrongNumber(), "ERR ")
		if got := c.do(line).String(); !strings.HasSuffix(got, want) {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
	s.commands.Each(func(cmd *row) {
		if words := strings.Split(cmd.Name, "|"); cmd.Arity < -len(words) || cmd.Arity > len(words) {
			wrong(cmd.Name, strings.Join(words, " "))
		} else if cmd.Arity > 0 {
			wrong(cmd.Name, strings.Join(words, " ")+" a b c d e f")
		}
	})
	for name, line := range map[string]string{"mset": "MSET 1 1 2", "hset": "HSET 1 a 1 b", "hmset": "HMSET 1 a 1 b", "counter.mincrby": "COUNTER.MINCRBY 1 1 2",
		"ping": "PING a b", "slowlog|get": "SLOWLOG GET 1 2", "acl|log": "ACL LOG 1 2", "acl|genpass": "ACL GENPASS 1 2", "client|unblock": "CLIENT UNBLOCK 1 a b"} {
		wrong(name, line)
	}
}
