package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/counter/internal/producers"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/schema"
)

// Recovery brings the store back from its directory:
//
//  1. finish a cut of the log or an installation that a crash broke off
//  2. lock the directory; read the manifests, newest first. If all of them are damaged or gone, and the log has all changes since 0, read the log alone
//  3. put the schema of the newest manifest's replay offset in force; read the images that it names, several at once,
//     straight into blocks, and open its cold files
//  4. if one of those files is bad, forget it all and take the manifest before, whose log is kept. If no manifest is
//     whole, take them in turn again, and pass over cold files that cannot be opened. If that is not enough and the log
//     has all changes since 0, take none. Otherwise pass over images that cannot be used, too: the posts of
//     their ranges answer errors (lostrange.go)
//  5. replay the log, from its beginning if there is no manifest: each record is applied to the block that holds its
//     mid unless the block's image stands behind it already; schema changes take place where they happened
//  6. go on with the lineage of the log; remove block files that no manifest names
//
// Values in records are those after the change, so nothing can count twice.
type Recovery struct {
	s       *core.Data
	opts    RecoverOptions
	lenient leniency // how much the round that is under way may go on without
	renew   bool     // see Recovered.Renew
}

// RecoverOptions are those of the Options that the start of a store asks for.
type RecoverOptions struct {
	Policy       persist.SyncPolicy
	SegmentBytes int64 // Options.SegmentBytes
	Progress     func(what string, done, total uint64)
	Torn         func() error // is called before a torn tail of the log is cut
	GiveUp       bool         // go on without the image of a last block, too: it is about to be given up
}

// Recovered is the findings of a start.
type Recovered struct {
	persist.Recovery
	Lineage format.Lineage // that HISTORY has
	// Renew: a kept snapshot is damaged, and all posts are there, from the other snapshot or the log. Until a new snapshot replaces it, more damage
	// would leave none.
	Renew bool
}

// Recover reads the store of a directory into s, which is empty. After an error the caller releases the opened files.
func Recover(s *core.Data, path string, opts RecoverOptions) (*Recovered, error) {
	return (&Recovery{s: s, opts: opts}).run(path)
}

// run reads everything.
func (r *Recovery) run(path string) (*Recovered, error) {
	if err := past.FinishBegun(r.s.Config.FS, path); err != nil {
		return nil, err
	}
	dir, err := persist.OpenDir(r.s.Config.FS, path)
	if err != nil {
		return nil, err
	}
	r.s.Dir = dir
	if fault := logfile.LineageFault(r.s.Config.FS, path); fault != nil {
		r.s.Config.Logger.Error("one of the two files of the replication history is damaged or missing; using the other one", "error", fault)
	}
	for _, bad := range dir.Bad() {
		r.renew = true
		r.s.Config.Logger.Error("bad manifest; using a good one, or the log from its beginning if there is none", "error", bad)
	}
	from, err := r.loadSnapshot()
	if err != nil {
		return nil, err
	}
	found, err := r.replay(from)
	switch {
	case err == nil:
		found.Renew = r.renew
	case len(dir.Manifests()) == 0:
		err = errors.Join(append(dir.Bad(), err)...) // more than the log is damaged
	}
	return found, err
}

// loadSnapshot reads the newest good snapshot and returns the log offset to go on from.
func (r *Recovery) loadSnapshot() (from uint64, err error) {
	manifests := r.s.Dir.Manifests()
	// A file that cannot be used makes the snapshot before count, where its posts may still be in memory's images and
	// the log. Only when no snapshot is whole is one used without the file.
	var inLog error // damage of a log that has all changes
	for _, r.lenient = range []leniency{nothingLost, coldLost, imagesLost} {
		tries := manifests
		if r.lenient == imagesLost && err != nil {
			whole, lerr := r.wholeLog()
			if whole {
				r.s.Config.Logger.Error("no snapshot can be used; reading the log from its beginning, which has all changes", "error", err)
				r.s.Dir.Reject(manifests)
				r.renew = true
				return 0, nil
			}
			if inLog = lerr; lerr != nil && !errors.Is(lerr, format.ErrCorrupt) {
				return 0, errors.Join(err, lerr)
			}
			var best error
			if tries, best = r.fewestLost(manifests); best != nil {
				return 0, errors.Join(err, inLog, best)
			}
		}
		for _, m := range tries {
			older := len(manifests) - 1 - slices.Index(manifests, m)
			if err = r.loadManifest(m); err == nil {
				r.s.Dir.Reject(manifests[:len(manifests)-1-older])
				r.renew = (r.renew || m != manifests[0]) && r.lenient == nothingLost
				return m.Replay, nil
			}
			var corrupt *format.CorruptError
			if errors.As(err, &corrupt) {
				corrupt.Dir = r.s.Dir.Path() // so that it prints the repair command
			}
			r.s.Config.Logger.Error("bad snapshot", "generation", m.Generation, "error", err, "older_ones", older)
			r.dropAll()
			if !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, hot.ErrBadImage) {
				return 0, err
			}
		}
	}
	return 0, errors.Join(err, inLog)
}

// dropAll forgets what a bad snapshot brought.
func (r *Recovery) dropAll() {
	for ks := range r.s.Keyspaces {
		ks.Free()
	}
	r.s.Spaces = nil
	r.s.Producers.Reset(producers.New(r.s.Config.Producers.WithDefaults()), nil)
	r.s.Broken.Store(0)
	r.s.Moving = core.Moves{}
	r.s.Cursors.Load(nil)
	r.s.Time.Load(0)
	r.s.HideGroups()
	r.s.Schema.Store(schema.Empty())
}

func (r *Recovery) loadManifest(m *format.Manifest) error {
	sch, err := schema.ParseDurable([]byte(strings.Join(m.Schema, "\n") + "\n"))
	if err != nil {
		return &format.CorruptError{File: filepath.Join(r.s.Dir.Path(), format.ManifestName(m.Generation)), Dir: r.s.Dir.Path(), Want: "a schema", Got: err.Error(), Err: err}
	}
	r.s.SetSlotGroups(m.SlotGroups)
	r.s.BlockIDs.Store(max(r.s.BlockIDs.Load(), m.NextBlock)) // before the schema, whose keyspaces get blocks of their own
	if err := r.s.SetSchema(sch); err != nil {
		return err
	}
	r.s.Moving.Load(m.Moving)
	r.s.Cursors.Load(m.Cursors)
	r.s.Time.Load(m.Tick)
	r.s.HideGroups()
	if err := r.loadProducers(m); err != nil {
		return err
	}
	return r.loadImages(m)
}

// loadProducers reads the table of producers. Without it numbered writes would be made again, so nobody starts without
// it but the tool that was told to give it up.
func (r *Recovery) loadProducers(m *format.Manifest) error {
	limits := r.s.Config.Producers.WithDefaults()
	f := m.Producers
	if f == nil {
		r.s.Producers.Reset(producers.New(limits), nil)
		return nil
	}
	path := f.Path(r.s.Dir.Path())
	info, t, err := readProducers(r.s.Config.FS, path, limits)
	if err == nil && (info.Items != f.Items || info.CRC != f.CRC) {
		err = corruptFile(r.s.Dir, path, fmt.Sprintf("%d producers, checksum %08x, as in the manifest", f.Items, f.CRC), fmt.Sprintf("%d, %08x", info.Items, info.CRC), nil)
	}
	if err == nil {
		r.s.Producers.Reset(t, f)
		return nil
	}
	if lostFile(err) && !errors.Is(err, format.ErrCorrupt) {
		err = corruptFile(r.s.Dir, path, "an image of producers as the manifest names it", err.Error(), err)
	}
	if r.lenient == imagesLost && r.opts.GiveUp && lostFile(err) {
		r.s.Producers.Reset(producers.New(limits), nil)
		return nil
	}
	return err
}

// loaders is how many files are read at once, at least: opening a cold file takes three reads of 4 KiB, and a disk does
// many of those in the time of one.
const loaders = 16

// loadImages reads all images of a manifest and puts the blocks into the directories.
func (r *Recovery) loadImages(m *format.Manifest) error {
	type job struct {
		file, overlay *format.BlockFile
		into          **block.Block
	}
	var jobs []job
	var total uint64
	blocks := make([][]*block.Block, len(m.Counters))
	for i := range m.Counters {
		files := m.Counters[i].Blocks
		overlays := map[uint64]*format.BlockFile{}
		for j := range files {
			total += files[j].Bytes
			if files[j].Tier == format.TierOverlay {
				overlays[files[j].Block] = &files[j]
			}
		}
		blocks[i] = make([]*block.Block, len(files)-len(overlays))
		n := 0
		for j := range files {
			if files[j].Tier != format.TierOverlay && n < len(blocks[i]) {
				jobs = append(jobs, job{&files[j], overlays[files[j].Block], &blocks[i][n]})
				n++
			}
		}
	}
	var next atomic.Int64
	var done atomic.Uint64
	var wg sync.WaitGroup
	errs := make([]error, max(loaders, runtime.GOMAXPROCS(0)))
	for w := range errs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var buf []byte
			for {
				i := int(next.Add(1)) - 1
				if i >= len(jobs) {
					return
				}
				var b *block.Block
				if b, buf, errs[w] = r.loadBlock(jobs[i].file, jobs[i].overlay, buf); errs[w] != nil {
					next.Store(int64(len(jobs))) // the others need not go on
					return
				}
				*jobs[i].into = b
				r.opts.Progress("snapshot", done.Add(jobs[i].file.Bytes), total)
			}
		}()
	}
	wg.Wait()
	err := errors.Join(errs...)
	for i := range m.Counters {
		if err == nil {
			err = r.adopt(&m.Counters[i], blocks[i])
		}
		if err != nil {
			for _, b := range blocks[i] {
				if b != nil {
					r.s.Arena.Free(b.Span)
					r.s.Files.Retire(b)
				}
			}
		}
	}
	return err
}

// loadBlock reads a hot block's image, or opens a cold block's file and reads its overlay's image if there is one. buf
// is reused from block to block.
func (r *Recovery) loadBlock(f, overlay *format.BlockFile, buf []byte) (*block.Block, []byte, error) {
	b := &block.Block{Lo: f.Lo, Hi: f.Hi, ID: f.Block, From: f.Offset}
	if f.Tier == format.TierHot {
		saved := *f
		b.Image = &saved
		buf, err := r.loadTable(b, f, buf)
		if err != nil && r.mayLose(f, err) {
			b, err = r.lostRange(f, nil, err), nil
		}
		return b, buf, err
	}
	named := f
	path := f.Path(r.s.Dir.Path())
	file, err := openCold(r.s.Config.FS, path, r.s.Cache)
	if err == nil {
		if m := file.Meta(); m.OneGroup && (!r.s.SlotGroups || m.Group != f.Group) {
			err = corruptFile(r.s.Dir, path, fmt.Sprintf("posts of group %d, as in the manifest", f.Group), fmt.Sprintf("of group %d", m.Group), nil)
			err = errors.Join(err, file.Close())
		} else if m.Lo != f.Lo || m.Hi != f.Hi || file.Stat().Items != f.Items || file.Checksum() != f.CRC {
			err = corruptFile(r.s.Dir, path, fmt.Sprintf("range [%d,%d) with %d items, checksum %08x, as in the manifest", f.Lo, f.Hi, f.Items, f.CRC),
				fmt.Sprintf("[%d,%d), %d, %08x", m.Lo, m.Hi, file.Stat().Items, file.Checksum()), nil)
			err = errors.Join(err, file.Close())
		}
	}
	if errors.Is(err, fs.ErrNotExist) && len(f.Remains(r.s.Dir.Path())) == 1 {
		back, entry, why := r.regain(f)
		if err = errors.Join(err, why); why == nil {
			f, file, err = entry, back, nil
		}
	}
	if err != nil && (r.lenient == nothingLost || !lostFile(err)) {
		if lostFile(err) && !errors.Is(err, format.ErrCorrupt) {
			err = corruptFile(r.s.Dir, path, "a cold file as the manifest names it", err.Error(), err)
		}
		return nil, buf, err
	}
	if err != nil {
		// The posts of this range answer an error, all others are served: a lost file of old posts must not take the
		// new ones down.
		r.s.Config.Logger.Error("a cold file is unusable; posts of its range cannot be read", "file", path, "lo", f.Lo, "hi", f.Hi, "items", f.Items,
			"error", err, "repair", format.RepairCommand(r.s.Dir.Path()))
		r.s.Broken.Add(1)
		file = coldstore.Broken(path, coldstore.Meta{Lo: f.Lo, Hi: f.Hi}, f.Items, err)
	}
	b.Cold = &block.ColdRange{File: file, Entry: *f}
	r.s.Files.Keep(f.Name)
	if overlay == nil {
		return b, buf, nil
	}
	saved := *overlay
	b.Image = &saved
	if buf, err = r.loadTable(b, overlay, buf); err == nil {
		err = b.CountOverlay()
	}
	if err != nil {
		r.s.Arena.Free(b.Span)
		r.s.Files.Retire(b)
		if r.mayLose(overlay, err) {
			return r.lostRange(named, overlay, err), buf, nil
		}
		return nil, buf, err
	}
	return b, buf, nil
}

// lostFile tells whether an error means that a file's content is gone or cannot be had from the disk: then others take
// its place, or its posts answer errors. A newer program's file is not lost, and must be left alone; permissions, and
// descriptors and memory that have run out, are for the operator to set right before anything is given up.
func lostFile(err error) bool {
	for _, other := range []error{format.ErrUnsupportedFormat, fs.ErrPermission, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, arena.ErrNoMemory} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// corruptFile says that a file is not what the manifest says.
func corruptFile(dir *persist.Dir, path, want, got string, err error) error {
	return &format.CorruptError{File: path, Dir: dir.Path(), Want: want, Got: got, Err: err}
}

// adopt puts blocks, in order, in the place of a counter's empty first block, or of those of its groups. A counter, or a
// group, without any was made, cleared or empty while the snapshot was made: the log tells.
func (r *Recovery) adopt(c *format.CounterFiles, blocks []*block.Block) error {
	if len(blocks) == 0 {
		return nil
	}
	if int(c.ID) >= len(r.s.Spaces) || r.s.Spaces[c.ID] == nil {
		return &format.CorruptError{File: r.s.Dir.Path(), Dir: r.s.Dir.Path(), Want: fmt.Sprintf("counter %d in the manifest's schema", c.ID), Got: "none"}
	}
	files := slices.DeleteFunc(slices.Clone(c.Blocks), func(f format.BlockFile) bool { return f.Tier == format.TierOverlay })
	found := map[uint8][]*block.Block{}
	end := hot.EndMid
	for i, b := range blocks {
		if i == 0 || files[i].Group != files[i-1].Group {
			if end != hot.EndMid {
				break
			}
			found[files[i].Group], end = nil, 0
		}
		if b.Lo != end {
			return &format.CorruptError{File: r.s.Dir.Path(), Dir: r.s.Dir.Path(), Want: fmt.Sprintf("a block of counter %s from %d on in the manifest", c.Name, end), Got: fmt.Sprintf("one from %d on", b.Lo)}
		}
		end = b.Hi
		found[files[i].Group] = append(found[files[i].Group], b)
	}
	if end != hot.EndMid {
		return &format.CorruptError{File: r.s.Dir.Path(), Dir: r.s.Dir.Path(), Want: fmt.Sprintf("blocks of counter %s up to 2^63 in the manifest", c.Name), Got: fmt.Sprintf("up to %d", end)}
	}
	for group, own := range found { // a manifest without SlotGroups has group 0 only
		ks := r.s.Spaces[c.ID][group]
		for _, b := range own {
			ks.Recognize(b)
			ks.Files.CountPartial(b)
		}
		ks.Free()
		ks.Dir.Store(block.NewDirectory(own))
	}
	return nil
}

// replay opens the log and applies it from an offset on.
func (r *Recovery) replay(from uint64) (*Recovered, error) {
	replayer := r.s.NewReplayer()
	lineage, err := logfile.ReadLineage(r.s.Config.FS, r.s.Dir.Path())
	if err == nil && len(lineage.Terms) == 0 && !lineage.NeedsSnapshot { // HISTORY was deleted, or the directory is a new one
		lineage.NeedsSnapshot, err = logfile.HadSnapshot(r.s.Config.FS, r.s.Dir.Path())
	}
	if err != nil {
		return nil, err
	}
	log, rec, err := persist.OpenLog(persist.LogOptions{
		FS: r.s.Config.FS, Dir: r.s.Dir.Path(), Create: len(r.s.Dir.Manifests()) == 0 && len(lineage.Terms) == 0, Unwritable: true, Guard: r.s.Dir.CheckLock, KnownDurable: r.s.Dir.KnownDurable(), Torn: r.opts.Torn, Past: &lineage,
		Policy: r.opts.Policy, Manual: r.s.Config.Manual, SegmentBytes: r.opts.SegmentBytes, Logger: r.s.Config.Logger, Now: r.s.Config.Now,
		Progress: func(done, total uint64) { r.opts.Progress("log", done, total) },
	}, from, replayer.Apply)
	if err == nil {
		err = replayer.Flush()
	}
	if err != nil {
		if log != nil {
			err = errors.Join(err, log.Close())
		}
		return nil, err
	}
	r.s.Log, r.s.Replayed = log, rec.End
	if r.s.Config.Elected { // before there is a role
		log.Quorum().Require(true)
	}
	r.s.Producers.Resume()
	if rec.Torn != nil {
		r.s.Config.Logger.Warn("cut a torn tail from the log and kept it in a file; it was never confirmed as durable", "error", rec.Torn)
	}
	return &Recovered{Recovery: rec, Lineage: lineage}, nil
}
