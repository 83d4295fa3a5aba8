package pubsub

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// reader is a connection whose other side reads when the test lets it.
type reader struct {
	mu     sync.Mutex
	turn   sync.Cond
	stuck  bool
	closed bool
	slow   int // calls of Slow
	read   bytes.Buffer
}

func newReader() *reader {
	r := &reader{}
	r.turn.L = &r.mu
	return r
}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.stuck && !r.closed {
		r.turn.Wait()
	}
	if r.closed {
		return 0, net.ErrClosed
	}
	return r.read.Write(p)
}

func (r *reader) SetWriteDeadline(time.Time) error { return nil }

func (r *reader) Close() error {
	r.set(func() { r.closed = true })
	return nil
}

func (r *reader) Slow(int, error) { r.set(func() { r.slow++ }) }

func (r *reader) set(f func()) {
	r.mu.Lock()
	f()
	r.turn.Broadcast()
	r.mu.Unlock()
}

func (r *reader) state() (text string, slow int, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read.String(), r.slow, r.closed
}

// subscriber starts a subscriber that speaks RESP2, subscribed to channels. It ends with the test.
func subscriber(t *testing.T, reg *Registry, channels ...string) (*Subscriber, *reader) {
	t.Helper()
	s, conn := new(Subscriber), newReader()
	s.SetProtocol(2)
	s.Start(reg, conn)
	t.Cleanup(func() {
		reg.UnsubscribeAll(s)
		conn.set(func() { conn.stuck = false })
		s.Close(time.Minute)
	})
	if err := reg.Subscribe(s, Channel, names(channels...)); err != nil {
		t.Fatal(err)
	}
	return s, conn
}

func names(list ...string) (b [][]byte) {
	for _, name := range list {
		b = append(b, []byte(name))
	}
	return b
}

// TestOrder: with concurrent publishers, a subscriber gets the confirmation first, then every message that was counted as
// received, and nothing behind the end of its subscription.
func TestOrder(t *testing.T) {
	var reg Registry
	var publishers sync.WaitGroup
	stop := make(chan struct{})
	received := make([]int, 3)
	for i := range received {
		publishers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					received[i] += reg.Publish("news", []byte("x"), nil)
				}
			}
		})
	}
	s, conn := new(Subscriber), newReader()
	s.SetProtocol(2)
	s.Start(&reg, conn)
	const rounds = 200
	for i := range rounds {
		kind, name := Kind(i%2), names("news")
		if err := reg.Subscribe(s, kind, name); err != nil {
			t.Fatal(err)
		}
		if answer := reg.Unsubscribe(s, kind, name); answer != nil {
			t.Fatalf("the answer %q went past the outbox", answer)
		}
	}
	close(stop)
	publishers.Wait()
	s.Close(time.Minute)
	text, _, _ := conn.state()
	subscribed, messages, confirmations := false, 0, 0
	for _, m := range strings.Split(strings.TrimPrefix(text, "*"), "\r\n*") {
		switch {
		case strings.Contains(m, "unsubscribe\r\n"):
			subscribed = false
			confirmations++
		case strings.Contains(m, "subscribe\r\n"):
			subscribed = true
		case strings.Contains(m, "message\r\n"):
			if messages++; !subscribed {
				t.Fatalf("a message outside of a subscription, after %d", confirmations)
			}
		}
	}
	if sum := received[0] + received[1] + received[2]; messages != sum || confirmations != rounds {
		t.Errorf("%d messages and %d ends were read, want %d and %d", messages, confirmations, sum, rounds)
	}
	if reg.Len(Channel)+reg.Len(Pattern) != 0 || reg.Unread() != 0 || s.Count() != 0 || s.Bytes() != 0 {
		t.Errorf("left: %d channels, %d patterns, %d bytes unread; %d subscriptions of %d bytes", reg.Len(Channel), reg.Len(Pattern), reg.Unread(), s.Count(), s.Bytes())
	}
}

// TestNotStarted: a connection that never subscribed gets the return value of Unsubscribe as its reply, and is no
// subscriber.
func TestNotStarted(t *testing.T) {
	var reg Registry
	var s Subscriber
	s.SetProtocol(3)
	if got := string(reg.Unsubscribe(&s, Pattern, nil)); got != ">3\r\n$12\r\npunsubscribe\r\n_\r\n:0\r\n" {
		t.Errorf("%q", got)
	}
	if got := string(reg.Unsubscribe(&s, Channel, names("a"))); got != ">3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n" {
		t.Errorf("%q", got)
	}
	if s.Started() || s.Unread() != 0 {
		t.Error("it has an outbox")
	}
	reg.UnsubscribeAll(&s)
	s.Close(0)
}

// TestLimits: a subscriber that does not read is closed at its limit and told of once, its memory is given back, and
// others go on. In all no more than maxUnread is held by those that leave much unread.
func TestLimits(t *testing.T) {
	message := bytes.Repeat([]byte("x"), 16<<10)
	for _, c := range []struct {
		name     string
		limit    Limit
		others   int // bytes that other subscribers have not read
		min, max int // bytes that fit
	}{
		{"hard", Limit{Hard: 1 << 20}, 0, 1<<20 - 32<<10, 1 << 20},
		{"soft", Limit{Soft: 64 << 10}, 0, 64 << 10, 96 << 10},
		{"shared", Limit{}, maxUnread - 1<<20, 1<<20 - 32<<10, 1<<20 + 32<<10},
		{"small", Limit{}, 2 * maxUnread, 48 << 10, smallUnread},
	} {
		t.Run(c.name, func(t *testing.T) {
			var reg Registry
			reg.SetLimit(c.limit)
			reg.unread.Add(int64(c.others))
			_, stuck := subscriber(t, &reg, "a")
			stuck.set(func() { stuck.stuck = true })
			s, reads := subscriber(t, &reg, "b")
			sent := 0
			for ; ; sent++ {
				if _, _, closed := stuck.state(); closed {
					break
				}
				if n := reg.Unread(); n > int64(c.others+c.max) {
					t.Fatalf("%d bytes are unread", n)
				}
				reg.Publish("a", message, nil)
			}
			if bytes := sent * len(message); bytes < c.min || bytes > c.max {
				t.Errorf("closed after %d bytes, want %d to %d", bytes, c.min, c.max)
			}
			if _, slow, _ := stuck.state(); slow != 1 {
				t.Errorf("told of %d times", slow)
			}
			reg.Publish("b", []byte("hello"), nil)
			for deadline := time.Now().Add(time.Minute); reg.Unread() != int64(c.others) || s.Unread() != 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d bytes stay unread", reg.Unread())
				}
			}
			if text, _, closed := reads.state(); closed || !strings.HasSuffix(text, "hello\r\n") {
				t.Errorf("the other one is closed: %v; it read %q", closed, text)
			}
		})
	}
}

// TestTooMany: a connection has a bounded number of subscriptions, and a bounded size of their names.
func TestTooMany(t *testing.T) {
	var reg Registry
	s, conn := subscriber(t, &reg)
	for i := range maxSubscriptions {
		if err := reg.Subscribe(s, Kind(i%2), names(fmt.Sprint(i))); err != nil {
			t.Fatalf("subscription %d: %v", i, err)
		}
	}
	if err := reg.Subscribe(s, Channel, names("0", "x")); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	if err := reg.Subscribe(s, Channel, names("0", "2", "2")); err != nil {
		t.Errorf("those that it has: %v", err)
	}
	reg.Unsubscribe(s, Channel, names("0"))
	if err := reg.Subscribe(s, Channel, names("x", "x", "y")); !errors.Is(err, ErrTooMany) {
		t.Errorf("two more where one fits: %v", err)
	}
	if n := len(reg.Channels(Channel, nil)) + reg.Len(Pattern); n != maxSubscriptions-1 {
		t.Errorf("%d names are known, some of them by a call that failed", n)
	}
	if err := reg.Subscribe(s, Channel, names("x", "x")); err != nil {
		t.Errorf("one more where one fits, named twice: %v", err)
	}
	reg.UnsubscribeAll(s)
	long := strings.Repeat("x", MaxName-8)
	n := 0
	for ; ; n++ {
		if err := reg.Subscribe(s, Channel, names(fmt.Sprintf("%s%08d", long, n))); err != nil {
			break
		}
	}
	if want := maxSubscriptionBytes / (MaxName + subscriptionSize); n != want || s.Bytes() > maxSubscriptionBytes {
		t.Errorf("%d long names fit, want %d; %d bytes", n, want, s.Bytes())
	}
	if _, slow, closed := conn.state(); slow != 0 || closed {
		t.Error("it was closed")
	}
}

// TestNames: Channels and Subscribers return the subscriptions.
func TestNames(t *testing.T) {
	var reg Registry
	subscriber(t, &reg, "b", "a")
	subscriber(t, &reg, "a", "c")
	if got := reg.Channels(Channel, nil); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%q", got)
	}
	if got := reg.Channels(Channel, func(name string) bool { return name > "a" }); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("%q", got)
	}
	if got := reg.Subscribers(Channel, names("a", "x", "c")); !slices.Equal(got, []int{2, 0, 1}) {
		t.Errorf("%v", got)
	}
	if n := reg.Publish("a", nil, nil); n != 2 {
		t.Errorf("%d got it", n)
	}
}

// TestSoftLimitWithoutTraffic: a subscriber that leaves more than the soft limit unread for too long is closed although it
// is sent nothing more.
func TestSoftLimitWithoutTraffic(t *testing.T) {
	var reg Registry
	reg.SetLimit(Limit{Soft: 100, Seconds: 3600})
	s, conn := subscriber(t, &reg, "news")
	conn.set(func() { conn.stuck = true })
	reg.Publish("news", make([]byte, 1000), nil)
	reg.Look()
	if _, slow, closed := conn.state(); slow != 0 || closed {
		t.Fatal("closed before its time")
	}
	s.box.mu.Lock()
	s.box.over = s.box.over.Add(-time.Hour - time.Second)
	s.box.mu.Unlock()
	reg.Look()
	reg.Look()
	if _, slow, closed := conn.state(); slow != 1 || !closed {
		t.Errorf("told of %d times, closed: %v; want once, and closed", slow, closed)
	}
	reg.UnsubscribeAll(s)
	s.Close(time.Minute)
	if len(reg.boxes) != 0 || reg.Unread() != 0 {
		t.Errorf("%d outboxes and %d bytes are left", len(reg.boxes), reg.Unread())
	}
}
