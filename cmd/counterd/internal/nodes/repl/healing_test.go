package repl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// TestLeadBehindDamage: a node is told to lead while its link opens the store again. The link ends before the node leads, and
// it may have found damage and set the files aside: then the node must not lead.
func TestLeadBehindDamage(t *testing.T) {
	for _, elected := range []bool{false, true} {
		h := &testHost{t: t, sim: vfs.NewSim(), options: func(o *counter.Options) { o.Elected = elected }}
		n := newTestNode(h)
		defer h.open().Close()
		lead := n.Lead
		if elected {
			lead = func() error { return n.LeadAt(1) }
		}
		done := make(chan struct{})
		n.link = &Link{done: done, cancel: func() {
			n.healing.now.Store(&format.Healing{Reason: "a bad page"})
			close(done)
		}}
		if err := lead(); !errors.Is(err, ErrHealing) {
			t.Errorf("elected %v: %v, want ErrHealing", elected, err)
		}
		if n.peers.quorum.leads() != 0 {
			t.Errorf("elected %v: it leads", elected)
		}
	}
}

// TestDiskFailsForAMoment: a read that fails while the directory is opened, and does not fail a second later, sets nothing
// aside. One that goes on to fail does.
func TestDiskFailsForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for fails, healing := range map[int]bool{0: false, 1: false, openTries - 1: false, openTries: true} {
			h := &testHost{t: t, sim: vfs.NewSim()}
			h.open()
			h.commit()
			if err := h.Store().Close(); err != nil {
				t.Fatal(err)
			}
			n, opens := newTestNode(h), 0
			store, err := n.Open(t.Context(), "data", helper(true), func() (*counter.Store, error) {
				if opens++; opens <= fails {
					return nil, &format.CorruptError{File: "an image", Err: fmt.Errorf("read: %w", syscall.EIO)}
				}
				return h.open(), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := n.Healing() != nil; got != healing || opens != fails+1 {
				t.Errorf("%d failures: healing %v, want %v; opened %d times", fails, got, healing, opens)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// helper is a search for a node with the data of this one: there is one, or none.
type helper bool

func (h helper) Missing(context.Context) (Helper, error) { return Helper{}, nil }

func (h helper) Find(context.Context, bool) (Helper, error) {
	if !h {
		return Helper{}, errors.New("nobody has it")
	}
	return Helper{}, nil
}

func (h helper) InCluster() bool { return false }

func (h helper) Members(context.Context) []Address { return nil }

func (h helper) InSync(context.Context) error { return nil }

func (h helper) Await(ctx context.Context, _ bool) (context.Context, func() Told) {
	return ctx, func() Told { return Told{} }
}

// closedReplica is the search of a primary whose only replica cannot open its data.
type closedReplica struct {
	helper
	finds *int
}

func (c closedReplica) Find(_ context.Context, frames bool) (Helper, error) {
	if *c.finds++; !frames {
		return Helper{}, errors.New("the replica cannot open its data")
	}
	return Helper{From: Address{"other", 1}, Lead: format.ReplID{1}, End: 9, Closed: true}, nil
}

// TestBothLogsLackFrames: the logs of a primary and of its replica lack the same frames. The replica, which cannot open its data, is asked for them until it is
// known that its log has not grown. Then the start is refused, or takes a backup, and does not go on for ever.
func TestBothLogsLackFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &testHost{t: t, sim: vfs.NewSim()}
		s := h.open()
		if _, err := s.Replication().Lead(); err != nil {
			t.Fatal(err)
		}
		if err := s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
			t.Fatal(err)
		}
		h.commit()
		end := s.Replication().Position()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		segs, err := logfile.ListSegments(h.sim, "data")
		if err != nil {
			t.Fatal(err)
		}
		last := segs[len(segs)-1]
		if err := h.sim.Damage(last.Path, func(b []byte) []byte { b[last.Offset((last.Start+end)/2)] ^= 1; return b }); err != nil {
			t.Fatal(err)
		}
		a := newAsked(t, h)
		a.replyBy(nil, func(*Node, [][]byte) ([]byte, error) { return nil, errors.New("it has not these frames") }, "LOADING")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		finds := 0
		_, err = a.node.Open(ctx, "data", closedReplica{finds: &finds}, func() (*counter.Store, error) {
			return counter.Open("data", counter.Options{FS: h.sim, Manual: true, BlockItems: 16, SnapshotGrowth: -1, HashSeed: 1})
		})
		if !errors.Is(err, format.ErrCorrupt) || ctx.Err() != nil || finds != 3 {
			t.Errorf("%v behind %d searches, want the damage", err, finds)
		}
	})
}

// TestOpenDamaged: damage sets the files aside, a disk that goes on to fail as well; files of a newer version stay where they are.
// A node of a cluster counts as a node that lacks acknowledged changes from then on.
func TestOpenDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			err    error
			helped bool
			heals  bool
		}{
			{"damage", &format.CorruptError{File: "HISTORY"}, true, true},
			{"damage, and nobody has the data", &format.CorruptError{File: "HISTORY"}, false, false},
			{"a disk that fails", fmt.Errorf("read: %w", syscall.EIO), true, true},
			{"a newer version", &format.CorruptError{File: "MANIFEST-1", Err: format.ErrUnsupportedFormat}, true, false},
			{"no permission", syscall.EACCES, true, false},
		} {
			h := &testHost{t: t, sim: vfs.NewSim(), options: func(o *counter.Options) { o.Elected = true }}
			h.open()
			if err := h.Store().Close(); err != nil {
				t.Fatal(err)
			}
			n := newTestNode(h)
			store, err := n.Open(t.Context(), "data", helper(c.helped), func() (*counter.Store, error) {
				if h, err := past.ReadHealing(h.sim, "data"); h == nil && err == nil {
					return nil, c.err
				}
				return h.open(), nil
			})
			if (err == nil) != c.heals || (n.Healing() != nil) != c.heals || err != nil && !errors.Is(err, c.err) {
				t.Errorf("%s: healing %+v, %v", c.name, n.Healing(), err)
			}
			if store == nil {
				continue
			}
			if !store.Replication().Behind() {
				t.Errorf("%s: the node counts as one that has all that it acknowledged", c.name)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestHealingUnreadable: a node whose HEALING cannot be read is healing.
func TestHealingUnreadable(t *testing.T) {
	h := &testHost{t: t, sim: vfs.NewSim()}
	n := newTestNode(h)
	store, err := n.Open(t.Context(), "data", helper(true), func() (*counter.Store, error) {
		s := h.open()
		return s, vfs.WriteFileAtomic(h.sim, format.HealingPath("data"), []byte("counterd healing 1\n"))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if n.Healing() == nil {
		t.Error("it serves what it has")
	}
}

// TestHealedAtTheGoal: a node heals until its log is durable up to the end that its primary had when the link came up. Until then
// it feeds nobody.
func TestHealedAtTheGoal(t *testing.T) {
	h := &testHost{t: t, sim: vfs.NewSim()}
	store := h.open()
	defer store.Close()
	n := newTestNode(h)
	n.healing.now.Store(&format.Healing{Reason: "a bad page"})
	n.link = &Link{node: n, state: LinkConnected}
	log := store.Replication()
	if _, err := log.Lead(); err != nil {
		t.Fatal(err)
	}
	if err := store.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		t.Fatal(err)
	}
	end := h.commit()
	if log.Written() < end || log.Durable() >= end {
		t.Fatalf("the log is written up to %d and durable up to %d, want %d to be written only", log.Written(), log.Durable(), end)
	}
	s := &session{Link: n.link, goal: end}
	if s.healed(log); n.Healing() == nil {
		t.Error("it is whole, and a power loss takes a part of its data")
	}
	if err := n.Connected(); err == nil || !strings.Contains(err.Error(), ErrHealing.Error()) {
		t.Errorf("it feeds others: %v", err)
	}
	if err := log.Sync(); err != nil {
		t.Fatal(err)
	}
	if s.healed(log); n.Healing() != nil || n.Healer().Healed() != 1 {
		t.Errorf("healing %+v, healed %d times", n.Healing(), n.Healer().Healed())
	}
	if err := n.Connected(); err != nil {
		t.Error(err)
	}
}
