package front

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestConnectionsLeaveDescriptors: connections are refused while there are still descriptors for the log, snapshots and
// cold files, whatever maxclients says, and taken again when others have ended.
func TestConnectionsLeaveDescriptors(t *testing.T) {
	s := serve(t, nil)
	first := dial(t, s)
	probe, err := os.Open(os.DevNull) // its number is about how many are in use
	if err != nil {
		t.Fatal(err)
	}
	used := uint64(probe.Fd())
	probe.Close()
	var had syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	limit := had
	limit.Cur = used + spareFiles + 60 // a connection and its client take two, both in this process
	if limit.Cur < 4*spareFiles {
		limit.Cur = 4 * (used + 60) / 3
	}
	if limit.Cur > had.Cur {
		t.Fatalf("the limit is %d, want at least %d", had.Cur, limit.Cur)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &had); err != nil {
			t.Error(err)
		}
	}()
	dial := func() (c *wire, answer string) {
		c = dial(t, s)
		_, _ = c.conn.Write([]byte("PING\r\n")) // fails where the connection was refused
		line, _ := c.r.ReadString('\n')
		return c, strings.TrimSpace(line)
	}
	var taken []*wire
	refused := false
	for i := 0; i < 100 && !refused; i++ {
		c, answer := dial()
		switch answer {
		case "+PONG":
			taken = append(taken, c)
		case "-ERR max number of clients reached", "": // a reset takes the answer along where PING came behind it
			refused = true
			c.conn.Close()
		default:
			t.Fatalf("connection %d: %q", i, answer)
		}
	}
	if !refused || len(taken) < 3 {
		t.Fatalf("refused %v, %d taken, at a limit of %d", refused, len(taken), limit.Cur)
	}
	spare := min(spareFiles, limit.Cur/4)
	for i := range spare - 10 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatalf("file %d of %d: %v", i, spare, err)
		}
		defer f.Close()
	}
	first.want("PING", "+PONG")
	if n := s.totals.Rejected.Load(); n != 1 {
		t.Errorf("%d connections are counted as refused", n)
	}
	// Of the last one alone: its descriptor may itself be the first of the spare ones, as the number that was judged is
	// that of the accepted connection, and the loop's own copy of it is a later one.
	for _, c := range taken[len(taken)-3:] {
		c.conn.Close()
	}
	var again net.Conn
	until(t, "a connection is taken again", func() bool {
		c, answer := dial()
		if again = c.conn; answer != "+PONG" {
			again.Close()
		}
		return answer == "+PONG"
	})
}
