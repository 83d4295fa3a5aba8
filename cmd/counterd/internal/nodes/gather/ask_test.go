package gather

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// expected is an ask, and the answers to its commands.
type expected struct {
	ask     *Ask
	answers []string
}

// randomReply is mostly an integer.
func randomReply(rng *rand.Rand) string {
	switch rng.IntN(12) {
	case 0:
		return "-ERR a refusal\r\n"
	case 1:
		return "$4\r\n:1\r\n\r\n"
	case 2:
		return "*2\r\n:1\r\n+OK\r\n"
	}
	return fmt.Sprintf(":%d\r\n", int64(rng.Uint64()>>rng.IntN(64)))
}

// randomAsk makes an ask of commands with one reply and with several, and appends the replies to wire.
func randomAsk(rng *rand.Rand, r *Round, wire *bytes.Buffer) expected {
	e := expected{ask: &Ask{round: r, flying: true}}
	words := [][]byte{[]byte("INCR"), []byte("1.cntcm")}
	for i := range 1 + rng.IntN(20) {
		switch rng.IntN(8) {
		case 0:
			e.ask.AddNumbered([]byte("me"), 7, 0, words...)
		case 1:
			e.ask.AddAll(Once, nil, 0, 0, [][][]byte{{[]byte("MULTI")}, words, {[]byte("EXEC")}})
		case 2:
			e.ask.AddBetween(Read, words, words, words)
		default:
			e.ask.Add(Change, words...)
		}
		c := &e.ask.cmds[i]
		if rng.IntN(10) == 0 { // its number is told first
			c.extra = 1
			wire.WriteString([]string{"+OK\r\n", ":1\r\n"}[rng.IntN(2)])
		}
		answer := ""
		for n := range c.replies {
			reply := randomReply(rng)
			wire.WriteString(reply)
			failed := len(answer) > 0 && answer[0] == '-'
			if !failed && (reply[0] == '-' || n+1 == c.take) {
				answer = reply
			}
		}
		e.answers = append(e.answers, answer)
	}
	return e
}

// TestRepliesInPieces: replies arrive in pieces of any length. Each command of each ask gets its own answer, whether it is an integer behind other
// integers or something else, and the round of each ask is told of its end once.
func TestRepliesInPieces(t *testing.T) {
	rng := seed.Rand(t)
	_, shard := oneShard(t, "127.0.0.1:1")
	for range 3000 {
		l, c, r, wire := newLink(shard, "test", -1), new(conn), new(Round), new(bytes.Buffer)
		l.conn = c
		r.Begin()
		var all []expected
		for range 1 + rng.IntN(5) {
			e := randomAsk(rng, r, wire)
			if e.ask.given = rng.IntN(6) == 0; !e.ask.given {
				r.pending.Add(1)
			}
			l.flying.push(e.ask)
			all = append(all, e)
		}
		r.pending.Add(1) // or the round would be over
		var have []byte
		for wire.Len() > 0 {
			have = append(have, wire.Next(1+rng.IntN(1+rng.IntN(200)))...)
			used, err := l.received(c, have)
			if err != nil {
				t.Fatal(err)
			}
			have = have[used:]
		}
		if len(have) > 0 || l.flying.len() > 0 || r.pending.Load() != 1 {
			t.Fatalf("%d bytes and %d asks are left, and the round waits for %d, want none", len(have), l.flying.len(), r.pending.Load()-1)
		}
		for n, e := range all {
			fine := true
			for i, want := range e.answers {
				reply, _, err := e.ask.Reply(i)
				if e.ask.given {
					want = ""
				}
				if string(reply) != want || err != nil {
					t.Fatalf("ask %d command %d is answered %q, error %v, want %q", n, i, reply, err, want)
				}
				fine = fine && want != "" && want[0] != '-'
			}
			if got := e.ask.Fine(); got != fine {
				t.Fatalf("ask %d with the answers %q is fine: %v, want %v", n, e.answers, got, fine)
			}
		}
	}
}
