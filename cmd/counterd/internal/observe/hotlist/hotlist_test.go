package hotlist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/schema"
)

const script = "add counter weibo\nadd column weibo comment hint=8 max=32 suffix=c\nadd column weibo repost hint=8 max=32 suffix=r top=4"

// listener is a subscriber with the posts that the messages of a channel have told it.
type listener struct {
	pubsub.Subscriber
	pattern bool

	mu   sync.Mutex
	text bytes.Buffer // sent and not read

	whole bool              // the next message has to tell the whole list
	known map[uint64]uint64 // posts, and their values when they entered
	got   int               // messages
}

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *listener) SetWriteDeadline(time.Time) error { return nil }
func (l *listener) Close() error                     { return net.ErrClosed }
func (l *listener) Slow(int, error)                  {}

// world is a store, its lists and their listeners.
type world struct {
	t     *testing.T
	store *counter.Store
	reg   pubsub.Registry
	tell  Teller
}

func newWorld(t *testing.T) *world {
	store, err := counter.Open("", counter.Options{BlockItems: 64})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.AlterScript(script); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: store}
	w.tell = Teller{Store: func() *counter.Store { return store }, Registry: &w.reg, Pause: func() {}}
	t.Cleanup(func() {
		w.tell.Close(context.Background())
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// remove deletes a post.
func (w *world) remove(mid uint64) error {
	b := w.store.NewBatch()
	if err := b.Begin(); err != nil {
		return err
	}
	b.Add(counter.Op{Kind: counter.OpDelete, Counter: b.Schema().Counter("weibo"), Mid: mid})
	b.Run()
	err := b.Op(0).Err
	b.End()
	return errors.Join(err, b.Commit())
}

// built waits until the background has built all lists.
func (w *world) built() {
	w.t.Helper()
	w.until("the lists are built", func() bool { return w.store.Admin().TopLists().Short == 0 })
}

func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("never: %s", what)
		}
	}
}

// listen makes a listener of the repost list.
func (w *world) listen(proto int, pattern bool) *listener {
	l := &listener{pattern: pattern}
	l.SetProtocol(proto)
	l.Start(&w.reg, l)
	w.t.Cleanup(func() {
		w.reg.UnsubscribeAll(&l.Subscriber)
		l.Subscriber.Close(time.Minute)
	})
	w.subscribe(l)
	return l
}

func (l *listener) subscription() (pubsub.Kind, [][]byte) {
	if l.pattern {
		return pubsub.Pattern, [][]byte{[]byte(Prefix + "*")}
	}
	return pubsub.Channel, [][]byte{[]byte(Prefix + "weibo.repost")}
}

func (w *world) subscribe(l *listener) {
	kind, names := l.subscription()
	if err := w.reg.Subscribe(&l.Subscriber, kind, names); err != nil {
		w.t.Fatal(err)
	}
	l.whole, l.known = true, map[uint64]uint64{}
}

func (w *world) unsubscribe(l *listener) {
	kind, names := l.subscription()
	w.reg.Unsubscribe(&l.Subscriber, kind, names)
	l.known = nil
}

// message is one as it is documented.
type message struct {
	Whole   bool        `json:"whole"`
	Entered [][2]uint64 `json:"entered"`
	Left    []uint64    `json:"left"`
}

// read applies the messages that have come.
func (w *world) read(l *listener) {
	w.t.Helper()
	w.until("the outbox is empty", func() bool { return l.Unread() == 0 })
	l.mu.Lock()
	lines := strings.Split(l.text.String(), "\r\n")
	l.text.Reset()
	l.mu.Unlock()
	for i, line := range lines {
		if !strings.HasPrefix(line, `{"whole":`) {
			continue
		}
		if lines[i-2] != Prefix+"weibo.repost" {
			w.t.Fatalf("a message to %q", lines[i-2])
		}
		if l.known == nil {
			continue // it came before the end of the subscription
		}
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		var m message
		if err := dec.Decode(&m); err != nil {
			w.t.Fatalf("%s: %v", line, err)
		}
		l.got++
		if l.whole && !m.Whole {
			w.t.Fatalf("the first message is %s", line)
		}
		if l.whole = false; m.Whole {
			l.known = map[uint64]uint64{}
		} else if len(m.Entered)+len(m.Left) == 0 {
			w.t.Fatal("a message without news")
		}
		for _, mid := range m.Left {
			if _, here := l.known[mid]; !here {
				w.t.Fatalf("%d left, and was not there: %v", mid, l.known)
			}
			delete(l.known, mid)
		}
		for _, e := range m.Entered {
			if _, here := l.known[e[0]]; here {
				w.t.Fatalf("%d entered, and was there", e[0])
			}
			l.known[e[0]] = e[1]
		}
	}
}

// top is the answer of COUNTER.TOP.
func (w *world) top(k int) (mids []uint64) {
	w.t.Helper()
	rows, err := w.store.Top(counter.Query{Counter: w.store.Schema().Counter("weibo"), To: schema.MaxMid}, 1, k)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range rows.Len() {
		mid, _ := rows.At(i)
		mids = append(mids, mid)
	}
	slices.Sort(mids)
	return mids
}

// TestMessagesModel: clients that come, go and come back apply the messages to a set of posts. At rest it equals the answer of
// COUNTER.TOP, whatever happened to the posts and the list.
func TestMessagesModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 1))
	w := newWorld(t)
	listeners := []*listener{w.listen(2, false), w.listen(3, false), w.listen(2, true), w.listen(3, true)}
	k, messages := 4, 0
	for round := range 250 {
		for range rng.IntN(12) {
			mid := 1 + rng.Uint64N(30)
			var err error
			switch rng.IntN(10) {
			case 0, 1:
				err = w.remove(mid)
			case 2, 3, 4:
				err = w.store.Set(fmt.Sprintf("%d.r", mid), rng.Uint64N(9))
			default:
				_, err = w.store.Incr(fmt.Sprintf("%d.r", mid), int64(rng.IntN(5)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if rng.IntN(30) == 0 {
			k = 1 + rng.IntN(6)
			if err := w.store.AlterScript(fmt.Sprintf("alter column weibo repost top=%d", k)); err != nil {
				t.Fatal(err)
			}
		}
		if l := listeners[rng.IntN(len(listeners))]; rng.IntN(3) == 0 {
			if l.known != nil {
				w.unsubscribe(l)
			}
			if rng.IntN(2) == 0 {
				w.read(l)
				w.subscribe(l)
			}
		}
		w.tell.round() // also of lists that are short
		if round%5 > 0 {
			continue
		}
		w.built()
		w.tell.round()
		want := w.top(k)
		for i, l := range listeners {
			if w.read(l); l.known == nil {
				continue
			}
			if got := slices.Sorted(maps.Keys(l.known)); !slices.Equal(got, want) {
				t.Fatalf("round %d: client %d knows %v, want %v", round, i, got, want)
			}
			messages += l.got
			l.got = 0
		}
	}
	if messages < 100 {
		t.Errorf("%d messages", messages)
	}
}

// TestNothingUnheard: without a subscriber of a list nothing is compared, and without any subscriber no round begins. A list that does not
// change is not compared again, and nothing is said of it.
func TestNothingUnheard(t *testing.T) {
	w := newWorld(t)
	if err := w.store.Set("7.r", 5); err != nil {
		t.Fatal(err)
	}
	w.built()
	if w.tell.Look(); w.tell.ended != nil {
		t.Fatal("a round began without a subscriber")
	}
	other := &listener{}
	other.SetProtocol(2)
	other.Start(&w.reg, other)
	defer other.Subscriber.Close(time.Minute)
	if err := w.reg.Subscribe(&other.Subscriber, pubsub.Channel, [][]byte{[]byte("news"), []byte(Prefix + "weibo.comment")}); err != nil {
		t.Fatal(err)
	}
	w.look()
	if n := w.tell.computed.Load(); n != 0 || len(w.tell.channels) > 0 {
		t.Fatalf("%d lists were compared for nobody", n)
	}
	w.reg.UnsubscribeAll(&other.Subscriber)
	l := w.listen(2, false)
	for range 3 {
		w.look()
	}
	if w.read(l); l.got != 1 || w.tell.computed.Load() != 1 || l.known[7] != 5 {
		t.Fatalf("%d messages, %d comparisons, known %v; want 1, 1 and the post", l.got, w.tell.computed.Load(), l.known)
	}
	if err := w.store.Set("7.r", 6); err != nil { // it neither enters nor leaves
		t.Fatal(err)
	}
	w.look()
	if w.read(l); l.got != 1 || w.tell.computed.Load() != 2 {
		t.Fatalf("%d messages, %d comparisons, want 1 and 2", l.got, w.tell.computed.Load())
	}
	w.unsubscribe(l)
	w.look()
	ended := w.tell.ended
	if len(w.tell.channels) > 0 {
		t.Fatal("the channel of nobody is remembered")
	}
	if w.tell.Look(); w.tell.ended != ended || w.tell.computed.Load() != 2 {
		t.Fatal("the work goes on without a subscriber")
	}
}

// look is Look, and waits for the round.
func (w *world) look() {
	w.tell.Look()
	w.until("the round ends", func() bool {
		w.tell.mu.Lock()
		defer w.tell.mu.Unlock()
		return !w.tell.busy
	})
}

// TestRoundsBesideWriters: rounds, writers, and clients that come and go at the same time. In the end, after Close, no round runs, and none
// begins.
func TestRoundsBesideWriters(t *testing.T) {
	w := newWorld(t)
	var busy sync.WaitGroup
	for n := range 2 {
		busy.Go(func() {
			for i := range 500 {
				if _, err := w.store.Incr(fmt.Sprintf("%d.r", 1+(i*7+n)%40), int64(i%5)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	l := w.listen(3, true)
	for range 100 {
		w.tell.Look()
		w.unsubscribe(l)
		w.subscribe(l)
	}
	busy.Wait()
	w.built()
	w.look()
	w.look()
	w.knows(l)
	w.tell.Close(context.Background())
	if w.tell.Look(); w.tell.busy {
		t.Error("a round began after Close")
	}
}

// knows compares the messages of l's last subscription with the posts.
func (w *world) knows(l *listener) {
	w.t.Helper()
	w.until("the outbox is empty", func() bool { return l.Unread() == 0 })
	l.mu.Lock()
	text := l.text.String()
	text = text[strings.LastIndex(text, "psubscribe\r\n"):] // of the last subscription
	l.text.Reset()
	l.text.WriteString(text)
	l.mu.Unlock()
	w.read(l)
	if got, want := slices.Sorted(maps.Keys(l.known)), w.top(4); !slices.Equal(got, want) {
		w.t.Fatalf("the client knows %v, want %v", got, want)
	}
}
