package move

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// TestRestoreDuringMove gives parts of a backup to a primary while it holds the groups, and behind the move. They are refused with TRYAGAIN, so the restore
// waits, looks for the owner, and goes on there.
func TestRestoreDuringMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newSimCluster(t, &dice{rng: rand.New(rand.NewPCG(*seed, 0))})
		time.Sleep(5 * time.Second)
		k.nodes[1].mover.Close() // the test is the destination
		admin := k.etcd.Open(nil)
		defer admin.Close()
		moved, mid := slot.Set{1 << 0}, uint64(0)
		for slot.Group(mid) != 0 {
			mid++
		}
		k.change(admin, func(m *topology.Map) (topology.Change, error) {
			return topology.StartMove(m, "move", moved, 1, 2, time.Now())
		})
		time.Sleep(time.Second)
		source := k.nodes[0].mover
		if _, err := source.Open("move", 0); err != nil {
			t.Fatal(err)
		}
		held, revision, err := source.Hold("move")
		if err != nil {
			t.Fatal(err)
		}
		var enc coldstore.RowsEncoder
		page, _ := enc.Append(nil, []uint64{mid}, [][]uint64{{1}}, 1)
		piece := counter.DerivedPiece{Counter: "c", Column: "w", Time: time.Now().Unix(), Posts: 1, Rows: format.AppendRows(nil, 1, []uint16{1}, page)}
		refusals := func(when, why string) {
			t.Helper()
			err := source.Remember(t.Context(), moved, format.AppendFloor(nil, 1, 1))
			_, derived := source.SetDerived(t.Context(), moved, &piece)
			for name, err := range map[string]error{"numbered changes": err, "a derived column": derived} {
				var no *RefusedError
				if !errors.As(err, &no) || !strings.HasPrefix(err.Error(), "TRYAGAIN move: ") || !strings.Contains(err.Error(), why) {
					t.Errorf("%s, %s: got %v, want TRYAGAIN and %q", when, name, err, why)
				}
			}
		}
		refusals("while the groups are held", "the hash slots are not here")
		k.change(admin, func(m *topology.Map) (topology.Change, error) {
			from, to := m.Shard(1), m.Shard(2)
			return topology.CommitMove(m, "move", revision, from.Epoch, held, topology.LogPoint{Epoch: to.Epoch})
		})
		time.Sleep(time.Second)
		refusals("behind the move", "does not own groups")
		for _, n := range k.nodes {
			n.stop()
		}
		synctest.Wait()
	})
}
