package repl

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// answering is a replica whose answers a test chooses.
type answering struct {
	*Peer
	reply func(kind byte, q question) []string

	mu   sync.Mutex
	said []question // of the questions Q
	sent []byte     // kinds of messages, in order
	late int        // questions that would have been sent before the log that they speak of
}

// newAnswering makes the replica of a node, until the test ends.
func newAnswering(t *testing.T, n *Node, reply func(kind byte, q question) []string) *answering {
	a := &answering{Peer: n.peers.NewPeer(&scripted{}), reply: reply}
	a.takesCompare = true
	a.online.Store(true)
	n.peers.add(a.Peer)
	woken := make(chan struct{}, 1)
	wake := context.CancelFunc(func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	a.kick.Store(&wake)
	go func() {
		for {
			select {
			case <-woken:
				a.take(t)
			case <-t.Context().Done():
				return
			}
		}
	}()
	return a
}

// take answers what waits to be sent.
func (a *answering) take(t *testing.T) {
	a.published.mu.Lock()
	queue := a.published.queue
	a.published.queue, a.published.bytes = nil, 0
	a.published.n.Store(0)
	a.published.mu.Unlock()
	for _, m := range queue {
		a.mu.Lock()
		a.sent = append(a.sent, m.raw[0])
		a.mu.Unlock()
		if m.raw[0] == msgDigests {
			continue
		}
		q, _, err := parseQuestion(m.raw[5:])
		if err != nil {
			t.Error(err)
			continue
		}
		a.mu.Lock()
		if m.raw[0] == msgQuestion {
			a.said = append(a.said, q)
		}
		if m.after != q.at {
			a.late++
		}
		a.mu.Unlock()
		args := [][]byte{fmt.Append(nil, q.id)}
		for _, word := range a.reply(m.raw[0], q) {
			args = append(args, []byte(word))
		}
		if err := a.Compared(args); err != nil {
			t.Error(err)
		}
	}
}

// comparingNode is a node with some blocks of posts that compares as a test asks it to.
func comparingNode(t *testing.T) (*testHost, *Node) {
	t.Helper()
	h := &testHost{t: t, sim: vfs.NewSim()}
	s := h.open()
	t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Replication().Lead(); err != nil {
		t.Fatal(err)
	}
	if err := s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := s.Set(fmt.Sprintf("%d.n", i), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	h.commit()
	n := NewNode(h, func() Settings { return Settings{Timeout: time.Minute, CompareBudget: time.Second, FS: h.disk()} }, slog.New(slog.DiscardHandler))
	n.peers.comparer.work = budget{ctx: t.Context(), share: n.compareShare}
	n.peers.comparer.rest = time.Microsecond
	return h, n
}

// TestAskedAgain: a range for which a replica was not at the offset is asked for again, and counts as missed when it never is. A
// question is sent behind the log that it speaks of.
func TestAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := comparingNode(t)
		c := &n.peers.comparer
		elsewhere := 2
		a := newAnswering(t, n, func(byte, question) []string {
			if elsewhere--; elsewhere >= 0 {
				return []string{saysElsewhere}
			}
			return []string{saysSame}
		})
		if more, err := c.next(c.online()); !more || err != nil {
			t.Fatal(more, err)
		}
		if len(a.said) != 3 || a.said[0].r != a.said[1].r || a.said[1].r != a.said[2].r {
			t.Errorf("asked about %+v, want one range three times", a.said)
		}
		if i := n.Compare(); i.Missed != 0 || a.late != 0 {
			t.Errorf("%d missed, %d questions may come before the log", i.Missed, a.late)
		}
		first := a.said[0].r
		elsewhere, a.said = compareTries, nil
		if more, err := c.next(c.online()); !more || err != nil {
			t.Fatal(more, err)
		}
		if i := n.Compare(); i.Missed != 1 || len(a.said) != compareTries || a.said[0].r.Lo != first.Hi {
			t.Errorf("%d missed, asked about %+v, want the range behind %+v", i.Missed, a.said, first)
		}
	})
}

// TestMendsAPart: the posts of a part that differs are sent at once where they are few. A range that cannot be mended is reported.
func TestMendsAPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := comparingNode(t)
		c := &n.peers.comparer
		asked := 0
		a := newAnswering(t, n, func(kind byte, q question) []string {
			switch asked++; {
			case kind == msgRows:
				return []string{saysMended, "3"}
			case asked > 3:
				return []string{saysUnreadable}
			}
			return []string{saysDiffers, fmt.Sprint(q.r.Lo), fmt.Sprint(min(q.r.Lo+8, q.r.Hi))}
		})
		if more, err := c.next(c.online()); !more || err != nil {
			t.Fatal(more, err)
		}
		want := []byte{msgQuestion, msgDigests, msgQuestion, msgDigests, msgRows}
		a.mu.Lock()
		defer a.mu.Unlock()
		if got := a.sent[:min(len(a.sent), len(want))]; !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q first", a.sent, want)
		}
		if i := n.Compare(); i.Mended != 3 || i.Differing != 1 {
			t.Errorf("%d mended, %d ranges differ, want 3 and 1", i.Mended, i.Differing)
		}
	})
}

// TestWholePassesCount: a pass that began in the middle of the posts is not one over all of them. Nothing is compared when the last
// replica has left.
func TestWholePassesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := comparingNode(t)
		c := &n.peers.comparer
		c.pass = time.Hour
		newAnswering(t, n, func(byte, question) []string { return []string{saysSame} })
		if more, err := c.next(c.online()); !more || err != nil { // as before a link was lost
			t.Fatal(more, err)
		}
		c.joined()
		time.Sleep(time.Minute)
		if i := n.Compare(); i.Passes != 0 || i.Ranges < 3 {
			t.Errorf("%d passes, %d ranges", i.Passes, i.Ranges)
		}
		time.Sleep(time.Hour)
		if i := n.Compare(); i.Passes != 1 {
			t.Errorf("%d passes, want 1", i.Passes)
		}
		c.left()
		synctest.Wait()
		if !c.one.TryLock() {
			t.Error("it goes on without a replica")
		} else {
			c.one.Unlock()
		}
	})
}

// TestLateAnswer: an answer to an earlier question does not take the place of the answer to the present question.
func TestLateAnswer(t *testing.T) {
	var ps Peers
	p := ps.NewPeer(&scripted{})
	p.asked.Store(8)
	for _, args := range []string{"7", "8"} {
		if err := p.Compared([][]byte{[]byte(args), []byte(saysDiffers), []byte("3"), []byte("4")}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case got := <-p.answers:
		if got != (compareAnswer{id: 8, word: saysDiffers, lo: 3, hi: 4}) {
			t.Errorf("got %+v", got)
		}
	default:
		t.Error("no answer")
	}
}
