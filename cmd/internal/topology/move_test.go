package topology

import (
	"errors"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/slot"
)

// movable is a map of two shards, of which the first owns everything, and a move of groups 3 to 9 to the second.
func movable(t *testing.T) *Map {
	t.Helper()
	m, err := NewMap(1, nil)
	step := func(c Change, e error) {
		t.Helper()
		if err == nil {
			err = e
		}
		if err == nil {
			m, err = m.Apply(c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	step(CreateCluster(m, "an id", time.Unix(0, 0), 0, 1))
	for i := range 3 {
		step(RegisterNode(m, Node{ID: nodeID(i), Host: "h", Port: 1}))
	}
	step(AddShard(m, []NodeID{nodeID(0), nodeID(2)}, slot.AllGroups()))
	step(AddShard(m, []NodeID{nodeID(1)}, slot.Set{}))
	step(Promote(m, 1, nodeID(0)))
	step(Promote(m, 2, nodeID(1)))
	step(Expand(m, 1, 1, []NodeID{nodeID(2)}))
	step(StartMove(m, "m", slot.Set{0x3f8}, 1, 2, time.Unix(0, 0)))
	return m
}

// TestCommitMove commits a held move unless a part of it has changed since, from the map of the hold or from the newest
// one.
func TestCommitMove(t *testing.T) {
	held := movable(t)
	hold := held.Move("m").Revision
	commit := func(m *Map) (Change, error) { return CommitMove(m, "m", hold, 1, 33, LogPoint{1, 77}) }
	for name, between := range map[string]func(*Map) (Change, error){
		"canceled":    func(m *Map) (Change, error) { return CancelHold(m, "m") },
		"aborted":     func(m *Map) (Change, error) { return AbortMove(m, "m", "why") },
		"new source":  func(m *Map) (Change, error) { return Promote(m, 1, nodeID(2)) },
		"committed":   commit,
		"new takers":  func(m *Map) (Change, error) { return Promote(m, 2, nodeID(1)) },
		"shrunk":      func(m *Map) (Change, error) { return Shrink(m, 1, 1, []NodeID{nodeID(2)}) },
		"no change":   nil,
		"another one": func(m *Map) (Change, error) { return StartMove(m, "n", slot.Set{1}, 1, 2, time.Unix(0, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			now, old := held, Change{}
			if between != nil {
				c, err := between(held)
				if err != nil {
					t.Fatal(err)
				}
				if now, err = held.Apply(c); err != nil {
					t.Fatal(err)
				}
				if old, err = commit(held); err != nil {
					t.Fatal(err)
				}
				if _, err := now.Apply(old); !errors.Is(err, ErrConflict) {
					t.Fatalf("commit from the map of the hold: got %v, want a conflict", err)
				}
			}
			c, err := commit(now)
			if want := name == "no change" || name == "shrunk" || name == "another one"; want != (err == nil) {
				t.Fatalf("commit from the map behind: got %v, want success %v", err, want)
			} else if !want {
				return
			}
			if now, err = now.Apply(c); err != nil {
				t.Fatal(err)
			}
			if now.Owner(2).ID != 1 || now.Owner(3).ID != 2 || now.Owner(9).ID != 2 || now.Owner(10).ID != 1 {
				t.Error("not the groups of the move have moved")
			}
		})
	}
}

// TestEndOfMove removes a move when both sides have done their part, in either order, and does not let a group move on
// before.
func TestEndOfMove(t *testing.T) {
	for _, first := range []bool{true, false} {
		m := movable(t)
		c, err := CommitMove(m, "m", m.Move("m").Revision, 1, 33, LogPoint{1, 77})
		if err == nil {
			m, err = m.Apply(c)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			var refused *RefusedError
			if _, err := StartMove(m, "back", slot.Set{8}, 2, 1, time.Unix(0, 0)); !errors.As(err, &refused) {
				t.Fatalf("a move of what is on its way: got %v", err)
			}
			part := MoveDropped
			if first == (i == 0) {
				part = MoveAccepted
			}
			if c, err = part(m, "m"); err == nil {
				m, err = m.Apply(c)
			}
			if err != nil || (m.Move("m") == nil) != (i == 1) {
				t.Fatalf("part %d: %v, %+v", i, err, m.Move("m"))
			}
		}
		if _, err := StartMove(m, "back", slot.Set{8}, 2, 1, time.Unix(0, 0)); err != nil {
			t.Error(err)
		}
	}
}
