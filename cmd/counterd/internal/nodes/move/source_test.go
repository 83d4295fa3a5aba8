package move

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// TestHoldAgain asks for a hold again until it is taken back. The race detector sees the hold's state shared.
func TestHoldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newSimCluster(t, &dice{rng: rand.New(rand.NewPCG(*seed, 0))})
		time.Sleep(5 * time.Second)
		k.nodes[1].mover.Close() // the test is the destination
		admin := k.etcd.Open(nil)
		defer admin.Close()
		k.change(admin, func(m *topology.Map) (topology.Change, error) {
			return topology.StartMove(m, "move", slot.Set{1 << 0}, 1, 2, time.Now())
		})
		time.Sleep(time.Second)
		source := k.nodes[0].mover
		if _, err := source.Open("move", 0); err != nil {
			t.Fatal(err)
		}
		end, revision, err := source.Hold("move")
		if err != nil {
			t.Fatal(err)
		}
		for range 9 {
			time.Sleep(holdFor / 10)
			if e, r, err := source.Hold("move"); e != end || r != revision || err != nil {
				t.Fatalf("asked again: got %d, %d, %v, want %d, %d", e, r, err, end, revision)
			}
		}
		time.Sleep(holdFor / 2)
		var no *RefusedError
		if _, r, err := source.Hold("move"); err == nil && r == revision || err != nil && !errors.As(err, &no) {
			t.Errorf("behind the hold: got revision %d, %v, want another one", r, err)
		}
		for _, n := range k.nodes {
			n.stop()
		}
		synctest.Wait()
	})
}
