// Scenario: counters are dropped and cleared while a snapshot is made.

package counter

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// TestDropDuringSnapshot drops a counter, or clears all, at every file that a snapshot makes. What is restored to just
// before must hold all posts, whichever snapshots there are, and just behind the drop the others only.
func TestDropDuringSnapshot(t *testing.T) {
	const script = "add counter a\nadd column a n hint=8 max=32 suffix=an\nadd counter b\nadd column b n hint=8 max=32 suffix=bn\nadd counter c\nadd column c n hint=8 max=32 suffix=cn\n"
	drop := func(counter string) func(t *testing.T, s *Store) {
		return func(t *testing.T, s *Store) {
			if err := s.Alter(schema.Statement{Op: schema.DropCounter, Counter: counter}); err != nil {
				t.Fatal(err)
			}
		}
	}
	changes := map[string]func(t *testing.T, s *Store){"drop a": drop("a"), "drop b": drop("b"), "drop c": drop("c"), "flush": clearAll}
	for name, change := range changes {
		for earlier := range 3 { // snapshots before
			for at := 0; ; at++ {
				what := fmt.Sprintf("%s at file %d of snapshot %d", name, at, earlier+1)
				fs := &hookFS{FS: vfs.NewSim()}
				s := openDir(t, "data", Options{FS: fs, Manual: true, SnapshotGrowth: -1}, script)
				set := func(keys ...string) {
					for _, k := range keys {
						if err := s.Set(k, 7); err != nil {
							t.Fatal(err)
						}
					}
				}
				set("1.an", "2.an", "1.bn", "1.cn")
				for range earlier {
					if err := s.Snapshot(); err != nil {
						t.Fatal(err)
					}
					set("2.bn", "2.cn")
				}
				files, done := 0, false
				var before, behind uint64
				fs.hook = func(string) {
					if files++; files == at+1 {
						fs.hook = nil
						set("3.an", "3.bn", "3.cn")
						before = s.data.Log.Position()
						change(t, s)
						behind, done = s.data.Log.Position(), true
					}
				}
				if err := s.Snapshot(); err != nil {
					t.Fatal(what, err)
				}
				fs.hook = nil
				if !done {
					s.Close()
					if at == 0 {
						t.Fatalf("%s: the snapshot made no file", what)
					}
					break
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				for _, target := range []uint64{before, behind} {
					out := vfs.NewSim()
					if _, err := datadir.Restore(fs.FS, "data", out, "out", datadir.Target{Offset: target}, datadir.RestoreOptions{}); err != nil {
						t.Fatalf("%s: restore to %d, %d is just before: %v", what, target, before, err)
					}
					o, err := Open("out", Options{FS: out, Manual: true})
					if err != nil {
						t.Fatal(what, err)
					}
					for _, k := range []string{"1.an", "2.an", "3.an", "1.bn", "3.bn", "1.cn", "3.cn"} {
						gone := target == behind && (name == "flush" || strings.HasSuffix(name, k[2:3]))
						v, found, err := o.Get(k)
						if gone && (found || err != nil && !errors.Is(err, ErrNoKey)) || !gone && (v != 7 || err != nil) {
							t.Errorf("%s: restored to %d, %d is just before: %s: got %d, %v, %v", what, target, before, k, v, found, err)
						}
					}
					o.Close()
				}
			}
		}
	}
}
