package repl

import (
	"slices"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// TestReplicasVerified: REPLICAS that is damaged while the node serves is written again, with the replicas that are away, also where
// a replica comes before it was looked at. A file that a person removed stays away.
func TestReplicasVerified(t *testing.T) {
	h := &testHost{t: t, sim: vfs.NewSim()}
	store := h.open()
	defer func() { _ = store.Close() }()
	n := newTestNode(h)
	away := []Address{{Host: "10.0.0.1", Port: 7001}, {Host: "10.0.0.2", Port: 7002}}
	n.replicas.change(store, func([]Address) []Address { return away })
	path := notePath(store.Path(), replicasName)
	for name, look := range map[string]func(){"verified": n.refills.verifyNotes, "a replica comes": n.replicas.note} {
		text, err := vfs.ReadFile(h.sim, path, maxNoted)
		if err != nil {
			t.Fatal(err)
		}
		flipped := slices.Clone(text)
		flipped[len(text)/2] ^= 1
		for _, bad := range [][]byte{{}, text[:len(text)/2], flipped} {
			if err := vfs.WriteFileAtomic(h.sim, path, bad); err != nil {
				t.Fatal(err)
			}
			look()
			if got := ReadReplicas(h.sim, store.Path()); !slices.Equal(got.List, away) {
				t.Errorf("%s: %d bytes of REPLICAS are left, and it has %v behind that, want %v", name, len(bad), got.List, away)
			}
		}
	}
	if err := h.sim.Remove(path + vfs.CopySuffix); err != nil {
		t.Fatal(err)
	}
	n.refills.verifyNotes()
	if err := h.sim.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := ReadReplicas(h.sim, store.Path()); !slices.Equal(got.List, away) {
		t.Errorf("the copy was removed, and then the file: %v, want %v", got.List, away)
	}
	n.refills.verifyNotes()
	n.replicas.note()
	if got := ReadReplicas(h.sim, store.Path()); len(got.List) != 0 {
		t.Errorf("the file was removed, and has %v again", got.List)
	}
}
