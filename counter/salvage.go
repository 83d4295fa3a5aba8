package counter

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/tier"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// Salvage opens the store of a data directory as a server does, with all of the log, so that later changes are known,
// and also if the image of a last block cannot be used. Of each cold block that is damaged, faults says which and it
// finds others, the rows that can be read, and those of its overlay, go to a new cold file. Partial rows are given up:
// they would need values that nobody knows. A last block becomes a hot one again. A snapshot names the new files.
//
// It returns the paths of the files that are no longer needed. say is called with each loss and each action. It is for
// datadir.LoseUnreadable, which first sees to it that no other node goes on with this one's log.
func Salvage(fsys vfs.FS, dir string, faults []*snapfile.BlockFault, say func(string)) (replaced []string, err error) {
	s, err := Open(dir, Options{FS: fsys, Manual: true, giveUp: true, SnapshotGrowth: -1, RetainBytes: math.MaxUint64, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for ks := range s.data.Keyspaces {
		for _, b := range ks.Dir.Load().Blocks {
			if b.Cold == nil {
				continue
			}
			readable := uint64(0)
			lost, err := block.ReadableRows(b.Cold.File, func(uint64, []uint64) error {
				readable++
				return nil
			})
			if err != nil {
				return nil, err
			}
			path := b.Cold.Entry.Path(dir)
			if len(lost) == 0 && !slices.ContainsFunc(faults, func(f *snapfile.BlockFault) bool { return f.Path == path }) {
				continue
			}
			old := b.Cold.File.Stat().Items
			losePartial(ks, b, say)
			replaced = append(append(replaced, path), b.Cold.Entry.Remains(dir)...)
			if b.Open() {
				if err := s.tiers.PromoteAs(ks, b.Lo, true); err != nil {
					return nil, fmt.Errorf("saving what is known of %s: %w", path, err)
				}
				say(fmt.Sprintf("saved %d items, of which all is known since the image that had %d", ks.Dir.Load().Find(b.Lo).Items(), old))
				continue
			}
			if err := s.tiers.DemoteAs(ks, b.Lo, tier.RewriteFrom{Lose: true}); err != nil {
				return nil, fmt.Errorf("saving what is left of %s: %w", path, err)
			}
			now := ks.Dir.Load().Find(b.Lo).Cold
			say(fmt.Sprintf("saved %d of the file's %d items, and changes since it was written: %d items in %s", readable, old, now.File.Stat().Items, now.Entry.Path(dir)))
		}
	}
	for _, f := range faults {
		if f.Block.Tier == format.TierProducers {
			say(fmt.Sprintf("given up: what %d producers had done; a write of theirs that is sent again is made again", f.Block.Items))
			replaced = append(replaced, f.Path)
		}
	}
	if err := loseCounts(s, say); err != nil {
		return nil, fmt.Errorf("giving up counts of lost posts: %w", err)
	}
	return replaced, s.Snapshot()
}

// loseCounts removes the counts of windows and of columns that decay, of posts that are not there. They have blocks of their own, in which
// posts of a lost range are whole: lists of the highest would have posts that do not exist, and a post that is made again would have the old counts.
func loseCounts(s *Store, say func(string)) error {
	d := &s.data
	for _, def := range d.Schema.Load().Counters() {
		for i := range def.Derived {
			of := &def.Derived[i]
			removed := 0
			for ks := range d.Keyspaces {
				if ks.ID != of.Space.ID {
					continue
				}
				for _, b := range ks.Dir.Load().Blocks {
					b.Mu.Lock()
					mids, _ := b.AppendMids(nil)
					b.Mu.Unlock()
					n, err := loseCountsOf(d, def, of.Space, mids)
					if removed += n; err != nil {
						return err
					}
				}
			}
			if removed > 0 {
				say(fmt.Sprintf("given up: counts of column %s of %s, of %d posts that are not there", of.Name, def.Name, removed))
			}
		}
	}
	return nil
}

// loseCountsOf removes, of some posts, the counts of those that are not there. Nothing of it is logged, as of all that Salvage gives up.
func loseCountsOf(d *core.Data, def, space *schema.Counter, mids []uint64) (removed int, err error) {
	look, lose := d.NewCarrier(), d.NewSilent(d.Log.Position())
	for part := range slices.Chunk(mids, 256) {
		if err := look.Begin(); err != nil {
			return removed, err
		}
		for _, mid := range part {
			look.Add(core.Op{Kind: core.OpExists, Counter: def, Mid: mid})
		}
		look.Run()
		look.End()
		for i, mid := range part {
			if op := look.Op(i); op.Err != nil {
				return removed, op.Err
			} else if !op.Found {
				lose.Add(core.Op{Kind: core.OpDelete, Counter: space, Mid: mid})
			}
		}
		look.Reset()
		if err := lose.Begin(); err != nil {
			return removed, err
		}
		lose.Run()
		lose.End()
		for i := range lose.Len() {
			if err := lose.Op(i).Err; err != nil {
				return removed, err
			}
			removed++
		}
		lose.Reset()
	}
	return removed, nil
}

// losePartial gives the partial rows of a block up, but for those that can be completed.
func losePartial(ks *block.Keyspace, b *block.Block, say func(string)) {
	if ks.FoldAll(b) == nil {
		return
	}
	for _, mid := range b.Cold.PartialMids() {
		var known []string
		for _, v := range b.Cold.Partial[mid] {
			if c := ks.Def.Index(v.Column); c >= 0 {
				known = append(known, fmt.Sprintf("%s %d", ks.Def.Columns[c].Name, v.Value))
			}
		}
		slices.SortFunc(known, cmp.Compare)
		say(fmt.Sprintf("given up: %s:%d, of which only %s is known", ks.CounterName, mid, strings.Join(known, ", ")))
		ks.Files.PutPartial(b, mid, nil)
	}
}
