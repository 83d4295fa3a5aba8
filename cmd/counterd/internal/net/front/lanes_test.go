package front

import (
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// peer is the other side of a session that is not there: it sends commands, and each waits for its answer.
type peer struct {
	Session
	bytes  func() int // of the bytes it sends at a time; a session reads a buffer of it in a turn
	think  func() int // cost between an answer and the next command
	at     int        // when it sends next
	left   int        // sent and not read
	sent   int        // when that was
	worst  int        // most that an answer took
	turns  int
	served int // bytes
}

// town is a loop and its peers, where time is cost.
type town struct {
	t     *testing.T
	lanes lanes
	clock int
	peers []*peer
	owed  []*peer // had a turn and were not answered
	of    map[*Session]*peer
}

// The costs of polling and answering, in the units of lanes: a byte is 6 ns.
const (
	lookCost   = 64
	answerCost = 1 << 10 // a write of the log
	sendCost   = 512
)

func (w *town) add(n int, bytes, think func() int) (added []*peer) {
	for range n {
		p := &peer{bytes: bytes, think: think}
		p.at = think()
		w.peers, added = append(w.peers, p), append(added, p)
		w.of[&p.Session] = p
	}
	return added
}

// look pushes whose commands have come.
func (w *town) look() {
	w.clock += lookCost
	for _, p := range w.peers {
		if p.left == 0 && p.at >= 0 && p.at <= w.clock {
			p.left, p.sent, p.at = p.bytes(), p.at, -1
			w.lanes.push(&p.Session)
		}
	}
}

func (w *town) answer() {
	w.clock += answerCost
	if len(w.owed) > maxTurns {
		w.t.Fatalf("%d turns wait for an answer, want at most %d", len(w.owed), maxTurns)
	}
	for _, short := range []bool{true, false} {
		for _, p := range w.owed {
			if !p.answering || short && !p.seat.short() {
				continue
			}
			w.clock += sendCost
			if p.answering = false; p.left == 0 {
				p.worst = max(p.worst, w.clock-p.sent)
				p.at = w.clock + p.think()
			}
		}
	}
	w.owed = w.owed[:0]
	w.lanes.answered()
}

// run lets the loop go until the clock says end.
func (w *town) run(end int) {
	for w.clock < end {
		w.lanes.beginCycle()
		w.look()
		for what, s := w.lanes.next(); what != stepLook; what, s = w.lanes.next() {
			if what == stepAnswer {
				w.answer()
				continue
			}
			p := w.of[s]
			if p.answering {
				w.t.Fatal("a turn of a session that waits for its answer")
			}
			room := inputSize
			if !w.lanes.inLong {
				room = shortRoom
			}
			n := min(p.left, room)
			p.left -= n
			p.turns++
			p.served += n
			w.clock += turnCost + n
			w.lanes.took(s, n)
			if n == room {
				w.lanes.push(s)
			}
			if n > 0 {
				p.answering = true
				w.owed = append(w.owed, p)
			}
		}
		if w.lanes.idle() && len(w.owed) > 0 {
			w.t.Fatal("a loop that sleeps while an answer is owed")
		}
	}
}

// settle lets the loop classify the sessions: a new session is polite until it has had a turn.
func (w *town) settle() {
	w.run(6_000_000)
	for _, p := range w.peers {
		p.worst, p.turns, p.served = 0, 0, 0
	}
}

// TestLanes floods a loop from some connections, and asks politely from others. In a town of any kind a polite command
// waits for a slice at most and those who are polite too, floods get as much as each other, and none of both stands
// still.
func TestLanes(t *testing.T) {
	seed := seed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		w := &town{t: t, of: make(map[*Session]*peer)}
		floods := w.add(1+rng.IntN(300), func() int { return inputSize * (2 + rng.IntN(8)) }, func() int { return 0 })
		some := w.add(rng.IntN(20), func() int { return 64 * 43 }, func() int { return rng.IntN(100_000) }) // 64 deep
		polite := w.add(rng.IntN(60), func() int { return 30 + rng.IntN(100) }, func() int { return rng.IntN(1_000_000) })
		w.settle()
		w.run(20_000_000)
		// The slice that it comes in, which a turn may pass, twice, as one may just have been behind the short lane; the
		// answers behind; and all who are polite before it, with theirs.
		limit := 2*(slice+inputSize+turnCost+answerCost+maxTurns*sendCost) + len(polite)*(turnCost+200+sendCost)
		for _, p := range polite {
			if p.worst > limit || p.turns == 0 {
				t.Errorf("%d floods, %d of 64: one of %d polite waited %d, want at most %d; %d turns", len(floods), len(some), len(polite), p.worst, limit, p.turns)
				break
			}
		}
		least, most := floods[0].turns, floods[0].turns
		for _, p := range floods {
			least, most = min(least, p.turns), max(most, p.turns)
		}
		if least == 0 || most > least+2+least/4 {
			t.Errorf("%d floods had %d to %d turns", len(floods), least, most)
		}
	}
}

// TestLanesPoliteCrowd has a thousand polite connections that ask again at once, and one flooding connection, which goes
// on.
func TestLanesPoliteCrowd(t *testing.T) {
	w := &town{t: t, of: make(map[*Session]*peer)}
	flood := w.add(1, func() int { return 4 * inputSize }, func() int { return 0 })[0]
	polite := w.add(1000, func() int { return 40 }, func() int { return 0 })
	w.run(50_000_000)
	if share := float64(flood.served) / float64(w.clock); share < 0.06 {
		t.Errorf("the flood got %.3f of the loop, want 0.06 at least", share)
	}
	least, most := polite[0].turns, polite[0].turns
	for _, p := range polite {
		least, most = min(least, p.turns), max(most, p.turns)
	}
	if least < most*3/4 {
		t.Errorf("polite connections had %d to %d turns", least, most)
	}
}

// TestLanesChangeling has connections that are polite but for every fourth command, which brings a buffer: they are
// floods, and do not pass before those who are polite.
func TestLanesChangeling(t *testing.T) {
	w := &town{t: t, of: make(map[*Session]*peer)}
	i := 0
	w.add(100, func() int {
		if i++; i%4 == 0 {
			return inputSize
		}
		return 40
	}, func() int { return 0 })
	polite := w.add(1, func() int { return 40 }, func() int { return 10_000 })[0]
	w.settle()
	w.run(20_000_000)
	if limit := 2 * (slice + inputSize + pass); polite.worst > limit {
		t.Errorf("a polite command waited %d, want at most %d", polite.worst, limit)
	}
}
