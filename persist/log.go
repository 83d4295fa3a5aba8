package persist

import (
	"sync"
	"time"

	"github.com/counterd/counterd/persist/format"
)

// Log is the append-only log: every change of the store in the order of its effects. All methods may be called
// concurrently.
//
// A change goes through it in four steps: Ready before the change, Append... while the block is locked, Commit after
// the block is unlocked, then the reply.
//
// One goroutine at a time has the writer's role and one the syncer's; whoever needs a role and finds it free takes
// it, does the work for all that wait, and wakes them. Both roles work without mu. After a failed write or sync the
// roles are free but not taken while the log heals or trouble is set (heal.go). A role that is held for too long is not waited
// for any more (stall.go).
//
// Its parts are types of their own, each in its file: progress, admission, appender with the tail, segmentFiles with the
// Maker, SegmentList, Packer, diskCalls, claims and Quorum. Methods of those embedded are the log's.
//
// Lock order: a block's lock (of the caller), then mu. Packer.mu, then SegmentList.drop, then mu. mu, then claims.mu.
// No file is touched under mu.
type Log struct {
	opts LogOptions

	// Read without a lock by every command.
	progress
	admission admission
	quorum    Quorum

	_ [64]byte // what appenders write stays off the cache line that everybody reads

	appender           // its mu guards the rest
	syncDone sync.Cond // the syncer's role became free, or healing ended
	trouble  error     // the disk failed and healing did too; nil in service
	doubt    *doubt    // what Doubts found out; nil: not asked since the disk was well
	calls    diskCalls

	files segmentFiles

	writtenChain, durableChain uint32 // crc32c of the frames that end at written and at durable

	since     time.Time // not zero: no byte that is not durable is older
	doubted   uint64    // number of the sync that was found to be late once: see judgeAge
	judgeAt   time.Time // when the disk is slow if that sync has not ended
	nextHeal  time.Time
	healDelay time.Duration
	pieces    [][]byte      // the writer's, reused
	changed   chan struct{} // closed when written or Visible grows or the log closes; nil: nobody waits
	stats     Stats

	keepTail func() (path string, err error) // keeps the torn tail of a start that could not; nil: there is none

	claims   claims
	segments SegmentList
	packer   Packer

	watch   *time.Timer
	kick    chan struct{} // wakes syncLoop early
	prepare chan struct{} // wakes prepareLoop
	stop    chan struct{}
	loops   sync.WaitGroup
}

// Ready returns nil when a change may be made and logged, else a *NotReadyError. It is to be asked before the change:
// one atomic load.
func (l *Log) Ready() error { return l.admission.ready() }

// Segments returns the list of the segments that are kept.
func (l *Log) Segments() *SegmentList { return &l.segments }

// Packer returns what packs segments.
func (l *Log) Packer() *Packer { return &l.packer }

// holding tells whether all that may be written was: the rest is held. REQUIRES: mu.
func (l *Log) holding() bool { return l.tail.held && l.written.Load() == l.tail.sealed }

// SetPolicy changes the sync policy. A Commit that already waits may finish by either.
func (l *Log) SetPolicy(p SyncPolicy) {
	l.mu.Lock()
	l.policy.Store(int32(p))
	l.judgeAge()
	l.syncDone.Broadcast()
	l.announce() // Visible may have grown
	l.mu.Unlock()
	wake(l.kick)
}

// Reserve sets how many bytes of the disk the log leaves free when it prepares its next segment: what is needed to get
// out of a full disk, above all for a snapshot, after which log can be dropped. Default 0.
func (l *Log) Reserve(bytes int64) { l.files.maker.Reserve.Store(bytes) }

// History returns the history that new frames belong to.
func (l *Log) History() format.History {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files.history
}

// SetHistory makes all records from now on belong to another history, in a segment of their own: a replica was
// promoted, or a primary has a new term. Everything before becomes durable first; errors as Sync, nothing is changed
// then.
func (l *Log) SetHistory(h format.History) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.durable.Load() < l.tail.position() || l.calls.healing() {
		if err := l.syncTo(l.tail.position()); err != nil {
			return err
		}
	}
	l.files.history, l.tail.epoch, l.files.rotate = h, h.Epoch, true // nothing is unwritten: the writer's role is free
	return nil
}
