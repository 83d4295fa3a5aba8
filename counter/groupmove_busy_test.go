// Scenario: groups of hash slots move between two stores while all that a log can hold is at work.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	testseed "github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/internal/testkit/setclock"
	"github.com/counterd/counterd/persist/vfs"
)

// busyMovers are movers with fewer places for producers than there are producers, clocks that are set, FLUSHALL and updates by
// condition. Each store is restored to earlier moments.
type busyMovers struct {
	*movers
	begun  time.Time
	passed time.Duration
	jumps  [2]time.Duration     // by which each wall clock was set
	when   map[string]time.Time // by producer and number: when it was made
	states [2]map[uint64]map[string]string
}

const busyIdle = 30 // seconds

func newBusyMovers(t *testing.T, rng *rand.Rand) *busyMovers {
	t.Helper()
	now := time.Now() // but at noon: a day that ends takes the counts of a window of a day along, and such a window is not moved then
	noon := now.UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)
	b := &busyMovers{begun: setclock.By(now, noon.Sub(now.UTC().Truncate(time.Second))), when: map[string]time.Time{}}
	i := -1
	b.movers = newMovers(t, rng, func(o *Options) {
		i++
		node := i
		o.Producers = ProducerLimits{Producers: 5, MinIdle: busyIdle}
		o.CompressLog = true
		o.Now = func() time.Time { return setclock.By(b.now(), b.jumps[node]) }
		b.states[i] = map[uint64]map[string]string{}
	})
	return b
}

func (b *busyMovers) now() time.Time { return b.begun.Add(b.passed) }

// change makes a numbered change, if its producer finds a place.
func (b *busyMovers) change(t *testing.T) {
	t.Helper()
	mid := b.rng.Uint64N(500)
	if b.held(mid) {
		return
	}
	producer := fmt.Sprint("p", b.rng.IntN(8))
	key := fmt.Sprint(producer, " ", b.seqs[producer]+1)
	b.mids[key] = mid
	before := b.nodes[b.owner[slot.Group(mid)]].s.Admin().ProducerStats().Taken
	value, done := b.try(t, Op{Kind: OpAdd, Mid: mid, Arg: 1}, key)
	switch {
	case b.full:
		b.full = false
		b.counts["full"]++
		return
	case !done:
		t.Fatalf("%s of post %d was made before", key, mid)
	}
	b.counts["evicted"] += int(b.nodes[b.owner[slot.Group(mid)]].s.Admin().ProducerStats().Taken - before)
	b.seqs[producer]++
	b.when[key] = b.now()
	row, there := b.posts[mid]
	if !there {
		row = [2]uint64{0, 2}
		delete(b.added, mid)
	}
	if row[0]++; value != row[0] {
		t.Fatalf("%s: post %d: got %d, want %d", key, mid, value, row[0])
	}
	b.posts[mid] = row
	b.count(mid, 0, 1)
}

// repeat sends a number again that its producer may send again, as it is not too old.
func (b *busyMovers) repeat(t *testing.T) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(b.when))
	for _, i := range b.rng.Perm(len(keys)) {
		key := keys[i]
		if b.now().Sub(b.when[key]) > (busyIdle-2)*time.Second {
			delete(b.when, key)
			continue
		}
		if b.held(b.mids[key]) {
			return
		}
		if _, done := b.try(t, Op{Kind: OpAdd, Mid: b.mids[key], Arg: 7}, key); done || b.full {
			t.Fatalf("%s of post %d was forgotten after %v", key, b.mids[key], b.now().Sub(b.when[key]))
		}
		b.counts["repeat"]++
		return
	}
}

// flush empties a store, unless groups are on their way to it.
func (b *busyMovers) flush(t *testing.T) {
	t.Helper()
	i := b.rng.IntN(2)
	s := b.nodes[i].s
	batch := s.NewBatch()
	err := batch.BeginExclusive()
	if err == nil {
		err = batch.Whole().Clear()
		batch.End()
	}
	err = errors.Join(err, batch.Commit())
	if importing, _ := s.Groups().States(); len(importing) > 0 {
		if !errors.Is(err, ErrImporting) {
			t.Fatalf("FLUSHALL while groups are on their way here: %v", err)
		}
		b.counts["flush refused"]++
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(b.posts, func(mid uint64, _ [2]uint64) bool { return b.owner[slot.Group(mid)] == i })
	b.counts["flush"]++
	if b.move != nil && b.move.from == i {
		b.counts["flush of a source"]++
	}
}

// update changes the posts of a range that a store serves, as one change.
func (b *busyMovers) update(t *testing.T) {
	t.Helper()
	i := b.rng.IntN(2)
	s := b.nodes[i].s
	change := Change{Kind: []OpKind{OpAdd, OpSet, OpDelete}[b.rng.IntN(3)], Column: int16(b.rng.IntN(2)), Arg: b.rng.Uint64N(20)}
	from := b.rng.Uint64N(500)
	to := from + b.rng.Uint64N(30)
	batch := s.NewBatch()
	err := batch.BeginExclusive()
	if err != nil {
		t.Fatal(err)
	}
	u, err := NewUpdate(query.Query{Counter: batch.Schema().Counter("a"), From: from, To: to}, []Change{change}, ReturnNothing)
	for done := false; err == nil && !done; {
		done, err = u.Gather(batch)
	}
	if err == nil {
		err = u.Apply(batch)
	}
	batch.End()
	if err = errors.Join(err, batch.Commit()); err != nil {
		t.Fatal(err)
	}
	changed := 0
	for mid, row := range b.posts {
		if mid < from || mid > to || b.owner[slot.Group(mid)] != i {
			continue
		}
		changed++
		switch change.Kind {
		case OpAdd:
			row[change.Column] += change.Arg
			b.count(mid, change.Column, change.Arg)
			b.posts[mid] = row
		case OpSet:
			row[change.Column] = change.Arg
			b.posts[mid] = row
		case OpDelete:
			delete(b.posts, mid)
		}
	}
	if got := int(u.Changed()); got != changed {
		t.Fatalf("an update of %d to %d changed %d posts, want %d", from, to, got, changed)
	}
	if b.counts["updated"] += changed; b.move != nil && changed > 0 {
		b.counts["update beside a move"]++
	}
}

// note remembers the contents of each store.
func (b *busyMovers) note(t *testing.T) {
	t.Helper()
	for i, n := range b.nodes {
		at := n.s.Replication().Position()
		if err := n.s.Replication().CommitHere(at); err != nil {
			t.Fatal(err)
		}
		served := n.s.Groups().Owned()
		n.s.Groups().Own(allGroups)
		b.states[i][at] = dump(t, n.s)
		n.s.Groups().Own(served)
	}
}

// restore restores a store's directory to a moment, as far back as it reaches.
func (b *busyMovers) restore(t *testing.T) {
	t.Helper()
	b.note(t)
	i := b.rng.IntN(2)
	n := b.nodes[i]
	ends := slices.Sorted(maps.Keys(b.states[i]))
	at := ends[b.rng.IntN(len(ends))]
	if b.rng.IntN(2) == 0 {
		at = ends[len(ends)-1]
	}
	sim := vfs.NewSim()
	done, err := datadir.Restore(n.sim, "data", sim, "data", datadir.Target{Offset: at}, datadir.RestoreOptions{})
	var window *datadir.WindowError
	if errors.As(err, &window) {
		return
	}
	if err != nil {
		t.Fatalf("store %d to %d: %v", i, at, err)
	}
	opts := n.opts
	opts.FS = sim
	s, err := Open("data", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer close1(t, s)
	s.Groups().Own(allGroups)
	if got, want := dump(t, s), b.states[i][at]; done.Offset == at && !maps.Equal(got, want) {
		t.Fatalf("store %d restored to %d has %v, want %v", i, at, got, want)
	}
	b.counts["restored"]++
	if importing, gone := s.Groups().States(); len(importing) > 0 || gone != (slot.Set{}) {
		b.counts["restored with groups on their way or gone"]++
	}
}

// TestGroupMovesBusy moves groups to and fro between two stores with producers that give their places up all the time,
// clocks that are set forward and back, FLUSHALL, dropped ranges, updates by condition, snapshots, tiers, a compressed log and losses of
// power. Each post is served by its owner with its last value. A number that is sent again within the promised time is not made
// again, wherever its post is by then. A directory that is restored to a moment holds the posts of that moment.
func TestGroupMovesBusy(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	newRand(t)
	runs := 8
	if *long {
		runs = 300
	}
	all := map[string]int{}
	for run := range testseed.Rounds(t, runs, all, "evicted", "full", "repeat", "flush", "drop", "flush refused", "flush of a source", "update beside a move",
		"restored", "restored with groups on their way or gone", "moved", "canceled", "crash", "clock set", "move found no place") {
		b := newBusyMovers(t, rand.New(rand.NewPCG(*seed, uint64(run))))
		for range 900 {
			b.passed += time.Duration(b.rng.IntN(2000)) * time.Millisecond
			switch n := b.rng.IntN(100); {
			case n < 33:
				b.change(t)
			case n < 50:
				b.repeat(t)
			case n < 52:
				b.flush(t)
			case n < 56:
				b.update(t)
			case n < 57:
				b.drop(t)
			case n < 86:
				b.advance(t)
			case n < 91:
				node := b.nodes[b.rng.IntN(2)]
				change := node.s.Admin().Demote
				if b.rng.IntN(3) == 0 {
					change = node.s.Admin().Promote
				}
				if err := change("a", b.rng.Uint64N(600)); err != nil && !errors.Is(err, ErrNoBlock) {
					t.Fatal(err)
				}
			case n < 94:
				if err := b.nodes[b.rng.IntN(2)].s.Snapshot(); err != nil {
					t.Fatal(err)
				}
			case n < 96:
				b.jumps[b.rng.IntN(2)] = time.Duration(b.rng.IntN(7200)-3600) * time.Second
				b.counts["clock set"]++
			case n < 98:
				b.restore(t)
			case n < 99:
				b.crash(t)
			default:
				b.check(t)
			}
		}
		b.check(t)
		for i, n := range b.nodes {
			b.replica(t, n)
			if v := b.move; v != nil && v.x != nil {
				v.x.Close()
			}
			b.counts["packed"] += int(n.s.Admin().LogStats().Packed)
			close1(t, n.s)
			n.open(t)
			b.own(i)
		}
		b.check(t)
		for _, n := range b.nodes {
			close1(t, n.s)
		}
		for what, n := range b.counts {
			all[what] += n
		}
	}
	t.Log(all)
}
