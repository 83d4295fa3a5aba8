package persist

import (
	"fmt"
	"sync"

	"github.com/counterd/counterd/persist/format"
)

// appender is what is appended: the log's end in memory and the lock over it, which is the lock of the whole Log.
type appender struct {
	mu        sync.Mutex
	tail      tail
	writeDone sync.Cond // the writer's role became free, or what was held may be written
}

// AppendSet logs that a column of an item has a new value and returns the offset behind the record. REQUIRES, as for
// all Append methods: Ready returned nil before the change, the lock that orders changes of this item is held, the
// log is not closed.
func (a *appender) AppendSet(counter uint32, column uint16, mid, value uint64) (pos uint64) {
	a.mu.Lock()
	c := a.tail.room(format.MaxSetLen)
	c.buf = format.AppendSet(c.buf, counter, column, mid, value)
	pos = c.end()
	a.mu.Unlock()
	return pos
}

// AppendDelete logs that an item is gone.
func (a *appender) AppendDelete(counter uint32, mid uint64) (pos uint64) {
	a.mu.Lock()
	c := a.tail.room(format.MaxDeleteLen)
	c.buf = format.AppendDelete(c.buf, counter, mid)
	pos = c.end()
	a.mu.Unlock()
	return pos
}

// AppendFlush logs that all items of all counters are gone.
func (a *appender) AppendFlush() (pos uint64) {
	a.mu.Lock()
	c := a.tail.room(1)
	c.buf = format.AppendFlush(c.buf)
	pos = c.end()
	a.mu.Unlock()
	return pos
}

// AppendItem logs new values of several columns of one item. More than MaxColumns give ErrTooLarge.
func (a *appender) AppendItem(counter uint32, mid uint64, columns []format.ColumnValue) (pos uint64, err error) {
	if len(columns) > format.MaxColumns {
		return 0, fmt.Errorf("item of %d columns, at most %d: %w", len(columns), format.MaxColumns, format.ErrTooLarge)
	}
	a.mu.Lock()
	c := a.tail.room(format.MaxDeleteLen + 3 + len(columns)*format.MaxColumnLen)
	c.buf = format.AppendSetItem(c.buf, counter, mid, columns)
	pos = c.end()
	a.mu.Unlock()
	return pos, nil
}

// AppendSchema logs a schema statement. More than MaxSchemaText bytes give ErrTooLarge.
func (a *appender) AppendSchema(text string) (pos uint64, err error) {
	if len(text) > format.MaxSchemaText {
		return 0, fmt.Errorf("schema statement of %d bytes, at most %d: %w", len(text), format.MaxSchemaText, format.ErrTooLarge)
	}
	a.mu.Lock()
	c := a.tail.room(1 + 3 + len(text))
	c.buf = format.AppendSchema(c.buf, text)
	pos = c.end()
	a.mu.Unlock()
	return pos, nil
}

// Append logs records that the caller encoded with the Append functions. They stay in one frame: after a crash all of
// them are there or none. More than MaxAppend bytes give ErrTooLarge.
func (a *appender) Append(records []byte) (pos uint64, err error) {
	if len(records) > format.MaxAppend {
		return 0, fmt.Errorf("records of %d bytes, at most %d: %w", len(records), format.MaxAppend, format.ErrTooLarge)
	}
	a.mu.Lock()
	if len(records) > 0 {
		c := a.tail.room(len(records))
		c.buf = append(c.buf, records...)
	}
	pos = a.tail.position()
	a.mu.Unlock()
	return pos, nil
}

// AppendOnceSet is AppendSet behind records that the caller encoded, in the same frame. They are at most MaxAppend less
// MaxSetLen bytes.
func (a *appender) AppendOnceSet(once []byte, counter uint32, column uint16, mid, value uint64) (pos uint64) {
	a.mu.Lock()
	c := a.tail.room(len(once) + format.MaxSetLen)
	c.buf = format.AppendSet(append(c.buf, once...), counter, column, mid, value)
	pos = c.end()
	a.mu.Unlock()
	return pos
}

// AppendWhole is Append for records that are one change, as if between HoldFrame and ReleaseFrame. Without records it only ends the
// open frame, so that a frame ends at the offset it returns: a replica stops there too.
func (a *appender) AppendWhole(records []byte) (pos uint64, err error) {
	if len(records) > format.MaxAppend {
		return 0, fmt.Errorf("records of %d bytes, at most %d: %w", len(records), format.MaxAppend, format.ErrTooLarge)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.tail.held { // else they are a part of something larger
		a.tail.holdFrame()
		defer a.tail.releaseFrame()
	}
	if len(records) > 0 {
		c := a.tail.room(len(records))
		c.buf = append(c.buf, records...)
	}
	return a.tail.position(), nil
}

// HoldFrame keeps the records that are appended until ReleaseFrame in one frame of their own. After a crash all of them are
// there or none, and the frame tells replicas that they are one change. Records of more than MaxFramePayload bytes take
// more than one frame. Commit and Sync of such a record wait for ReleaseFrame, so the holder must not call them. REQUIRES:
// one holder at a time, and no AppendFrame. It returns where that frame begins.
func (a *appender) HoldFrame() (start uint64) {
	a.mu.Lock()
	a.tail.holdFrame()
	start = a.tail.sealed
	a.mu.Unlock()
	return start
}

// ReleaseFrame ends HoldFrame.
func (a *appender) ReleaseFrame() {
	a.mu.Lock()
	a.tail.releaseFrame()
	a.writeDone.Broadcast()
	a.mu.Unlock()
}

// AppendFrame appends a frame as a primary made it, header included: a replica's only way to write. The frame must be
// whole and valid and start at Position, else nothing is changed.
func (a *appender) AppendFrame(raw []byte) (pos uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.tail.position()
	var f format.Frame
	if fault := format.DecodeFrame(raw, at, &f); fault != nil {
		return 0, fmt.Errorf("frame for log offset %d: want %s, got %s: %w", at, fault.Want, fault.Got, format.ErrCorrupt)
	}
	if len(raw) != len(f.Raw) {
		return 0, fmt.Errorf("frame for log offset %d: want %d bytes, got %d: %w", at, len(f.Raw), len(raw), format.ErrCorrupt)
	}
	a.tail.seal()
	if a.tail.position() != at {
		return 0, fmt.Errorf("log offset %d: %w: own records and a primary's frames in one log", at, format.ErrNotReady)
	}
	c := a.tail.last()
	if cap(c.buf)-len(c.buf) < len(raw) {
		c = a.tail.grow(len(raw))
	}
	c.buf = append(c.buf, raw...)
	a.tail.sealed = c.end()
	return a.tail.sealed, nil
}

// Position returns the offset behind the last record appended. Under a block's lock it is the offset that an image of
// the block stands at.
func (a *appender) Position() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tail.position()
}
