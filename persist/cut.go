package persist

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/counterd/counterd/persist/vfs"
)

// CutTail tells what Cut took from the end of a log.
type CutTail struct {
	From, To      uint64 // log offsets
	Frames        uint64
	Sets, Deletes uint64 // changes of columns, and items removed
	Flushes       uint64
	Schemas       uint64
	FirstMS       int64  // wall time of the first frame, 0: none
	LastMS        int64  // of the last
	File          string // where the frames were saved, "" if there was none; a segment with its header
}

// Cut ends the log of a data directory at an offset, a frame's end, because a primary has other bytes from there on. What is cut is
// saved to the file diverged-<epoch>-<offset>.aof of the directory first. Manifests of snapshots made behind the offset are removed: recovery
// starts from an older one. lineage is what the log's past is from now on.
//
// An offset that no snapshot and log reach back to gives ErrGone, and only the file was made: a full copy is needed. Nobody may have the
// directory open (vfs.ErrLocked). A crash leaves a cut that Settle finishes.
func Cut(fsys vfs.FS, dir string, at uint64, lineage Lineage) (tail CutTail, err error) {
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return tail, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	segs, err := listSegments(fsys, dir)
	if err != nil {
		return tail, err
	}
	from := at
	if len(segs) > 0 { // what was below is gone already: all that is left is saved
		from = max(at, segs[0].start)
	}
	tail, chain, err := saveTail(fsys, dir, from, lineage.Current())
	if err != nil {
		return tail, err
	}
	good, _, _, err := readManifests(fsys, dir)
	if err != nil {
		return tail, err
	}
	base := uint64(0)
	for _, m := range good { // newest first
		if m.Offset <= at {
			base = m.Replay
			break
		}
	}
	if len(segs) == 0 || segs[0].start > base {
		return tail, fmt.Errorf("cut the log at %d: no snapshot as old as that: %w", at, ErrGone)
	}
	lineage.cut, lineage.cutAt, lineage.chain = true, at, chain
	if err := WriteLineage(fsys, dir, &lineage); err != nil {
		return tail, err
	}
	return tail, finishCut(fsys, dir, &lineage)
}

const cutPrefix = "diverged-"

// IsCutFile tells whether a name in a data directory is of a file that Cut saved.
func IsCutFile(name string) bool {
	return strings.HasPrefix(name, cutPrefix) && strings.HasSuffix(name, segmentSuffix)
}

// saveTail copies the frames from an offset on to a file and counts what they hold. It returns the checksum of the frame before.
func saveTail(fsys vfs.FS, dir string, at uint64, h History) (tail CutTail, chain uint32, err error) {
	tail = CutTail{From: at, To: at}
	var file vfs.File
	var used int64
	path := filepath.Join(dir, fmt.Sprintf("%s%d-%d%s", cutPrefix, h.Epoch, at, segmentSuffix))
	v := LogVisitor{
		Segment: func(s SegmentHeader) error {
			if s.Start <= at {
				chain = s.Chain
			}
			return nil
		},
		Frame: func(_ SegmentInfo, f *Frame) error {
			if f.End() <= at {
				chain = f.CRC
				return nil
			}
			if f.Start < at {
				return fmt.Errorf("cut the log at %d: want the end of a frame, got a place in one of %d to %d", at, f.Start, f.End())
			}
			if file == nil {
				if err := removeIfThere(fsys, path); err != nil {
					return err
				}
				var err error
				if file, err = fsys.Create(path); err != nil {
					return err
				}
				head := segmentHeader{history: h, start: at, durable: at, chain: chain, size: segmentHeaderLen}
				if _, err = file.WriteAt(head.appendTo(nil), 0); err != nil {
					return err
				}
				used, tail.File, tail.FirstMS = segmentHeaderLen, path, f.TimeMS
			}
			if _, err := file.WriteAt(f.Raw, used); err != nil {
				return err
			}
			used += int64(len(f.Raw))
			tail.Frames++
			tail.To, tail.LastMS = f.End(), f.TimeMS
			return nil
		},
		Record: func(f *Frame, _ uint64, rec *Record) error {
			if f.Start < at {
				return nil
			}
			switch rec.Kind {
			case KindSet:
				tail.Sets++
			case KindSetItem:
				tail.Sets += uint64(len(rec.Columns))
			case KindDelete:
				tail.Deletes++
			case KindFlush:
				tail.Flushes++
			case KindSchema:
				tail.Schemas++
			}
			return nil
		},
	}
	_, err = WalkLog(fsys, dir, at, 0, v)
	if errors.Is(err, ErrCorrupt) && tail.To > at {
		err = nil // damage behind what was saved: it goes with the tail
	}
	if file != nil {
		if err == nil {
			err = file.Sync()
		}
		err = errors.Join(err, file.Close())
		if err == nil {
			err = fsys.SyncDir(dir)
		}
	}
	return tail, chain, err
}

// finishCut does the cut that a lineage announces. It may be done again after a crash at any point.
func finishCut(fsys vfs.FS, dir string, l *Lineage) error {
	at := l.cutAt
	generations, err := listManifests(fsys, dir)
	if err != nil {
		return err
	}
	for _, g := range generations {
		name := filepath.Join(dir, ManifestName(g))
		if m, err := ReadManifest(fsys, name); err == nil && m.Offset <= at {
			continue
		}
		if err := removeIfThere(fsys, name); err != nil {
			return err
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	segs, err := listSegments(fsys, dir)
	if err != nil {
		return err
	}
	first := 0
	for first < len(segs) && segs[first].start < at {
		first++
	}
	log := newLog(LogOptions{FS: fsys, Dir: dir, FirstSegmentBytes: minSegment}, at)
	s, err := log.rewrite(segmentHeader{history: l.Current(), start: at, durable: at, chain: l.chain}, nil, segs[first:])
	if err != nil {
		return err
	}
	if err := s.file.Close(); err != nil {
		return err
	}
	if first > 0 {
		if err := endAt(fsys, &segs[first-1], at); err != nil {
			return err
		}
	}
	l.cut, l.cutAt, l.chain = false, 0, 0
	return WriteLineage(fsys, dir, l)
}

// endAt makes an offset inside a segment its end. The header of a segment that was begun by a restart says that bytes behind its start are durable
// (takeOver): it must not say so of what is cut, or the log would count as damaged.
func endAt(fsys vfs.FS, seg *segment, at uint64) (err error) {
	file, err := fsys.OpenRW(seg.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	h, fault, err := readSegmentHeader(file, seg)
	if err == nil && fault == nil && h.durable > at {
		h.durable = at
		if _, err = file.WriteAt(h.appendTo(nil), 0); err == nil {
			err = file.Sync()
		}
	}
	if err != nil {
		return err
	}
	size, err := file.Size()
	if err == nil && size > seg.offset(at) {
		err = file.Truncate(seg.offset(at))
	}
	return err
}

// Settle finishes a cut, and clears away an installation, that a crash broke off. It is to be called before OpenDir.
func Settle(fsys vfs.FS, dir string) (err error) {
	l, err := ReadLineage(fsys, dir)
	if err != nil || !l.cut && !l.install {
		return err
	}
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := vfs.RemoveTemps(fsys, LogDir(dir)); err != nil && !isNotExist(err) {
		return err
	}
	if l.cut {
		return finishCut(fsys, dir, &l)
	}
	if err := wipe(fsys, dir); err != nil {
		return err
	}
	return WriteLineage(fsys, dir, &Lineage{Replica: true})
}

// wipe removes manifests and log. Images and cold files stay: those that are named by nobody go when the store is opened.
func wipe(fsys vfs.FS, dir string) error {
	generations, err := listManifests(fsys, dir)
	if err != nil {
		return err
	}
	for _, g := range generations {
		if err := removeIfThere(fsys, filepath.Join(dir, ManifestName(g))); err != nil {
			return err
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	segs, err := listSegments(fsys, dir)
	if err != nil {
		return err
	}
	for _, s := range segs {
		if err := removeIfThere(fsys, s.path); err != nil {
			return err
		}
	}
	return fsys.SyncDir(LogDir(dir))
}

// Install puts a primary's snapshot and log in the place of what a data directory holds: first the block files, beside the old ones
// and before this; then the log up to the snapshot's offset; then the manifest. A crash before the end leaves a directory that
// Settle makes an empty one. NOT safe for concurrent use.
type Install struct {
	fsys     vfs.FS
	dir      string
	lock     io.Closer
	lineage  Lineage
	manifest *Manifest // nil: the log alone, from offset 0
	Log      *Log      // to append the primary's frames to
}

// BeginInstall removes manifests and log and begins a log at start, where the first frame to come starts. m, which must not be named by
// a generation of the old manifests, becomes the snapshot; nil if there is none and start is 0.
func BeginInstall(fsys vfs.FS, dir string, start uint64, lineage Lineage, m *Manifest) (in *Install, err error) {
	lock, err := fsys.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	lineage.Replica = true
	marked := lineage
	marked.install = true
	if err := WriteLineage(fsys, dir, &marked); err != nil {
		return nil, err
	}
	if err := wipe(fsys, dir); err != nil {
		return nil, err
	}
	log, _, err := OpenLog(LogOptions{FS: fsys, Dir: dir, History: lineage.Current(), Create: true}, start, func(uint64, *Record) error { return nil })
	if err != nil {
		return nil, err
	}
	return &Install{fsys: fsys, dir: dir, lock: lock, lineage: lineage, manifest: m, Log: log}, nil
}

// Finish makes the copy the directory's content: the log must have reached the snapshot's offset.
func (in *Install) Finish() (err error) {
	defer func() { err = errors.Join(err, in.lock.Close()) }()
	err = in.Log.Sync()
	if err = errors.Join(err, in.Log.Close()); err != nil {
		return err
	}
	if m := in.manifest; m != nil {
		if in.Log.Written() < m.Offset {
			return fmt.Errorf("install: the log ends at %d, the snapshot is of %d: %w", in.Log.Written(), m.Offset, ErrGap)
		}
		for _, dir := range []string{ImageDir(in.dir), ColdDir(in.dir)} {
			if err := in.fsys.SyncDir(dir); err != nil {
				return err
			}
		}
		if err := vfs.WriteFileAtomic(in.fsys, filepath.Join(in.dir, ManifestName(m.Generation)), m.appendText(nil)); err != nil {
			return err
		}
	}
	return WriteLineage(in.fsys, in.dir, &in.lineage)
}

// Abort gives up. The directory is settled at the next start.
func (in *Install) Abort() error { return errors.Join(in.Log.Close(), in.lock.Close()) }

// Text returns the manifest as its file has it.
func (m *Manifest) Text() []byte { return m.appendText(nil) }

// ParseManifest reads a manifest that another node sent. Errors as ReadManifest.
func ParseManifest(name string, text []byte) (*Manifest, error) { return parseManifest(name, text) }

// MaxManifest bounds a manifest's text, in bytes.
const MaxManifest = maxManifest
