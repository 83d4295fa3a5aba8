// Scenario: changes are repeated after many newer ones, on a primary that was killed, on a replica with a full copy, and on that replica as
// the primary.

package counting

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// TestNumberedLongRepeats makes 3,000 numbered changes and leaves a number out in each hundred. Wherever they are repeated, none counts
// twice: the newest 128 get their answers, and all others are told that the change was made. The numbers that were left out are new.
func TestNumberedLongRepeats(t *testing.T) {
	const numbers, newest = 3000, 128
	s := harness.Start(t)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript)
	value, answers := 0, map[int]string{} // by number
	made := func(seq int) {
		value++
		answers[seq] = fmt.Sprintf(":%d\r\n", value)
	}
	request := func(seq int) []string { return []string{"INCR", "1.cntcm", "IDMP", "p", fmt.Sprint(seq)} }
	c := s.Dial(t)
	some := func(from, to int) {
		var out []byte
		for seq := from; seq < to; seq++ {
			if seq%100 != 50 {
				made(seq)
				out = resptest.Append(out, request(seq)...)
			}
		}
		c.Write(string(out))
		for seq := from; seq < to; seq++ {
			if seq%100 == 50 {
				continue
			}
			if got := c.Reply().Raw; got != answers[seq] {
				t.Fatalf("number %d: %q, want %q", seq, got, answers[seq])
			}
		}
	}
	late := 50 // the next number that was left out
	repeat := func(where string, s *harness.Server) {
		c = s.Dial(t)
		for seq := numbers - 1; seq >= 0; seq -= 7 {
			if seq%100 == 50 {
				continue
			}
			switch got := c.Do(request(seq)...).Raw; {
			case seq >= numbers-newest+5:
				if got != answers[seq] {
					t.Fatalf("%s: number %d: %q, want %q", where, seq, got, answers[seq])
				}
			case got != answers[seq] && !strings.HasPrefix(got, "-IDMPEXPIRED the change was made"):
				t.Fatalf("%s: number %d: %q, want %q or that it was made", where, seq, got, answers[seq])
			}
		}
		made(late)
		c.Want(answers[late], request(late)...)
		if got := c.Do(request(late)...).Raw; !strings.HasPrefix(got, "-IDMPEXPIRED the change was made") {
			t.Errorf("%s: the late number %d again: %q", where, late, got)
		}
		late += 100
		c.Want(harness.BulkOf(fmt.Sprint(value)), "GET", "1.cntcm")
	}
	dir := s.Dir
	some(0, 1000)
	c.Save()
	some(1000, 2000)
	s.Kill()
	s = harness.StartIn(t, dir)
	c = s.Dial(t)
	some(2000, numbers)
	repeat("behind a kill", s)
	s.Stop()
	s = harness.StartIn(t, dir)
	repeat("behind a restart", s)
	replica := harness.Start(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", s.Port))
	harness.Eventually(t, time.Minute, "the replica follows", func() bool {
		return harness.ReplicationField(replica, "master_link_status") == "up" && harness.Ask(s.Addr, "WAIT", "1", "1000") == ":1\r\n"
	})
	s.Kill()
	replica.Dial(t).Want("+OK\r\n", "REPLICAOF", "NO", "ONE")
	repeat("on the replica, as the primary", replica)
}
