package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// ErrUnreachable: no snapshot and log that are left lead to the moment asked for. See WindowError.
var ErrUnreachable = errors.New("state cannot be reached any more")

// Target is the moment that Restore goes back to: a log offset, or a time.
type Target struct {
	Offset uint64
	Time   time.Time // if not zero, Offset does not count
}

func (t Target) String() string {
	if t.Time.IsZero() {
		return fmt.Sprintf("offset %d", t.Offset)
	}
	return t.Time.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// Window is the stretch of the log whose every state can be restored.
type Window struct {
	From, To     uint64 // log offsets
	FromMS, ToMS int64  // when they were reached, ms since 1970
	LogFrom      uint64 // where the log that is left begins; between there and From no snapshot is left to start from
}

// WindowError says what can be restored in place of what was asked for. It matches ErrUnreachable.
type WindowError struct {
	Target Target
	Window *Window // nil: nothing at all
	Err    error   // why not, if it is more than a matter of age
}

func (e *WindowError) Error() string {
	s := fmt.Sprintf("the state at %s cannot be reached any more: no snapshot and log for it are left", e.Target)
	if e.Err != nil {
		s = fmt.Sprintf("the state at %s cannot be reached: %v", e.Target, e.Err)
	}
	if w := e.Window; w != nil {
		at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00") }
		s = fmt.Sprintf("%s; what can be reached is offset %d (%s) to %d (%s)", s, w.From, at(w.FromMS), w.To, at(w.ToMS))
		if w.LogFrom < w.From {
			s += fmt.Sprintf("; the log goes back to offset %d, but the oldest snapshot that is kept stands at %d", w.LogFrom, w.From)
		}
		return s
	}
	return s + "; nothing can"
}

// Is makes errors.Is(err, ErrUnreachable) true.
func (e *WindowError) Is(target error) bool { return target == ErrUnreachable }

// Unwrap returns the cause.
func (e *WindowError) Unwrap() error { return e.Err }

// Restored says what Restore made.
type Restored struct {
	Offset   uint64        // of the state: for an offset, that of the last record that ends at or before it
	TimeMS   int64         // of the last frame in it; 0: none was read
	Snapshot uint64        // generation of the snapshot it stands on, 0: the log alone
	Replay   uint64        // log offset from which a server replays
	Files    int           // block files copied
	Bytes    uint64        // their size and the log's
	History  format.ReplID // new: what is logged from now on is another history
}

// RestoreOptions are the options of Restore.
type RestoreOptions struct {
	Cold     snapfile.ColdCheck       // as in CheckOptions; asked for the copies
	Say      func(string)             // told each step; nil: nobody is
	Progress func(done, total uint64) // bytes, of a copy of block files

	// Lost tells whether a cold file that is missing is to be left out, with its posts. Else the restore ends with fs.ErrNotExist: a server that has dir open may have
	// put another file in its place. nil: it is.
	Lost func(path string) bool
}

// Restore makes a new data directory out, which must not exist, with the state that dir had at a target:
//
//  1. the newest snapshot that stands at or before the target and whose log reaches it; its files are copied and
//     verified
//  2. the log from where that snapshot replays to the target. For an offset it is cut behind the last record that ends
//     at or before it: a record is one change of one item, so of what a transaction or a pipeline wrote a part may be
//     in. A time stands for the end of the last frame made at or before it: a frame is what one group commit wrote, and
//     has one time. So a clock that was set back, and showed a time twice, stands for the second time; Say is told
//     where the first was.
//  3. the manifest. Log and manifest get a new replication id, as the offsets behind the target are given out a second
//     time.
//  4. HISTORY, which says how far the log is that of dir: a replica of dir that follows a server of out is cut back to
//     there, and needs no full copy.
//
// The directory gets its name when it is complete. dir is only read; of one in use, give a NewView. An offset or time
// of which the log is gone, or that lies behind the log's end, gives a *WindowError.
func Restore(fsys vfs.FS, dir string, to vfs.FS, out string, target Target, opts RestoreOptions) (*Restored, error) {
	if _, err := to.Stat(out); err == nil {
		return nil, &fs.PathError{Op: "restore", Path: out, Err: fs.ErrExist}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r := &restore{fsys: fsys, dir: dir, to: to, out: out + ".unfinished", target: target, opts: opts}
	if _, err := to.Stat(r.out); err == nil {
		return nil, &fs.PathError{Op: "restore (left by one that was interrupted: remove it)", Path: r.out, Err: fs.ErrExist}
	}
	if err := r.readLineage(); err != nil {
		return nil, err
	}
	bases, err := r.bases()
	if err != nil {
		return nil, err
	}
	why := r.moment(bases)
	if why != nil && !errors.Is(why, errNoBase) && !errors.Is(why, format.ErrCorrupt) {
		return nil, why
	}
	if why != nil {
		bases = nil
	}
	if errors.Is(why, errNoBase) {
		why = nil
	}
	for _, base := range bases {
		err := r.run(base)
		if err == nil {
			if err = to.Rename(r.out, out); err == nil {
				err = to.SyncDir(filepath.Dir(out))
			}
			return &r.result, err
		}
		if clean := r.clear(); clean != nil {
			return nil, errors.Join(err, clean)
		}
		if !errors.Is(err, errNoBase) && !errors.Is(err, format.ErrCorrupt) {
			return nil, err
		}
		if !errors.Is(err, errNoBase) {
			r.sayf("%s cannot be used: %v", baseName(base), err)
			why = err
		}
	}
	window, err := r.window()
	if err != nil {
		return nil, err
	}
	return nil, &WindowError{Target: target, Window: window, Err: why}
}

// errNoBase: the log does not lead from a base to the target.
var errNoBase = errors.New("no way from this snapshot to the target")

type restore struct {
	fsys   vfs.FS
	dir    string
	to     vfs.FS
	out    string
	target Target // an offset once moment was called
	opts   RestoreOptions
	result Restored

	past   format.Lineage // of dir
	common uint64         // log offset up to which the copy has the bytes of dir
}

func (r *restore) sayf(format string, args ...any) {
	if r.opts.Say != nil {
		r.opts.Say(fmt.Sprintf(format, args...))
	}
}

// baseName names a base for messages; nil is the log from its beginning.
func baseName(m *format.Manifest) string {
	if m == nil {
		return "the log from its beginning"
	}
	return format.ManifestName(m.Generation)
}

// bases returns the manifests whose log is there, newest first, and at last nil if the log's beginning is.
func (r *restore) bases() ([]*format.Manifest, error) {
	good, _, err := snapfile.ReadManifests(r.fsys, r.dir)
	if err != nil {
		return nil, err
	}
	segs, err := logfile.Segments(r.fsys, r.dir)
	if err != nil || len(segs) == 0 {
		return nil, err
	}
	var bases []*format.Manifest
	for _, m := range good {
		if segs[0].Start <= m.Replay {
			bases = append(bases, m)
		}
	}
	if segs[0].Start == 0 {
		bases = append(bases, nil)
	}
	return bases, nil
}

// moment turns a target that is a time into the offset it stands for: see Restore. errNoBase: the log has nothing of
// that time.
func (r *restore) moment(bases []*format.Manifest) error {
	if r.target.Time.IsZero() || len(bases) == 0 {
		return nil
	}
	ms := r.target.Time.UnixMilli()
	begin, later := ^uint64(0), ^uint64(0) // starts of the first frame, and of the first that was made later
	at, found, passed, again := uint64(0), false, false, false
	walked, err := logfile.Walk(r.fsys, r.dir, 0, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
		begin = min(begin, f.Start)
		if f.TimeMS > ms {
			passed, later = true, min(later, f.Start)
			return nil
		}
		again = again || passed
		at, found, passed = f.End(), true, false
		return nil
	}})
	// Behind damage the log may go on before the moment.
	if err != nil && !(passed && errors.Is(err, format.ErrCorrupt)) {
		return err
	}
	if !found { // a snapshot may stand there, and the log up to it be gone
		for _, base := range bases {
			if base != nil && base.TimeMS <= ms && base.Offset <= min(begin, walked.End) {
				at, found = base.Offset, true
				break
			}
		}
	}
	if !found {
		return errNoBase
	}
	if again {
		r.sayf("the clock was set back: %s comes more than once in the log, and the last is taken, offset %d; the first is offset %d", r.target, at, later)
	}
	r.target = Target{Offset: at}
	return nil
}

// run restores from one base.
func (r *restore) run(base *format.Manifest) error {
	r.result = Restored{History: format.NewReplID()}
	var stands uint64
	if base != nil {
		r.result.Snapshot, r.result.Replay, stands = base.Generation, base.Replay, base.Offset
	}
	if stands > r.target.Offset {
		return errNoBase
	}
	for _, sub := range []string{format.LogDir(r.out), format.ImageDir(r.out), format.ColdDir(r.out)} {
		if err := r.to.MkdirAll(sub); err != nil {
			return err
		}
	}
	if base == nil && r.past.NeedsSnapshot {
		r.sayf("the log from its beginning may lack changes that only snapshots had: HISTORY does not tell that no counterctl repair has cut it")
	}
	history, err := r.copyLog(stands)
	if err != nil {
		return err
	}
	if err := r.writeLineage(history); err != nil {
		return err
	}
	if base == nil {
		return r.syncDirs()
	}
	if err := r.copyBlocks(base); err != nil {
		return err
	}
	m := *base
	m.OldReplID, m.OldEnd = base.History.ReplID, r.result.Offset
	m.LogPacked = false // the log is copied as it was
	m.History = history
	if err := r.syncDirs(); err != nil {
		return err
	}
	return snapfile.WriteManifest(r.to, r.out, &m)
}

func (r *restore) syncDirs() error {
	var errs []error
	for _, dir := range []string{format.LogDir(r.out), format.ImageDir(r.out), format.ColdDir(r.out), r.out} {
		errs = append(errs, r.to.SyncDir(dir))
	}
	return errors.Join(errs...)
}

// window finds what can be restored: from the oldest base to the end of the log.
func (r *restore) window() (*Window, error) {
	bases, err := r.bases()
	if err != nil || len(bases) == 0 {
		return nil, err
	}
	w := &Window{}
	from := uint64(0)
	if oldest := bases[len(bases)-1]; oldest != nil {
		w.From, w.FromMS, from = oldest.Offset, oldest.TimeMS, oldest.Replay
	}
	first := true
	walked, err := logfile.Walk(r.fsys, r.dir, from, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
		if f.End() <= w.From || first && w.From == 0 {
			w.FromMS = f.TimeMS
		}
		first = false
		return nil
	}})
	if err != nil && !errors.Is(err, format.ErrCorrupt) {
		return nil, err
	}
	w.To, w.ToMS = walked.End, walked.TimeMS
	if segs, err := logfile.Segments(r.fsys, r.dir); err != nil {
		return nil, err
	} else if len(segs) > 0 {
		w.LogFrom = segs[0].Start
	}
	if w.To < w.From {
		return nil, nil
	}
	return w, nil
}

// clear removes what was made of the new directory.
func (r *restore) clear() error {
	for _, dir := range []string{format.LogDir(r.out), format.ImageDir(r.out), format.ColdDir(r.out), r.out} {
		names, err := r.to.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, name := range names {
			if err := r.to.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := r.to.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
