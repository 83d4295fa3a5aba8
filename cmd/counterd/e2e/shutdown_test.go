package e2e

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// TestShutdownAnswers stops a server under load. Whatever a connection had sent in one piece is answered as a whole or
// not at all, every reply is a true one, and then the connection ends without being reset.
func TestShutdownAnswers(t *testing.T) {
	for _, batch := range []int{1, 20, 100} { // 100 requests are under 4 KiB: one packet, read at once
		t.Run(fmt.Sprintf("batch=%d", batch), func(t *testing.T) {
			s := start(t)
			seedSchema(t, s.dial(t))
			const conns = 8
			var wg sync.WaitGroup
			var answered atomic.Int64
			errs := make([]error, conns)
			for id := range conns {
				c := s.dial(t)
				wg.Go(func() { errs[id] = untilStopped(c, id, batch, &answered) })
			}
			idle := s.dial(t)
			idle.want("+PONG\r\n", "PING")
			for deadline := time.Now().Add(ioTimeout); answered.Load() < int64(20*batch*conns); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the clients got no answers")
				}
			}
			s.stop()
			wg.Wait()
			for id, err := range errs {
				if err != nil {
					t.Errorf("connection %d: %v", id, err)
				}
			}
			idle.wantEOF()
			if c, err := dialTimeout("tcp", s.addr, time.Second); err == nil {
				c.close()
				t.Error("a connection was accepted after the end")
			}
		})
	}
}

// untilStopped sends batches to a key of its own and reads their replies, until the server closes the connection.
func untilStopped(c *conn, id, batch int, answered *atomic.Int64) error {
	var request []byte
	for range batch {
		request = appendCall(request, "INCR", "", uint64(id), ".cntcm", -1)
	}
	for n := int64(0); ; {
		if c.tryWrite(request) != nil {
			return nil // the server closed before this batch
		}
		for i := range batch {
			v, err := c.tryReply()
			switch {
			case err == nil && v.Raw == fmt.Sprintf(":%d\r\n", n+1):
				n++
				answered.Add(1)
			case err == nil:
				return fmt.Errorf("increment %d answered %q", n+1, v.Raw)
			case i == 0 && len(v.Raw) == 0 && isClosed(err):
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
	s := start(t)
	seedSchema(t, s.dial(t))
	const n = 200_000
	var request []byte
	for range n {
		request = appendCall(request, "INCR", "", 1, ".cntcm", -1)
	}
	c := s.dial(t)
	go func() { _ = c.tryWrite(request) }() // ends when the connection does
	var got int64
	for {
		v, err := c.tryReply()
		if err != nil {
			if len(v.Raw) > 0 || !isClosed(err) {
				t.Errorf("after %d replies: %q, %v", got, v.Raw, err)
			}
			break
		}
		if got++; v.Raw != fmt.Sprintf(":%d\r\n", got) {
			t.Fatalf("reply %d is %q", got, v.Raw)
		}
		if got == 1000 {
			s.terminate()
		}
	}
	s.stop()
	if got < 1000 {
		t.Errorf("only %d replies", got)
	}
}

// TestShutdownDespite stops a server while clients neither read nor finish what they send: it must not wait for them.
func TestShutdownDespite(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := start(t)
	c := s.dial(t)
	seedSchema(t, c)
	half := s.dial(t)
	half.write("*2\r\n$3\r\nGET\r\n$100\r\nabc")
	deaf := s.dial(t)
	large := resptest.Append(nil, "ECHO", string(make([]byte, 1<<20)))
	for range 50 {
		_ = deaf.nc.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := deaf.nc.Write(large); err != nil {
			break
		}
	}
	open := s.dial(t)
	open.want("+OK\r\n", "MULTI")
	s.stop()
	half.wantEOF()
}

// TestShutdownCommand checks that SHUTDOWN ends the server as SIGTERM does.
func TestShutdownCommand(t *testing.T) {
	s := start(t)
	c := s.dial(t)
	c.write("SHUTDOWN NOSAVE\r\n")
	if v, err := c.tryReply(); !isClosed(err) {
		t.Fatalf("SHUTDOWN answered %q, %v, want the connection closed", v.Raw, err)
	}
	s.signalled = true // by the command
	s.stop()
}

// TestHangup: the terminal that a server was started from may go away.
func TestHangup(t *testing.T) {
	s := start(t)
	c := s.dial(t)
	c.want("+PONG\r\n", "PING")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(ioTimeout); !strings.Contains(s.log.String(), "SIGHUP: no file is to be read again"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no word of it in the log")
		}
	}
	c.want("+PONG\r\n", "PING")
}
