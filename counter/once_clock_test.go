// Scenario: producers keep their places for the promised time, however clocks are set and however often the server was away.

package counter

import (
	"errors"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/setclock"
	"github.com/counterd/counterd/persist/vfs"
)

// places is a store with two places, both taken by producers that were used a moment ago.
type places struct {
	sim  *vfs.Sim
	now  time.Time
	jump time.Duration // by which the wall clock was set forward
	opts Options
	s    *Store
}

func newPlaces(t *testing.T) *places {
	t.Helper()
	p := &places{sim: vfs.NewSim(), now: time.Now()}
	p.opts = Options{Manual: true, SnapshotGrowth: -1, HashSeed: 1, AppendFsync: SyncAlways, Producers: ProducerLimits{Producers: 2, MinIdle: 600},
		Now: func() time.Time { return setclock.By(p.now, p.jump) }}
	p.open(t)
	if err := p.s.AlterScript(seedScript); err != nil {
		t.Fatal(err)
	}
	p.use(t, "a", 1, false)
	p.use(t, "b", 1, false)
	return p
}

func (p *places) open(t *testing.T) {
	t.Helper()
	p.opts.FS = p.sim
	s, err := Open("data", p.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p.s = s
}

// outage kills the process. It starts again later.
func (p *places) outage(t *testing.T, lasts time.Duration) {
	t.Helper()
	p.sim = p.sim.Kill()
	close1(t, p.s)
	p.now = p.now.Add(lasts)
	p.open(t)
}

// use makes a change as a producer, that is a repeat or not.
func (p *places) use(t *testing.T, producer string, seq uint64, repeat bool) {
	t.Helper()
	o, _ := numbered(t, p.s, Once{Producer: []byte(producer), Seq: seq}, Op{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1})
	if o.Err != nil || o.Repeat != repeat {
		t.Errorf("number %d of %s: got repeat %v, %v, want repeat %v", seq, producer, o.Repeat, o.Err, repeat)
	}
}

// full wants that a new producer gets no place.
func (p *places) full(t *testing.T, when string) {
	t.Helper()
	o, _ := numbered(t, p.s, Once{Producer: []byte("new"), Seq: 1}, Op{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1})
	if !errors.As(o.Err, new(*ProducersFullError)) {
		t.Errorf("%s: a new producer got a place: %v", when, o.Err)
	}
}

// TestOnceClockForward: a clock that is set forward makes nobody idle.
func TestOnceClockForward(t *testing.T) {
	p := newPlaces(t)
	p.now, p.jump = p.now.Add(time.Minute), time.Hour
	p.full(t, "behind a jump")
	p.use(t, "a", 1, true)
	p.now = p.now.Add(541 * time.Second)
	o, _ := numbered(t, p.s, Once{Producer: []byte("new"), Seq: 1}, Op{Kind: OpAdd, Mid: 7, Column: 1, Arg: 1})
	if o.Err != nil {
		t.Errorf("in the place of a producer that was idle for 601 s: %v", o.Err)
	}
	p.use(t, "a", 1, true)
}

// TestOnceOutages: the time of an outage is not counted as idleness behind the next outage either, with a snapshot between the two or
// without one.
func TestOnceOutages(t *testing.T) {
	for _, snapshot := range []bool{false, true} {
		p := newPlaces(t)
		p.outage(t, time.Hour)
		p.full(t, "behind an outage")
		p.now = p.now.Add(20 * time.Second)
		p.use(t, "a", 2, false)
		if snapshot {
			mustSnapshot(t, p.s)
		}
		p.outage(t, time.Second)
		p.full(t, "behind another outage")
		p.use(t, "b", 1, true)
		p.now = p.now.Add(700 * time.Second)
		p.use(t, "new", 1, false)
	}
}

// TestOnceClockAhead: the clock of a process was ahead for some time. Behind a restart all of its producers are idle from then on,
// and not one after the other, each when a new producer asks for its place.
func TestOnceClockAhead(t *testing.T) {
	for _, snapshot := range []bool{false, true} {
		p := newPlaces(t)
		p.jump = time.Hour
		p.outage(t, time.Second)
		p.use(t, "a", 2, false)
		p.use(t, "b", 2, false)
		if snapshot {
			mustSnapshot(t, p.s)
		}
		p.jump = 0
		p.outage(t, time.Second)
		p.full(t, "with the right clock")
		p.now = p.now.Add(601 * time.Second)
		p.use(t, "new", 1, false)
		p.use(t, "newer", 1, false)
	}
}

// TestOnceTakeover: a replica that becomes the primary after a time without one, and whose clock is ahead, keeps the places of all
// producers that could not be heard.
func TestOnceTakeover(t *testing.T) {
	for _, elected := range []bool{false, true} {
		p := newPlaces(t)
		p.use(t, "a", 2, false)
		q := p.failover(t, time.Hour, 20*time.Minute, elected)
		q.full(t, "behind a failover")
		q.use(t, "b", 1, true)
	}
}

// TestOnceFailover: producers have been idle on the next primary for as long as on the last one.
func TestOnceFailover(t *testing.T) {
	p := newPlaces(t)
	for i := range uint64(50) { // a time without any change would be one without a server
		p.now = p.now.Add(10 * time.Second)
		p.use(t, "b", 2+i, false)
	}
	q := p.failover(t, time.Second, 0, false)
	q.full(t, "when the oldest was idle for 501 s")
	q.now = q.now.Add(150 * time.Second)
	q.use(t, "new", 1, false)
	q.use(t, "b", 51, true)
}

// failover closes the store, and returns a replica that had everything and becomes the primary later. Its clock is ahead by a jump.
func (p *places) failover(t *testing.T, lasts, jump time.Duration, elected bool) *places {
	t.Helper()
	q := &places{sim: vfs.NewSim(), now: p.now, jump: jump, opts: p.opts}
	q.opts.Elected, q.opts.BootID = elected, "1"
	q.opts.Now = func() time.Time { return setclock.By(q.now, q.jump) }
	q.open(t)
	if _, err := q.s.repl.Follow(p.s.repl.Lineage()); err != nil {
		t.Fatal(err)
	}
	if err := p.s.data.Log.Sync(); err != nil {
		t.Fatal(err)
	}
	eachFrame(t, p.s, 0, func(raw []byte) {
		if _, err := q.s.repl.Replicate(raw); err != nil {
			t.Fatal(err)
		}
	})
	close1(t, p.s)
	q.now = q.now.Add(lasts)
	var err error
	if elected {
		_, err = q.s.repl.LeadAt(9)
		q.s.repl.Confirm(Everywhere)
	} else {
		_, err = q.s.repl.Lead()
	}
	if err != nil {
		t.Fatal(err)
	}
	return q
}
