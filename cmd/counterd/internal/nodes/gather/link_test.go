package gather

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/monotonic"
	"github.com/counterd/counterd/internal/slot"
)

// serveOK answers +OK to every command on a free port.
func serveOK(t *testing.T) (address string) { return serve(t, math.MaxInt) }

// serve answers +OK to the first commands of each connection on a free port.
func serve(t *testing.T, commands int) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answerOK(t, l, commands)
	return l.Addr().String()
}

// answerOK answers +OK to the first commands of each connection.
func answerOK(t *testing.T, l net.Listener, commands int) {
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for left := commands; ; left-- {
					head, err := r.ReadString('\n')
					n, _ := strconv.Atoi(strings.Trim(head, "*\r\n"))
					for range 2 * n {
						if err == nil {
							_, err = r.ReadString('\n')
						}
					}
					if err == nil && left > 0 {
						_, err = c.Write([]byte("+OK\r\n"))
					}
					if err != nil {
						return
					}
				}
			}()
		}
	}()
}

// serveNothing accepts connections on a free port, and answers the greeting of a link alone.
func serveNothing(t *testing.T) (address string) { return serve(t, 1) }

// oneShard is links to a shard whose primary is at an address.
func oneShard(t *testing.T, address string) (*Shards, *Shard) {
	t.Helper()
	s := New(func() Settings { return Settings{Timeout: time.Minute} }, slog.New(slog.DiscardHandler))
	t.Cleanup(s.Close)
	shard := &topology.Shard{ID: 1, Primary: "there"}
	for g := range slot.Groups {
		shard.Groups.Add(uint8(g))
	}
	s.Follow(&topology.Map{Shards: []*topology.Shard{shard}, Live: map[topology.NodeID]*topology.Live{"there": {Address: address}}}, "here")
	return s, s.View().All[0]
}

// ask asks a shard, by a session's link.
func ask(s *Shard) error {
	var r Round
	r.Begin()
	a := r.Ask(s)
	a.Add(Read, []byte("GET"), []byte("1"))
	r.Send(0)
	r.Wait()
	_, _, err := a.Reply(0)
	return err
}

// TestShardWorksAgain: a shard that did not answer for long, and is not waited for any more, is found again when it
// does, though etcd says nothing new of it.
func TestShardWorksAgain(t *testing.T) {
	_, shard := oneShard(t, serveOK(t))
	shard.failed(errUnfinished)
	shard.down.Store(int64(monotonic.Of(time.Now().Add(-time.Hour))))
	if err := ask(shard); err == nil {
		t.Fatal("who asks waits for a shard that did not answer for long")
	}
	for end := time.Now().Add(3 * time.Minute); ask(shard) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is never asked again")
		}
	}
}

// TestIdleLinkIsNoFailure: a link that nobody used for long ends, and the next who asks is answered.
func TestIdleLinkIsNoFailure(t *testing.T) {
	s, shard := oneShard(t, serveOK(t))
	for range 20 {
		if err := ask(shard); err != nil {
			t.Fatal(err)
		}
		l := shard.links[0]
		l.expire(time.Now().Add(2 * idleAfter))
		for ended := false; !ended; time.Sleep(time.Millisecond) {
			l.mu.Lock()
			ended = l.conn == nil
			l.mu.Unlock()
		}
		if err := shard.hopeless(time.Now().Add(s.settings().Timeout)); err != nil {
			t.Fatalf("an hour without questions, and it is not asked any more: %v", err)
		}
	}
}

// TestEndedWhileIdle: a connection ends while nothing waits for its shard, as its primary hands over or is stopped. The next command, minutes later, is
// executed. It was refused at once, as if the shard had not answered since. So was a command long after a failure.
func TestEndedWhileIdle(t *testing.T) {
	addresses := []string{serveOK(t), serveOK(t)}
	s, shard := oneShard(t, addresses[0])
	later := func() {
		t.Helper()
		if err := shard.hopeless(time.Now().Add(time.Hour)); err != nil {
			t.Fatalf("an hour later the shard is refused: %v", err)
		}
		if err := ask(shard); err != nil {
			t.Fatal(err)
		}
	}
	gone := func(c *conn) {
		l := shard.links[0]
		for ended := false; !ended; time.Sleep(time.Millisecond) {
			l.mu.Lock()
			ended = l.conn != c
			l.mu.Unlock()
		}
		time.Sleep(10 * time.Millisecond) // the link notes the end behind that
	}
	for i := range 20 {
		later()
		l := shard.links[0]
		l.mu.Lock()
		c := l.conn
		if i%2 == 0 {
			c.close()
		}
		l.mu.Unlock()
		if i%2 == 1 {
			of := &topology.Shard{ID: 1, Primary: topology.NodeID(fmt.Sprint("primary ", i)), Groups: slot.AllGroups()}
			s.Follow(&topology.Map{Shards: []*topology.Shard{of}, Live: map[topology.NodeID]*topology.Live{of.Primary: {Address: addresses[i/2%2]}}}, "here")
		}
		if gone(c); shard.down.Load() != 0 {
			t.Fatal("the end of an idle connection counts as a failure of the shard")
		}
	}
	shard.failed(errNoAnswer) // an hour ago
	shard.down.Add(-int64(time.Hour))
	shard.last.Add(-int64(time.Hour))
	later()
}

// TestNoPrimaryForLong: a shard that has had no primary for long is not waited for. Each query waited for a minute. It is asked again when it has one.
func TestNoPrimaryForLong(t *testing.T) {
	address := serveOK(t)
	s, shard := oneShard(t, address)
	of := &topology.Shard{ID: 1, Primary: "there", Groups: slot.AllGroups()}
	s.Follow(&topology.Map{Shards: []*topology.Shard{of}}, "here")
	if err := shard.hopeless(time.Now()); err != nil {
		t.Errorf("a moment later: %v", err)
	}
	if err := shard.hopeless(time.Now().Add(time.Hour)); err != errNoPrimary {
		t.Errorf("an hour later: got %v, want %v", err, errNoPrimary)
	}
	shard.down.Add(-int64(time.Hour))
	if err := ask(shard); !errors.Is(err, errNoPrimary) {
		t.Errorf("got %v, want %v", err, errNoPrimary)
	}
	never := &topology.Shard{ID: 2, Groups: slot.AllGroups()}
	s.Follow(&topology.Map{Shards: []*topology.Shard{never}}, "here")
	if err := s.View().All[0].hopeless(time.Now().Add(time.Hour)); err != errNoPrimary {
		t.Errorf("a shard that was never led, an hour later: got %v, want %v", err, errNoPrimary)
	}
	s.Follow(&topology.Map{Shards: []*topology.Shard{of}, Live: map[topology.NodeID]*topology.Live{"there": {Address: address}}}, "here")
	if err := ask(shard); err != nil {
		t.Error(err)
	}
}

// switchedListener closes the connections that it takes until it is on.
type switchedListener struct {
	net.Listener
	on atomic.Bool
}

func (l *switchedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.on.Load() {
			return c, err
		}
		c.Close()
	}
}

// TestTriesAgain: the node of a shard is down for a moment, and nobody asks when it is back. The shard is asked at once then: it was refused for 5 s, or until somebody had asked in vain.
func TestTriesAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	switched := &switchedListener{Listener: l}
	answerOK(t, switched, math.MaxInt)
	_, shard := oneShard(t, l.Addr().String())
	shard.of.settings = func() Settings { return Settings{Timeout: 20 * time.Millisecond} }
	if err := ask(shard); err == nil {
		t.Fatal("a node that is down answers")
	}
	switched.on.Store(true)
	for end := time.Now().Add(time.Minute); shard.down.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody asks, and the shard that is back counts as one that does not answer")
		}
	}
	if err := ask(shard); err != nil {
		t.Error(err)
	}
}

// TestRemovedShard: the links to a shard that the map does not have any more are given up: one whose node was down would try to reach it for ever.
func TestRemovedShard(t *testing.T) {
	s, shard := oneShard(t, serveOK(t))
	if err := ask(shard); err != nil {
		t.Fatal(err)
	}
	s.Follow(&topology.Map{}, "here")
	if to := shard.state.Load(); to.address != "" {
		t.Errorf("the links still reach for %s", to.address)
	}
	for connected := true; connected; time.Sleep(time.Millisecond) {
		shard.links[0].mu.Lock()
		connected = shard.links[0].conn != nil
		shard.links[0].mu.Unlock()
	}
}

// TestSlowWithoutPrimary: a query of all posts has a minute for its answer, and does not wait so long for a shard that loses its primary while it waits, or while it runs. It did.
func TestSlowWithoutPrimary(t *testing.T) {
	for _, running := range []bool{false, true} {
		address := serveOK(t)
		if running {
			address = serveNothing(t)
		}
		s, shard := oneShard(t, address)
		of := &topology.Shard{ID: 1, Primary: "there", Groups: slot.AllGroups()}
		var r Round
		r.Begin()
		r.Ask(shard).Add(Read, []byte("COUNTER.SUM"), []byte("weibo"), []byte("comment"))
		if !running {
			s.Follow(&topology.Map{Shards: []*topology.Shard{of}}, "here")
		}
		r.SendSlow(0, time.Hour)
		r.Flush()
		l := shard.links[linksEach]
		for connected := !running; !connected; time.Sleep(time.Millisecond) {
			l.mu.Lock()
			connected = l.conn != nil && l.flying.len() > 0
			l.mu.Unlock()
		}
		s.Follow(&topology.Map{Shards: []*topology.Shard{of}}, "here")
		for ended := false; !ended; time.Sleep(time.Millisecond) {
			l.mu.Lock()
			ended = l.conn == nil
			l.mu.Unlock()
		}
		l.expire(time.Now().Add(s.settings().ReadWithin() / 2))
		if r.pending.Load() == 1 {
			t.Fatalf("running %v: it is given up at once, though the shard may have a primary in a moment", running)
		}
		l.expire(time.Now().Add(s.settings().ReadWithin() + time.Second))
		if r.pending.Load() != 1 {
			t.Fatalf("running %v: it waits, and the shard has had no primary for as long as a read waits", running)
		}
		if r.Wait(); !errors.Is(r.asks[0].err, errNoPrimary) {
			t.Errorf("running %v: got %v, want %v", running, r.asks[0].err, errNoPrimary)
		}
	}
}

// TestViewStays: who asks all shards by one view asks no two for the same group, though a newer map comes meanwhile.
func TestViewStays(t *testing.T) {
	s, first := oneShard(t, "127.0.0.1:1")
	old := s.View()
	all := old.Groups(first)
	to := &topology.Shard{ID: 2, Primary: "elsewhere", Groups: all}
	s.Follow(&topology.Map{Shards: []*topology.Shard{{ID: 1, Primary: "there"}, to}}, "here")
	if got := old.Groups(first); got != all || s.View().Groups(first) != (slot.Set{}) || s.View().Groups(s.View().All[0]) != all {
		t.Errorf("the view of before has groups %s of shard 1, want all: they would be looked for at two shards, or none", got)
	}
}

// TestPrimaryChangesMeanwhile: a shard gets another primary while a link connects to the old primary. The old primary was stopped and answers late.
// Sessions are answered by the new primary.
func TestPrimaryChangesMeanwhile(t *testing.T) {
	late, fresh := serveOK(t), serveOK(t)
	dialing, goOn := make(chan struct{}, 100), make(chan struct{})
	var toLate atomic.Int64
	connect := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == late {
			toLate.Add(1)
			dialing <- struct{}{}
			<-goOn
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	s := New(func() Settings { return Settings{Timeout: time.Minute, Connect: connect} }, slog.New(slog.DiscardHandler))
	t.Cleanup(s.Close)
	follow := func(primary topology.NodeID, address string) {
		shard := &topology.Shard{ID: 1, Primary: primary}
		for g := range slot.Groups {
			shard.Groups.Add(uint8(g))
		}
		s.Follow(&topology.Map{Shards: []*topology.Shard{shard}, Live: map[topology.NodeID]*topology.Live{primary: {Address: address}}}, "here")
	}
	follow("late", late)
	shard := s.View().All[0]
	asked := make(chan error)
	go func() { asked <- ask(shard) }()
	<-dialing
	follow("fresh", fresh)
	close(goOn)
	if err := <-asked; err != nil {
		t.Fatal(err)
	}
	l := shard.links[0]
	l.mu.Lock()
	got := l.conn.sock.RemoteAddr().String()
	l.mu.Unlock()
	if got != fresh {
		t.Errorf("the link is connected to %s, want the new primary at %s; the old one is at %s", got, fresh, late)
	}
	if err := shard.hopeless(time.Now().Add(time.Hour)); err != nil || toLate.Load() != 1 {
		t.Errorf("got error %v, and %d connections to the old primary, want none and 1", err, toLate.Load())
	}
}
