package repl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// slowHost does not come back from Reopen until it is let go.
type slowHost struct {
	*testHost
	in, out chan struct{}
}

func (h *slowHost) Reopen(change func(dir string) error) error {
	close(h.in)
	<-h.out
	return h.testHost.Reopen(change)
}

// TestCloseWaitsNoLonger closes a node whose link is in the middle of what cannot be broken off: it returns when its
// context ends, and the link ends after that.
func TestCloseWaitsNoLonger(t *testing.T) {
	w := newWorld(t)
	h := &slowHost{testHost: &testHost{t: t, sim: w.replica.Kill()}, in: make(chan struct{}), out: make(chan struct{})}
	h.open()
	n := newTestNode(h.testHost)
	n.host = h
	ctx, cancel := context.WithCancel(t.Context())
	l := &Link{node: n, ctx: ctx, cancel: cancel, done: make(chan struct{}), downSince: time.Now()}
	n.link = l
	go func() {
		defer close(l.done)
		_ = l.hears(fmt.Appendf([]byte(hello), "-DIVERGED %d\r\n", w.ends[3]))
	}()
	<-h.in
	ended, end := context.WithCancel(t.Context())
	end()
	if err := n.Close(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want that the context has ended", err)
	}
	close(h.out)
	<-l.done
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _ = n.Follow(Address{"127.0.0.1", 1}); n.link != nil { // it may be noted, for the next start
		t.Error("a node that was closed follows")
	}
	if at := w.sound(t, h.testHost); at != w.ends[3] {
		t.Errorf("the log ends at %d, want %d", at, w.ends[3])
	}
}

// TestRoleFails lets each operation of the disk fail from one on, while a replica is told to lead, or to follow
// another: it goes on to follow whom it followed, now and after a restart.
func TestRoleFails(t *testing.T) {
	w := newWorld(t)
	first, second := Address{"127.0.0.1", 1}, Address{"127.0.0.1", 2} // nobody is there
	for name, change := range map[string]func(n *Node) error{
		"lead":   (*Node).Lead,
		"follow": func(n *Node) error { return n.Follow(second) },
	} {
		for skip := 0; ; skip++ {
			faulty := vfs.NewFaulty(w.replica.Kill())
			h := &testHost{t: t, fs: faulty}
			h.open()
			n := newTestNode(h)
			if err := n.Follow(first); err != nil {
				t.Fatal(err)
			}
			faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Skip: skip, Err: syscall.ENOSPC})
			err := change(n)
			fired := faulty.Fired()
			faulty.Clear()
			if err != nil {
				if info, ok := n.Link(); !ok || info.Primary != first || !h.Store().Replica() {
					t.Errorf("%s, operation %d: %v, and the link is to %v", name, skip, err, info.Primary)
				}
				if a, err := n.Remembered(); a != first || err != nil {
					t.Errorf("%s, operation %d: remembers %v, %v", name, skip, a, err)
				}
			}
			if err := errors.Join(n.Close(t.Context()), h.Store().Close()); err != nil {
				t.Error(err)
			}
			if fired == 0 {
				if err != nil || skip < 3 {
					t.Errorf("%s: %d operations, %v", name, skip, err)
				}
				break
			}
		}
	}
}

// TestKilledWhileItLeads ends a replica at each operation of the disk while it is told to lead, by kill -9 and by a
// power failure. It comes back as a primary, or follows whom it followed: one that knew neither would wait for somebody
// to tell it, and a primary that was handing its role over to it would too.
func TestKilledWhileItLeads(t *testing.T) {
	w := newWorld(t)
	first := Address{"127.0.0.1", 1} // nobody is there
	for op, ended := 0, false; !ended; op++ {
		for seed := range uint64(4) {
			sim := w.replica.Kill()
			h := &testHost{t: t, sim: sim}
			h.open()
			n := newTestNode(h)
			if err := n.Follow(first); err != nil {
				t.Fatal(err)
			}
			sim.CrashAt(sim.Ops() + op)
			err := n.Lead()
			_ = errors.Join(n.Close(t.Context()), h.Store().Close()) // it has crashed
			if ended = !sim.Crashed(); ended && (err != nil || op < 4) {
				t.Fatalf("%d operations, %v", op, err)
			}
			after := sim.Kill()
			if seed > 0 {
				after = sim.Crash(seed, 50)
			}
			h = &testHost{t: t, sim: after}
			h.open()
			n = newTestNode(h)
			if a, rerr := n.Remembered(); rerr != nil || h.Store().Replica() != (a == first) || err == nil && h.Store().Replica() {
				t.Errorf("operation %d, seed %d: a replica: %v, of %v, %v (Lead: %v)", op, seed, h.Store().Replica(), a, rerr, err)
			}
			if err := errors.Join(n.Close(t.Context()), h.Store().Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestFollowOnFullDisk starts a replica on a disk that takes no bytes: it follows whom it followed, as nothing is to be
// written for that.
func TestFollowOnFullDisk(t *testing.T) {
	w := newWorld(t)
	faulty := vfs.NewFaulty(w.replica.Kill())
	h := &testHost{t: t, fs: faulty}
	h.open()
	first := Address{"127.0.0.1", 1} // nobody is there
	n := newTestNode(h)
	if err := errors.Join(n.Follow(first), n.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	faulty.Inject(vfs.Rule{Ops: vfs.OpCreate | vfs.OpWrite, Every: 1, Err: syscall.ENOSPC})
	n = newTestNode(h)
	primary, err := n.Remembered()
	if err == nil {
		err = n.Follow(primary)
	}
	if info, ok := n.Link(); err != nil || !ok || info.Primary != first {
		t.Errorf("%v, follows %v, want %v", err, info.Primary, first)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFailedReopenRests lets cuts fail: the link rests longer and longer before it closes the store again, and no more
// when one has been done.
func TestFailedReopenRests(t *testing.T) {
	w := newWorld(t)
	faulty := vfs.NewFaulty(w.replica.Kill())
	h := &testHost{t: t, fs: faulty}
	h.open()
	l := newTestLink(t, h, false)
	said := fmt.Appendf([]byte(hello), "-DIVERGED %d\r\n", w.ends[3])
	for want := firstRest; want < 3*maxRest; want *= 2 {
		faulty.Inject(vfs.Rule{Ops: vfs.OpCreate, Glob: "*diverged-*", Err: syscall.ENOSPC})
		if err := l.hears(said); !errors.Is(err, syscall.ENOSPC) || l.rest != min(want, maxRest) {
			t.Fatalf("%v, rests %v, want %v", err, l.rest, min(want, maxRest))
		}
		faulty.Clear()
	}
	if err := l.hears(said); err != nil || l.rest != 0 {
		t.Errorf("%v, rests %v", err, l.rest)
	}
	if at := w.sound(t, h); at != w.ends[3] {
		t.Errorf("the log ends at %d, want %d", at, w.ends[3])
	}
}

// damagedWhileClosed is a host whose log has a flipped bit whenever the store is closed for a change of the directory.
type damagedWhileClosed struct {
	*testHost
	path string
	at   int64
}

func (h damagedWhileClosed) Reopen(change func(dir string) error) error {
	flip := func() error {
		return h.sim.Damage(h.path, func(b []byte) []byte { b[h.at] ^= 1; return b })
	}
	return h.testHost.Reopen(func(dir string) error {
		if err := flip(); err != nil {
			return err
		}
		return errors.Join(change(dir), flip())
	})
}

// TestDamagedCut has a replica cut its log at an offset, and an earlier frame is damaged. It asks for a full copy. It tried the cut again and again: only a link
// that agrees about the log fetches damaged frames.
func TestDamagedCut(t *testing.T) {
	w := newWorld(t)
	h := &testHost{t: t, sim: w.replica.Kill()}
	h.open()
	segs, err := logfile.ListSegments(h.sim, "data")
	if err != nil {
		t.Fatal(err)
	}
	l := newTestLink(t, h, false)
	l.node.host = damagedWhileClosed{h, segs[0].Path, int64(segs[0].Offset(w.ends[2])) - 1}
	if err := l.hears(fmt.Appendf([]byte(hello), "-DIVERGED %d\r\n", w.ends[3])); err != nil || !l.full {
		t.Errorf("full copy: %v, %v", l.full, err)
	}
	if at := w.sound(t, h); at != w.behind {
		t.Errorf("the log ends at %d, want %d", at, w.behind)
	}
}

// TestStaleNote gives a role up, of a node that could not remove the note of whom it followed before it led: after the
// end of the process the note of the handover counts.
func TestStaleNote(t *testing.T) {
	w := newWorld(t)
	before, to := Address{"127.0.0.1", 1}, Address{"127.0.0.1", 2}
	for _, forced := range []bool{false, true} {
		h := &testHost{t: t, sim: w.primary.sim.Kill()}
		h.open()
		n := newTestNode(h)
		if err := errors.Join(n.note(primaryName, addressNote{Address: before}), n.NoteHandover(to, forced), h.Store().Replication().Yield(), h.Store().Close()); err != nil {
			t.Fatal(err)
		}
		h = &testHost{t: t, sim: h.sim.Kill()}
		s := h.open()
		if a, f, err := newTestNode(h).Handover(); a != to || f != forced || err != nil {
			t.Errorf("got %v, %v, %v, want %v, %v", a, f, err, to, forced)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPursue starts a replica, of a log that was a primary's and of one that was another's replica, on a disk that
// takes nothing: it says why its link is down, and when the disk is well it is a replica that knows whose.
func TestPursue(t *testing.T) {
	w := newWorld(t)
	first, second := Address{"127.0.0.1", 1}, Address{"127.0.0.1", 2} // nobody is there
	for name, of := range map[string]*vfs.Sim{"primary": w.primary.sim, "replica": w.replica} {
		faulty := vfs.NewFaulty(of.Kill())
		h := &testHost{t: t, fs: faulty}
		h.open()
		n := newTestNode(h)
		if name == "replica" {
			if err := n.Follow(first); err != nil {
				t.Fatal(err)
			}
		}
		faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.ENOSPC})
		up := n.Pursue(second, false)
		if again := n.Pursue(second, false); again != up {
			t.Errorf("%s: a second link", name)
		}
		for {
			info, ok := n.Link()
			if !ok || info.Primary != second {
				t.Fatalf("%s: the link is to %v", name, info.Primary)
			}
			if strings.Contains(info.Error, syscall.ENOSPC.Error()) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if a, _ := n.Remembered(); a == second {
			t.Errorf("%s: it has noted the primary", name)
		}
		faulty.Clear()
		for a := first; a != second; time.Sleep(time.Millisecond) {
			if h.Store().Replica() { // a primary forgets by Remembered what the link has just noted
				a, _ = n.Remembered()
			}
		}
		if a, err := n.Remembered(); a != second || err != nil || !h.Store().Replica() {
			t.Errorf("%s: remembers %v, %v; a replica: %v", name, a, err, h.Store().Replica())
		}
		if err := errors.Join(n.Close(t.Context()), h.Store().Close()); err != nil {
			t.Error(err)
		}
	}
}
