// Scenario: others decide the role, and a change counts when all nodes have it that must.

package counter

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// openElected opens a store whose role others decide.
func openElected(t testing.TB, fs vfs.FS, change func(o *Options)) *Store {
	t.Helper()
	o := Options{FS: fs, Manual: true, BlockItems: 16, SnapshotGrowth: -1, HashSeed: 1, Elected: true, BootID: "1"}
	if change != nil {
		change(&o)
	}
	s, err := Open("data", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func close1(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLeadAt: an elected store rests until it is given an epoch, which only rises, also over starts.
func TestLeadAt(t *testing.T) {
	sim := vfs.NewSim()
	s, err := Open("data", Options{FS: sim, Manual: true, SnapshotGrowth: -1}) // by itself, in its first term
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		t.Fatal(err)
	}
	close1(t, s)

	s = openElected(t, sim, nil)
	r := s.Replication()
	past := r.Lineage()
	if !s.Replica() || r.Epoch() != 1 || len(past.Terms) != 1 {
		t.Fatalf("replica %v, epoch %d, %d terms: want one that rests in the term that was", s.Replica(), r.Epoch(), len(past.Terms))
	}
	if _, err := s.Incr("1.n", 1); !errors.Is(err, ErrReplica) {
		t.Fatalf("a store that rests takes a change: %v", err)
	}
	if _, err := r.Lead(); !errors.Is(err, ErrElected) {
		t.Fatalf("it leads by itself: %v", err)
	}
	for _, epoch := range []uint64{0, 1, math.MaxUint32 + 1, math.MaxUint64} {
		var refused *EpochError
		if _, err := r.LeadAt(epoch); !errors.As(err, &refused) || !errors.Is(err, ErrEpoch) || *refused != (EpochError{Got: epoch, Seen: 1}) {
			t.Fatalf("epoch %d: %v", epoch, err)
		}
	}
	if now := r.Lineage(); !bytes.Equal(now.AppendText(nil), past.AppendText(nil)) || !s.Replica() {
		t.Fatal("what was refused has changed something")
	}
	at, err := r.LeadAt(7)
	if err != nil || at != r.Position() || r.Epoch() != 7 || s.Replica() {
		t.Fatalf("epoch %d from %d: %v", r.Epoch(), at, err)
	}
	r.Confirm(Everywhere)
	if _, err := s.Incr("1.n", 1); err != nil {
		t.Fatal(err)
	}
	if again, err := r.LeadAt(7); again != at || err != nil {
		t.Fatalf("again from %d, want %d: %v", again, at, err)
	}
	if r.Confirmed() != Everywhere {
		t.Fatal("the same term again began anew")
	}
	if _, err := r.LeadAt(6); !errors.Is(err, ErrEpoch) {
		t.Fatal(err)
	}
	if _, err := r.LeadAt(math.MaxUint32); err != nil || r.Confirmed() != 0 {
		t.Fatalf("confirmed %d: %v", r.Confirmed(), err)
	}
	close1(t, s)
	s = openElected(t, sim, nil)
	defer close1(t, s)
	if !s.Replica() || s.Replication().Epoch() != math.MaxUint32 {
		t.Fatalf("started again: replica %v, epoch %d", s.Replica(), s.Replication().Epoch())
	}
}

// TestUnconfirmedShown: what a store has replayed, or was given by a primary before, may be what others lack. Who leads
// tells nobody of it before they have it; a replica tells what it has.
func TestUnconfirmedShown(t *testing.T) {
	sim := vfs.NewSim()
	s := openElected(t, sim, nil)
	if _, err := s.Replication().LeadAt(1); err != nil {
		t.Fatal(err)
	}
	s.Replication().Confirm(Everywhere)
	if err := s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Incr("1.n", 5); err != nil {
		t.Fatal(err)
	}
	close1(t, s)
	s = openElected(t, sim, nil)
	defer close1(t, s)
	r := s.Replication()
	if v, _, err := s.Get("1.n"); v != 5 || err != nil {
		t.Fatalf("a replica tells %d, %v", v, err)
	}
	if _, err := r.LeadAt(2); err != nil {
		t.Fatal(err)
	}
	end := r.Position()
	r.Doubt(errors.New("nobody is there")) // instead of waiting for ever
	var uncertain *UncertainError
	if _, _, err := s.Get("1.n"); !errors.As(err, &uncertain) {
		t.Fatalf("told what nobody else may have: %v", err)
	}
	r.Confirm(end - 1)
	if _, _, err := s.Get("1.n"); !errors.As(err, &uncertain) || uncertain.Offset != end {
		t.Fatalf("told what others lack: %v", err)
	}
	r.Confirm(end)
	if v, _, err := s.Get("1.n"); v != 5 || err != nil {
		t.Fatalf("%d, %v", v, err)
	}
	if _, err := s.Incr("2.n", 1); !errors.As(err, &uncertain) || uncertain.Offset <= end {
		t.Fatalf("acknowledged: %v", err)
	}
	r.Doubt(nil)
	done := make(chan error)
	go func() {
		_, _, err := s.Get("2.n")
		done <- err
	}()
	for !r.Awaited() {
		time.Sleep(time.Millisecond)
	}
	if err := r.Yield(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.As(err, &uncertain) || !errors.Is(err, ErrDeposed) {
		t.Fatalf("a reader when the role went: %v", err)
	}
	r.Doubt(nil) // says nothing about a role that there is not
	if v, _, err := s.Get("2.n"); v != 1 || err != nil {
		t.Fatalf("a replica tells %d, %v", v, err)
	}
}

// TestRepeatConfirmedAlone: a change that one node confirms alone, where two must have it, is shown to readers. A repeat of such a change is not
// acknowledged: neither by its answer, nor by "the change was made", nor by IDMP LAST. Earlier changes, which others have, are.
func TestRepeatConfirmedAlone(t *testing.T) {
	sim := vfs.NewSim()
	s := openElected(t, sim, nil)
	lead := func(epoch uint64) {
		if _, err := s.Replication().LeadAt(epoch); err != nil {
			t.Fatal(err)
		}
	}
	lead(1)
	s.Replication().Confirm(Everywhere)
	if err := s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		t.Fatal(err)
	}
	incr := func(producer string, seq uint64) (o Once, err error) {
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		b.Add(Op{Kind: OpAdd, Counter: b.Schema().Counter("w"), Mid: 1, Arg: 1})
		p, i := b.Once(0)
		*p = Once{Producer: []byte(producer), Seq: seq}
		b.Run()
		b.End()
		return *b.OnceAt(i), b.Commit()
	}
	last := func(producer string) error {
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		_, _, err := b.Producers().Last([]byte(producer))
		b.End()
		return errors.Join(err, b.Commit())
	}
	const before = 1 // by a producer of its own, and confirmed
	if _, err := incr("old", before); err != nil {
		t.Fatal(err)
	}
	s.Replication().Confirm(s.Replication().Position())
	few := errors.New("too few")
	s.Replication().Doubt(few)
	for seq := uint64(1); seq <= 200; seq++ { // more than the answers that are kept
		if _, err := incr("new", seq); !errors.Is(err, few) {
			t.Fatalf("acknowledged: %v", err)
		}
	}
	check := func(when string, want error) {
		t.Helper()
		for _, seq := range []uint64{1, 200} {
			if o, err := incr("new", seq); !errors.Is(err, want) || !o.Repeat && o.Err == nil {
				t.Errorf("%s: number %d sent again: %+v, %v", when, seq, o, err)
			}
		}
		if err := last("new"); !errors.Is(err, want) {
			t.Errorf("%s: the last number: %v", when, err)
		}
	}
	s.Replication().Confirm(Everywhere)
	check("alone", few)
	if v, _, err := s.Get("1.n"); v != 201 || err != nil {
		t.Errorf("a reader: %d, %v", v, err)
	}
	if o, err := incr("old", before); !o.Repeat || err != nil {
		t.Errorf("an earlier change sent again: %+v, %v", o, err)
	}
	if err := last("old"); err != nil {
		t.Error(err)
	}

	// The same, started again.
	close1(t, s)
	s = openElected(t, sim, nil)
	defer func() { close1(t, s) }()
	lead(2)
	s.Replication().Doubt(few)
	s.Replication().Confirm(Everywhere)
	check("alone, and started again", few)
	s.Replication().Confirm(s.Replication().Position())
	s.Replication().Doubt(nil)
	check("others have it", nil)
}

// TestBehind: a node whose machine went down may lack what it acknowledged, unless all was durable. It does not forget
// that before it has caught up.
func TestBehind(t *testing.T) {
	policy := func(p SyncPolicy) func(*Options) { return func(o *Options) { o.AppendFsync = p } }
	boot := func(id string, p SyncPolicy) func(*Options) {
		return func(o *Options) { o.BootID, o.AppendFsync = id, p }
	}
	for _, c := range []struct {
		name          string
		before, after func(*Options)
		end           func(t *testing.T, s *Store, sim *vfs.Sim) *vfs.Sim
		behind        bool
	}{
		{"killed", nil, nil, killed, false},
		{"switched off", nil, boot("2", SyncEverySec), killed, true},
		{"switched off, without syncs", policy(SyncNo), boot("2", SyncNo), killed, true},
		{"ended, then switched off", nil, boot("2", SyncEverySec), ended, false},
		{"switched off, all durable", policy(SyncAlways), boot("2", SyncAlways), killed, false},
		{"switched off, all durable until a moment before", policy(SyncAlways), boot("2", SyncAlways), func(t *testing.T, s *Store, sim *vfs.Sim) *vfs.Sim {
			s.Admin().SetAppendFsync(SyncEverySec)
			return killed(t, s, sim)
		}, true},
		{"a policy that became stricter says nothing of what was before", nil, boot("2", SyncAlways), func(t *testing.T, s *Store, sim *vfs.Sim) *vfs.Sim {
			s.Admin().SetAppendFsync(SyncAlways)
			return killed(t, s, sim)
		}, true},
		{"a note that cannot be read", nil, nil, func(t *testing.T, s *Store, sim *vfs.Sim) *vfs.Sim {
			sim = ended(t, s, sim)
			if err := vfs.WriteFileAtomic(sim, filepath.Join("data", "BOOT"), []byte("counterd boot 1\n")); err != nil {
				t.Fatal(err)
			}
			return sim
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := vfs.NewSim()
			s := openElected(t, sim, c.before)
			if s.Replication().Behind() {
				t.Fatal("a new node is behind")
			}
			sim = c.end(t, s, sim)
			s = openElected(t, sim, c.after)
			if got := s.Replication().Behind(); got != c.behind {
				t.Fatalf("behind: %v, want %v", got, c.behind)
			}
			sim = ended(t, s, sim)
			s = openElected(t, sim, c.after)
			if got := s.Replication().Behind(); got != c.behind {
				t.Fatalf("behind after another start: %v, want %v", got, c.behind)
			}
			if _, err := s.Replication().LeadAt(1); err != nil {
				t.Fatal(err)
			}
			sim = killed(t, s, sim)
			s = openElected(t, sim, c.after)
			if s.Replication().Behind() {
				t.Fatal("behind, though it led with what it had")
			}
			close1(t, s)
		})
	}
}

// TestNoteGone: a node of a cluster whose BOOT is gone is behind, as nobody knows whether its machine lost power. It counted as a new node, and led
// without changes that it had acknowledged. So is a node whose log is gone, which led with nothing. A note that is there stays as it is.
func TestNoteGone(t *testing.T) {
	sim := vfs.NewSim()
	s := openElected(t, sim, nil)
	if _, err := s.Replication().LeadAt(1); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []bool{false, true} {
		sim = killed(t, s, sim)
		if gone {
			if err := sim.Remove(filepath.Join("data", "BOOT")); err != nil {
				t.Fatal(err)
			}
		}
		if noted, err := NoteGone(sim, "data"); err != nil || noted != gone {
			t.Fatalf("noted: %v, %v, want %v", noted, err, gone)
		}
		s = openElected(t, sim, nil)
		if s.Replication().Behind() != gone {
			t.Errorf("behind: %v, want %v", s.Replication().Behind(), gone)
		}
	}
	close1(t, s)
	for _, folder := range []string{"data/log", "data/rdb", "data"} { // its BOOT is left
		names, err := vfs.ListDir(sim, folder)
		for _, name := range names {
			if info, _ := sim.Stat(filepath.Join(folder, name)); err == nil && !info.IsDir() && name != "BOOT" {
				err = sim.Remove(filepath.Join(folder, name))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, gone := range []bool{true, false} {
		if noted, err := NoteGone(sim, "data"); err != nil || noted != gone {
			t.Fatalf("without a log: noted %v, %v, want %v", noted, err, gone)
		}
		s = openElected(t, sim, nil)
		if !s.Replication().Behind() {
			t.Error("a node that has lost its log is not behind")
		}
		close1(t, s)
	}
}

// TestNoteBehind: the directory of an elected store that is about to be repaired is noted to lack something, the store
// is behind then, and leads only by an election that knows it. The directory of another store has no such note.
func TestNoteBehind(t *testing.T) {
	sim := vfs.NewSim()
	close1(t, openElected(t, sim, nil))
	for range 2 { // a repair may be broken off and come again
		if noted, err := NoteBehind(sim, "data"); err != nil || !noted {
			t.Fatalf("noted %v, %v", noted, err)
		}
	}
	sim = sim.Crash(1, 0)
	s := openElected(t, sim, nil)
	if !s.Replication().Behind() {
		t.Error("not behind")
	}
	if err := s.Replication().ClearBehind(); err != nil {
		t.Fatal(err)
	}
	close1(t, s)
	s = openElected(t, sim, nil)
	if s.Replication().Behind() {
		t.Error("behind, though it caught up")
	}
	close1(t, s)

	sim = vfs.NewSim()
	s, err := Open("data", Options{FS: sim, Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	close1(t, s)
	if noted, err := NoteBehind(sim, "data"); err != nil || noted {
		t.Errorf("a store that nobody elects: noted %v, %v", noted, err)
	}
}

// TestBootNotesLaterPolicy: the note that a disk refused at the start is written later, with the policy of that moment. A node
// whose machine went down then is behind, as its acknowledged changes were not durable.
func TestBootNotesLaterPolicy(t *testing.T) {
	sim := vfs.NewSim()
	faulty := vfs.NewFaulty(sim)
	always := func(o *Options) { o.AppendFsync = SyncAlways }
	close1(t, openElected(t, sim, always))
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating &^ vfs.OpMkdir, Every: 1, Err: syscall.ENOSPC})
	s := openElected(t, faulty, always)
	s.Admin().SetAppendFsync(SyncEverySec)
	faulty.Clear()
	heal(t, s, 0)
	sim = killed(t, s, sim)
	s = openElected(t, sim, func(o *Options) { o.BootID, o.AppendFsync = "2", SyncAlways })
	if !s.Replication().Behind() {
		t.Error("not behind, though changes were acknowledged before they were durable")
	}
	close1(t, s)
}

// killed is the disk of a process that was killed; what is not durable yet is there still.
func killed(t *testing.T, s *Store, sim *vfs.Sim) *vfs.Sim {
	next := sim.Kill()
	close1(t, s)
	return next
}

func ended(t *testing.T, s *Store, sim *vfs.Sim) *vfs.Sim {
	close1(t, s)
	return sim
}

// TestBootIsNoted: a node on a disk that takes nothing takes nothing either before its note is written.
func TestBootIsNoted(t *testing.T) {
	sim := vfs.NewSim()
	close1(t, openElected(t, sim, nil))
	faulty := vfs.NewFaulty(sim)
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating &^ vfs.OpMkdir, Every: 1, Err: syscall.ENOSPC})
	s := openElected(t, faulty, nil)
	if err := s.Ready(); !errors.Is(err, syscall.ENOSPC) || !s.Replica() {
		t.Fatalf("replica %v, %v: want one that takes nothing", s.Replica(), err)
	}
	if _, err := s.Replication().LeadAt(1); !errors.Is(err, syscall.ENOSPC) || !s.Replica() {
		t.Fatalf("it leads: %v", err)
	}
	next := sim.Kill()
	faulty.Clear()
	heal(t, s, 0)
	close1(t, s)
	s = openElected(t, next, func(o *Options) { o.BootID = "2" })
	if s.Replication().Behind() {
		t.Fatal("behind, though nothing was taken")
	}
	close1(t, s)
	s = openElected(t, sim, func(o *Options) { o.BootID = "2" })
	if s.Replication().Behind() {
		t.Fatal("behind a clean end")
	}
	sim = killed(t, s, sim)
	s = openElected(t, sim, func(o *Options) { o.BootID = "3" })
	if !s.Replication().Behind() {
		t.Fatal("not behind")
	}
	close1(t, s)
}

// TestRestsFromTheStart: an elected store confirms nothing before it has a role, and its owner's Doubt does not make a store that
// rests wait again.
func TestRestsFromTheStart(t *testing.T) {
	s := openElected(t, vfs.NewSim(), nil)
	defer close1(t, s)
	if got := s.Replication().Confirmed(); got != 0 {
		t.Errorf("confirmed up to %d without a role", got)
	}
	if _, err := s.Replication().LeadAt(1); err != nil {
		t.Fatal(err)
	}
	if err := s.Replication().Yield(); err != nil {
		t.Fatal(err)
	}
	s.Replication().Doubt(nil)
	if s.data.Log.Quorum().Await(1<<40, 0, waiterFunc(func() {})) {
		t.Error("a client waits for a store that leads no more")
	}
}

// waiterFunc is a Waiter.
type waiterFunc func()

func (f waiterFunc) Resume() { f() }
