package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// What Check notes of files that do no harm.
var (
	ErrOrphan     = errors.New("no manifest names this file; it is removed at start")
	ErrUnfinished = errors.New("unfinished file of a crash; it is removed at start")
	ErrSetAside   = errors.New("set aside by a repair")
	ErrTornKept   = errors.New("the torn tail of a start; remove it when it is not wanted")
	ErrDiverged   = errors.New("what this node held and its primary did not; remove it when it is not wanted")
	ErrBegun      = errors.New("a crash broke this off; the next start goes on with it")
	ErrDamaged    = errors.New("damaged, and set aside by a start; remove it when the node is whole and it is not wanted")
	ErrHealing    = errors.New("damaged files were set aside; the data of another node has not arrived yet, and nothing is served")
)

// Problem is one thing that Check found.
type Problem struct {
	Path string
	// Fatal: the server does not start, or data is lost. Otherwise it is worth knowing, and opening deals with it.
	Fatal bool
	Err   error // a *CorruptError or *TornTail names the place
}

// Report is what Check read and found.
type Report struct {
	Manifests  int // good ones
	Images     int // verified, each file once
	ImageBytes uint64
	ColdFiles  int
	ColdBytes  uint64
	Log        logfile.Walked
	Lineage    format.Lineage // no term: there is no HISTORY, or a bad one
	Diverged   int            // files with what the node held and its primary did not, verified

	DivergedBytes uint64
	Problems      []Problem
}

// OK reports whether nothing fatal was found.
func (r *Report) OK() bool {
	for _, p := range r.Problems {
		if p.Fatal {
			return false
		}
	}
	return true
}

// Whole reports whether nothing is damaged, also among the files that no start needs: old segments of the log, or one of two copies.
func (r *Report) Whole() bool {
	for _, p := range r.Problems {
		if p.Fatal || errors.Is(p.Err, format.ErrCorrupt) {
			return false
		}
	}
	return true
}

// CheckOptions are the options of Check.
type CheckOptions struct {
	// Cold verifies cold files. nil: only their sizes are verified.
	Cold snapfile.ColdCheck

	// Progress, if set, is told the bytes read so far of those that are to be read, an upper bound.
	Progress func(done, total uint64)
}

// Check verifies every checksum and cross-reference of a data directory that no server has open, and changes nothing.
// Of one that a server has open, check a NewView. An error is one of reading; what is wrong with the data is in the
// report.
func Check(fsys vfs.FS, dir string, opts CheckOptions) (*Report, error) {
	c := checker{fsys: fsys, dir: dir, opts: opts, seen: map[string]error{}}
	if err := c.checkLineage(); err != nil {
		return nil, err
	}
	fsys = c.fsys
	claim, err := c.readClaim()
	if err != nil {
		return nil, err
	}
	good, bad, err := snapfile.ReadManifests(fsys, dir)
	if err != nil {
		return nil, err
	}
	c.report.Manifests = len(good)
	if err := c.measure(good); err != nil {
		return nil, err
	}
	for _, err := range bad {
		var corrupt *format.CorruptError
		errors.As(err, &corrupt)
		c.add(corrupt.File, false, err)
	}
	known := claim
	var replay uint64 // of the newest manifest that a server would start from
	usable := false
	for i, m := range good {
		known = max(known, m.Offset)
		if i >= persist.KeepManifests {
			continue
		}
		whole, err := c.checkBlocks(m)
		if err != nil {
			return nil, err
		}
		if whole && !usable {
			usable, replay = true, m.Replay
		}
	}
	if len(good) == 0 && len(bad) > 0 {
		imaged, err := snapfile.NewestImage(fsys, dir)
		if err != nil {
			return nil, err
		}
		known = max(known, imaged)
	}
	before := len(c.report.Problems)
	if err := c.checkLog(replay, known, len(good)+len(bad) == 0 && claim == 0 && len(c.report.Lineage.Terms) == 0); err != nil {
		return nil, err
	}
	if !usable { // a server starts from the log alone if that has all changes
		none := &format.CorruptError{Dir: dir, File: dir, Want: "a manifest whose images are good", Got: "none"}
		if len(good) > 0 { // had a snapshot, also if all of its files are gone
			bad = append(bad, none)
		}
		alone := persist.CheckLogAlone(fsys, dir, bad)
		if alone != nil && !errors.Is(alone, format.ErrCorrupt) {
			return nil, alone
		}
		inLog := slices.ContainsFunc(c.report.Problems[before:], func(p Problem) bool { return p.Fatal })
		if len(bad) > 0 {
			c.add(dir, alone != nil || inLog, none)
		} else if alone != nil {
			c.add(dir, true, alone)
		}
	}
	if torn := c.report.Log.Torn; torn != nil {
		c.add(torn.File, false, torn)
	}
	if err := c.checkDiverged(); err != nil {
		return nil, err
	}
	orphans, err := snapfile.FindOrphans(fsys, dir, good)
	if err != nil {
		return nil, err
	}
	for _, path := range orphans {
		c.add(path, false, ErrOrphan)
	}
	return &c.report, c.listLeftovers()
}

// checkLineage reads whose log it is. A server does not start if HISTORY and its copy are bad: it could take itself for a primary.
// What a crash broke off is looked at as the next start leaves it.
func (c *checker) checkLineage() error {
	path := format.LineagePath(c.dir)
	l, err := logfile.ReadLineage(c.fsys, c.dir)
	switch c.report.Lineage = l; {
	case errors.Is(err, format.ErrCorrupt), errors.Is(err, format.ErrUnsupportedFormat):
		c.add(path, true, err)
		return nil
	case err != nil:
		return err
	case l.Begun() != "":
		c.add(path, false, fmt.Errorf("%s: %w", l.Begun(), ErrBegun))
	}
	if fault := logfile.LineageFault(c.fsys, c.dir); fault != nil {
		var corrupt *format.CorruptError
		if errors.As(fault, &corrupt) { // else HISTORY is gone
			path = corrupt.File
		}
		c.add(path, false, fault)
	}
	c.fsys, err = finishedView(c.fsys, c.dir, &l)
	return err
}

// readClaim returns up to where the log was durable, as the directory says.
func (c *checker) readClaim() (offset uint64, err error) {
	if err := logfile.VerifyClaim(c.fsys, c.dir); errors.Is(err, format.ErrUnsupportedFormat) {
		c.add(format.ClaimPath(c.dir), true, err)
		return 0, nil
	} else if errors.Is(err, format.ErrCorrupt) {
		c.add(format.ClaimPath(c.dir), false, err) // the other claim counts, or none
	} else if err != nil {
		return 0, err
	}
	claim, err := logfile.ReadClaim(c.fsys, c.dir)
	return claim.Offset, err
}

// checkLog verifies all segments. Those before the offset to replay from are kept for replicas and restores only.
func (c *checker) checkLog(replay, known uint64, fresh bool) error {
	segs, err := logfile.Segments(c.fsys, c.dir)
	if err != nil {
		return err
	}
	if len(segs) == 0 && fresh {
		return nil // a server was never started here
	}
	noted := map[string]bool{}
	visitor := logfile.Visitor{
		Segment: func(h logfile.Header) error {
			if h.Harmless != nil && !noted[h.Path] {
				noted[h.Path] = true
				c.add(h.Path, false, h.Harmless)
			}
			return nil
		},
		Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
			c.progress(uint64(len(f.Raw)))
			return nil
		},
		Record: func(*format.Frame, uint64, *format.Record) error { return nil },
	}
	needed := uint64(0) // where the segment with replay starts
	from := replay
	for _, seg := range segs {
		if seg.Start <= replay {
			needed = seg.Start
		}
		from = min(from, seg.Start)
	}
	// The second walk is the one of a server's start. Where headers are damaged it may begin before needed, as the start
	// does: what it meets stops that.
	for last := false; ; {
		c.report.Log, err = logfile.Walk(c.fsys, c.dir, from, known, visitor)
		var corrupt *format.CorruptError
		switch {
		case errors.As(err, &corrupt):
			fatal := last || corrupt.LogOffset >= needed
			c.add(corrupt.File, fatal, err)
			if !fatal {
				from, last = replay, true
				continue
			}
		case errors.Is(err, format.ErrUnsupportedFormat):
			c.add(format.LogDir(c.dir), true, err)
		case err != nil:
			return err
		case c.report.Log.First > replay:
			c.add(format.LogDir(c.dir), true, &format.CorruptError{Dir: c.dir, File: format.LogDir(c.dir), LogOffset: replay, Err: format.ErrGap,
				Want: fmt.Sprintf("log from offset %d", replay), Got: fmt.Sprintf("%d", c.report.Log.First)})
		}
		return nil
	}
}

type checker struct {
	fsys   vfs.FS
	dir    string
	opts   CheckOptions
	report Report
	seen   map[string]error // what a file was found to be

	done, total uint64 // bytes
}

// measure adds up what is going to be read.
func (c *checker) measure(manifests []*format.Manifest) error {
	sizes := map[string]uint64{}
	for _, m := range manifests[:min(len(manifests), persist.KeepManifests)] {
		_ = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error { // fn returns nil
			sizes[b.Name] = b.Bytes
			return nil
		})
	}
	for _, n := range sizes {
		c.total += n
	}
	segs, err := logfile.Segments(c.fsys, c.dir)
	if err != nil || len(segs) == 0 {
		return err
	}
	last := segs[len(segs)-1]
	info, err := c.fsys.Stat(last.Path)
	if err != nil {
		return err
	}
	c.total += last.Start - segs[0].Start + uint64(info.Size())
	return nil
}

// progress notes bytes that were read.
func (c *checker) progress(n uint64) {
	c.done += n
	if c.opts.Progress != nil {
		c.opts.Progress(c.done, max(c.done, c.total))
	}
}

func (c *checker) add(path string, fatal bool, err error) {
	c.report.Problems = append(c.report.Problems, Problem{path, fatal, err})
}

// checkBlocks verifies each file of a manifest, once. whole: a server can start from it. Damage of an image, or of a
// cold file so that it cannot be opened, makes it start from another manifest; other damage of a cold file loses keys
// of that file. A server starts from nothing else in the place of a newer program's file.
func (c *checker) checkBlocks(m *format.Manifest) (whole bool, err error) {
	whole = true
	err = m.Files(func(counter *format.CounterFiles, b *format.BlockFile) error {
		path := b.Path(c.dir)
		err, seen := c.seen[path]
		if !seen {
			err = snapfile.CheckBlock(c.fsys, c.dir, counter, b, c.opts.Cold)
			c.progress(b.Bytes)
			if err != nil && !snapfile.Unreadable(err) && !errors.Is(err, format.ErrUnsupportedFormat) {
				return err
			}
			c.seen[path] = err
			if b.Tier == format.TierCold {
				c.report.ColdFiles++
				c.report.ColdBytes += b.Bytes
			} else {
				c.report.Images++
				c.report.ImageBytes += b.Bytes
			}
		}
		if err != nil {
			var fault *snapfile.BlockFault
			lost := errors.As(err, &fault) && !fault.Unusable
			whole = whole && lost
			what := fmt.Sprintf("counter %s, block %d", counter.Name, b.Block)
			if b.Tier == format.TierProducers {
				what = "producers"
			}
			c.add(path, lost || errors.Is(err, format.ErrUnsupportedFormat), fmt.Errorf("%s, %s: %w", format.ManifestName(m.Generation), what, err))
		}
		return nil
	})
	return whole, err
}

// listLeftovers notes files of crashes and repairs.
func (c *checker) listLeftovers() error {
	for _, dir := range []string{c.dir, format.LogDir(c.dir), format.ImageDir(c.dir), format.ColdDir(c.dir)} {
		names, err := c.fsys.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, name := range names {
			switch {
			case format.IsUnfinished(name):
				c.add(filepath.Join(dir, name), false, ErrUnfinished)
			case past.IsAside(name):
				c.add(filepath.Join(dir, name), false, ErrSetAside)
			case dir == c.dir && name == format.HealingName:
				c.add(filepath.Join(dir, name), true, ErrHealing)
			case dir == c.dir && isDamaged(name):
				c.add(filepath.Join(dir, name), false, ErrDamaged)
			case dir == c.dir && logfile.IsTornTail(name):
				c.add(filepath.Join(dir, name), false, ErrTornKept)
			}
		}
	}
	return nil
}

func isDamaged(name string) bool {
	_, _, ok := format.ParseDamaged(name)
	return ok
}
