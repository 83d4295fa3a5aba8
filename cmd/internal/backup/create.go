package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// BegunError says that a directory is between two contents, which its server, or the next start, finishes, or that it has no content yet.
type BegunError struct{ What string }

func (e *BegunError) Error() string {
	return "the node is " + e.What + ": there is nothing to back up before that is done"
}

// Is makes errors.Is(err, fs.ErrNotExist) true: of a directory in use it means to begin anew.
func (e *BegunError) Is(target error) bool { return target == fs.ErrNotExist }

// Options are those of Create.
type Options struct {
	Source   string                   // as the index names it
	Full     bool                     // read and put every file, whatever the newest backup has
	Parallel int                      // files at once; 0: 4
	Progress func(done, total uint64) // of bytes; may be nil

	// Cold makes a function that verifies cold files of a file system: counter.ColdVerifier. The files are read as they were when the backup began, also where the server has removed
	// them. nil: their size alone is verified.
	Cold func(fsys vfs.FS) func(path string, c *format.CounterFiles, b *format.BlockFile) error
}

// coldCheck verifies cold files of a file system.
func (o *Options) coldCheck(fsys vfs.FS) snapfile.ColdCheck {
	if o.Cold == nil {
		return nil
	}
	return o.Cold(fsys)
}

// Maker makes one backup. It remembers what it has copied, so that to begin anew costs what changed since.
type Maker struct {
	Options
	store Store

	mu     sync.Mutex       // guards the rest while files are copied
	begun  bool             // the others are set
	newest time.Time        // when the newest backup was made, as it says; zero: there is none
	known  map[string]int64 // objects that are there, by checksum: their bytes
	before map[string]File  // files that need not be read again, by path
}

// NewMaker returns one. REQUIRES: the caller holds the store's lock.
func NewMaker(store Store, opts Options) *Maker {
	return &Maker{Options: opts, store: store, known: make(map[string]int64), before: make(map[string]File)}
}

// creation is a try to make a backup.
type creation struct {
	*Maker
	ctx   context.Context
	fsys  *pins
	dir   string
	index *Index
	parts []part
	done  uint64
}

// part is a file to copy.
type part struct {
	File
	text  []byte       // its content, where it was read already
	check func() error // verifies it, where it is put; nil: nothing does
}

// Make makes a backup of a data directory, which fsys shows as it was at one moment (datadir.NewView). fs.ErrNotExist
// and format.ErrCorrupt of a directory in use mean to begin anew, with a new view.
func (m *Maker) Make(ctx context.Context, fsys vfs.FS, dir string) (*Index, error) {
	if !m.begun {
		list, _, err := List(ctx, m.store)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			m.newest = list[len(list)-1].Created
		}
		for i := len(list) - 1; i >= 0 && !m.Full; i-- {
			if list[i].Source != m.Source { // of another store it knows nothing
				continue
			}
			for _, f := range list[i].Files {
				m.before[f.Path] = f
				m.known[f.SHA256] = f.Stored
			}
			break
		}
		m.begun = true
	}
	c := &creation{Maker: m, ctx: ctx, fsys: &pins{FS: fsys, files: make(map[string]pin)}, dir: dir,
		index: &Index{Version: indexVersion, Source: m.Source}}
	defer c.fsys.release(0)
	if err := c.gather(); err != nil {
		return nil, err
	}
	if err := c.copy(); err != nil {
		return nil, err
	}
	// The newest one is the last made, also where the clock was ahead meanwhile: else Prune would take it for the oldest.
	if c.index.Created = time.Now().UTC(); !c.index.Created.After(m.newest) {
		c.index.Created = m.newest.Add(time.Millisecond)
	}
	c.index.Name = c.index.name()
	if err := c.index.write(ctx, m.store); err != nil {
		return nil, err
	}
	// Some S3 servers store other bytes than they were sent (the chunks of a signed request).
	if _, err := read(ctx, m.store, c.index.Name); err != nil {
		return nil, fmt.Errorf("the store does not give back what was put: %w", err)
	}
	return c.index, nil
}

// gather finds the parts of the backup: first the manifests, then the log, so that no manifest refers to records after the
// end of the log.
func (c *creation) gather() error {
	names, err := c.fsys.List(c.dir)
	if err != nil {
		return err
	}
	if slices.Contains(names, format.HistoryName) {
		l, err := logfile.ReadLineage(c.fsys, c.dir)
		if err != nil {
			return err
		}
		text := l.AppendText(nil) // of the file, or of its copy if the file is damaged
		if begun := l.Begun(); begun != "" {
			return &BegunError{begun}
		}
		c.index.History, c.index.Past = l.Current().ReplID.String(), string(text)
		c.add(format.LineagePath(c.dir), part{text: text})
	}
	manifests, err := c.gatherManifests()
	if err != nil {
		return err
	}
	cold := c.coldCheck(c.fsys)
	if err := c.gatherLog(manifests); err != nil {
		return err
	}
	if len(manifests) == 0 && c.index.End == 0 { // a new replica has a history of its own until its primary's data is there
		return &BegunError{"waiting for its first change"}
	}
	seen := make(map[string]bool)
	for _, m := range manifests {
		c.index.Snapshots = append(c.index.Snapshots, Snapshot{m.Offset, m.TimeMS})
		_ = m.Files(func(counter *format.CounterFiles, b *format.BlockFile) error {
			path := b.Path(c.dir)
			if !seen[path] {
				seen[path] = true
				c.add(path, part{File: File{CRC: b.CRC}, check: func() error { return snapfile.CheckBlock(c.fsys, c.dir, counter, b, cold) }})
			}
			return nil
		})
	}
	for i, p := range c.parts {
		if p.text == nil {
			if err := c.fsys.pin(c.path(&c.parts[i])); err != nil {
				return err
			}
		}
	}
	// A node that takes over a primary's data in between has another log under the same names.
	if l, err := logfile.ReadLineage(c.fsys, c.dir); c.index.Past != "" && (err != nil || string(l.AppendText(nil)) != c.index.Past) {
		return fmt.Errorf("HISTORY changed while it was read: %w", fs.ErrNotExist)
	}
	if limit := len(c.fsys.files); limit < len(c.parts)-3 { // too many for this process, which needs some for itself
		c.fsys.release(limit - 64)
	}
	if s := c.index.Snapshots; len(s) == 2 && s[0].Offset > s[1].Offset {
		s[0], s[1] = s[1], s[0]
	}
	return nil
}

// gatherManifests adds the manifests that a server would keep, newest first: an older one, which a crash leaves behind the second one for a while, and
// those that a repair or a healing has set aside name files that are gone.
func (c *creation) gatherManifests() (good []*format.Manifest, err error) {
	generations, err := snapfile.Generations(c.fsys, c.dir)
	if err != nil {
		return nil, err
	}
	for _, g := range generations {
		if len(good) == persist.KeepManifests {
			break
		}
		path := filepath.Join(c.dir, format.ManifestName(g))
		m, err := snapfile.ReadManifest(c.fsys, path)
		if errors.Is(err, format.ErrCorrupt) { // the other one is good, or the server did not start
			c.index.Manifests = append(c.index.Manifests, err.Error())
			continue
		}
		if err != nil {
			return nil, err
		}
		good = append(good, m)
		c.add(path, part{text: m.AppendText(nil)})
	}
	return good, nil
}

// gatherLog adds the segments, and reads the log behind the newest snapshot to its end. A log that ends before its durable
// offset is damaged. No backup is made of it, as it would look complete and lack the rest.
func (c *creation) gatherLog(manifests []*format.Manifest) error {
	claim, err := logfile.ReadClaim(c.fsys, c.dir)
	if err != nil {
		return err
	}
	c.index.Until = time.Now().UTC()
	names, err := c.fsys.List(format.LogDir(c.dir))
	if err != nil {
		return err
	}
	for i, name := range names {
		if format.IsUnfinished(name) {
			continue
		}
		p := part{}
		if i == len(names)-1 {
			p.ModNS = -1 // it is being written: it never matches an earlier read
		}
		if start, ok := format.ParseSegmentName(name); ok {
			p.check = func() error { return c.checkSegment(start) }
		}
		c.add(filepath.Join(format.LogDir(c.dir), name), p)
	}
	segments, err := logfile.Segments(c.fsys, c.dir)
	if err != nil {
		return err
	}
	if len(segments) > 0 {
		c.index.LogFrom = segments[0].Start
	}
	from, durable := uint64(0), claim.Offset
	for _, m := range manifests {
		from, durable = max(from, m.Replay), max(durable, m.Offset)
	}
	walk, err := logfile.Walk(c.fsys, c.dir, from, durable, logfile.Visitor{Frame: func(logfile.SegmentInfo, *format.Frame) error { return c.ctx.Err() }})
	if err != nil {
		return err
	}
	c.index.End, c.index.EndMS = walk.End, walk.TimeMS
	return nil
}

// checkSegment verifies the frames of a segment up to where the next one starts.
func (c *creation) checkSegment(start uint64) error {
	_, err := logfile.Walk(c.fsys, c.dir, start, 0, logfile.Visitor{
		Segment: func(h logfile.Header) error {
			if h.Start > start {
				return io.EOF
			}
			return c.ctx.Err()
		},
	})
	return err
}

func (c *creation) add(path string, p part) {
	rel, err := filepath.Rel(c.dir, path)
	if err != nil {
		panic(err) // path is made of dir
	}
	p.Path = filepath.ToSlash(rel)
	c.parts = append(c.parts, p)
}

func (c *creation) path(p *part) string { return filepath.Join(c.dir, filepath.FromSlash(p.Path)) }

// copy stores the objects that the backup lacks.
func (c *creation) copy() error {
	var total uint64
	for i := range c.parts {
		p := &c.parts[i]
		p.Bytes = int64(len(p.text))
		if p.text == nil {
			info, err := c.fsys.Stat(c.path(p))
			if err != nil {
				return err
			}
			p.Bytes = info.Size()
			if p.ModNS == 0 {
				p.ModNS = info.ModTime().UnixNano()
			}
		}
		total += uint64(p.Bytes)
	}
	parallel := c.Parallel
	if parallel == 0 {
		parallel = 4
	}
	group, ctx := errgroup.WithContext(c.ctx)
	group.SetLimit(parallel)
	for i := range c.parts {
		p := &c.parts[i]
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			c.mu.Lock()
			old, ok := c.before[p.Path]
			c.mu.Unlock()
			if ok = ok && p.text == nil && p.ModNS > 0 && old.Bytes == p.Bytes && old.ModNS == p.ModNS && old.CRC == p.CRC; ok {
				p.File = old
			} else if err := c.put(ctx, p); err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.before[p.Path] = p.File
			c.done += uint64(p.Bytes)
			if c.Progress != nil {
				c.Progress(c.done, total)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range c.parts {
		c.index.Files = append(c.index.Files, c.parts[i].File)
	}
	return nil
}

// put puts one file, unless its content is there. It is read twice: an object's name is its content's.
func (c *creation) put(ctx context.Context, p *part) error {
	path := c.path(p)
	if p.check != nil {
		if err := p.check(); errors.Is(err, format.ErrCorrupt) {
			p.Damaged = err.Error()
		} else if err != nil {
			return err
		}
	}
	open := func() (io.Reader, func() error, error) {
		if p.text != nil {
			return strings.NewReader(string(p.text)), func() error { return nil }, nil
		}
		f, err := c.fsys.Open(path)
		if err != nil {
			return nil, nil, err
		}
		return io.NewSectionReader(f, 0, p.Bytes), f.Close, nil
	}
	sum, n, err := digest(open)
	if err != nil {
		return err
	}
	if n != p.Bytes {
		return fmt.Errorf("%s: got %d bytes, want %d: %w", path, n, p.Bytes, os.ErrNotExist) // it was changed while it was read
	}
	p.SHA256 = sum
	c.mu.Lock()
	stored, there := c.known[sum]
	c.mu.Unlock()
	if there {
		p.Stored = stored
		return nil
	}
	r, closeIt, err := open()
	if err != nil {
		return err
	}
	again := sha256.New()
	packed := compressed(io.TeeReader(r, again))
	err = c.store.Put(ctx, object(sum), packed)
	if err = errors.Join(err, packed.Close(), closeIt()); err != nil {
		return err
	}
	if got := hex.EncodeToString(again.Sum(nil)); got != sum {
		// The object has a name that is not its content's: no index may name it, and none does.
		return errors.Join(fmt.Errorf("%s was changed while it was read: %w", path, os.ErrNotExist), c.store.Remove(ctx, object(sum)))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Stored, p.fresh = packed.n, true
	c.known[sum] = p.Stored
	return nil
}

// digest is the SHA-256 and the length of the bytes that open returns.
func digest(open func() (io.Reader, func() error, error)) (sum string, n int64, err error) {
	r, closeIt, err := open()
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	n, err = io.Copy(h, r)
	if err = errors.Join(err, closeIt()); err != nil {
		return "", 0, err
	}
	return sumOf(h), n, nil
}

func sumOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// Fresh are the bytes that this backup has put, of files and of their objects; those of other backups were there.
func (x *Index) Fresh() (raw, stored int64) {
	for _, f := range x.Files {
		if f.fresh {
			raw += f.Bytes
			stored += f.Stored
		}
	}
	return raw, stored
}
