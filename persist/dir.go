package persist

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// Dir is an open data directory: this process holds its lock. All methods may be called concurrently.
type Dir struct {
	fsys vfs.FS
	path string
	lock *dirLock

	mu        sync.Mutex         // guards the rest
	manifests []*format.Manifest // the good ones, newest first, at most KeepManifests
	rejected  []*format.Manifest // whose files are bad; kept, with what they name, until the next snapshot
	alone     bool               // KeepOnly gave up the others
	synced    bool               // Sync has succeeded
	newest    uint64             // the highest generation ever seen here, bad ones included
	bad       []error            // a *CorruptError for each manifest that could not be used
	imaged    uint64             // where all manifests are damaged: the log offset of the newest image
}

// OpenDir locks a data directory, makes what is missing of it, removes files that never got their name and reads the
// manifests. A directory that another process has open gives vfs.ErrLocked, a manifest of another version
// ErrUnsupportedFormat. If none is good, the log must have all changes (CheckLogAlone). Otherwise the
// error is a *CorruptError, of the newest one if there are any.
func OpenDir(fsys vfs.FS, path string) (*Dir, error) {
	if _, err := fsys.Stat(path); vfs.IsNotExist(err) {
		if err := fsys.MkdirAll(path); err != nil {
			return nil, err
		}
	}
	lock, err := newDirLock(fsys, path)
	if err != nil {
		return nil, err
	}
	d := &Dir{fsys: fsys, path: path, lock: lock}
	if err := d.open(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

func (d *Dir) open() error {
	for _, sub := range []string{format.LogDir(d.path), format.ImageDir(d.path), format.ColdDir(d.path)} {
		if err := d.fsys.MkdirAll(sub); err != nil {
			return err
		}
	}
	synced := d.Sync()
	good, bad, newest, err := snapfile.ListManifests(d.fsys, d.path)
	if err != nil {
		return err
	}
	if len(good) == 0 {
		if err := CheckLogAlone(d.fsys, d.path, bad); err != nil {
			return err
		}
		if len(bad) > 0 {
			if d.imaged, err = snapfile.NewestImage(d.fsys, d.path); err != nil {
				return err
			}
		}
	}
	if synced != nil {
		segs, err := logfile.ListSegments(d.fsys, d.path)
		if err != nil || len(good)+len(segs) == 0 || !vfs.IsTrouble(synced) {
			return errors.Join(synced, err)
		}
	}
	d.manifests, d.bad, d.newest = good[:min(len(good), KeepManifests)], bad, newest
	for _, dir := range []string{d.path, format.ImageDir(d.path), format.ColdDir(d.path)} { // the log's are OpenLog's
		// On a disk in trouble they stay until a start on one that is well.
		if _, err := vfs.RemoveTemps(d.fsys, dir); err != nil && !vfs.IsTrouble(err) {
			return err
		}
	}
	return nil
}

// CheckLogAlone returns a *CorruptError if a directory without a usable manifest cannot start from its log, as that does not have all changes
// (logfile.HasAll). bad are the errors of its manifests. Without them, a directory that has no log yet is a new one, and a log without its beginning
// is damage of the log: replay finds it, and the frames may come from another node.
func CheckLogAlone(fsys vfs.FS, dir string, bad []error) error {
	all, err := logfile.HasAll(fsys, dir)
	if err != nil || all {
		return err
	}
	if len(bad) > 0 {
		return format.WithDir(bad[0], dir)
	}
	segs, err := logfile.ListSegments(fsys, dir)
	if err != nil || len(segs) == 0 || segs[0].Start > 0 {
		return err
	}
	return &format.CorruptError{Dir: dir, File: dir, Want: "a manifest", Got: "none, and the log does not have all changes"}
}

// Sync makes the directory and its subdirectories durable: the process that made them may have ended before it synced them.
// OpenDir calls Sync, and ignores an error if the directory has data to serve. No change may be acknowledged before Sync has
// succeeded.
func (d *Dir) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.synced {
		return nil
	}
	for _, dir := range []string{filepath.Dir(d.path), d.path} {
		if err := d.fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	d.synced = true
	return nil
}

// CheckLock returns nil while this process has the directory. It returns a *GoneError when the directory, or the file LOCK in
// it, was removed, moved or replaced.
func (d *Dir) CheckLock() error { return d.lock.check() }

// FS returns the file system.
func (d *Dir) FS() vfs.FS { return d.fsys }

// Path returns the directory's path.
func (d *Dir) Path() string { return d.path }

// Manifests returns the good manifests kept, newest first: none in a new directory, two after the second snapshot. A
// snapshot whose files turn out bad is followed by the next.
func (d *Dir) Manifests() []*format.Manifest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.manifests)
}

// Reject removes manifests whose files turned out bad from the list that Manifests returns. The next snapshot keeps the good
// ones only. The files that the bad ones name stay until then, so that they can be examined.
func (d *Dir) Reject(bad []*format.Manifest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rejected = append(d.rejected, bad...)
	d.manifests = slices.DeleteFunc(d.manifests, func(m *format.Manifest) bool { return slices.Contains(bad, m) })
}

// Bad returns a *CorruptError for each manifest found damaged by OpenDir, for the log and INFO. Without a good manifest, the log has all changes.
func (d *Dir) Bad() []error { return d.bad }

// KnownDurable returns the highest log offset that a manifest vouches for, also one whose images are bad. If all manifests are damaged, the images do.
func (d *Dir) KnownDurable() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	offset := d.imaged
	for _, m := range slices.Concat(d.manifests, d.rejected) {
		offset = max(offset, m.Offset)
	}
	return offset
}

// ReplayFrom returns the lowest log offset that a kept manifest replays from: no manifest needs older segments. It is 0 while
// fewer than two manifests are kept, so that the log alone can still rebuild everything; but see KeepOnly.
func (d *Dir) ReplayFrom() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.manifests) < KeepManifests && !d.alone {
		return 0
	}
	return d.manifests[len(d.manifests)-1].Replay
}

// KeepOnly gives up all snapshots but m, the newest, durably. On a full disk the files of the other snapshots, and the log that
// only they need, make room for the next snapshot. The caller has verified the files that m names, and removes orphans and
// log afterwards. ReplayFrom is then the offset of m. If m is no longer the newest snapshot, KeepOnly does nothing.
func (d *Dir) KeepOnly(m *format.Manifest) error {
	if err := d.CheckLock(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.manifests) == 0 || d.manifests[0] != m {
		return nil
	}
	name := filepath.Join(d.path, format.ManifestName(m.Generation))
	if err := snapfile.RemoveManifests(d.fsys, d.path, func(path string) bool { return path == name }); err != nil {
		return err
	}
	d.manifests, d.rejected, d.alone = d.manifests[:1:1], nil, true
	return nil
}

// WriteManifest makes a snapshot durable: the files it names must be written and synced, and the log must be synced up
// to m.Offset. It sets m.Generation, syncs the files' directories, writes the manifest atomically and removes all but
// the newest two good ones. On an error before that removal the old manifests are what counts. m is kept: it
// must not be changed afterwards.
func (d *Dir) WriteManifest(m *format.Manifest) error {
	if err := d.CheckLock(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m.Generation = d.newest + 1
	if err := m.Validate(); err != nil {
		return err
	}
	text := m.AppendText(nil)
	if len(text) > format.MaxManifest {
		return fmt.Errorf("manifest of %d bytes, at most %d: %w", len(text), format.MaxManifest, format.ErrTooLarge)
	}
	for _, dir := range []string{format.ImageDir(d.path), format.ColdDir(d.path)} {
		if err := d.fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	d.newest = m.Generation // also after an error: a number is never used twice
	if err := vfs.WriteFileAtomic(d.fsys, filepath.Join(d.path, format.ManifestName(m.Generation)), text); err != nil {
		return err
	}
	d.manifests = append([]*format.Manifest{m}, d.manifests...)
	d.manifests = d.manifests[:min(len(d.manifests), KeepManifests)]
	d.rejected, d.alone = nil, false
	generations, err := snapfile.Generations(d.fsys, d.path)
	if err != nil {
		return err
	}
	for _, g := range generations {
		if !slices.ContainsFunc(d.manifests, func(m *format.Manifest) bool { return m.Generation == g }) {
			if err := vfs.RemoveIfThere(d.fsys, filepath.Join(d.path, format.ManifestName(g))); err != nil {
				return err
			}
		}
	}
	return d.fsys.SyncDir(d.path) // the removal is durable before anything that only they named goes
}

// CompareFile says how a small file differs from the text that memory has of it: a *CorruptError, or the error of a read.
func CompareFile(fsys vfs.FS, name string, want []byte) error {
	got, err := vfs.ReadFile(fsys, name, int64(len(want)))
	switch {
	case errors.Is(err, vfs.ErrTooLarge):
		return &format.CorruptError{File: name, Want: fmt.Sprintf("%d bytes", len(want)), Got: "more", Err: err}
	case err != nil:
		return err
	case !bytes.Equal(got, want):
		return &format.CorruptError{File: name, Want: fmt.Sprintf("the %d bytes that were written", len(want)), Got: "others"}
	}
	return nil
}

// CompareTwice is CompareFile for a file that is kept twice (vfs.WriteTwice): the difference of the file, or else of its copy.
func CompareTwice(fsys vfs.FS, name string, want []byte) error {
	if err := CompareFile(fsys, name, want); err != nil {
		return err
	}
	return CompareFile(fsys, name+vfs.CopySuffix, want)
}

// LogMended logs how the verification of a small file ended, and tells whether the file was damaged and written again: damage is how
// it differed from memory, and err why it could not be verified or written. A file of a store that closes is neither.
func LogMended(log *slog.Logger, damage, err error) bool {
	switch {
	case damage == nil && err == nil, errors.Is(err, format.ErrClosed):
		return false
	case err != nil:
		log.Error("a file cannot be verified, or written again", "damage", damage, "error", err)
		return false
	}
	log.Error("a file was damaged; it was written again from memory", "error", damage)
	return true
}

// VerifyManifest compares the file of a kept manifest with the manifest in memory, and writes it again if they differ. damage
// is the difference, and err the reason why the file could not be written.
func (d *Dir) VerifyManifest(m *format.Manifest) (damage, err error) {
	name := filepath.Join(d.path, format.ManifestName(m.Generation))
	if damage = compareManifest(d.fsys, name, m); damage == nil {
		return nil, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.manifests, m) { // it has gone meanwhile
		return nil, nil
	}
	if err := d.CheckLock(); err != nil {
		return damage, err
	}
	return damage, vfs.WriteFileAtomic(d.fsys, name, m.AppendText(nil))
}

// compareManifest is CompareFile for a manifest, which an older program may have written in other words.
func compareManifest(fsys vfs.FS, name string, m *format.Manifest) error {
	text, err := vfs.ReadFile(fsys, name, format.MaxManifest)
	if err != nil {
		return err
	}
	want := m.AppendText(nil)
	if bytes.Equal(text, want) {
		return nil
	}
	is, err := format.ParseManifest(name, text)
	if err != nil {
		return err
	}
	if !bytes.Equal(is.AppendText(nil), want) {
		return &format.CorruptError{File: name, Want: "the manifest that was written", Got: "another"}
	}
	return nil
}

// Orphans returns the paths of block files that no manifest kept names. The caller removes those that it is not about
// to name: at start all of them.
func (d *Dir) Orphans() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return snapfile.FindOrphans(d.fsys, d.path, slices.Concat(d.manifests, d.rejected))
}

// Close releases the lock.
func (d *Dir) Close() error { return d.lock.Close() }

// KeepManifests is how many generations are kept, with all that they name: a bad one falls back to the one before.
const KeepManifests = 2

// HoldsData tells whether a directory has a manifest or a segment of a log, good or bad: something that OpenDir and
// OpenLog would read. It changes nothing and takes no lock.
func HoldsData(fsys vfs.FS, path string) (bool, error) {
	generations, err := snapfile.Generations(fsys, path)
	if err != nil || len(generations) > 0 {
		return err == nil, err
	}
	segments, err := logfile.ListSegments(fsys, path)
	return len(segments) > 0, err
}
