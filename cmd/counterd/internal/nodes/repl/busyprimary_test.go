// Scenario: a primary at work with everything that a log can hold, replicas by full copies and resumed logs, and failovers.

package repl

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/internal/testkit/busystore"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/internal/testkit/setclock"
	"github.com/counterd/counterd/persist/vfs"
)

// busy is three nodes of plain replication. One leads; the others follow it, each by one connection at a time that may
// break off at any byte.
type busy struct {
	t      *testing.T
	rng    *rand.Rand
	nodes  [3]*testHost
	lead   int
	states map[uint64]string // what the primary held, by log offset
	follow [3]bool           // it has heard of the present primary, so that its log is a beginning of that one's
	old    [3]*vfs.Sim       // an older copy of its directory
	clocks [3]time.Duration  // by which its clock was set
	work   *busystore.Work
	counts map[string]int
}

func newBusy(t *testing.T, rng *rand.Rand) *busy {
	b := &busy{t: t, rng: rng, states: map[uint64]string{}, work: busystore.NewWork(rng)}
	b.counts = b.work.Counts
	for i := range b.nodes {
		b.nodes[i] = &testHost{t: t, sim: vfs.NewSim(), seed: uint64(i) + 1, options: func(o *counter.Options) {
			o.Manual, o.CompressLog, o.RetainBytes = false, true, []uint64{1, 1 << 30}[i%2] // one keeps nothing that it need not
			o.Producers = busystore.Limits
			o.Now = func() time.Time { return setclock.By(time.Now(), b.clocks[i]) }
		}}
		b.nodes[i].open()
	}
	b.follow[0] = true
	b.states[0] = digest(t, b.primary())
	b.note(b.primary().AlterScript(busystore.Schema))
	return b
}

func (b *busy) primary() *counter.Store { return b.nodes[b.lead].Store() }

// note remembers what the primary holds now.
func (b *busy) note(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	at := b.nodes[b.lead].commit()
	b.states[at] = digest(b.t, b.primary())
}

// check compares a node with what the primary had at the offset where the node's log ends.
func (b *busy) check(i int) {
	b.t.Helper()
	if !b.follow[i] {
		return
	}
	at := b.nodes[i].Store().Replication().Position()
	if want, ok := b.states[at]; ok {
		b.counts["compared"]++
		if got := digest(b.t, b.nodes[i].Store()); got != want {
			b.t.Fatalf("node %d at %d has\n%s, its primary had\n%s", i, at, got, want)
		}
	}
}

// change makes one change of any kind on the primary.
func (b *busy) change() {
	b.t.Helper()
	b.note(b.work.Change(b.primary()))
}

// tier moves a range of a node to a file, back, or merges it there.
func (b *busy) tier(i int) {
	b.t.Helper()
	change := b.nodes[i].Store().Admin().Demote
	if b.rng.IntN(3) == 0 {
		change = b.nodes[i].Store().Admin().Promote
	}
	if err := change("w", b.rng.Uint64N(busystore.Mids)); err != nil && !errors.Is(err, counter.ErrNoBlock) && b.nodes[i].Store().Schema().Counter("w") != nil {
		b.t.Fatal(err)
	}
}

func (b *busy) snapshot(i int) {
	b.t.Helper()
	if err := b.nodes[i].Store().Snapshot(); err != nil {
		b.t.Fatal(err)
	}
}

// restart ends a process in one of three ways, and starts it again.
func (b *busy) restart(i int) {
	b.t.Helper()
	h := b.nodes[i]
	switch k := b.rng.IntN(3); {
	case k == 0:
		h.again()
		return
	case k == 1 || i == b.lead: // power takes what is not synced: a primary would go on at offsets that it has given out
		h.sim = h.sim.Kill()
		b.counts["kill"]++
	default:
		h.sim = h.sim.Crash(b.rng.Uint64(), b.rng.IntN(101))
		b.counts["power"]++
	}
	if err := h.Store().Close(); err != nil { // on the disk that nobody looks at any more
		b.t.Fatal(err)
	}
	h.open()
}

// hear has a replica connect to the primary, by a link that may break at any byte, on a disk that may fail.
func (b *busy) hear(i int, whole bool) {
	b.t.Helper()
	h, p := b.nodes[i], b.nodes[b.lead]
	said, err := p.goesOn(b.t, h)
	var diverged *divergedError
	if errors.As(err, &diverged) {
		b.counts["cut"]++
		err = newTestLink(b.t, h, false).hears(append([]byte(hello), said...))
		if err != nil {
			b.t.Fatalf("node %d, whose log is longer than its primary's: %v", i, err)
		}
		said, err = p.goesOn(b.t, h)
	}
	full := err != nil || !whole && b.rng.IntN(8) == 0
	if full {
		b.counts["copy"]++
		if p.Store().Admin().Snapshots().OldestTime.IsZero() {
			b.snapshot(b.lead)
		}
		said = p.copied(b.t)
	} else {
		b.counts["resume"]++
	}
	said = append([]byte(hello), said...)
	if !whole && b.rng.IntN(2) == 0 {
		said = said[:len(hello)+b.rng.IntN(len(said)-len(hello)+1)]
	}
	var faulty *vfs.Faulty
	if !whole && b.rng.IntN(5) == 0 {
		b.counts["fault"]++
		faulty = vfs.NewFaulty(h.sim)
		if err := h.Store().Close(); err != nil {
			b.t.Fatal(err)
		}
		h.fs = faulty
		h.open()
		faulty.Inject(vfs.Rule{Ops: vfs.OpMutating &^ vfs.OpMkdir, Skip: b.rng.IntN(60), Err: syscall.ENOSPC})
	}
	err = newTestLink(b.t, h, full).hears(said)
	if faulty != nil {
		faulty.Clear()
		h.fs = nil
		h.sim = h.sim.Kill()
		h.Store().Close()
		h.open()
	} else if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		b.t.Fatalf("node %d: %v", i, err)
	}
	if faulty == nil && whole {
		b.follow[i] = true
	} else { // it follows if its history is a beginning of the primary's
		at := h.Store().Replication().Position()
		mine, theirs := h.Store().Replication().Lineage(), p.Store().Replication().Lineage()
		common, ok := theirs.Common(p.Store().Replication().Position(), &mine, at)
		b.follow[i] = ok && common >= at
	}
}

// failover has another node lead.
func (b *busy) failover() {
	b.t.Helper()
	to := b.rng.IntN(3)
	if to == b.lead || !b.follow[to] || b.nodes[to].Store().Schema().Counter("w") == nil {
		return
	}
	b.counts["failover"]++
	if err := b.primary().Replication().Yield(); err != nil {
		b.t.Fatal(err)
	}
	b.lead, b.follow = to, [3]bool{}
	b.follow[to] = true
	at := b.primary().Replication().Position()
	if _, err := b.primary().Replication().Lead(); err != nil {
		b.t.Fatal(err)
	}
	maps.DeleteFunc(b.states, func(end uint64, _ string) bool { return end > at })
	b.work.Forget()
	b.note(nil)
}

// handOver has another node lead, which has all that the primary had. A numbered change that is repeated there is not made again.
func (b *busy) handOver() {
	b.t.Helper()
	to := b.rng.IntN(3)
	if to == b.lead || b.primary().Schema().Counter("w") == nil {
		return
	}
	const producer, seq, key = "handed over", 1 << 40, "7.m"
	seqOf := seq + uint64(len(b.states))
	must := func(err error) {
		b.t.Helper()
		if err != nil {
			b.t.Fatal(err)
		}
	}
	made, _, err := b.work.Numbered(b.primary(), producer, seqOf, key)
	b.note(err)
	b.hear(to, true)
	must(b.primary().Replication().Yield())
	b.clocks[to] = time.Duration(b.rng.IntN(7200)-3600) * time.Second
	b.lead = to
	at := b.primary().Replication().Position()
	_, err = b.primary().Replication().Lead()
	must(err)
	maps.DeleteFunc(b.states, func(end uint64, _ string) bool { return end > at })
	b.check(to)
	for i := range 6 { // they would take the place of the first, if it were idle
		_, _, err := b.work.Numbered(b.primary(), fmt.Sprint("another ", i), seqOf, key)
		must(err)
	}
	if made {
		_, repeat, err := b.work.Numbered(b.primary(), producer, seqOf, key)
		must(err)
		if !repeat {
			b.t.Fatalf("node %d forgot, or made again, the last change before it became the primary", to)
		}
		b.counts["repeated behind a handover"]++
	}
	b.note(nil)
	b.counts["handover"]++
}

// replace puts a node with an empty disk in the place of a replica.
func (b *busy) replace(i int) {
	b.t.Helper()
	if i == b.lead {
		return
	}
	h := b.nodes[i]
	if err := h.Store().Close(); err != nil {
		b.t.Fatal(err)
	}
	h.sim, b.old[i], b.follow[i] = vfs.NewSim(), nil, false
	h.open()
	b.hear(i, true)
	b.counts["replaced"]++
}

// restore restores a node's directory to a moment that the primary had, as far back as the node can.
func (b *busy) restore(i int) {
	b.t.Helper()
	h := b.nodes[i]
	if !b.follow[i] {
		return
	}
	if err := h.Store().Replication().Sync(); err != nil {
		b.t.Fatal(err)
	}
	ends := slices.Sorted(maps.Keys(b.states))
	at := ends[b.rng.IntN(len(ends))]
	out := &testHost{t: b.t, sim: vfs.NewSim(), options: h.options}
	done, err := datadir.Restore(h.sim, "data", out.sim, "data", datadir.Target{Offset: at}, datadir.RestoreOptions{})
	var window *datadir.WindowError
	if errors.As(err, &window) {
		return
	}
	if err != nil {
		b.t.Fatalf("node %d to %d: %v", i, at, err)
	}
	b.counts["restored"]++
	out.open()
	defer out.Store().Close()
	if got := digest(b.t, out.Store()); done.Offset == at && got != b.states[at] {
		b.t.Fatalf("node %d restored to %d has\n%s, the primary had\n%s", i, at, got, b.states[at])
	}
}

// TestBusyPrimary plays everything that a log can hold on a primary: changes, numbered ones of more producers than there
// may be, updates by condition, columns and counters that come and go, FLUSHALL; beside snapshots, tiers and the
// compression of the log on all three nodes. The replicas take full copies and parts of the log over links that break
// at any byte, on disks that fail, lose power, are set back to older copies of their directories, are replaced by empty nodes, and
// become primaries, with all that the last one had or without some of it. Clocks are set forward and back.
// Whenever a node's log ends where the primary's did once, it holds the same posts, schema and producers; so does what
// is restored from its directory.
func TestBusyPrimary(t *testing.T) {
	racetest.Skip(t, "the test drives the stores itself, call after call")
	all := map[string]int{}
	for range seed.Rounds(t, 4, all, "handover", "repeated behind a handover", "replaced", "clock set", "restored", "rollback", "failover", "copy", "resume", "cut",
		"packed", "update", "flush", "full") {
		n := seed.Next(t)
		synctest.Test(t, func(t *testing.T) {
			b := newBusy(t, rand.New(rand.NewPCG(n, 0)))
			for range 300 {
				i := b.rng.IntN(3)
				switch k := b.rng.IntN(100); {
				case k < 4:
					b.snapshot(i)
				case k < 12:
					b.tier(i)
				case k < 26:
					if i != b.lead {
						b.hear(i, false)
					}
				case k < 30:
					b.restart(i)
				case k < 32:
					b.failover()
				case k < 34:
					b.handOver()
				case k < 36:
					b.replace(i)
				case k < 37:
					b.clocks[i] = time.Duration(b.rng.IntN(7200)-3600) * time.Second
					b.counts["clock set"]++
				case k < 39:
					b.restore(i)
				case k < 42:
					if b.old[i] == nil {
						b.old[i] = b.nodes[i].sim.Kill()
					} else if i != b.lead { // a replica's directory is put back to an older copy
						if err := b.nodes[i].Store().Close(); err != nil {
							t.Fatal(err)
						}
						b.nodes[i].sim, b.old[i], b.follow[i] = b.old[i], nil, false
						b.nodes[i].open()
						b.counts["rollback"]++
					}
				default:
					b.change()
				}
				b.check(i)
				b.counts["packed"] += int(b.nodes[i].Store().Admin().LogStats().Packed) // at the end there are few
			}
			for i, h := range b.nodes {
				if i != b.lead {
					b.hear(i, true)
					if got, want := h.Store().Replication().Position(), b.primary().Replication().Position(); got != want {
						t.Fatalf("node %d ends at %d, the primary at %d", i, got, want)
					}
				}
				b.check(i)
				h.again()
				b.check(i)
				if err := h.Store().Close(); err != nil {
					t.Fatal(err)
				}
			}
			for what, n := range b.counts {
				all[what] += n
			}
		})
		busystore.DropPools()
	}
	t.Log(all)
}
