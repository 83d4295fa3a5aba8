package protocol

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// TestShutdownAnswers stops a server under load. Whatever a connection had sent in one piece is answered as a whole or
// not at all, every reply is a true one, and then the connection ends without being reset.
func TestShutdownAnswers(t *testing.T) {
	for _, batch := range []int{1, 20, 100} { // 100 requests are under 4 KiB: one packet, read at once
		t.Run(fmt.Sprintf("batch=%d", batch), func(t *testing.T) {
			s := harness.Start(t)
			harness.SeedSchema(t, s.Dial(t))
			const conns = 8
			var wg sync.WaitGroup
			var answered atomic.Int64
			errs := make([]error, conns)
			for id := range conns {
				c := s.Dial(t)
				wg.Go(func() { errs[id] = untilStopped(c, id, batch, &answered) })
			}
			idle := s.Dial(t)
			idle.Want("+PONG\r\n", "PING")
			for deadline := time.Now().Add(harness.IoTimeout); answered.Load() < int64(20*batch*conns); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the clients got no answers")
				}
			}
			s.Stop()
			wg.Wait()
			for id, err := range errs {
				if err != nil {
					t.Errorf("connection %d: %v", id, err)
				}
			}
			idle.WantEOF()
			if c, err := harness.DialTimeout("tcp", s.Addr, time.Second); err == nil {
				c.Close()
				t.Error("a connection was accepted after the end")
			}
		})
	}
}

// untilStopped sends batches to a key of its own and reads their replies, until the server closes the connection.
func untilStopped(c *harness.Conn, id, batch int, answered *atomic.Int64) error {
	var request []byte
	for range batch {
		request = harness.AppendCall(request, "INCR", "", uint64(id), ".cntcm", -1)
	}
	for n := int64(0); ; {
		if c.TryWrite(request) != nil {
			return nil // the server closed before this batch
		}
		for i := range batch {
			v, err := c.TryReply()
			switch {
			case err == nil && v.Raw == fmt.Sprintf(":%d\r\n", n+1):
				n++
				answered.Add(1)
			case err == nil:
				return fmt.Errorf("increment %d answered %q", n+1, v.Raw)
			case i == 0 && len(v.Raw) == 0 && harness.IsClosed(err):
				// A batch that reached the socket after the server's last read is lost; the kernel may say so by a reset.
				return nil
			default:
				return fmt.Errorf("after %d of a batch of %d: %q, %w", i, batch, v.Raw, err)
			}
		}
	}
}

// TestShutdownDrains stops a server that has begun to answer a long pipeline. The replies must be those of the
// first requests, without a gap, the last one whole.
func TestShutdownDrains(t *testing.T) {
	s := harness.Start(t)
	harness.SeedSchema(t, s.Dial(t))
	const n = 200_000
	var request []byte
	for range n {
		request = harness.AppendCall(request, "INCR", "", 1, ".cntcm", -1)
	}
	c := s.Dial(t)
	go func() { _ = c.TryWrite(request) }() // ends when the connection does
	var got int64
	for {
		v, err := c.TryReply()
		if err != nil {
			if len(v.Raw) > 0 || !harness.IsClosed(err) {
				t.Errorf("after %d replies: %q, %v", got, v.Raw, err)
			}
			break
		}
		if got++; v.Raw != fmt.Sprintf(":%d\r\n", got) {
			t.Fatalf("reply %d is %q", got, v.Raw)
		}
		if got == 1000 {
			s.Terminate()
		}
	}
	s.Stop()
	if got < 1000 {
		t.Errorf("only %d replies", got)
	}
}

// TestShutdownDespite stops a server while clients neither read nor finish what they send: it must not wait for them.
func TestShutdownDespite(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := harness.Start(t)
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	half := s.Dial(t)
	half.Write("*2\r\n$3\r\nGET\r\n$100\r\nabc")
	deaf := s.Dial(t)
	large := resptest.Append(nil, "ECHO", string(make([]byte, 1<<20)))
	for range 50 {
		_ = deaf.Nc.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := deaf.Nc.Write(large); err != nil {
			break
		}
	}
	open := s.Dial(t)
	open.Want("+OK\r\n", "MULTI")
	s.Stop()
	half.WantEOF()
}

// TestShutdownCommand checks that SHUTDOWN ends the server as SIGTERM does.
func TestShutdownCommand(t *testing.T) {
	s := harness.Start(t)
	c := s.Dial(t)
	c.Write("SHUTDOWN NOSAVE\r\n")
	if v, err := c.TryReply(); !harness.IsClosed(err) {
		t.Fatalf("SHUTDOWN answered %q, %v, want the connection closed", v.Raw, err)
	}
	s.Signalled = true // by the command
	s.Stop()
}

// TestHangup: the terminal that a server was started from may go away.
func TestHangup(t *testing.T) {
	s := harness.Start(t)
	c := s.Dial(t)
	c.Want("+PONG\r\n", "PING")
	if err := s.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(harness.IoTimeout); !strings.Contains(s.Log.String(), "SIGHUP: nothing to reload"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no word of it in the log")
		}
	}
	c.Want("+PONG\r\n", "PING")
}
