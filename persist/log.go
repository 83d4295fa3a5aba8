package persist

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// Log is the append-only log: every change of the store in the order of its effects. All methods may be called
// concurrently.
//
// A change goes through it in four steps: Ready before the change, Append... while the block is locked, Commit after
// the block is unlocked, then the reply.
//
// One goroutine at a time has the writer's role and one the syncer's; whoever needs a role and finds it free takes
// it, does the work for all that wait, and wakes them. Both roles work without mu. After a failed write or sync the
// roles are free but not taken while healing or trouble is set (heal.go).
//
// Lock order: a block's lock (of the caller), then mu. dropMu before mu. No file is touched under mu.
type Log struct {
	opts LogOptions

	// Read without a lock by every command.
	refusal atomic.Pointer[NotReadyError] // why Ready refuses, nil: it does not
	policy  atomic.Int32
	written atomic.Uint64 // all bytes below were given to write()
	durable atomic.Uint64 // all bytes below survive a power failure; <= written
	failing atomic.Int32  // diskWell, diskFails or diskFailed
	behind  atomic.Bool   // more than half of MaxUnsynced is not durable
	layout  atomic.Uint64 // changes when the list of segments does, before written passes the change

	_ [64]byte // what appenders write stays off the cache line that everybody reads

	mu        sync.Mutex // guards the rest
	tail      tail
	writeDone sync.Cond // the writer's role became free
	syncDone  sync.Cond // the syncer's role became free, or healing ended
	writing   bool
	syncing   bool
	healing   bool
	trouble   error  // the disk failed and healing did too; nil in service
	doubt     *doubt // what Doubts found out; nil: not asked since the last healing
	closing   bool
	closed    bool // no role is taken any more
	refusals  [reasons]error

	history  History
	rotate   bool           // the next frame begins a new segment, as the history changed
	segs     []segment      // all on disk, by start
	active   *openSegment   // the last of segs, nil in trouble
	retired  []*openSegment // written full, not yet synced
	dirDirty bool           // a segment got its name and the directory was not synced since
	next     *openSegment   // prepared, still under a temporary name
	wantNext bool           // next is to be prepared
	spaceErr error          // why preparing failed last
	chain    uint32         // crc32c of the last frame given to write(); the writer's alone

	writtenChain, durableChain uint32 // crc32c of the frames that end at written and at durable

	since     time.Time // not zero: no byte that is not durable is older
	doubted   uint64    // number of the sync that was found to be late once: see judgeAge
	judgeAt   time.Time // when the disk is slow if that sync has not ended
	nextHeal  time.Time
	healDelay time.Duration
	pieces    [][]byte      // the writer's, reused
	changed   chan struct{} // closed when written or Visible grows or the log closes; nil: nobody waits
	stats     Stats

	maker   segmentMaker
	dropMu  sync.Mutex // one DropBefore at a time
	watch   *time.Timer
	kick    chan struct{} // wakes syncLoop early
	prepare chan struct{} // wakes prepareLoop
	stop    chan struct{}
	loops   sync.WaitGroup
}

// openSegment is a segment file that is being written.
type openSegment struct {
	segment
	file     vfs.File
	name     named // once it has one
	capacity int64 // preallocated bytes
	used     int64 // bytes from the file's start up to the last frame's end; the writer's
}

// NewReplID returns a random history id.
func NewReplID() (id ReplID) {
	for i := range id {
		id[i] = byte(rand.Uint32()) // runtime-seeded ChaCha8; ids need to differ, not to be secret
	}
	return id
}

// AppendSet logs that a column of an item has a new value and returns the offset behind the record. REQUIRES, as for
// all Append methods: Ready returned nil before the change, the lock that orders changes of this item is held, the
// log is not closed.
func (l *Log) AppendSet(counter uint32, column uint16, mid, value uint64) (pos uint64) {
	l.mu.Lock()
	c := l.tail.room(MaxSetLen)
	c.buf = AppendSet(c.buf, counter, column, mid, value)
	pos = c.end()
	l.mu.Unlock()
	return pos
}

// AppendDelete logs that an item is gone.
func (l *Log) AppendDelete(counter uint32, mid uint64) (pos uint64) {
	l.mu.Lock()
	c := l.tail.room(maxDeleteLen)
	c.buf = AppendDelete(c.buf, counter, mid)
	pos = c.end()
	l.mu.Unlock()
	return pos
}

// AppendFlush logs that all items of all counters are gone.
func (l *Log) AppendFlush() (pos uint64) {
	l.mu.Lock()
	c := l.tail.room(1)
	c.buf = AppendFlush(c.buf)
	pos = c.end()
	l.mu.Unlock()
	return pos
}

// AppendItem logs new values of several columns of one item. More than MaxColumns give ErrTooLarge.
func (l *Log) AppendItem(counter uint32, mid uint64, columns []ColumnValue) (pos uint64, err error) {
	if len(columns) > MaxColumns {
		return 0, fmt.Errorf("item of %d columns, at most %d: %w", len(columns), MaxColumns, ErrTooLarge)
	}
	l.mu.Lock()
	c := l.tail.room(maxDeleteLen + 3 + len(columns)*maxColumnLen)
	c.buf = AppendSetItem(c.buf, counter, mid, columns)
	pos = c.end()
	l.mu.Unlock()
	return pos, nil
}

// AppendSchema logs a schema statement. More than MaxSchemaText bytes give ErrTooLarge.
func (l *Log) AppendSchema(text string) (pos uint64, err error) {
	if len(text) > MaxSchemaText {
		return 0, fmt.Errorf("schema statement of %d bytes, at most %d: %w", len(text), MaxSchemaText, ErrTooLarge)
	}
	l.mu.Lock()
	c := l.tail.room(1 + 3 + len(text))
	c.buf = AppendSchema(c.buf, text)
	pos = c.end()
	l.mu.Unlock()
	return pos, nil
}

// Append logs records that the caller encoded with the Append functions. They stay in one frame: after a crash all of
// them are there or none. More than MaxAppend bytes give ErrTooLarge.
func (l *Log) Append(records []byte) (pos uint64, err error) {
	if len(records) > MaxAppend {
		return 0, fmt.Errorf("records of %d bytes, at most %d: %w", len(records), MaxAppend, ErrTooLarge)
	}
	l.mu.Lock()
	if len(records) > 0 {
		c := l.tail.room(len(records))
		c.buf = append(c.buf, records...)
	}
	pos = l.tail.position()
	l.mu.Unlock()
	return pos, nil
}

// AppendOnceSet is AppendSet behind records that the caller encoded, in the same frame. They are at most MaxAppend less
// MaxSetLen bytes.
func (l *Log) AppendOnceSet(once []byte, counter uint32, column uint16, mid, value uint64) (pos uint64) {
	l.mu.Lock()
	c := l.tail.room(len(once) + MaxSetLen)
	c.buf = AppendSet(append(c.buf, once...), counter, column, mid, value)
	pos = c.end()
	l.mu.Unlock()
	return pos
}

// AppendWhole is Append for records that are one change, as if between Hold and Release.
func (l *Log) AppendWhole(records []byte) (pos uint64, err error) {
	if len(records) > MaxAppend {
		return 0, fmt.Errorf("records of %d bytes, at most %d: %w", len(records), MaxAppend, ErrTooLarge)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.tail.held { // else they are a part of something larger
		l.tail.hold()
		defer l.tail.letGo()
	}
	c := l.tail.room(len(records))
	c.buf = append(c.buf, records...)
	return c.end(), nil
}

// Hold keeps what is appended until Release in one frame of its own: after a crash all of it is there or none, and who
// applies it elsewhere is told that it is one change. Only what is larger than MaxFramePayload is more than one frame.
// Whoever waits for it in Commit or Sync waits for Release: the holder must not. REQUIRES: one holder at a time, and no
// AppendFrame.
func (l *Log) Hold() {
	l.mu.Lock()
	l.tail.hold()
	l.mu.Unlock()
}

// Release ends Hold.
func (l *Log) Release() {
	l.mu.Lock()
	l.tail.letGo()
	l.writeDone.Broadcast()
	l.mu.Unlock()
}

// holding tells whether all that may be written was: the rest is held. REQUIRES: mu.
func (l *Log) holding() bool { return l.tail.held && l.written.Load() == l.tail.sealed }

// AppendFrame appends a frame as a primary made it, header included: a replica's only way to write. The frame must be
// whole and valid and start at Position, else nothing is changed.
func (l *Log) AppendFrame(raw []byte) (pos uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tail.position()
	var f Frame
	if fault := decodeFrame(raw, at, &f); fault != nil {
		return 0, fmt.Errorf("frame for log offset %d: want %s, got %s: %w", at, fault.want, fault.got, ErrCorrupt)
	}
	if len(raw) != len(f.Raw) {
		return 0, fmt.Errorf("frame for log offset %d: want %d bytes, got %d: %w", at, len(f.Raw), len(raw), ErrCorrupt)
	}
	l.tail.seal()
	if l.tail.position() != at {
		return 0, fmt.Errorf("log offset %d: %w: own records and a primary's frames in one log", at, ErrNotReady)
	}
	c := l.tail.last()
	if cap(c.buf)-len(c.buf) < len(raw) {
		c = l.tail.grow(len(raw))
	}
	c.buf = append(c.buf, raw...)
	l.tail.sealed = c.end()
	return l.tail.sealed, nil
}

// Position returns the offset behind the last record appended. Under a block's lock it is the offset that an image of
// the block stands at.
func (l *Log) Position() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail.position()
}

// Written returns the offset up to which bytes were given to write().
func (l *Log) Written() uint64 { return l.written.Load() }

// Durable returns the offset up to which bytes survive a power failure.
func (l *Log) Durable() uint64 { return l.durable.Load() }

// Policy returns the sync policy.
func (l *Log) Policy() SyncPolicy { return SyncPolicy(l.policy.Load()) }

// SetPolicy changes the sync policy. A Commit that already waits may finish by either.
func (l *Log) SetPolicy(p SyncPolicy) {
	l.mu.Lock()
	l.policy.Store(int32(p))
	l.judgeAge()
	l.syncDone.Broadcast()
	l.announce() // Visible may have grown
	l.mu.Unlock()
	l.wake(l.kick)
}

// Reserve sets how many bytes of the disk the log leaves free when it prepares its next segment: what is needed to get
// out of a full disk, above all for a snapshot, after which log can be dropped. Default 0.
func (l *Log) Reserve(bytes int64) { l.maker.reserve.Store(bytes) }

// History returns the history that new frames belong to.
func (l *Log) History() History {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.history
}

// SetHistory makes all records from now on belong to another history, in a segment of their own: a replica was
// promoted, or a primary has a new term. Everything before becomes durable first; errors as Sync, nothing is changed
// then.
func (l *Log) SetHistory(h History) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.durable.Load() < l.tail.position() || l.healing {
		if err := l.syncTo(l.tail.position()); err != nil {
			return err
		}
	}
	l.history, l.tail.epoch, l.rotate = h, h.Epoch, true // nothing is unwritten: the writer's role is free
	return nil
}

// wake sends on a channel of capacity 1 that nobody has to wait for.
func (l *Log) wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
