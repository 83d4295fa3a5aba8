package build

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/schema"
)

// buildSpace is a keyspace whose posts come in order. It cuts them into files:
//
//	[0 ......... 7001 ......... 9313 ....... 9901 ............... 2^63)
//	 cold file    cold file      hot image    open: the newest, an image too
//
// A range ends behind its last post, so that it is known when the file is full.
type buildSpace struct {
	b           *Build
	ks          *block.Keyspace
	posts       uint64
	first, last uint64 // mids; of none if posts is 0
	lo          uint64 // where the range of the pending posts begins
	pending     []Posts
	n           int // posts pending
	files       []*buildJob
}

// buildJob is a range to be written.
type buildJob struct {
	sp     *buildSpace
	lo, hi uint64
	posts  []Posts // nil: those of the file that was made first
	hot    bool
	id     uint64
	made   []format.BlockFile // by the worker, in order
}

// sealed is how many posts a sealed block gets, and the open one at most: as many as a block that is sealed by a server
// (makeRoom).
func (sp *buildSpace) sealed() int { return sp.ks.BlockItems - sp.ks.BlockItems/64 }

// add takes posts, which come behind the last.
func (sp *buildSpace) add(p Posts) error {
	if sp.posts == 0 {
		sp.first = p.Mids[0]
	}
	sp.posts += uint64(len(p.Mids))
	sp.last = p.Mids[len(p.Mids)-1]
	for from, n := 0, len(p.Mids); from < n; {
		to, size, hot := n, sp.b.opts.FilePosts, false
		if at := sp.b.opts.HotFrom; at > 0 {
			if k, _ := slices.BinarySearch(p.Mids[from:], at); k > 0 {
				to = from + k
			} else if hot = true; sp.n > 0 && sp.lastPending() < at {
				sp.cut(sp.n, false)
			}
			if hot {
				size = sp.sealed()
			}
		}
		if sp.n >= size { // only now, so that something is left for the open block
			sp.cut(sp.n, hot)
		}
		to = min(to, from+size-sp.n)
		sp.pending = append(sp.pending, p.Slice(from, to))
		sp.n += to - from
		from = to
	}
	if err := sp.b.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (sp *buildSpace) lastPending() uint64 {
	mids := sp.pending[len(sp.pending)-1].Mids
	return mids[len(mids)-1]
}

// cut makes a file of the first n posts pending.
func (sp *buildSpace) cut(n int, hot bool) {
	j := &buildJob{sp: sp, lo: sp.lo, hot: hot}
	sp.n -= n
	for n > 0 {
		p := sp.pending[0]
		if k := len(p.Mids); k > n {
			sp.pending[0] = p.Slice(n, k)
			p = p.Slice(0, n)
		} else {
			sp.pending = sp.pending[1:]
		}
		n -= len(p.Mids)
		j.posts = append(j.posts, p)
		j.hi = p.Mids[len(p.Mids)-1] + 1
	}
	sp.lo = j.hi
	sp.send(j)
}

func (sp *buildSpace) send(j *buildJob) {
	j.id = sp.b.data.BlockIDs.Add(1)
	sp.b.open.Add(1)
	sp.files = append(sp.files, j)
	sp.b.jobs <- j
}

// finish makes files of the remaining posts: the last of them are in the open block.
func (sp *buildSpace) finish() {
	if sp.posts == 0 {
		return
	}
	if open := min(sp.n, sp.sealed()); sp.n > open {
		sp.cut(sp.n-open, false)
	}
	sp.send(&buildJob{sp: sp, lo: sp.lo, hi: hot.EndMid, posts: sp.pending, hot: true})
	sp.pending, sp.n = nil, 0
}

// work makes files until there are no more jobs.
func (b *Build) work() {
	defer b.wg.Done()
	for j := range b.jobs {
		if b.failed.Load() == nil {
			if err := j.run(); err != nil {
				b.fail(err)
			}
		}
		j.posts = nil
		b.open.Done()
	}
}

func (j *buildJob) run() error {
	switch {
	case j.posts == nil:
		return j.heat()
	case j.hot:
		f, err := j.image(j.lo, j.hi, j.posts)
		j.made = []format.BlockFile{f}
		return err
	default:
		f, err := j.cold()
		j.made = []format.BlockFile{f}
		return err
	}
}

// cold writes a cold file.
func (j *buildJob) cold() (f format.BlockFile, err error) {
	b, ks := j.sp.b, j.sp.ks
	name := format.ColdName(j.id, buildStart)
	meta := coldstore.Meta{Counter: ks.Def.ID, Offset: buildStart, Lo: j.lo, Hi: j.hi, Columns: ks.FileColumns(), OneGroup: ks.SlotGroups, Group: ks.Group}
	w, err := coldstore.Create(b.opts.FS, filepath.Join(format.ColdDir(b.path), name), meta)
	if err != nil {
		return f, err
	}
	for _, p := range j.posts {
		if err := w.AddRows(p.Mids, p.Columns); err != nil {
			return f, errors.Join(err, w.Abort())
		}
	}
	st, err := w.Finish()
	if err != nil {
		return f, errors.Join(err, w.Abort())
	}
	return format.BlockFile{Tier: format.TierCold, Group: ks.Group, Block: j.id, Lo: j.lo, Hi: j.hi, Offset: buildStart,
		Items: st.Items, Bytes: uint64(st.Bytes), CRC: st.Checksum, Name: name}, nil
}

// image writes the image of a hot block.
func (j *buildJob) image(lo, hi uint64, posts []Posts) (f format.BlockFile, err error) {
	b, ks := j.sp.b, j.sp.ks
	blk, err := blockOf(ks, lo, hi, posts)
	if err != nil {
		return f, err
	}
	defer ks.Arena.Free(blk.Span)
	h := format.ImageHeader{Counter: ks.Def.ID, Block: blk.ID, Lo: lo, Hi: hi, Offset: buildStart, Items: uint64(blk.Tab.Len())}
	info, err := snapfile.WriteImage(b.opts.FS, b.path, h, blk.Tab.AppendImage(nil))
	if err != nil {
		return f, err
	}
	return format.BlockFile{Tier: format.TierHot, Group: ks.Group, Block: blk.ID, Lo: lo, Hi: hi, Offset: buildStart,
		Items: h.Items, Bytes: info.Bytes, CRC: info.CRC, Name: info.Name}, nil
}

// blockOf makes a hot block of a range with posts.
func blockOf(ks *block.Keyspace, lo, hi uint64, posts []Posts) (*block.Block, error) {
	d := hot.NewDemand(ks.Def.Columns)
	for _, p := range posts {
		d.Items += len(p.Mids)
		for c, col := range p.Columns {
			for _, v := range col {
				d.Add(c, v)
			}
		}
	}
	pl := ks.PlanFor(d, lo, hi, 0, block.SealLoad, block.YoungBits)
	if hi == hot.EndMid {
		pl = block.Plan{Lo: lo, Hi: hi, Items: max(d.Items, block.SmallestBlock), Load: block.GrowLoad, Layout: ks.Layout, Shape: ks.Layout}
	}
	news, err := ks.Builder.Rebuild(&block.Block{Lo: lo, Hi: hi}, func(tabs []*hot.Table) error {
		for _, p := range posts {
			for i, mid := range p.Mids {
				ref, err := tabs[0].AddAt(tabs[0].Home(mid))
				if err != nil {
					return err
				}
				for c, col := range p.Columns {
					tabs[0].Set(ref, c, col[i])
				}
			}
		}
		return nil
	}, pl)
	if err != nil {
		return nil, err
	}
	return news[0], nil
}

// heat makes hot images of the newest cold files, as far as HotBytes go.
func (b *Build) heat() error {
	if b.opts.HotBytes <= 0 || b.opts.HotFrom > 0 || b.failed.Load() != nil {
		return nil
	}
	var cold []*buildJob
	left := b.opts.HotBytes
	for _, spaces := range b.spaces {
		for _, sp := range spaces {
			for _, j := range sp.files {
				if !j.hot {
					cold = append(cold, j)
					continue
				}
				for _, f := range j.made {
					left -= int64(f.Bytes)
				}
			}
		}
	}
	slices.SortFunc(cold, func(x, y *buildJob) int { // newest first
		if x.lo > y.lo {
			return -1
		}
		return 1
	})
	each := 0.0 // bytes a post, as the first turns out
	for i, j := range cold {
		items := j.made[0].Items
		if left -= int64(each * float64(items)); left < 0 {
			return nil
		}
		b.open.Add(1)
		b.jobs <- j
		if i > 0 {
			continue
		}
		b.drain()
		bytes := uint64(0)
		for _, f := range j.made {
			bytes += f.Bytes
		}
		left -= int64(bytes)
		each = float64(bytes) / float64(max(items, 1))
	}
	b.drain()
	return nil
}

// drain waits until all files are made that were asked for.
func (b *Build) drain() { b.open.Wait() }

// heat makes hot images of the cold file that was made, and removes it.
func (j *buildJob) heat() error {
	b, cold := j.sp.b, j.made[0]
	path := cold.Path(b.path)
	file, err := coldstore.Open(b.opts.FS, path, nil)
	if err != nil {
		return err
	}
	var made []format.BlockFile
	lo, size := j.lo, j.sp.sealed()
	p := Posts{Columns: make([][]uint64, len(j.sp.ks.Def.Columns))}
	flush := func(hi uint64) error {
		f, err := j.image(lo, hi, []Posts{p})
		made = append(made, f)
		lo, p.Mids = hi, p.Mids[:0]
		for c := range p.Columns {
			p.Columns[c] = p.Columns[c][:0]
		}
		return err
	}
	var failed error
	err = file.Iterate(0, func(mid uint64, vals []uint64) bool {
		if len(p.Mids) == size {
			if failed = flush(p.Mids[size-1] + 1); failed != nil {
				return false
			}
		}
		p.Mids = append(p.Mids, mid)
		for c, v := range vals {
			p.Columns[c] = append(p.Columns[c], v)
		}
		return true
	})
	err = errors.Join(err, failed, file.Close())
	if err == nil {
		err = flush(j.hi)
	}
	if err != nil {
		return err
	}
	j.made = made
	return b.opts.FS.Remove(path)
}

// Posts are posts of one counter in order of mid, as columns: Columns[c][i] is the value of post Mids[i] in the
// counter's column c.
type Posts struct {
	Mids    []uint64
	Columns [][]uint64
}

// Slice returns the posts from number from to number to.
func (p Posts) Slice(from, to int) Posts {
	q := Posts{Mids: p.Mids[from:to], Columns: make([][]uint64, len(p.Columns))}
	for c, col := range p.Columns {
		q.Columns[c] = col[from:to]
	}
	return q
}

// check returns an error for wrong columns of posts.
func (p *Posts) check(c *schema.Counter) error {
	if len(p.Columns) != len(c.Columns) || len(c.Columns) == 0 {
		return fmt.Errorf("counter: posts of %d columns, want the %d of %s", len(p.Columns), len(c.Columns), c.Name)
	}
	for i, col := range p.Columns {
		if len(col) != len(p.Mids) {
			return fmt.Errorf("counter: %d posts with %d values of %s", len(p.Mids), len(col), c.Columns[i].Name)
		}
		bits := uint64(0)
		for _, v := range col {
			bits |= v
		}
		if most := c.Columns[i].Max; bits > 1<<min(most, 63)-1 {
			return fmt.Errorf("counter: a value of %s of over %d bits: %w", c.Columns[i].Name, min(most, 63), core.ErrOutOfRange)
		}
	}
	return nil
}

// BuildOrderError is a post that does not come behind the one before it.
type BuildOrderError struct{ Mid, Before uint64 }

func (e *BuildOrderError) Error() string {
	return fmt.Sprintf("counter: post %d after %d, want rising mids", e.Mid, e.Before)
}
