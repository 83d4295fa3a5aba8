package tier

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/counter/internal/pace"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// ErrNoBlock: there is no block of that kind to change the tier of.
var ErrNoBlock = errors.New("counter: no such block")

// rewriting is a block on its way to a new file:
//
//  1. under the block's lock, copy its table (0.1 ms for 64 Ki items) and begin to note which mids change
//  2. without it, write the rows of the copy, merged with those of the old file if there is one, in order; sync; give
//     the file its name
//  3. under the lock, put the rows that changed meanwhile into the overlay of a new cold block, and that in the place
//     of the old
//
// Until a manifest names the new file the old image, or file, and the log hold everything: a crash at any moment loses
// nothing.
type rewriting struct {
	t    *Tiers
	s    *core.Data
	ks   *block.Keyspace
	old  *block.Block
	id   uint64
	path string
	name string
	meta coldstore.Meta
	from RewriteFrom
}

func (t *Tiers) Demote(ks *block.Keyspace, mid uint64) error {
	return t.DemoteAs(ks, mid, RewriteFrom{})
}

func (t *Tiers) DemoteAs(ks *block.Keyspace, mid uint64, from RewriteFrom) error {
	t.one.Lock()
	defer t.one.Unlock()
	began := time.Now()
	t.s.Applying.RLock() // the copy and its offset belong together
	t.s.Gate.RLock()
	copied := func() {
		t.s.Gate.RUnlock()
		t.s.Applying.RUnlock()
	}
	if !t.s.Serves(ks) {
		copied()
		return fmt.Errorf("%w: the counter was cleared or dropped", ErrNoBlock)
	}
	var memory arena.Span
	defer func() { t.s.Copies.Free(memory) }()
	b := ks.Lock(mid)
	for need := b.Tab.Bytes() + core.ImageSlack; len(memory.Data) < need; need = b.Tab.Bytes() + core.ImageSlack {
		b.Mu.Unlock() // new memory costs as much as the copy
		t.s.Copies.Free(memory)
		var err error
		if memory, err = t.s.Copies.Alloc(need, true); err != nil {
			copied()
			return err
		}
		arena.Populate(memory.Data)
		b = ks.Lock(mid)
	}
	if b.Open() || len(ks.Def.Columns) == 0 || b.Dead {
		b.Mu.Unlock()
		copied()
		return fmt.Errorf("%w: %d is in the last block, which stays in memory", ErrNoBlock, mid)
	}
	if err := from.fit(t.s, ks, b); err != nil {
		b.Mu.Unlock()
		copied()
		return err
	}
	r := &rewriting{t: t, s: t.s, ks: ks, old: b, id: t.s.BlockIDs.Add(1), from: from}
	r.meta = coldstore.Meta{Counter: ks.Def.ID, Offset: t.s.Log.Position(), Lo: b.Lo, Hi: b.Hi, Columns: ks.FileColumns(),
		OneGroup: ks.SlotGroups, Group: ks.Group}
	var image []byte
	if b.Tab.Len() > 0 {
		image = b.Tab.AppendImage(memory.Data[:0])
	}
	b.Moved = from.moved(b)
	b.Mu.Unlock()
	copied()

	stats, err := r.write(image)
	if err == nil {
		err = r.install()
	}
	if err != nil {
		b.Mu.Lock()
		b.Moved = nil
		if b.Dead { // so its file is closed, which is no failure
			err = fmt.Errorf("%w: it was cleared, dropped or split meanwhile", ErrNoBlock)
		}
		b.Mu.Unlock()
		return err
	}
	if b.Cold == nil {
		t.Demotions.Add(1)
		t.spent.demoting.Add(int64(time.Since(began)))
		t.fresh.Add(stats.Bytes)
	} else {
		t.Rewrites.Add(1)
		t.spent.rewriting.Add(int64(time.Since(began)))
	}
	t.written.Add(stats.Bytes)
	return nil
}

// write makes the file.
func (r *rewriting) write(image []byte) (stats coldstore.Stats, err error) {
	s := r.s
	r.name = format.ColdName(r.id, r.meta.Offset)
	r.path = filepath.Join(format.ColdDir(s.Dir.Path()), r.name)
	temp := r.path + vfs.TempSuffix
	size := int64(len(image)) // a bound: rows are smaller in a file
	if r.old.Cold != nil {
		size += r.old.Cold.File.Stat().Bytes
	}
	if err = r.t.space.Require("a cold file", size, false); err != nil {
		return stats, err
	}
	w, err := coldstore.Create(s.Config.FS, temp, r.meta)
	if err != nil {
		return stats, err
	}
	rest, n := r.t.Rest, 0
	if rest == nil {
		turns := pace.Pace{Hurry: func() bool { return r.t.short() }}
		rest = turns.Rest
	}
	if err = r.rows(image, rest, func(mid uint64, vals []uint64) error {
		if n++; n%256 == 0 { // 40 us
			rest()
		}
		return w.Add(mid, vals)
	}); err == nil {
		stats, err = w.Finish()
	}
	if err != nil {
		err = errors.Join(err, w.Abort())
		_ = s.Config.FS.Remove(temp) // leftovers go at the next start
		return stats, err
	}
	s.Files.Keep(r.name)
	if err = s.Config.FS.Rename(temp, r.path); err == nil {
		err = s.Config.FS.SyncDir(format.ColdDir(s.Dir.Path()))
	}
	if err != nil {
		s.Files.Drop(r.name)
	}
	return stats, err
}

// rows calls add for the rows of the copy, merged with those of the old file, in order of mid and with the columns of
// the new file, and rest now and then before the first.
func (r *rewriting) rows(image []byte, rest func(), add func(mid uint64, vals []uint64) error) error {
	var tab hot.Table
	if image != nil {
		im, err := hot.DecodeImage(image)
		if err != nil {
			return err
		}
		memory, err := r.s.Copies.Alloc(im.Config.Bytes(), true)
		if err != nil {
			return err
		}
		defer r.s.Copies.Free(memory)
		arena.Populate(memory.Data)
		if tab, err = im.Table(memory.Data); err != nil {
			return err
		}
		rest()
	}
	rows := block.Merged{Table: &tab, Columns: r.meta.Columns, Rest: rest, Lost: block.LeaveOut(r.from.Lose)}
	switch {
	case r.from.Posts != nil:
		file, done, err := r.from.Posts.file(r.s.Config.FS, r.path, r.meta)
		if err != nil {
			return err
		}
		defer done()
		rows.File = file
	case r.from.Again != nil:
		rows.File = r.from.Again
	case r.old.Cold != nil:
		rows.File = r.old.Cold.File
	}
	return rows.Each(r.meta.Lo, add)
}

// install puts a cold block with the new file in the place of the old block.
func (r *rewriting) install() error {
	s, ks := r.s, r.ks
	file, err := coldstore.Open(s.Config.FS, r.path, s.Cache)
	if err != nil {
		return errors.Join(err, r.discard(nil))
	}
	fresh := &block.Block{Lo: r.meta.Lo, Hi: r.meta.Hi, ID: r.id, From: r.old.From, Dirty: true}
	fresh.Cold = &block.ColdRange{File: file, Entry: format.BlockFile{Tier: format.TierCold, Block: r.id, Lo: r.meta.Lo, Hi: r.meta.Hi,
		Items: file.Stat().Items, Bytes: uint64(file.Stat().Bytes), CRC: file.Checksum(), Name: r.name}}

	s.Gate.RLock()
	defer s.Gate.RUnlock()
	old := r.old
	old.Mu.Lock()
	if old.Dead || s.Closed { // split, cleared or dropped meanwhile
		old.Mu.Unlock()
		return errors.Join(ErrNoBlock, r.discard(file))
	}
	fresh.Used = old.Used
	if err := carryChanges(ks, old, fresh); err != nil {
		ks.Arena.Free(fresh.Span)
		old.Mu.Unlock()
		return errors.Join(err, r.discard(file))
	}
	fresh = ks.Swap(old, r.meta.Lo, fresh)
	fresh.Mu.Unlock()
	if old.Cold != nil && old.Cold.File.Err() != nil {
		s.Broken.Add(-1)
	}
	s.Files.Retire(old)
	return nil
}

// carryChanges puts what changed in old while its file was written into the overlay of fresh, which nobody can find yet.
// REQUIRES old.Mu held.
func carryChanges(ks *block.Keyspace, old, fresh *block.Block) error {
	for mid := range old.Moved {
		from, err := ks.Find(old, mid)
		if err != nil {
			return err
		}
		to, err := ks.Find(fresh, mid)
		if err != nil {
			return err
		}
		if !from.Found() {
			if to.Found() {
				if err := ks.Remove(fresh, mid, to); err != nil {
					return err
				}
			}
			continue
		}
		if from.Where == block.InPartial { // its page went bad after it was copied
			if err := ks.Complete(fresh, mid, to, old.Cold.Partial[mid]); err != nil {
				return err
			}
			continue
		}
		row, err := ks.AppendRow(nil, old, mid, from)
		if err != nil {
			return err
		}
		_, ref, err := ks.Ensure(fresh, mid, to)
		if err != nil {
			return err
		}
		for c, v := range row {
			fresh.Tab.Set(ref, c+1, v)
		}
	}
	return nil
}

// discard removes a file that is not to be used.
func (r *rewriting) discard(file *coldstore.File) error {
	var err error
	if file != nil {
		err = file.Close()
	}
	r.s.Files.Drop(r.name)
	return errors.Join(err, r.s.Config.FS.Remove(r.path))
}

// Promote makes a cold block hot. Its readers and writers wait meanwhile: some ms for 64 Ki rows in the page cache.
func (t *Tiers) Promote(ks *block.Keyspace, mid uint64) error {
	return t.PromoteAs(ks, mid, false)
}

func (t *Tiers) PromoteAs(ks *block.Keyspace, mid uint64, lose bool) error {
	t.one.Lock()
	defer t.one.Unlock()
	began := time.Now()
	t.s.Gate.RLock()
	defer t.s.Gate.RUnlock()
	if !t.s.Serves(ks) {
		return fmt.Errorf("%w: the counter was cleared or dropped", ErrNoBlock)
	}
	if b := ks.Dir.Load().Find(mid); b.Cold != nil {
		b.Cold.File.Warm() // or readers and writers of the block, and their loops, would wait for the disk with it
	}
	b := ks.Lock(mid)
	if b.Cold == nil || b.Dead {
		b.Mu.Unlock()
		return fmt.Errorf("%w: %d is not in a cold block", ErrNoBlock, mid)
	}
	back, err := heatRows(ks, b, lose)
	if err != nil {
		b.Mu.Unlock()
		return err
	}
	back = ks.Swap(b, b.Lo, back)
	back.Mu.Unlock()
	t.s.Files.Retire(b)
	ks.HotFrom.Store(min(ks.HotFrom.Load(), b.Lo))
	t.Promotions.Add(1)
	t.spent.promoting.Add(int64(time.Since(began)))
	return nil
}

// heatRows makes a hot block of a cold one; lose: of the rows that can be read. REQUIRES b.Mu held.
func heatRows(ks *block.Keyspace, b *block.Block, lose bool) (*block.Block, error) {
	each := func(fn func(mid uint64, vals []uint64) error) error {
		return ks.ColdRows(b, b.Lo, block.LeaveOut(lose), fn)
	}
	// The rows are read twice, as the widths follow from them: to keep 64 Ki of them meanwhile takes 2 MB of new memory, which costs more.
	d := hot.NewDemand(ks.Def.Columns)
	err := each(func(_ uint64, vals []uint64) error {
		d.Items++
		for c, v := range vals {
			d.Add(c, v)
		}
		return nil
	})
	var news []*block.Block
	if err == nil {
		news, err = ks.Builder.Rebuild(b, func(tabs []*hot.Table) error {
			tab := tabs[0]
			return each(func(mid uint64, vals []uint64) error {
				ref, err := tab.AddAt(tab.Home(mid))
				if err != nil {
					return err
				}
				for c, v := range vals {
					tab.Set(ref, c, v)
				}
				return nil
			})
		}, ks.PlanFor(d, b.Lo, b.Hi, 0, block.GrowLoad, block.YoungBits))
	}
	if err != nil {
		return nil, fmt.Errorf("counter: promoting [%d,%d): %w", b.Lo, b.Hi, err)
	}
	return news[0], nil
}

// candidate is a cold block to merge or to promote.
type candidate struct {
	ks      *block.Keyspace
	lo      uint64
	promote bool
}

// MergeAndPromote gives mapped pages back, merges overlays that have grown and brings back ranges that are used a lot, for about a
// second at most.
func (t *Tiers) MergeAndPromote() {
	began := time.Now()
	for _, c := range t.candidates() {
		select {
		case <-t.quit:
			return
		default:
		}
		change := t.Demote
		if c.promote {
			change = t.Promote
		}
		if err := change(c.ks, c.lo); !t.noteOutcome(c.ks, c.lo, err) && !errors.Is(err, ErrNoBlock) {
			return
		}
		if time.Since(began) > time.Second {
			return // the others are still there at the next look
		}
	}
}

// candidates looks over all cold blocks.
func (t *Tiers) candidates() (found []candidate) {
	t.s.Gate.RLock()
	spaces := slices.Collect(t.s.Keyspaces)
	t.s.Gate.RUnlock()
	limit := t.Limit.Load()
	own, _ := CacheShares(limit)
	roomy := limit == 0 || t.Tables()+min(t.s.Cache.Stats().Bytes, own) < limit*7/8 // the rest of the cache gives way
	ready := t.Backoff.Over()
	for _, ks := range spaces {
		for _, b := range ks.Dir.Load().Blocks {
			if b.Cold == nil {
				if b.Lo < ks.HotFrom.Load() { // a range that was dropped, and is written again
					b.Mu.Lock()
					if b.Tab.Len() > 0 && !b.Dead {
						ks.HotFrom.Store(b.Lo)
					}
					b.Mu.Unlock()
				}
				continue
			}
			b.Mu.Lock()
			rows, overlay, work := b.Items(), b.Tab.Len(), int(b.Work)
			b.Work -= (b.Work + 1) / 2
			dead, ready := b.Dead, ready && b.Backoff.Over()
			b.Mu.Unlock()
			switch {
			case dead || work == 0 && overlay == 0:
				continue
			case limit > 0 && work > 0:
				// Pages read through the mapping count as this process's memory until they are given back; they stay in
				// the kernel's cache.
				_ = b.Cold.File.Release()
			}
			switch {
			case !ready:
			case roomy && work > max(rows/promoteShare, overlayLeftAlone):
				found = append(found, candidate{ks, b.Lo, true})
			case overlay > max(rows/mergeShare, overlayLeftAlone):
				found = append(found, candidate{ks, b.Lo, false})
			}
		}
	}
	return found
}
