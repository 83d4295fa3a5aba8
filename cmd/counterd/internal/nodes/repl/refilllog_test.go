package repl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestFramesHolding: a node gives the frame that holds a log offset, whichever byte of the frame the offset is of. Without that word the
// offset must be where a frame begins.
func TestFramesHolding(t *testing.T) {
	h := &testHost{t: t, sim: vfs.NewSim()}
	s := h.open()
	defer s.Close()
	_, err := s.Replication().Lead()
	if err := errors.Join(err, s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n")); err != nil {
		t.Fatal(err)
	}
	ends := []uint64{h.commit()}
	for i := range 2 {
		if err := s.Set(fmt.Sprintf("%d.n", i), 7); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, h.commit())
	}
	n := newTestNode(h)
	term := termOf(s)
	ask := func(at uint64, more ...string) ([]byte, error) {
		words := [][]byte{[]byte(term), []byte(strconv.FormatUint(at, 10)), []byte(strconv.FormatUint(ends[2], 10))}
		for _, w := range more {
			words = append(words, []byte(w))
		}
		return Frames(n, words)
	}
	for at := ends[0]; at < ends[2]; at++ {
		want := ends[0]
		if at >= ends[1] {
			want = ends[1]
		}
		raw, err := ask(at, wordHolding)
		if start, ok := format.FrameHolds(raw, at); err != nil || !ok || start != want {
			t.Fatalf("offset %d: a frame at %d, want %d: %v", at, start, want, err)
		}
	}
	if raw, err := ask(ends[1]); err != nil || len(raw) != int(ends[2]-ends[1]) {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	for _, words := range [][]string{{"around"}, {wordHolding, "x"}} {
		if _, err := ask(ends[1], words...); !errors.Is(err, ErrProtocol) {
			t.Errorf("%q: %v", words, err)
		}
	}
}

// clusterSearch is the search of a node of a cluster whose shard nobody leads.
type clusterSearch struct {
	helper
	members []Address
	alone   bool // the node is the only one in sync
}

func (clusterSearch) InCluster() bool                     { return true }
func (c clusterSearch) Members(context.Context) []Address { return c.members }
func (c clusterSearch) Find(ctx context.Context, _ bool) (Helper, error) {
	if !c.alone {
		<-ctx.Done()
	}
	return Helper{}, errors.New("nobody leads")
}

// TestMembersGiveFrames: the log of a node of a cluster is damaged, and nobody leads its shard. Another member gives the frames, and the node
// opens with all that it had. A member whose log parted from this one before the end of the damage gives none, and neither is the end
// of a log taken from members: nothing is changed then. The node waited for a primary in each case, while the next primary waited for it.
func TestMembersGiveFrames(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(b []byte) // the frames of the log
		parted bool           // the other member began another term before the damage
		alone  bool
		opens  bool
	}{
		{name: "a flipped bit", damage: func(b []byte) { b[len(b)/2] ^= 1 }, opens: true},
		{name: "a flipped bit, and this node alone is in sync", damage: func(b []byte) { b[len(b)/2] ^= 1 }, alone: true, opens: true},
		{name: "a flipped bit, and another branch of the log", damage: func(b []byte) { b[len(b)/2] ^= 1 }, parted: true},
		{name: "zeros to the end", damage: func(b []byte) { clear(b[len(b)/2:]) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { membersGiveFrames(t, c.damage, c.parted, c.alone, c.opens) })
		})
	}
}

func membersGiveFrames(t *testing.T, damage func(b []byte), parted, alone, opens bool) {
	other := &testHost{t: t, sim: vfs.NewSim()}
	s := other.open()
	defer func() { _ = s.Close() }()
	_, err := s.Replication().Lead()
	if err := errors.Join(err, s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n")); err != nil {
		t.Fatal(err)
	}
	other.commit()
	begin := other.sim
	for i := range 20 {
		if i == 1 {
			begin = other.sim.Kill()
		}
		if err := s.Set(fmt.Sprintf("%d.n", i), 7); err != nil {
			t.Fatal(err)
		}
		other.commit()
	}
	want, end := digest(t, s), s.Replication().Position()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	here := &testHost{t: t, sim: other.sim.Kill()}
	if parted {
		other.sim = begin
	}
	s = other.open()
	if parted { // it has more changes, in a term of its own
		if _, err := s.Replication().Lead(); err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			if err := s.Set(fmt.Sprintf("%d.n", i), 8); err != nil {
				t.Fatal(err)
			}
			other.commit()
		}
	}
	segs, err := logfile.ListSegments(here.sim, "data")
	if err != nil {
		t.Fatal(err)
	}
	last := segs[len(segs)-1]
	err = here.sim.Damage(last.Path, func(b []byte) []byte { damage(b[last.Offset(last.Start):last.Offset(end)]); return b })
	before, rerr := vfs.ReadFile(here.sim, last.Path, 1<<30)
	if err := errors.Join(err, rerr); err != nil {
		t.Fatal(err)
	}
	giver := newTestNode(other)
	a := newAsked(t, here)
	a.replyBy(giver, Frames, "ERR")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store, err := a.node.Open(ctx, "data", clusterSearch{members: []Address{{"other", 1}}, alone: alone}, func() (*counter.Store, error) {
		o := counter.Options{FS: here.sim, Manual: true, BlockItems: 16, SnapshotGrowth: -1, HashSeed: 1, Elected: true}
		return counter.Open("data", o)
	})
	if opens != (err == nil) || a.node.Healing() != nil {
		t.Fatalf("healing %+v, %v", a.node.Healing(), err)
	}
	if a.asks == 0 {
		t.Error("the other member was not asked")
	}
	if !opens {
		after, err := vfs.ReadFile(here.sim, last.Path, 1<<30)
		if err != nil || !bytes.Equal(after, before) {
			t.Errorf("the segment was changed: %v", err)
		}
		return
	}
	defer store.Close()
	if got := digest(t, store); got != want || store.Replication().Behind() {
		t.Errorf("the node has %s, want %s; behind: %v", got, want, store.Replication().Behind())
	}
}
