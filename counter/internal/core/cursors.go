package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/persist/format"
)

// Cursors are the named places of consumers in the feed of changes. They are in the log, so replicas, full copies and the next primary
// have them, and in manifests. FLUSHALL leaves them: it is a change that each consumer has to see.
//
// Records are absolute, and each is applied while mu is held in which it was appended. So a copy of the table of any moment, and the
// records from an earlier offset on, give the present table.
type Cursors struct {
	// Admitted: HISTORY says that the log may have records of cursors, and of dropped ranges. Set before the first of them is appended.
	Admitted atomic.Bool

	mu     sync.Mutex // a lock of level 6: the log is appended to while it is held
	list   map[string]format.Cursor
	seen   bool              // a record or a manifest had cursors
	logged uint64            // log offset behind the last record; 0: it was replayed
	dead   map[string]string // positions, by name, that no feed goes on from
}

// ErrNoCursor: there is no cursor of that name.
var ErrNoCursor = errors.New("there is no cursor of this name")

// errNotAdmitted is a mistake of the program: Replication.AdmitCursors comes first.
var errNotAdmitted = errors.New("counter: HISTORY does not say yet that the log may have records of cursors and dropped ranges")

// CursorsFullError says that there are as many cursors as there may be.
type CursorsFullError struct{ Most int }

func (e *CursorsFullError) Error() string {
	return fmt.Sprintf("there are %d cursors, the most that there may be: delete one that no consumer needs", e.Most)
}

// CursorNameError says that a text is no name of a cursor.
type CursorNameError struct{ Got string }

func (e *CursorNameError) Error() string {
	return fmt.Sprintf("a cursor's name has 1 to %d letters, digits, points, hyphens and underscores, got %q", format.MaxCursorName, e.Got[:min(len(e.Got), 100)])
}

// List returns all cursors by name.
func (c *Cursors) List() []format.Cursor {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.list), func(a, b format.Cursor) int { return strings.Compare(a.Name, b.Name) })
}

// Seen tells whether the log or the snapshot that was read had cursors.
func (c *Cursors) Seen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

// NoteDead says that no feed of this log goes on from the position of a cursor, as its history was taken back. So it keeps no log. It is
// forgotten at a start, and when the cursor is set.
func (c *Cursors) NoteDead(name, position string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead == nil {
		c.dead = make(map[string]string)
	}
	c.dead[name] = position
}

// From is the lowest log offset that a cursor needs. Cursors that need log below first do not count, as it is gone, nor do dead ones.
func (c *Cursors) From(first uint64) (offset uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.list {
		if v.Offset >= first && (!ok || v.Offset < offset) && c.dead[v.Name] != v.Position {
			offset, ok = v.Offset, true
		}
	}
	return offset, ok
}

// Load takes over the list of a manifest.
func (c *Cursors) Load(list []format.Cursor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list, c.seen = nil, len(list) > 0
	for _, v := range list {
		c.put(v)
	}
}

// apply takes over a record. logged is the log offset behind it, or of a later one.
func (c *Cursors) apply(rec *format.Record, logged uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen, c.logged = true, max(c.logged, logged)
	c.put(format.Cursor{Name: string(rec.Text), Position: string(rec.Position), Offset: rec.Value, TimeMS: rec.TimeMS})
}

// put makes, moves or removes a cursor. REQUIRES mu.
func (c *Cursors) put(v format.Cursor) {
	delete(c.dead, v.Name)
	if v.Position == "" {
		delete(c.list, v.Name)
		return
	}
	if c.list == nil {
		c.list = make(map[string]format.Cursor)
	}
	c.list[v.Name] = v
}

// BatchCursors are the cursors as a batch sees them.
type BatchCursors struct{ b *Batch }

// CursorsOf are the named places in the feed of changes as a batch sees them. REQUIRES the batch to be open while they are used.
func CursorsOf(b *Batch) BatchCursors { return BatchCursors{b} }

// Set makes or moves a cursor. REQUIRES Replication.AdmitCursors, and a position of this log that needs log from v.Offset on. The error is
// a *CursorNameError, a *CursorsFullError, or one of changes; nothing was changed then.
func (c BatchCursors) Set(v format.Cursor) error {
	if !format.ValidCursorName(v.Name) {
		return &CursorNameError{v.Name}
	}
	t := &c.b.data.Cursors
	return c.log(v, func() error {
		if _, there := t.list[v.Name]; !there && len(t.list) >= format.MaxCursors {
			return &CursorsFullError{format.MaxCursors}
		}
		return nil
	})
}

// Delete removes a cursor. The error is ErrNoCursor, or one of changes; nothing was changed then.
func (c BatchCursors) Delete(name string) error {
	t := &c.b.data.Cursors
	return c.log(format.Cursor{Name: name}, func() error {
		if _, there := t.list[name]; !there {
			return ErrNoCursor
		}
		return nil
	})
}

// List returns all cursors by name. The error is an *UncertainError.
func (c BatchCursors) List() ([]format.Cursor, error) {
	t := &c.b.data.Cursors
	list := t.List()
	t.mu.Lock()
	logged := t.logged // of the list, or of a later one
	t.mu.Unlock()
	c.b.checkState()
	return list, c.b.seen.noteSeenLogged(logged)
}

// log appends and applies a record, unless may refuses it.
func (c BatchCursors) log(v format.Cursor, may func() error) error {
	b, d := c.b, c.b.data
	if d.Log == nil {
		return ErrInMemory
	}
	if b.checkState(); b.refused != nil {
		return b.refused
	}
	t := &d.Cursors
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := may(); err != nil {
		return err
	}
	if !t.Admitted.Load() {
		return errNotAdmitted
	}
	pos, err := d.Log.Append(format.AppendCursor(nil, v.Name, v.Offset, v.Position))
	if err != nil {
		return err
	}
	b.pos, t.logged = max(b.pos, pos), pos
	v.TimeMS = d.Config.Now().UnixMilli()
	t.put(v)
	return nil
}
