// Scenario: a column that a block lacks gets its first value before the background has come by.

package counter

import (
	"fmt"
	"testing"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// TestFirstValueOfColumn: the change that needs the column leaves all posts of the block in their places, and the widths of the other columns, although
// values have outgrown these meanwhile. So nobody waits for a block that is packed anew.
func TestFirstValueOfColumn(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	const items, value = 1024, 77
	run := func(s *Store, ops ...Op) error {
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			return err
		}
		for _, op := range ops {
			op.Counter = b.Schema().Counter("a")
			b.Add(op)
		}
		b.ChangeSet(0)
		b.Run()
		b.End()
		for i := range ops {
			if err := b.Op(i).Err; err != nil {
				return err
			}
		}
		return b.Commit()
	}
	ways := map[string]func(s *Store, c int16, mid uint64) error{
		"addition": func(s *Store, c int16, mid uint64) error {
			return run(s, Op{Kind: OpAdd, Column: c, Mid: mid, Arg: value})
		},
		"change set": func(s *Store, c int16, mid uint64) error {
			return run(s, Op{Kind: OpGet, Mid: mid + 1}, Op{Kind: OpSet, Column: c, Mid: mid, Arg: value})
		},
		"update": func(s *Store, c int16, mid uint64) error {
			q := query.Query{Counter: s.Schema().Counter("a"), From: mid, To: mid}
			u, err := NewUpdate(q, []Change{{Kind: OpSet, Column: c, Arg: value}}, ReturnNothing)
			if err != nil {
				return err
			}
			if err := s.steps(u.Gather, func() bool { return true }); err != nil {
				return err
			}
			b := s.NewBatch()
			if err := b.BeginExclusive(); err != nil {
				return err
			}
			err = u.Apply(b)
			b.End()
			if err != nil {
				return err
			}
			return b.Commit()
		},
	}
	for name, change := range ways {
		t.Run(name, func(t *testing.T) {
			rng := newRand(t)
			opts := Options{BlockItems: items, FS: vfs.NewSim(), Manual: true}
			s := openDir(t, "data", opts, "add counter a\nadd column a v hint=8 max=40 suffix=v\nadd column a w hint=2 max=20 default=3 suffix=w")
			s.repacker.Stop() // it would come by
			want := map[string]uint64{}
			set := func(key string, v uint64) {
				t.Helper()
				if err := s.Set(key, v); err != nil {
					t.Fatal(err)
				}
				want[key] = v
			}
			for mid := range 3 * items {
				set(fmt.Sprintf("%d.v", mid), uint64(mid%7))
			}
			ks := s.data.Spaces[s.Schema().Counter("a").ID][0]
			if n := len(ks.Dir.Load().Blocks); n < 3 {
				t.Fatalf("got %d blocks, want 3 at least", n)
			}
			for round := range 4 {
				script := fmt.Sprintf("add column a x%d hint=5 max=%d suffix=x%d\nadd column a y%d hint=2 max=9 default=%d suffix=y%d", round, 20+14*round, round, round, 100*round, round)
				if round == 2 {
					script += "\ndrop column a x0"
				}
				if err := s.AlterScript(script); err != nil {
					t.Fatal(err)
				}
				def := s.Schema().Counter("a")
				for i, b := range ks.Dir.Load().Blocks {
					for k := range 5 { // they do not fit, and have room
						set(fmt.Sprintf("%d.v", b.Lo+uint64(5*round+k)), 1<<20+rng.Uint64N(1<<19))
					}
					if ks.Current(b) {
						t.Fatalf("round %d: block %d has the column already", round, i)
					}
					mid := b.Lo + rng.Uint64N(16)
					if err := change(s, int16(def.Index(def.Columns[len(def.Columns)-2].ID)), mid); err != nil {
						t.Fatal(err)
					}
					want[fmt.Sprintf("%d.x%d", mid, round)] = value
					is := ks.Dir.Load().Blocks[i]
					if is == b || !ks.Current(is) || is.Tab.Buckets() != b.Tab.Buckets() {
						t.Fatalf("round %d: block %d of %d buckets has %d then, and the columns %v", round, i, b.Tab.Buckets(), is.Tab.Buckets(), is.Tab.Layout())
					}
					for _, f := range b.Tab.Layout().Fields {
						if at := is.Tab.Layout().Index(f.ID); at >= 0 && is.Tab.Layout().Fields[at].Width != f.Width {
							t.Errorf("round %d: column %d has %d bits, want %d as before", round, f.ID, is.Tab.Layout().Fields[at].Width, f.Width)
						}
					}
					if err := is.Tab.Check(); err != nil {
						t.Error(err)
					}
				}
				for mid := range uint64(3 * items) {
					if got, _, err := s.Get(fmt.Sprintf("%d.y%d", mid, round)); err != nil || got != uint64(100*round) {
						t.Fatalf("%d.y%d: got %d, %v, want the default %d", mid, round, got, err, 100*round)
					}
				}
				if round > 1 {
					if err := s.Snapshot(); err != nil {
						t.Fatal(err)
					}
				}
			}
			for again := range 2 {
				for key, v := range want {
					var mid, column int
					if n, _ := fmt.Sscanf(key, "%d.x%d", &mid, &column); n == 2 && column == 0 {
						continue // it was dropped
					}
					if got, _, err := s.Get(key); err != nil || got != v {
						t.Fatalf("%s: got %d, %v, want %d", key, got, err, v)
					}
				}
				if again == 0 {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s = openDir(t, "data", opts, "")
				}
			}
			s.Close()
		})
	}
}
