package protocol

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// maxGrowth is how much more memory than before a hostile client may make the server hold: reliability asks
// for 64 MiB at most, whatever is sent.
const maxGrowth = 64 << 20

// attack starts a server, lets an attack loose on it while other clients go on, and checks that they
// were served, that the server is alive and did not grow, and that it kept no descriptor afterwards.
func attack(t *testing.T, args []string, assault func(t *testing.T, s *harness.Server)) {
	t.Helper()
	attackWithin(t, maxGrowth, args, assault)
}

// attackWithin is attack with another limit for the server's growth. Nothing is synced to the disk: a server whose disk is slow
// refuses changes, and the disk of a machine that runs many tests is.
func attackWithin(t *testing.T, limit int64, args []string, assault func(t *testing.T, s *harness.Server)) {
	t.Helper()
	s := harness.Start(t, append([]string{"--appendfsync", "no"}, args...)...)
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	c.Want("+OK\r\n", "SET", "19089006004.cntcm", "987654")

	const bystanders = 3
	stop := make(chan struct{})
	var served [bystanders]atomic.Int64
	var wg sync.WaitGroup
	var errs [bystanders]error
	for i := range bystanders {
		b := s.Dial(t)
		wg.Go(func() { errs[i] = bystand(b, fmt.Sprintf("%d.cntrn", i+1), &served[i], stop) })
	}
	awaitServed(t, served[:])
	before, files := s.Rss(), s.OpenFiles()
	peak := before
	wg.Go(func() {
		for s.Alive() {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.Cmd.Process.Pid)); err == nil {
				var total, resident int64
				if n, _ := fmt.Sscan(string(data), &total, &resident); n == 2 {
					peak = max(peak, resident*int64(os.Getpagesize()))
				}
			}
		}
	})

	assault(t, s)
	if s.Alive() {
		awaitServed(t, served[:]) // after the last packet of the attack, too
	}
	close(stop)
	wg.Wait()
	if !s.Alive() {
		return // reported when the server is cleaned up
	}
	for i, err := range errs {
		if err != nil {
			t.Errorf("another client, meanwhile: %v", err)
		}
		s.Dial(t).Want(harness.BulkOf(fmt.Sprint(served[i].Load())), "GET", fmt.Sprintf("%d.cntrn", i+1))
	}
	if growth := peak - before; growth > limit && !racetest.Enabled {
		t.Errorf("the server grew from %d to %d MiB, %d more at most are allowed", before>>20, peak>>20, limit>>20)
	}
	s.HangUp() // the server notices a little later
	for deadline := time.Now().Add(harness.StopTimeout); s.OpenFiles() > files; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%d descriptors are open, there were %d before the attack", s.OpenFiles(), files)
			break
		}
	}
}

// bystand increments a counter every few milliseconds until it is told to stop.
func bystand(c *harness.Conn, key string, served *atomic.Int64, stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		case <-time.After(2 * time.Millisecond):
		}
		v, err := c.TryDo("INCR", key)
		if err != nil {
			return err
		}
		if want := fmt.Sprintf(":%d\r\n", served.Load()+1); v.Raw != want {
			return fmt.Errorf("INCR answered %q, want %q", v.Raw, want)
		}
		served.Add(1)
	}
}

// awaitServed waits until every bystander has had three more answers.
func awaitServed(t *testing.T, served []atomic.Int64) {
	t.Helper()
	for i := range served {
		target := served[i].Load() + 3
		for deadline := time.Now().Add(harness.IoTimeout); served[i].Load() < target; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("another client got no answer within %v", harness.IoTimeout)
				return
			}
		}
	}
}

// wantRefused checks that the answer to what was sent is one protocol error and then the end of the connection.
func wantRefused(t *testing.T, c *harness.Conn, text string) {
	t.Helper()
	v, err := c.TryReply()
	// A server that closes while more arrives may have its last reply overtaken by the reset: that is closed, too.
	if err != nil && harness.IsClosed(err) {
		return
	}
	if err != nil || v.Kind != '-' || !strings.Contains(v.Text, text) {
		t.Errorf("got %.100q, %v, want an error that says %q", v.Raw, err, text)
	}
	c.WantEOF()
}

// flood writes the same bytes again until the connection breaks, takes nothing for as long as stall, or total bytes are
// written. It returns how much was taken and whether the server closed.
func flood(c *harness.Conn, chunk []byte, total int, stall time.Duration) (written int, closed bool) {
	for written < total {
		_ = c.Nc.SetWriteDeadline(time.Now().Add(stall))
		n, err := c.Nc.Write(chunk)
		written += n
		if err != nil {
			return written, !errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
	return written, false
}

// TestHostilePackets sends single packets that have killed servers, or asked them for more memory than there is.
func TestHostilePackets(t *testing.T) {
	packets := []struct{ name, packet, answer string }{
		{"bulk of 2^63-1", "*1\r\n$9223372036854775807\r\nPING\r\n", "Protocol error: invalid bulk length"},
		{"bulk of 2^63", "*1\r\n$9223372036854775808\r\nPING\r\n", "Protocol error: invalid bulk length"},
		{"bulk of 2^64+4", "*1\r\n$18446744073709551620\r\nPING\r\n", "Protocol error: invalid bulk length"},
		{"bulk of -2", "*1\r\n$-2\r\nPING\r\n", "Protocol error: invalid bulk length"},
		{"bulk of 1 GB", "*2\r\n$3\r\nGET\r\n$1073741824\r\n", "Protocol error: invalid bulk length"},
		{"bulk of 1 MiB and a byte", "*2\r\n$4\r\nECHO\r\n$1048577\r\n", "Protocol error: invalid bulk length"},
		{"2^31 arguments", "*2147483648\r\n", "Protocol error: invalid multibulk length"},
		{"2^63-1 arguments", "*9223372036854775807\r\n", "Protocol error: invalid multibulk length"},
		{"64 Ki arguments and one", "*65537\r\n", "Protocol error: invalid multibulk length"},
		{"nested arrays", strings.Repeat("*1\r\n", 10_000), "Protocol error: expected '$', got '*'"},
		{"a length without end", "*1\r\n$" + strings.Repeat("1", 70_000), "Protocol error"},
		{"a count without end", "*" + strings.Repeat("1", 70_000), "Protocol error"},
		{"an unbalanced quote", "GET \"1\r\n", "Protocol error: unbalanced quotes"},
	}
	attack(t, nil, func(t *testing.T, s *harness.Server) {
		for _, p := range packets {
			t.Run(p.name, func(t *testing.T) {
				c := s.Dial(t)
				c.Write(p.packet)
				wantRefused(t, c, p.answer)
			})
		}
		// What stands before a bad packet is answered, what stands behind it is not executed.
		c := s.Dial(t)
		c.Write("INCR 7.cntcm\r\n*1\r\n$-7\r\nINCR 7.cntcm\r\n")
		if v := c.Reply(); v.Raw != ":1\r\n" {
			t.Errorf("before the bad packet: %q", v.Raw)
		}
		wantRefused(t, c, "Protocol error")
		s.Dial(t).Want(harness.BulkOf("1"), "GET", "7.cntcm")
		// The largest that is allowed works.
		c = s.Dial(t)
		large := strings.Repeat("x", 1<<20)
		c.Want(harness.BulkOf(large), "ECHO", large)
		many := make([]string, 64<<10)
		many[0] = "EXISTS"
		for i := range many[1:] {
			many[i+1] = "19089006004"
		}
		c.Want(fmt.Sprintf(":%d\r\n", len(many)-1), many...)
	})
}

// TestHostileDrip sends a request of many bytes one byte at a time. A reader that keeps its place on the stack, or
// begins again at every byte, does not survive it.
func TestHostileDrip(t *testing.T) {
	n := harness.Scaled(100_000)
	attack(t, nil, func(t *testing.T, s *harness.Server) {
		c := s.Dial(t)
		text := strings.Repeat("y", n)
		for _, b := range []byte(string(resptest.Append(nil, "ECHO", text))) {
			if err := c.TryWrite([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		if v := c.Reply(); v.Raw != harness.BulkOf(text) {
			t.Errorf("got %.60q..., want the %d bytes sent", v.Raw, n)
		}
	})
}

// TestHostileEndless sends what never ends, as fast as it is taken: the server must close the connection at a limit.
func TestHostileEndless(t *testing.T) {
	for _, e := range []struct{ name, head, chunk string }{
		{"inline without line end", "", strings.Repeat("x", 64<<10)},
		{"arguments of 1 MiB", "*65536\r\n", "$1048576\r\n" + strings.Repeat("x", 1<<20) + "\r\n"},
		{"bulk of 1 GB", "*2\r\n$3\r\nGET\r\n$1073741824\r\n", strings.Repeat("x", 64<<10)},
	} {
		t.Run(e.name, func(t *testing.T) {
			attack(t, nil, func(t *testing.T, s *harness.Server) {
				c := s.Dial(t)
				c.Write(e.head)
				total := 100 << 20
				if written, closed := flood(c, []byte(e.chunk), total, harness.IoTimeout); !closed {
					t.Errorf("after %d bytes the server had not closed the connection", written)
				}
			})
		})
	}
}

// TestHostileQueues fills what a connection may gather on the server without being answered: a transaction
// never executed, and watched keys.
func TestHostileQueues(t *testing.T) {
	for _, q := range []struct{ name, head, line string }{
		{"MULTI without EXEC", "MULTI\r\n", "*2\r\n$4\r\nINCR\r\n$7\r\n1.cntcm\r\n"},
		{"MULTI of long requests", "MULTI\r\n", "*2\r\n$4\r\nECHO\r\n$100000\r\n" + strings.Repeat("x", 100_000) + "\r\n"},
		{"WATCH of many keys", "", ""},
	} {
		t.Run(q.name, func(t *testing.T) {
			attack(t, nil, func(t *testing.T, s *harness.Server) {
				c := s.Dial(t)
				var drained sync.WaitGroup
				drained.Go(func() { _, _ = io.Copy(io.Discard, c.Br) })
				c.Write(q.head)
				total, i := 0, 0
				for limit := harness.Scaled(96 << 20); total < limit; {
					chunk := []byte(strings.Repeat(q.line, 1+(64<<10)/(len(q.line)+1)))
					if q.line == "" {
						chunk = chunk[:0]
						for range 2000 {
							i++
							chunk = harness.AppendCall(chunk, "WATCH", "", uint64(i), ".cntcm", -1)
						}
					}
					if c.TryWrite(chunk) != nil {
						break // refused: as good as bounded
					}
					total += len(chunk)
				}
				c.Close()
				drained.Wait()
			})
		})
	}
}

// TestHostileSlowloris holds 200 connections that send one byte a second.
func TestHostileSlowloris(t *testing.T) {
	attack(t, nil, func(t *testing.T, s *harness.Server) {
		const conns, seconds = 200, 3
		request := resptest.Append(nil, "SET", "5.cntcm", "1")
		all := make([]*harness.Conn, conns)
		for i := range all {
			all[i] = s.Dial(t)
		}
		for sent := range seconds {
			for i, c := range all {
				if err := c.TryWrite(request[sent : sent+1]); err != nil {
					t.Fatalf("connection %d: %v", i, err)
				}
			}
			time.Sleep(time.Second)
		}
		for i, c := range all { // they are still whole connections, if they finish before the time-out
			if err := c.TryWrite(request[seconds:]); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
			if v := c.Reply(); v.Raw != "+OK\r\n" {
				t.Fatalf("connection %d: got %q", i, v.Raw)
			}
			c.Close()
		}
	})
}

// TestHostileUnread sends requests and reads none of the replies. The server must stop taking requests or close the
// connection; it must not gather replies without bound.
func TestHostileUnread(t *testing.T) {
	for _, u := range []struct {
		name, request string
		count         int
	}{
		{"a million GET", string(resptest.Append(nil, "GET", "19089006004.cntcm")), 1_000_000},
		{"HGETALL", string(resptest.Append(nil, "HGETALL", "19089006004")), 1_000_000},
		{"ECHO of 1 MiB", string(resptest.Append(nil, "ECHO", strings.Repeat("z", 1<<20))), 300},
	} {
		t.Run(u.name, func(t *testing.T) {
			attack(t, nil, func(t *testing.T, s *harness.Server) {
				c := s.Dial(t)
				per := 1 + (64<<10)/len(u.request)
				total := u.count * len(u.request)
				written, closed := flood(c, []byte(strings.Repeat(u.request, per)), total, time.Second)
				t.Logf("%d of %d bytes were taken, closed by the server: %v", written, total, closed)
				c.Close()
			})
		})
	}
}

// TestHostileMaxclients opens more connections than the server takes.
func TestHostileMaxclients(t *testing.T) {
	const limit = 50
	s := harness.Start(t, "--maxclients", fmt.Sprint(limit))
	var open []*harness.Conn
	refused := 0
	for range limit + 100 {
		c := s.Dial(t)
		_ = c.TryWrite([]byte("PING\r\n"))
		v, err := c.TryReply()
		switch {
		case err == nil && v.Raw == "+PONG\r\n":
			open = append(open, c)
		case err == nil && v.Raw == "-ERR max number of clients reached\r\n":
			refused++
			c.WantEOF()
			c.Close()
		default:
			t.Fatalf("got %q, %v", v.Raw, err)
		}
	}
	// The connection that waited for the server's start may not have been counted off yet.
	if len(open) > limit || len(open) < limit-1 || refused < 100 {
		t.Errorf("%d connections were served and %d refused, want %d and 100", len(open), refused, limit)
	}
	for _, c := range open {
		c.Want("+PONG\r\n", "PING")
	}
	for _, c := range open[:10] {
		c.Close()
	}
	for deadline := time.Now().Add(harness.IoTimeout); ; time.Sleep(10 * time.Millisecond) {
		if v, err := s.Dial(t).TryDo("PING"); err == nil && v.Raw == "+PONG\r\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no connection was accepted after others had closed")
		}
	}
}

// TestHostileStorm opens and closes connections as fast as it can, some of them within a request.
func TestHostileStorm(t *testing.T) {
	attack(t, nil, func(t *testing.T, s *harness.Server) {
		for i := range harness.Scaled(2000) {
			c, err := harness.DialTimeout("tcp", s.Addr, harness.IoTimeout)
			if err != nil {
				t.Fatal(err)
			}
			if i%3 > 0 {
				_ = c.TryWrite([]byte("*2\r\n$3\r\nGET\r\n$10\r\n190"[:i%20+1]))
			}
			c.Close()
		}
	})
}

// TestHostileUnauthenticated checks the narrower limits that hold before AUTH.
func TestHostileUnauthenticated(t *testing.T) {
	s := harness.Start(t, "--requirepass", "secret")
	c := s.Dial(t)
	c.Want("-NOAUTH Authentication required.\r\n", "GET", "1.cntcm")
	if v := c.Do("AUTH", "wrong"); !strings.HasPrefix(v.Raw, "-WRONGPASS ") {
		t.Errorf("a wrong password: %q", v.Raw)
	}
	c.Write("*2\r\n$4\r\nECHO\r\n$20000\r\n")
	wantRefused(t, c, "unauthenticated bulk length")
	c = s.Dial(t)
	c.Write("*100\r\n")
	wantRefused(t, c, "unauthenticated multibulk length")
	c = s.Dial(t)
	c.Want("+OK\r\n", "AUTH", "secret")
	long := strings.Repeat("x", 20_000)
	c.Want(harness.BulkOf(long), "ECHO", long)
	c = s.Dial(t)
	if v := c.Do("HELLO", "3", "AUTH", "default", "secret"); v.Kind != '%' {
		t.Errorf("HELLO with AUTH: %q", v.Raw)
	}
}
