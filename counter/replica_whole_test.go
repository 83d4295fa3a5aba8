// Scenario: readers of a replica see transactions whole.

package counter

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// TestReplicateWhole ships transactions and groups that give many items one value, with changes of one item between
// them, to a replica whose readers read all of them at once: they never see a part of one, not while it is applied, nor
// after the replica lost power at any frame, or was promoted. The changes between keep nobody out.
func TestReplicateWhole(t *testing.T) {
	const items = 3000
	disk := vfs.NewSim()
	open := func(fs vfs.FS) *Store {
		s, err := Open("data", Options{FS: fs, Manual: true, SnapshotGrowth: -1, HashSeed: 1})
		must(t, err)
		return s
	}
	a, b := open(vfs.NewSim()), open(disk)
	_, err := b.repl.Follow(a.repl.Lineage())
	must(t, err)
	must(t, a.AlterScript("add counter n\nadd column n v hint=8 max=63\nadd counter single\nadd column single w hint=8 max=63"))
	transaction := func(s *Store, value uint64) {
		t.Helper()
		tx := s.NewBatch()
		changeSet := value%2 == 0 // the same as one change set, which keeps no other client out of the primary
		if changeSet {
			must(t, tx.Begin())
		} else {
			must(t, tx.BeginExclusive())
		}
		def := tx.Schema().Counter("n")
		for i := range items {
			tx.Add(Op{Kind: OpSet, Counter: def, Mid: uint64(i) << 20, Arg: value})
			if i%100 == 0 && !changeSet { // as the commands of a transaction do
				tx.Run()
				tx.Reset()
			}
		}
		if changeSet {
			tx.ChangeSet(0)
		}
		tx.Run()
		tx.End()
		must(t, tx.Commit())
	}
	// look reads all items in one batch.
	look := func(s *Store) error {
		r := s.NewBatch()
		if err := r.Begin(); err != nil {
			return err
		}
		defer r.End()
		def := r.Schema().Counter("n")
		if def == nil {
			return nil
		}
		for i := range items {
			r.Add(Op{Kind: OpGet, Counter: def, Mid: uint64(i) << 20})
		}
		r.Run()
		for i := range items {
			if x, y := r.Op(0), r.Op(i); x.Value != y.Value || x.Found != y.Found {
				return fmt.Errorf("item 0 is %d, item %d is %d", x.Value, i, y.Value)
			}
		}
		return nil
	}
	transaction(a, 1)
	ship(t, a, b)
	var alone, together int // runs of the replica's batch
	b.repl.Observe(func(batch *Batch) {
		switch {
		case batch == nil || batch.Len() == 0:
		case batch.Op(0).Counter.Name == "n": // look tells whether others were kept out
			together++
		default:
			alone++
			other := b.NewBatch()
			must(t, other.Begin()) // or it hangs: others are let in
			other.End()
			if batch.Len() > 1 {
				t.Errorf("a run of %d changes with others let in", batch.Len())
			}
		}
	})
	var readers sync.WaitGroup
	stop := make(chan struct{})
	seen := make(chan error, 2)
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := look(b); err != nil {
					seen <- err
					return
				}
			}
		})
	}
	for value := uint64(2); value <= 12; value++ {
		transaction(a, value)
		ship(t, a, b)
		must(t, a.Set("7.w", value))
		ship(t, a, b)
		left := open(disk.Crash(value, int(value)*10%101))
		must(t, errors.Join(look(left), left.Close()))
	}
	close(stop)
	readers.Wait()
	select {
	case err := <-seen:
		t.Error(err)
	default:
	}
	if alone != 11 || together < 11*items/256 /* records applied together */ {
		t.Errorf("%d runs with others let in, want 11; %d with all kept out", alone, together)
	}
	_, err = b.repl.Lead()
	must(t, err)
	transaction(b, 99)
	must(t, errors.Join(look(b), a.Close(), b.Close()))
}

// TestReplicaRows: a row that a primary has set at once, as one record, is seen at a replica with all of its columns or
// none, also where its block is split while it is made.
func TestReplicaRows(t *testing.T) {
	const script = "add counter a\nadd column a x hint=8 max=63 suffix=x\nadd column a y hint=8 max=63 suffix=y\nadd column a z hint=8 max=63 suffix=z"
	opts := func() Options { return Options{FS: vfs.NewSim(), Manual: true, BlockItems: 16, SnapshotGrowth: -1} }
	primary, replica := openDir(t, "data", opts(), script), openDir(t, "data", opts(), "")
	defer primary.Close()
	defer replica.Close()
	if _, err := replica.repl.Follow(primary.repl.Lineage()); err != nil {
		t.Fatal(err)
	}
	ship(t, primary, replica)
	const rows = 4000
	mid := func(i int) uint64 { return uint64(i) * 2654435761 % (1 << 32) } // all of them differ
	b := primary.NewBatch()
	for i := range rows {
		b.Reset()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		c := b.Schema().Counter("a")
		first := b.Len()
		for column := range c.Columns {
			b.Add(Op{Kind: OpSet, Counter: c, Mid: mid(i), Column: int16(column), Arg: 1})
		}
		b.ChangeSet(first)
		b.Run()
		b.End()
	}
	var next, done atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		b := replica.NewBatch()
		for next.Load() < rows && done.Load() == 0 {
			b.Reset()
			if err := b.Begin(); err != nil {
				t.Error(err)
				return
			}
			i := int(next.Load())
			for k := range min(32, rows-i) {
				b.Add(Op{Kind: OpRead, Counter: b.Schema().Counter("a"), Mid: mid(i + k)})
			}
			b.Run()
			for k := range b.Len() {
				row := b.Row(b.Op(k))
				if row == nil {
					break
				}
				next.Add(1)
				if slices.Contains(row, 0) {
					t.Errorf("row %d: got %v", i+k, row)
				}
			}
			b.End()
		}
	})
	ship(t, primary, replica)
	done.Store(1)
	wg.Wait()
}
