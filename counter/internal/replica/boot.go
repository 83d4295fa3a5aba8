package replica

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// boot is the knowledge of the machine's last end. Under appendfsync everysec and no, a machine that loses power loses the
// changes acknowledged last; a killed process does not. So an Elected store notes durably in which time since a start of
// the machine it works, and at its end that all it had is durable. One that comes back in another time without such an end
// is behind: it may lack what it acknowledged, until it has caught up with a primary. So is one whose log was cut for a
// primary, and one whose log has a torn tail though the machine did not lose power: a kill leaves all written bytes, and
// with it all that was acknowledged, so a bad frame at the end may be damage of an acknowledged one.
//
// The file BOOT is text:
//
//	counterd boot 1
//	id <of the time since the machine's start; empty: not known>
//	durable <true|false>   all that was acknowledged is: the end was clean, or appendfsync is always
//	behind <true|false>
//	end crc32c <8 hex digits>
type boot struct {
	s  *core.Data
	id string // of the time since the machine's start; empty: not known

	mu      sync.Mutex // guards the rest
	durable bool       // all that is acknowledged is durable, as appendfsync is always; begin notes it
	begun   bool
	torn    bool     // the start has cut a torn tail
	note    bootNote // that is in force and on disk
}

type bootNote struct {
	id              string
	durable, behind bool
}

const (
	bootName  = "BOOT"
	bootTitle = "counterd boot "
	bootEnd   = "end crc32c "
	maxBoot   = 1 << 10
)

func (n *bootNote) text() []byte {
	b := fmt.Appendf(nil, "%s1\nid %s\ndurable %t\nbehind %t\n", bootTitle, n.id, n.durable, n.behind)
	return fmt.Appendf(b, "%s%08x\n", bootEnd, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// parseBoot is the inverse of text. An unreadable note says nothing about durable changes.
func parseBoot(text []byte) (n bootNote, ok bool) {
	id, rest, _ := bytes.Cut(bytes.TrimPrefix(text, []byte(bootTitle+"1\nid ")), []byte("\n"))
	n.id = string(id)
	n.durable = bytes.HasPrefix(rest, []byte("durable true\n"))
	n.behind = bytes.Contains(rest, []byte("\nbehind true\n"))
	return n, bytes.Equal(n.text(), text)
}

// begin reads the note of the process before, and notes that this one works. Once it has done so it does nothing.
func (b *boot) begin() error {
	if !b.s.Config.Elected {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begun {
		return nil
	}
	now := bootNote{id: b.id, durable: b.durable, behind: b.note.behind}
	text, err := vfs.ReadFile(b.s.Config.FS, filepath.Join(b.s.Dir.Path(), bootName), maxBoot)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && vfs.IsTrouble(err) {
		return err
	}
	if was, ok := parseBoot(text); !errors.Is(err, fs.ErrNotExist) {
		now.behind = now.behind || !ok || was.lacks(now.id) || b.torn && was.survived(now.id)
	}
	b.note.behind = now.behind // also while it cannot be noted
	if err := b.write(now); err != nil {
		return err
	}
	if b.begun = true; now.behind {
		b.s.Config.Logger.Warn("this node may lack acknowledged changes until it has caught up with a primary: its machine lost power, its log had a torn tail, or a repair dropped data")
	}
	return nil
}

// write puts a note in force that is durable. REQUIRES: mu.
func (b *boot) write(n bootNote) error {
	err := vfs.WriteFileAtomic(b.s.Config.FS, filepath.Join(b.s.Dir.Path(), bootName), n.text())
	if err == nil {
		b.note = n
	}
	return err
}

// lacks tells whether a store with the note may lack acknowledged changes, in the time of an id.
func (n *bootNote) lacks(id string) bool {
	return n.behind || !n.durable && (n.id != id || id == "")
}

// survived tells whether the machine is known not to have lost power since the note, in the time of an id.
func (n *bootNote) survived(id string) bool { return n.id == id && id != "" }

// noteTorn notes that an Elected store may lack acknowledged changes, if its log has a torn tail without a power failure. The note
// is durable before the tail is cut: a crash behind the cut must not forget it.
func (b *boot) noteTorn() error {
	if !b.s.Config.Elected {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.torn = true
	name := filepath.Join(b.s.Dir.Path(), bootName)
	text, err := vfs.ReadFile(b.s.Config.FS, name, maxBoot)
	if err != nil {
		return nil // begin judges it
	}
	was, ok := parseBoot(text)
	if !ok || was.behind || !was.survived(b.id) {
		return nil
	}
	was.behind = true
	return vfs.WriteFileAtomic(b.s.Config.FS, name, was.text())
}

// change writes the note anew, if begin has.
func (b *boot) change(f func(n *bootNote)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.begun {
		return nil
	}
	n := b.note
	if f(&n); n == b.note {
		return nil
	}
	return b.write(n)
}

// doubt tells begin, which has not written its note yet, to note that the store may lack acknowledged changes. Behind begin it does nothing.
func (b *boot) doubt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note.behind = b.note.behind || !b.begun
}

// policy notes that changes may be acknowledged from now on before they are durable. A policy that is stricter than
// before is not noted: acknowledged changes may not be durable yet. Where begin has not written its note yet, begin notes it.
func (b *boot) policy(p persist.SyncPolicy) error {
	if p == persist.SyncAlways {
		return nil
	}
	b.mu.Lock()
	if !b.begun {
		b.durable = false
	}
	b.mu.Unlock()
	return b.change(func(n *bootNote) { n.durable = false })
}

// end notes that all is durable.
func (b *boot) end() error { return b.change(func(n *bootNote) { n.durable = true }) }

// MarkBehind notes, durably, that an Elected store may lack acknowledged changes: its log is about to be cut, or has lost its end. For any other
// store it does nothing. On a disk that has taken nothing since the start, it returns an error, and the store counts as behind nevertheless.
func (r *Replication) MarkBehind() error {
	if r.s.Log == nil || !r.s.Config.Elected {
		return nil
	}
	r.boot.doubt()
	if err := r.boot.begin(); err != nil {
		return err
	}
	return r.boot.change(func(n *bootNote) { n.behind = true })
}

// Behind tells whether an Elected store may lack what it acknowledged, as the machine went down under it, or as its log
// was cut.
func (r *Replication) Behind() bool {
	r.boot.mu.Lock()
	defer r.boot.mu.Unlock()
	return r.boot.note.behind
}

// ClearBehind notes that the store has all that it ever acknowledged: it has caught up with a primary.
func (r *Replication) ClearBehind() error {
	if r.s.Log == nil {
		return nil
	}
	return r.boot.change(func(n *bootNote) { n.behind = false })
}

// NoteBehind notes, durably, in a data directory that is not open that its store may lack what it acknowledged, and
// reports whether it did: a repair is about to give up a part of the directory. The directory of a store that was never
// Elected has no such note, and stays as it is.
func NoteBehind(fsys vfs.FS, dir string) (noted bool, err error) {
	name := filepath.Join(dir, bootName)
	text, err := vfs.ReadFile(fsys, name, maxBoot)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil && vfs.IsTrouble(err) {
		return false, err
	}
	n, _ := parseBoot(text) // a directory whose note cannot be read counts as behind, too
	n.behind = true
	return true, vfs.WriteFileAtomic(fsys, name, n.text())
}

// LacksNothing returns nil if the Elected store of a data directory that is not open has all that it ever acknowledged. The log must be whole, without a
// torn tail. id names the time since the start of the machine.
func LacksNothing(fsys vfs.FS, dir, id string) error {
	text, err := vfs.ReadFile(fsys, filepath.Join(dir, bootName), maxBoot)
	if err != nil {
		return err
	}
	if was, ok := parseBoot(text); !ok || was.lacks(id) {
		return errors.New("the machine lost power, or the log was cut, so acknowledged changes may be missing")
	}
	return nil
}

// NoteGone writes a note into the directory of an Elected store that is not open, if the note or the whole log is gone: the store counts as behind, as
// nobody knows how the machine ended, or how far the log went. noted tells whether the note or the log was gone.
func NoteGone(fsys vfs.FS, dir string) (noted bool, err error) {
	name := filepath.Join(dir, bootName)
	if _, err := fsys.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		if segs, err := logfile.ListSegments(fsys, dir); err != nil || len(segs) > 0 {
			return false, nil // the start reads both
		}
		return NoteBehind(fsys, dir)
	}
	n := bootNote{behind: true}
	return true, vfs.WriteFileAtomic(fsys, name, n.text())
}
