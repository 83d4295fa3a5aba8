package counter

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// Cold files lie unread for years: a scrubber reads them again and again, slowly, so that a disk that loses bits is
// noticed while a replica or a backup still has them. And images are not read before the next start: a damaged one is
// written anew while its items are in memory. Nor is the log: where it is damaged, a snapshot of what memory has makes a start
// need it no more. Its damage is reported, as replicas and restores that need this part cannot read it.
const (
	// scrubRate is in bytes a second: 20 GB, 10^10 posts, in 40 minutes.
	scrubRate = 8 << 20
	// scrubRest is between two rounds.
	scrubRest = time.Hour
)

// errStopped ends a verification when the store closes.
var errStopped = errors.New("counter: stopped")

// scrubber verifies all files, round after round.
type scrubber struct {
	s         *core.Data
	snapshots *snapshotter

	verified atomic.Int64  // cold files that were found good
	errors   atomic.Int64  // files of all kinds that were found damaged
	running  atomic.Bool   // a round is under way, or asked for
	now      chan struct{} // begins one

	quit, done chan struct{}
	stopOnce   sync.Once
}

func newScrubber(s *core.Data, snapshots *snapshotter) *scrubber {
	return &scrubber{s: s, snapshots: snapshots, now: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

func (c *scrubber) start() {
	if c.s.Config.Manual {
		close(c.done)
		return
	}
	go c.run()
}

func (c *scrubber) stop() {
	c.stopOnce.Do(func() { close(c.quit) })
	<-c.done
}

// run verifies round after round.
func (c *scrubber) run() {
	defer close(c.done)
	pace := func(n int) error { return sleep(time.Duration(n)*time.Second/scrubRate, c.quit) }
	for {
		c.running.Store(true)
		select { // a request from here on means another round
		case <-c.now:
		default:
		}
		for _, m := range c.s.Dir.Manifests() {
			if err := c.snapshots.verifyImages(m, pace); errors.Is(err, errStopped) {
				return
			} else if err != nil {
				c.errors.Add(1)
			}
		}
		damage, err := c.s.Log.Segments().Verify(pace)
		for _, err := range damage {
			c.errors.Add(1)
			c.s.Config.Logger.Error("the log is damaged; a restart may fail, and replicas and restores cannot read this part", "error", err)
		}
		if len(damage) > 0 { // memory has what it says: a start reads the log behind the newest snapshot only
			c.snapshots.asked.Add(1)
			go func() { _ = c.snapshots.make() }() // told by the logger
		}
		if err != nil {
			return // stopped
		}
		for _, f := range c.files() {
			err := f.Verify(pace)
			switch {
			case err == nil:
				c.verified.Add(1)
			case errors.Is(err, errStopped):
				return
			case errors.Is(err, coldstore.ErrClosed): // replaced meanwhile
			default:
				c.errors.Add(1)
				c.s.Config.Logger.Error("a cold file is damaged; posts on its bad pages cannot be read", "file", f.Name(), "error", err)
			}
		}
		c.running.Store(false)
		rest := time.NewTimer(scrubRest)
		select {
		case <-rest.C:
		case <-c.now:
		case <-c.quit:
			rest.Stop()
			return
		}
		rest.Stop()
	}
}

// Scrub has the images, the log and the cold files verified now, in the background, and not when they are due, as behind a
// disk's trouble. ErrScrubbing: they are being verified. Other errors: ErrInMemory.
func (a Admin) Scrub() error {
	c := a.s.scrubber
	switch {
	case c == nil:
		return ErrInMemory
	case !c.running.CompareAndSwap(false, true):
		return ErrScrubbing
	}
	c.now <- struct{}{} // there is room: nobody else has asked since the round before
	return nil
}

// files are the cold files in use now.
func (c *scrubber) files() (files []*coldstore.File) {
	c.s.Gate.RLock()
	defer c.s.Gate.RUnlock()
	for ks := range c.s.Keyspaces {
		for _, b := range ks.Dir.Load().Blocks {
			if b.Cold != nil {
				files = append(files, b.Cold.File)
			}
		}
	}
	return files
}

// sleep returns errStopped if quit is closed before d is over.
func sleep(d time.Duration, quit <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-quit:
		return errStopped
	case <-timer.C:
		return nil
	}
}

// DamagedRanges are the ranges of the cold blocks whose file is missing or damaged, as far as a read or the scrubber has
// found. ReplaceRange ends the damage.
func DamagedRanges(store *Store) (found []PostRange) {
	s := &store.data
	s.Gate.RLock()
	defer s.Gate.RUnlock()
	if s.Closed {
		return nil
	}
	for ks := range s.Keyspaces {
		for _, b := range ks.Dir.Load().Blocks {
			if b.Cold != nil && b.Cold.File.Damaged() && !b.Open() {
				found = append(found, PostRange{Counter: ks.ID, Group: ks.Group, Lo: b.Lo, Hi: b.Hi})
			}
		}
	}
	return found
}

// ReplaceRange gives a cold block with a damaged file another file, with the posts of another node. r is the block's range,
// and rows are all posts that the other node has there, in order of mid, each as it was somewhere between the log offsets
// since and at, of a log that agrees with this one up to at. On top of them comes what this store knows of the range: all
// that was changed since the damaged file was written is in the block's overlay, or in its partial rows. So a column that
// changed has the value of this store, and one that did not is the same in both.
//
// The error is ErrElsewhere if this log does not reach at yet, or if the schema changed behind since; ErrNoBlock if there is no
// such block any more. Nothing was changed then. The old file stays until no snapshot names it.
func ReplaceRange(s *Store, r PostRange, since, at uint64, rows []PostRow) error {
	s.data.Gate.RLock()
	ks, err := rangeKeyspace(&s.data, r)
	s.data.Gate.RUnlock()
	if err != nil {
		return err
	}
	return s.tiers.rewriteAs(ks, r.Lo, rewriteFrom{posts: &otherPosts{r, since, at, rows}})
}

// rewriteFrom says what becomes of rows of the old file that cannot be read. The zero value: the old block stays.
type rewriteFrom struct {
	lose  bool        // they are left out
	posts *otherPosts // these take the place of all rows of the file
}

// fit tells why a block cannot be written so. REQUIRES b.Mu and the gate held.
func (f *rewriteFrom) fit(s *core.Data, ks *block.Keyspace, b *block.Block) error {
	if f.posts == nil {
		return ks.FoldAll(b)
	}
	return f.posts.fit(s, b)
}

// moved is what is to come on top of the new file: the columns that are known of partial rows, on the posts of another node.
// REQUIRES b.Mu held.
func (f *rewriteFrom) moved(b *block.Block) map[uint64]struct{} {
	mids := make(map[uint64]struct{})
	if f.posts != nil {
		for mid := range b.Cold.Partial {
			mids[mid] = struct{}{}
		}
	}
	return mids
}

// otherPosts are those of another node.
type otherPosts struct {
	r         PostRange
	since, at uint64
	rows      []PostRow
}

// fit tells why the posts cannot take the place of a block's file. REQUIRES b.Mu and the gate held.
func (o *otherPosts) fit(s *core.Data, b *block.Block) error {
	switch {
	case b.Cold == nil || b.Lo != o.r.Lo || b.Hi != o.r.Hi:
		return fmt.Errorf("%w: [%d,%d) is no cold block", ErrNoBlock, o.r.Lo, o.r.Hi)
	case s.Log.Position() < o.at || s.Altered > o.since:
		return ErrElsewhere
	}
	return nil
}

// file writes the posts to a cold file of their own, beside the one that is being made, and opens it. done removes it.
func (o *otherPosts) file(fsys vfs.FS, path string, meta coldstore.Meta) (file *coldstore.File, done func(), err error) {
	temp := filepath.Join(filepath.Dir(path), "other-"+filepath.Base(path)+format.TempSuffix) // one that is left goes at the next start
	w, err := coldstore.Create(fsys, temp, meta)
	if err != nil {
		return nil, nil, err
	}
	for i := range o.rows {
		if len(o.rows[i].Values) != len(meta.Columns) {
			err = fmt.Errorf("counter: post %d of another node has %d columns, want %d", o.rows[i].Mid, len(o.rows[i].Values), len(meta.Columns))
		} else {
			err = w.Add(o.rows[i].Mid, o.rows[i].Values)
		}
		if err != nil {
			return nil, nil, errors.Join(err, w.Abort(), vfs.RemoveIfThere(fsys, temp))
		}
	}
	if _, err = w.Finish(); err == nil {
		file, err = coldstore.Open(fsys, temp, nil)
	}
	if err != nil {
		return nil, nil, errors.Join(err, vfs.RemoveIfThere(fsys, temp))
	}
	return file, func() { _ = errors.Join(file.Close(), fsys.Remove(temp)) }, nil
}
