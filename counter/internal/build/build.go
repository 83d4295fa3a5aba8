package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// Build makes a data directory of posts that come in order of mid, at 5 to 10 times the rate of a server that is loaded:
// nothing is logged, and old posts go straight to cold files, several at once.
//
//	b, err := counter.NewBuild("dir", counter.BuildOptions{Schema: s})
//	err = b.Add(s.Counters()[0], posts) // any number of times, in order
//	result, err := b.Finish()
//
// The directory is one that Open and counterd take as it is: cold files, images of the newest posts, a manifest that
// names them, an empty log that begins at buildStart, and HISTORY. Its log does not begin at 0, so nobody takes it for
// one from which everything can be replayed: not a replica, and not a restore to before the build.
//
// It is made as dir.building and gets its name when it is whole and durable. A build that was broken off leaves
// dir.building, which no server opens, as its log begins where no manifest stands; the next build to dir removes it.
//
// Add and Finish are not safe for concurrent use.
type Build struct {
	opts  BuildOptions
	out   string     // the directory's name at last
	path  string     // and until then
	data  *core.Data // in memory: it has keyspaces, which know how tables and files are made, and no posts
	dir   *persist.Dir
	log   format.History
	began time.Time

	jobs   chan *buildJob
	wg     sync.WaitGroup        // workers
	open   sync.WaitGroup        // jobs that are not done
	failed atomic.Pointer[error] // the first error of a worker
	done   bool                  // finished or aborted

	spaces map[uint32][]*buildSpace // by counter, then by group
}

// BuildOptions of a build. Schema must be given; the zero value of each other field is its default.
type BuildOptions struct {
	Schema *schema.Schema

	// SlotGroups makes a directory for a node of a cluster: see Options.SlotGroups.
	SlotGroups bool

	// FilePosts is how many posts a cold file has: 64..8 Mi, default 256 Ki, of one with SlotGroups 64 Ki. An open file
	// takes a descriptor and a mapping of the server: 10^10 posts want files of a million. A range that is rewritten or
	// brought back is one file.
	FilePosts int

	// BlockItems as in Options, for the posts in memory.
	BlockItems int

	// HotBytes is how much memory the newest posts may take that the server has in memory when it opens the directory. 0:
	// only the open block of each keyspace is, with the newest posts, BlockItems at most.
	HotBytes int64

	// HotFrom, if not 0: posts from this mid on are in memory, and HotBytes does not count.
	HotFrom uint64

	// Workers is how many files are made at a time. Default: 3 for 2 processors, as a worker waits for the disk at the end
	// of each file. Each takes 8 bytes a number of FilePosts posts.
	Workers int

	// FS is the file system, by default the real one.
	FS vfs.FS
}

// BuildResult says what a build made.
type BuildResult struct {
	Posts, HotPosts      uint64
	ColdFiles, HotImages int
	ColdBytes, HotBytes  uint64 // of files
	First, Last          uint64 // the lowest mid and the highest
	Took                 time.Duration
}

const (
	// buildStart is where the log of a directory that was built begins: anywhere but at 0.
	buildStart = 1 << 20

	buildSuffix = ".building"
	lockName    = "LOCK"

	leastFilePosts, mostFilePosts = 64, 8 << 20
	defaultFilePosts              = 256 << 10
	slotGroupsFilePosts           = 64 << 10
)

func (o BuildOptions) withDefaults() (BuildOptions, error) {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Schema == nil || len(o.Schema.Counters()) == 0 {
		return o, errors.New("counter: a build wants a schema with a counter")
	}
	if o.FilePosts == 0 {
		if o.FilePosts = defaultFilePosts; o.SlotGroups {
			o.FilePosts = slotGroupsFilePosts
		}
	}
	if o.FilePosts < leastFilePosts || o.FilePosts > mostFilePosts {
		return o, fmt.Errorf("counter: FilePosts: got %d, want %d..%d", o.FilePosts, leastFilePosts, mostFilePosts)
	}
	if o.Workers == 0 {
		n := runtime.GOMAXPROCS(0)
		o.Workers = n + (n+1)/2
	}
	return o, nil
}

// NewBuild begins a build of the directory out, which must not be there, or be empty: it is removed then. The leftovers of
// an interrupted build to out are removed too; a build still at work gives vfs.ErrLocked.
func NewBuild(out string, opts BuildOptions) (*Build, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Build{opts: opts, out: filepath.Clean(out), began: time.Now(), spaces: map[uint32][]*buildSpace{}}
	b.path = b.out + buildSuffix
	if err := b.vacant(); err != nil {
		return nil, err
	}
	if err := core.CheckBlockItems(opts.BlockItems); err != nil {
		return nil, err
	}
	b.data = core.NewData(core.Config{FS: opts.FS, SlotGroups: opts.SlotGroups, BlockItems: opts.BlockItems, Manual: true}, nil)
	if err = b.data.SetSchema(opts.Schema); err == nil {
		err = b.begin()
	}
	if err != nil {
		return nil, errors.Join(err, b.data.Release(nil))
	}
	b.jobs = make(chan *buildJob)
	for range opts.Workers {
		b.wg.Add(1)
		go b.work()
	}
	return b, nil
}

// vacant tells whether out may be made, and removes it if it is empty.
func (b *Build) vacant() error {
	_, err := b.opts.FS.Stat(b.out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := b.opts.FS.List(b.out)
	if err == nil && len(names) > 0 {
		err = &fs.PathError{Op: "build", Path: b.out, Err: fs.ErrExist}
	}
	if err != nil {
		return err
	}
	// It gives its name away, and an empty file system that is mounted there can not: better known now than after hours.
	if err := b.opts.FS.Remove(b.out); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("counter: the build cannot take the name of an empty directory, is a file system mounted there? %w", err)
	}
	return nil
}

// begin makes the directory, and its log first: without a manifest for it no server opens the directory.
func (b *Build) begin() (err error) {
	fsys := b.opts.FS
	if err := fsys.MkdirAll(b.path); err != nil {
		return err
	}
	lock, err := fsys.Lock(filepath.Join(b.path, lockName)) // of a build that is at work
	if err != nil {
		return err
	}
	if err := errors.Join(clearBuild(fsys, b.path, false), lock.Close()); err != nil {
		return err
	}
	if b.dir, err = persist.OpenDir(fsys, b.path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, clearBuild(fsys, b.path, true), b.dir.Close())
		}
	}()
	log, _, err := persist.OpenLog(persist.LogOptions{FS: fsys, Dir: b.path, Create: true, Manual: true}, buildStart, nil)
	if err != nil {
		return err
	}
	b.log = log.History()
	if err := log.Close(); err != nil {
		return err
	}
	l := format.Lineage{Terms: []format.Term{{ReplID: b.log.ReplID, Epoch: b.log.Epoch, Start: buildStart}}}
	return logfile.WriteLineage(fsys, b.path, &l)
}

// clearBuild removes what a build made in a directory, all but the lock; whole: and the directory. The manifest goes first
// and the log last: in between, no server opens the rest.
func clearBuild(fsys vfs.FS, path string, whole bool) error {
	remove := func(name string) error {
		if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	files := func(dir string, keep ...string) error {
		names, err := fsys.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, name := range names {
			if slices.Contains(keep, name) {
				continue
			}
			if err := remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		if dir != path {
			return remove(dir)
		}
		return fsys.SyncDir(path)
	}
	dirs := []string{format.ImageDir(path), format.ColdDir(path), format.LogDir(path)}
	keep := []string{lockName}
	for _, dir := range dirs {
		keep = append(keep, filepath.Base(dir))
	}
	if err := files(path, keep...); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := files(dir); err != nil {
			return err
		}
	}
	if !whole {
		return nil
	}
	if err := remove(filepath.Join(path, lockName)); err != nil {
		return err
	}
	return remove(path)
}

// Add takes posts of a counter of the schema, which come behind those that were added before: else the error is a
// *BuildOrderError, and none of them was taken. The posts belong to the build from then on.
func (b *Build) Add(c *schema.Counter, posts Posts) error {
	if err := b.failed.Load(); err != nil {
		return *err
	}
	if b.done {
		return core.ErrClosed
	}
	if len(posts.Mids) == 0 {
		return nil
	}
	if err := posts.check(c); err != nil {
		return err
	}
	spaces := b.spaces[c.ID]
	if spaces == nil {
		for _, ks := range b.data.Spaces[c.ID] {
			spaces = append(spaces, &buildSpace{b: b, ks: ks})
		}
		b.spaces[c.ID] = spaces
	}
	if err := inOrder(spaces, posts.Mids); err != nil {
		return err
	}
	if !b.opts.SlotGroups {
		return spaces[0].add(posts)
	}
	for group, p := range b.byGroup(posts) {
		if len(p.Mids) > 0 {
			if err := spaces[group].add(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// inOrder checks that mids rise, and begin behind the last post.
func inOrder(spaces []*buildSpace, mids []uint64) error {
	for _, sp := range spaces {
		if sp.posts > 0 && mids[0] <= sp.last {
			return &BuildOrderError{mids[0], sp.last}
		}
	}
	for i := 1; i < len(mids); i++ {
		if mids[i] <= mids[i-1] {
			return &BuildOrderError{mids[i], mids[i-1]}
		}
	}
	if last := mids[len(mids)-1]; last > schema.MaxMid {
		return fmt.Errorf("counter: post %d, want %d at most", last, uint64(schema.MaxMid))
	}
	return nil
}

// byGroup takes posts apart.
func (b *Build) byGroup(posts Posts) []Posts {
	split := make([]Posts, slot.Groups)
	for i, mid := range posts.Mids {
		p := &split[slot.Group(mid)]
		if p.Columns == nil {
			p.Columns = make([][]uint64, len(posts.Columns))
		}
		p.Mids = append(p.Mids, mid)
		for c, col := range posts.Columns {
			p.Columns[c] = append(p.Columns[c], col[i])
		}
	}
	return split
}

// Finish writes the remaining posts, makes all of them durable and gives the directory its name. After an error there is
// no directory of that name, and Abort removes the files.
func (b *Build) Finish() (*BuildResult, error) {
	if b.done {
		return nil, core.ErrClosed
	}
	for _, spaces := range b.spaces {
		for _, sp := range spaces {
			sp.finish()
		}
	}
	b.drain()
	if err := b.heat(); err != nil {
		b.fail(err)
	}
	close(b.jobs)
	b.wg.Wait()
	b.jobs = nil
	if err := b.failed.Load(); err != nil {
		return nil, *err
	}
	m, result := b.manifest()
	if err := b.dir.WriteManifest(m); err != nil {
		return nil, err
	}
	fsys := b.opts.FS
	if err := b.vacant(); err != nil { // it may have been made meanwhile
		return nil, err
	}
	if err := fsys.Rename(b.path, b.out); err != nil {
		return nil, err
	}
	b.done = true
	result.Took = time.Since(b.began)
	// The lock is held until here: another build to out would take the finished directory for leftovers, and remove it.
	err := errors.Join(fsys.SyncDir(filepath.Dir(b.out)), b.dir.Close(), b.data.Release(nil))
	return result, err
}

// Abort ends a build that is not finished, and removes what it made. After Finish without an error it does nothing.
func (b *Build) Abort() error {
	if b.done {
		return nil
	}
	b.done = true
	b.fail(context.Canceled)
	if b.jobs != nil {
		close(b.jobs)
		b.wg.Wait()
	}
	return errors.Join(clearBuild(b.opts.FS, b.path, true), b.dir.Close(), b.data.Release(nil))
}

// manifest names everything.
func (b *Build) manifest() (*format.Manifest, *BuildResult) {
	sch := b.opts.Schema
	m := &format.Manifest{History: b.log, TimeMS: time.Now().UnixMilli(), Offset: buildStart, Replay: buildStart,
		SlotGroups: b.opts.SlotGroups, NextBlock: b.data.BlockIDs.Load() + 1,
		Schema: strings.Split(strings.TrimSuffix(string(sch.AppendText(nil)), "\n"), "\n")}
	r := &BuildResult{}
	for _, def := range sch.All() {
		files := format.CounterFiles{ID: def.ID, Name: def.Name}
		for _, sp := range b.spaces[def.ID] {
			if sp.posts == 0 {
				continue
			}
			if r.Posts == 0 || sp.first < r.First {
				r.First = sp.first
			}
			r.Last = max(r.Last, sp.last)
			r.Posts += sp.posts
			for _, f := range sp.files {
				files.Blocks = append(files.Blocks, f.made...)
			}
		}
		for i := range files.Blocks {
			f := &files.Blocks[i]
			if f.Tier == format.TierHot {
				r.HotImages++
				r.HotPosts += f.Items
				r.HotBytes += f.Bytes
			} else {
				r.ColdFiles++
				r.ColdBytes += f.Bytes
			}
		}
		m.Counters = append(m.Counters, files)
		m.NextCounter = max(m.NextCounter, def.ID+1)
	}
	return m, r
}

// fail notes the first error.
func (b *Build) fail(err error) { b.failed.CompareAndSwap(nil, &err) }

// Leftover returns the path of the leftovers of an interrupted build to out, or "".
func Leftover(fsys vfs.FS, out string) string {
	path := filepath.Clean(out) + buildSuffix
	if names, err := fsys.List(path); err != nil || len(slices.DeleteFunc(names, func(n string) bool { return n == lockName })) == 0 {
		return ""
	}
	return path
}
