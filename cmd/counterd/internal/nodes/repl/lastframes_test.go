package repl

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// notInSync is the search of a node that is not in sync any more.
type notInSync struct{ clusterSearch }

func (notInSync) InSync(context.Context) error { return errors.New("the node is not in sync") }

// TestLastFrames: a node of a cluster that lost power, and with it the last changes, gets them from the log of a node in sync that cannot
// open its directory, and lacks nothing any more. It stays behind if that node may lack changes itself, is not in sync, has a damaged log, or
// is in another term. The two nodes waited for each other, and a person had to choose between no primary and the loss of these changes.
func TestLastFrames(t *testing.T) {
	for _, c := range []struct {
		name   string
		boot   string         // of the closed directory's machine, now
		damage func(b []byte) // the frames of its log that the other node lacks
		search Search         // of the closed directory's node
		waits  bool           // it waits for a primary
		lead   bool           // the node that is behind has begun a term of its own
		behind bool           // the other node says that it is behind, too
		whole  bool
	}{
		{name: "a whole log", boot: "1", waits: true, whole: true},
		{name: "both lost power", boot: "2", waits: true, behind: true},
		{name: "both lost power, not in sync", boot: "2", waits: true, search: notInSync{}},
		{name: "not in sync", boot: "1", waits: true, search: notInSync{}},
		{name: "a flipped bit", boot: "1", waits: true, behind: true, damage: func(b []byte) { b[len(b)/2] ^= 1 }},
		{name: "a torn tail", boot: "1", waits: true, behind: true, damage: func(b []byte) { clear(b[len(b)-7:]) }},
		{name: "it opens its data", boot: "1"},
		{name: "another term", boot: "1", waits: true, lead: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := electedHost(t, vfs.NewSim(), "1")
				s := all.open()
				if err := errors.Join(leadAt(s, 1), s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n")); err != nil {
					t.Fatal(err)
				}
				var behind *testHost
				var short uint64
				for i := range 20 {
					if _, err := s.Incr(fmt.Sprintf("%d.n", i), 7); err != nil {
						t.Fatal(err)
					}
					if i == 9 {
						behind = electedHost(t, all.sim.Kill(), "2")
						short = s.Replication().Position()
					}
				}
				want, end := digest(t, s), s.Replication().Position()
				closed := &testHost{t: t, sim: all.sim.Kill()}
				_ = s.Close()
				if c.damage != nil {
					segs, err := logfile.ListSegments(closed.sim, "data")
					if err != nil {
						t.Fatal(err)
					}
					last := segs[len(segs)-1]
					if err := closed.sim.Damage(last.Path, func(b []byte) []byte { c.damage(b[last.Offset(short):last.Offset(end)]); return b }); err != nil {
						t.Fatal(err)
					}
				}
				giver := newTestNode(closed)
				giver.settings = func() Settings { return Settings{BootID: c.boot} }
				if c.search == nil {
					c.search = clusterSearch{}
				}
				if c.waits {
					defer giver.healing.closed.begin("data")()
					defer giver.healing.tellEnd("data", c.search)()
				}

				s = behind.open()
				defer func() { _ = s.Close() }()
				if !s.Replication().Behind() || s.Replication().Position() != short {
					t.Fatalf("behind: %v, at %d, want true, at %d", s.Replication().Behind(), s.Replication().Position(), short)
				}
				if c.lead {
					if err := errors.Join(leadAt(s, 2), s.Replication().Yield(), s.Replication().MarkBehind()); err != nil {
						t.Fatal(err)
					}
				}
				a := newAsked(t, behind)
				a.node.link = nil
				a.replyBy(giver, LastFrames, "ERR")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				shorter, err := TakeLastFrames(ctx, a.node, Address{"other", 1})
				if shorter != c.behind {
					t.Errorf("behind with no more of the log: %v", shorter)
				}
				if (err == nil && !shorter) != c.whole || s.Replication().Behind() == c.whole {
					t.Fatalf("behind: %v, error %v", s.Replication().Behind(), err)
				}
				if a.asks == 0 {
					t.Error("the other node was not asked")
				}
				if at := s.Replication().Position(); c.boot == "2" && at != end || c.behind && at == short {
					t.Errorf("the log ends at %d, want %d", at, end)
				}
				if got := digest(t, s); c.whole && (got != want || s.Replication().Durable() != end) {
					t.Errorf("got %s, durable up to %d, want %s, up to %d", got, s.Replication().Durable(), want, end)
				}
			})
		})
	}
}

// TestLastFramesBesideALink: while a node that is behind takes the end of the log, a link to a primary comes up, and begins another term, or is about to cut the
// log. The node stays behind then, and has no frame of the old term in the new one.
func TestLastFramesBesideALink(t *testing.T) {
	h := electedHost(t, vfs.NewSim(), "1")
	s := h.open()
	if err := errors.Join(leadAt(s, 1), s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"), s.Set("1.n", 1)); err != nil {
		t.Fatal(err)
	}
	h.commit()
	short := s.Replication().Position()
	disk := h.sim.Kill()
	if err := s.Set("2.n", 2); err != nil {
		t.Fatal(err)
	}
	h.commit()
	var frames []byte
	if _, err := past.DamagedLog(h.sim, "data", 0, short, func(frame []byte) error { frames = append(frames, frame...); return nil }); err != nil || len(frames) == 0 {
		t.Fatalf("%d bytes, %v", len(frames), err)
	}
	_ = s.Close()
	for _, raw := range [][]byte{frames, nil} {
		behind := electedHost(t, disk.Kill(), "2")
		s := behind.open()
		if err := s.Replication().Yield(); err != nil {
			t.Fatal(err)
		}
		own := s.Replication().Lineage()
		n := newTestNode(behind)
		link := &Link{node: n, primary: Address{"primary", 1}, state: LinkConnect, done: make(chan struct{})}
		link.cancel = func() { // it has come so far when it ends
			defer close(link.done)
			next := s.Replication().Lineage()
			next.Terms = append(next.Terms, format.Term{ReplID: format.NewReplID(), Epoch: 2, Start: short})
			if _, err := s.Replication().Follow(next); err != nil {
				t.Error(err)
			}
			n.mu.Lock()
			n.closed = true // no other link begins
			n.mu.Unlock()
		}
		n.link = link
		err := addLastFrames(n, own.Current(), short, raw)
		if !errors.Is(err, errHasLeader) || !s.Replication().Behind() || s.Replication().Position() != short {
			t.Errorf("%d bytes: %v; behind: %v, the log ends at %d, want %d", len(raw), err, s.Replication().Behind(), s.Replication().Position(), short)
		}
		_ = s.Close()
	}
}

// electedHost is a host whose store is one of a cluster, on a machine that was started once.
func electedHost(t *testing.T, sim *vfs.Sim, boot string) *testHost {
	return &testHost{t: t, sim: sim, options: func(o *counter.Options) {
		o.Elected, o.AppendFsync, o.BootID = true, counter.SyncEverySec, boot
	}}
}

// leadAt has a store lead in an epoch, whose changes no other node must have.
func leadAt(s *counter.Store, epoch uint64) error {
	_, err := s.Replication().LeadAt(epoch)
	s.Replication().Confirm(counter.Everywhere)
	return err
}

// TestLastFramesRequests: requests that are no requests, and bounds of an answer.
func TestLastFramesRequests(t *testing.T) {
	h := electedHost(t, vfs.NewSim(), "1")
	s := h.open()
	if err := errors.Join(leadAt(s, 1), s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n")); err != nil {
		t.Fatal(err)
	}
	lineage := s.Replication().Lineage()
	term, end := lineage.Current().ReplID.String(), s.Replication().Position()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	end = max(end, 1)
	n := newTestNode(h)
	n.settings = func() Settings { return Settings{BootID: "1"} }
	defer n.healing.closed.begin("data")()
	defer n.healing.tellEnd("data", clusterSearch{})()
	ask := func(words ...string) ([]byte, error) {
		var raw [][]byte
		for _, w := range words {
			raw = append(raw, []byte(w))
		}
		return LastFrames(n, raw)
	}
	for _, words := range [][]string{{term}, {term, "0", "1"}, {term, "x"}, {term, "-1"}, {term, "18446744073709551616"}} {
		if _, err := ask(words...); !errors.Is(err, ErrProtocol) {
			t.Errorf("%q: %v", words, err)
		}
	}
	if _, err := ask(format.NewReplID().String(), "0"); !errors.Is(err, errOtherTerm) {
		t.Error(err)
	}
	for _, from := range []uint64{end, end + 1, 1 << 63} {
		if raw, err := ask(term, fmt.Sprint(from)); len(raw) > 0 || from > end && err != nil {
			t.Errorf("from %d: %d bytes, %v", from, len(raw), err)
		}
	}
	if raw, err := ask(term, "1"); err == nil {
		t.Errorf("%d bytes from the middle of a frame", len(raw))
	}
	raw, err := ask(term, "0")
	var f format.Frame
	if err != nil || format.DecodeFrame(raw, 0, &f) != nil {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

// TestClosedLogsGiveFrames: the logs of two nodes of a cluster are damaged, and nobody leads. Where they are damaged at different places, the first one gets its
// frames from the other, which is loading, and the other one from the first, which is open then. Where both lack the same frame, and where the
// other node does not wait, nothing is changed.
func TestClosedLogsGiveFrames(t *testing.T) {
	for _, c := range []struct {
		name  string
		other int  // the change whose frame is damaged at the other node; it is change 15 at the first one
		opens bool // the other node opens its data, and does not wait
		whole bool
	}{
		{name: "different places", other: 5, whole: true},
		{name: "the same place", other: 15},
		{name: "the other one does not wait", other: 5, opens: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := electedHost(t, vfs.NewSim(), "1")
				s := all.open()
				if err := errors.Join(leadAt(s, 1), s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n")); err != nil {
					t.Fatal(err)
				}
				var starts []uint64
				for i := range 20 {
					starts = append(starts, s.Replication().Position())
					if err := s.Set(fmt.Sprintf("%d.n", i), 7); err != nil {
						t.Fatal(err)
					}
					all.commit()
				}
				want := digest(t, s)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				hosts := [2]*testHost{electedHost(t, all.sim.Kill(), "1"), electedHost(t, all.sim.Kill(), "1")}
				for i, change := range [2]int{15, c.other} {
					segs, err := logfile.ListSegments(hosts[i].sim, "data")
					if err != nil {
						t.Fatal(err)
					}
					last := segs[len(segs)-1]
					if err := hosts[i].sim.Damage(last.Path, func(b []byte) []byte { b[last.Offset(starts[change])+9] ^= 1; return b }); err != nil {
						t.Fatal(err)
					}
				}
				other := newTestNode(hosts[1])
				if !c.opens {
					defer other.healing.closed.begin("data")()
				}
				got, err := openByMember(t, hosts[0], other, ClosedFrames)
				if (err == nil) != c.whole {
					t.Fatalf("the first node: %v", err)
				}
				if !c.whole {
					return
				}
				defer got.Close()
				second, err := openByMember(t, hosts[1], newTestNode(hosts[0]), Frames)
				if err != nil {
					t.Fatal(err)
				}
				defer second.Close()
				for _, s := range []*counter.Store{got, second} {
					if has := digest(t, s); has != want || s.Replication().Behind() {
						t.Errorf("a node has %s, want %s; behind: %v", has, want, s.Replication().Behind())
					}
				}
			})
		})
	}
}

// TestClosedEnd: the end of the log of a node in sync is damaged, and the other node in sync cannot open its directory. The log of that one is whole: the first node
// takes its end, opens its data, and lacks nothing. It changes nothing if the other node is not in sync, or may lack changes itself.
func TestClosedEnd(t *testing.T) {
	for _, c := range []struct {
		name   string
		boot   string // of the other node's machine, now
		search Search
		whole  bool
	}{
		{name: "a whole log", boot: "1", search: clusterSearch{}, whole: true},
		{name: "it lost power", boot: "2", search: clusterSearch{}},
		{name: "not in sync", boot: "1", search: notInSync{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := electedHost(t, vfs.NewSim(), "1")
				s := all.open()
				if err := errors.Join(leadAt(s, 1), s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n")); err != nil {
					t.Fatal(err)
				}
				var starts []uint64
				for i := range 20 {
					starts = append(starts, s.Replication().Position())
					if err := s.Set(fmt.Sprintf("%d.n", i), 7); err != nil {
						t.Fatal(err)
					}
					all.commit()
				}
				want := digest(t, s)
				other := newTestNode(electedHost(t, all.sim.Kill(), "1"))
				other.settings = func() Settings { return Settings{BootID: c.boot} }
				if err := s.Close(); err != nil { // DURABLE has its end
					t.Fatal(err)
				}
				segs, err := logfile.ListSegments(all.sim, "data")
				if err != nil {
					t.Fatal(err)
				}
				last := segs[len(segs)-1]
				if err := all.sim.Damage(last.Path, func(b []byte) []byte { clear(b[last.Offset(starts[15])+9:]); return b }); err != nil {
					t.Fatal(err)
				}
				defer other.healing.closed.begin("data")()
				defer other.healing.tellEnd("data", c.search)()
				here := electedHost(t, all.sim.Kill(), "1")
				got, err := openByMember(t, here, other, func(n *Node, words [][]byte) ([]byte, error) {
					if len(words) == 2 {
						return LastFrames(n, words)
					}
					return ClosedFrames(n, words)
				})
				if (err == nil) != c.whole {
					t.Fatalf("the node: %v", err)
				}
				if !c.whole {
					return
				}
				defer got.Close()
				if has := digest(t, got); has != want || got.Replication().Behind() {
					t.Errorf("the node has %s, want %s; behind: %v", has, want, got.Replication().Behind())
				}
			})
		})
	}
}

// TestEndBesideDamage: an older segment of the log of a node in sync is lost, with the snapshots that need no log, and no member has its frames. The end of the log is whole,
// so the node gives it to a node in sync that is behind, and waits for the end as long as nobody leads.
func TestEndBesideDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := electedHost(t, vfs.NewSim(), "1")
		options := all.options
		all.options = func(o *counter.Options) { options(o); o.SegmentBytes = 512 }
		s := all.open()
		if err := errors.Join(leadAt(s, 1), s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n")); err != nil {
			t.Fatal(err)
		}
		var behind *testHost
		for i := range 40 {
			if err := s.Set(fmt.Sprintf("%d.n", i), 7); err != nil {
				t.Fatal(err)
			}
			all.commit()
			if i == 36 {
				behind = electedHost(t, all.sim.Kill(), "2")
			}
		}
		want := digest(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		segs, err := logfile.ListSegments(all.sim, "data")
		if err != nil || len(segs) < 3 {
			t.Fatalf("%d segments, %v, want 3", len(segs), err)
		}
		if err := all.sim.Remove(segs[1].Path); err != nil {
			t.Fatal(err)
		}
		closed := electedHost(t, all.sim, "1")
		giver := newTestNode(closed)
		giver.settings = func() Settings { return Settings{BootID: "1"} }
		ctx, cancel := context.WithCancel(t.Context())
		opened := make(chan error)
		go func() {
			_, err := giver.Open(ctx, "data", clusterSearch{}, func() (*counter.Store, error) {
				o := counter.Options{FS: closed.sim, Manual: true, SnapshotGrowth: -1}
				closed.options(&o)
				return counter.Open("data", o)
			})
			opened <- err
		}()
		time.Sleep(3 * refillAgain / 2)
		s = behind.open()
		defer func() { _ = s.Close() }()
		a := newAsked(t, behind)
		a.node.link = nil
		a.replyBy(giver, LastFrames, "ERR")
		if shorter, err := TakeLastFrames(ctx, a.node, Address{"other", 1}); err != nil || shorter || s.Replication().Behind() {
			t.Errorf("behind: %v, and the other node: %v; error %v", s.Replication().Behind(), shorter, err)
		}
		if got := digest(t, s); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		cancel()
		if err := <-opened; !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("the node that cannot open its data: %v", err)
		}
	})
}

// openByMember opens the damaged store of a host, whose shard nobody leads and has one other member. It is asked once.
func openByMember(t *testing.T, h *testHost, member *Node, give func(*Node, [][]byte) ([]byte, error)) (*counter.Store, error) {
	a := newAsked(t, h)
	a.replyBy(member, give, "LOADING")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return a.node.Open(ctx, "data", clusterSearch{members: []Address{{"other", 1}}, alone: true}, func() (*counter.Store, error) {
		o := counter.Options{FS: h.sim, Manual: true, BlockItems: 16, SnapshotGrowth: -1, HashSeed: 1, Elected: true, BootID: "1"}
		s, err := counter.Open("data", o)
		if err == nil {
			h.store.Store(s)
		}
		return s, err
	})
}
