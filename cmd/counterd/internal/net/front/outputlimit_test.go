package front

import (
	"io"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
)

// unreadReplies sends so many ECHO of 60,000 bytes and reads none of the replies, until the session waits with some of them.
func unreadReplies(t *testing.T, s *echoes, n int) (*wire, *Session) {
	t.Helper()
	c := dial(t, s)
	c.want("PING", "+PONG")
	session := s.Sessions()[len(s.Sessions())-1]
	go func() { _, _ = io.WriteString(c.conn, strings.Repeat("ECHO "+strings.Repeat("x", 60_000)+"\r\n", n)) }()
	return c, session
}

// TestHardOutputLimit closes a connection that does not read at once when it leaves more unread than the hard limit.
func TestHardOutputLimit(t *testing.T) { both(t, nil, testHardOutputLimit) }

func testHardOutputLimit(t *testing.T, s *echoes) {
	s.LimitOutput(config.OutputLimit{Hard: 1000})
	reads := dial(t, s)
	unreadReplies(t, s, 500)
	until(t, "the connection is closed", func() bool { return s.totals.SlowSubscribers.Load() == 1 && len(s.Sessions()) == 1 })
	reads.want("ECHO "+strings.Repeat("x", 60_000), `"`+strings.Repeat("x", 60_000)+`"`) // more, and it reads
}

// TestSoftOutputLimit closes a connection that leaves more unread than the soft limit for longer than its seconds, without
// traffic.
func TestSoftOutputLimit(t *testing.T) { both(t, nil, testSoftOutputLimit) }

func testSoftOutputLimit(t *testing.T, s *echoes) {
	_, session := unreadReplies(t, s, 500)
	until(t, "replies that do not fit", func() bool { return session.unread.bytes.Load() > 1000 })
	look := func(now int64) (passed bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return session.unread.passed(s.output.Load(), now)
	}
	over := func(since int64) (before int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		before, session.unread.overSince = session.unread.overSince, since
		return before
	}
	s.LimitOutput(config.OutputLimit{Soft: 1000, Seconds: 1_000_000}) // the janitor does not get there
	begin := look(1_000)
	over(1_000)
	if begin || look(1_001_000) {
		t.Error("closed before its time")
	}
	if !look(1_001_001) {
		t.Error("not closed after its time")
	}
	s.LimitOutput(config.OutputLimit{Soft: 1 << 30, Seconds: 1})
	if look(2_000_000) || over(0) != 0 {
		t.Error("closed below the limit")
	}
	s.LimitOutput(config.OutputLimit{Hard: 1000})
	until(t, "the janitor closes the connection", func() bool { return len(s.Sessions()) == 0 })
}
