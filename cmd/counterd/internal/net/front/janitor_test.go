package front

import (
	"io"
	"strings"
	"testing"
)

// TestPartialBegins sends without an end and always stops within a command: the time that a command may take to arrive
// counts from its own beginning, not from that of the first which was cut.
func TestPartialBegins(t *testing.T) { both(t, nil, testPartialBegins) }

func testPartialBegins(t *testing.T, s *echoes) {
	c := dial(t, s)
	c.want("PING", "+PONG")
	server := s.Sessions()[0]
	send := func(text string) {
		if _, err := c.conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	send("PI")
	until(t, "half a command", func() bool { return server.Activity.partialSince.Load() != 0 })
	first := server.Activity.partialSince.Load()
	until(t, "a later beginning", func() bool {
		send("NG\r\nPI")
		if got := c.read().String(); got != "+PONG" {
			t.Fatal(got)
		}
		return server.Activity.partialSince.Load() > first
	})
	send("NG\r\n")
	if got := c.read().String(); got != "+PONG" {
		t.Fatal(got)
	}
	until(t, "no half command", func() bool { return server.Activity.partialSince.Load() == 0 })
}

// TestDiskWaitOfLooks: a connection that waits for the disk is closed when the log has found that the disk hangs, not before: after a
// pause of the machine no look finds that, however long the wait has lasted. Where the log sets no limit the janitor has one.
func TestDiskWaitOfLooks(t *testing.T) {
	var s Session
	closed := func(looks int, hangs bool) (is bool) {
		for range looks {
			is = s.Activity.diskOverdue(hangs)
		}
		return is
	}
	if closed(100, true) {
		t.Error("closed, and it does not wait")
	}
	for range 2 { // the second wait is another
		s.limitDiskWait()
		if closed(5, false) {
			t.Error("closed while the disk is not known to hang")
		}
		if closed(1, true) {
			t.Error("closed before callers that wait for the same call had time to be answered")
		}
		if !closed(1, true) {
			t.Error("not closed while the disk hangs")
		}
		s.EndDiskWait()
		if closed(100, true) {
			t.Error("closed after its wait")
		}
	}
	s.limitDiskWait()
	if closed(mostDiskLooks-1, false) || !closed(1, false) {
		t.Errorf("where the log sets no limit, want it closed at look %d", mostDiskLooks)
	}
}

// TestProgressCounts: a connection is closed when it takes nothing of its replies for the whole time, not when it takes
// its time.
func TestProgressCounts(t *testing.T) { both(t, nil, testProgressCounts) }

func testProgressCounts(t *testing.T, s *echoes) {
	c := dial(t, s)
	c.want("PING", "+PONG")
	server := s.Sessions()[0]
	const size = 60_000
	go func() {
		_, _ = io.WriteString(c.conn, strings.Repeat("ECHO "+strings.Repeat("x", size)+"\r\n", 50))
	}()
	// look is the janitor's, as if so many seconds had gone by since it last saw progress.
	look := func(seconds int64) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return server.front.overdue(server, server.Activity.writingSince.Load()+seconds, 0)
	}
	until(t, "a reply that does not fit, and nothing on its way", func() bool { return server.Activity.writingSince.Load() != 0 && look(WriteTimeout+1) != "" })
	left := 50
	read := func() {
		if got := c.read(); len(got.Text) != size {
			t.Fatalf("got %d bytes", len(got.Text))
		}
		left--
	}
	until(t, "progress", func() bool { // the janitor may see some of it first
		read()
		return look(WriteTimeout+1) == ""
	})
	until(t, "none again", func() bool {
		return server.Activity.writingSince.Load() == 0 || look(WriteTimeout+1) == "replies not read"
	})
	for left > 0 {
		read()
	}
	c.want("PING", "+PONG")
}

// TestArrivalCounts: a command may take as long as its bytes keep coming.
func TestArrivalCounts(t *testing.T) { both(t, nil, testArrivalCounts) }

func testArrivalCounts(t *testing.T, s *echoes) {
	c := dial(t, s)
	c.want("PING", "+PONG")
	server := s.Sessions()[0]
	look := func(seconds int64) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return server.front.overdue(server, server.Activity.partialSince.Load()+seconds, 0)
	}
	if _, err := io.WriteString(c.conn, "*2\r\n$4\r\nECHO\r\n$500000\r\n"); err != nil {
		t.Fatal(err)
	}
	until(t, "the beginning of a command", func() bool { return server.Activity.partialSince.Load() != 0 })
	if got := look(partialTimeout + 1); got != "command not finished" {
		t.Errorf("got %q for one that does not go on", got)
	}
	const arrived = 100 * minArrival
	if _, err := io.WriteString(c.conn, strings.Repeat("x", arrived)); err != nil {
		t.Fatal(err)
	}
	until(t, "more time for what arrives", func() bool { return look(partialTimeout+100) == "" })
	if got := look(partialTimeout + 102); got != "command not finished" {
		t.Errorf("got %q for one that does not go on any more", got)
	}
}
