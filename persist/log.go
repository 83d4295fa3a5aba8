package persist

import (
	"sync"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
)

// Log is the append-only log: every change of the store in the order of its effects. All methods may be called
// concurrently.
//
// A change takes four steps: Ready before the change, Append... while the block is locked, Commit after the block is
// unlocked, then the reply.
//
// Log itself is only the face of its parts. Each part is a type in a file of its own, and newLog gives it the few other
// parts that it uses:
//
//	progress                how far the log is written and durable; read without a lock
//	admission               whether changes are taken, and why not
//	appender, tail          what is appended: the end of the log in memory
//	committer, diskCalls    writes and syncs, and the roles of those that do them
//	healer                  the trouble of the disk, and when it is tried again
//	judge                   what follows from the age and the size of what is not durable
//	segmentFiles, preparer  the files that are written, and the next one
//	SegmentList, Packer     the files that are kept
//	claims, Quorum, doubts, readers, nameWatch
//
// doc.go has the lock order. No file is touched under mu.
type Log struct {
	opts LogOptions

	// Read without a lock by every command.
	progress  progress
	admission admission
	quorum    Quorum

	_ [64]byte // what appenders write stays off the cache line that everybody reads

	appender  // its mu guards what changes of all parts, but for claims, Packer and Quorum
	committer committer
	judge     judge
	doubts    doubts
	readers   readers

	files    segmentFiles
	preparer preparer
	names    nameWatch
	claims   claims
	segments SegmentList
	packer   Packer

	kick  chan struct{} // wakes syncLoop early
	hurry hurry
	stop  chan struct{}
	loops sync.WaitGroup
}

// newLog connects the parts of a log, which starts where it was opened. Nothing runs yet.
func newLog(opts LogOptions, o *opened) *Log {
	l := &Log{opts: opts, kick: make(chan struct{}, 1), stop: make(chan struct{})}
	l.hurry.init()
	l.admission.logger = opts.Logger
	l.progress.policy.Store(int32(opts.Policy))
	l.progress.written.Store(o.end)
	l.progress.durable.Store(o.durable)
	l.quorum.confirmed.Store(everywhere)
	l.quorum.ceiling.Store(everywhere)

	l.tail.init(o.durable, opts.History.Epoch, opts.Now)
	l.tail.resume(o.durable, o.pieces)
	l.writeDone.L = &l.mu

	l.files = segmentFiles{maker: o.maker, most: opts.SegmentBytes, history: opts.History, lock: &l.mu, progress: &l.progress,
		segs: o.segs, active: o.active, chain: o.chain, rotate: o.rotate, packed: map[uint64]int64{}}
	l.judge = judge{tail: &l.tail, progress: &l.progress, admission: &l.admission, files: &l.files, kick: l.kick,
		now: opts.Now, maxAge: opts.MaxUnsyncedAge, maxBytes: opts.MaxUnsynced, twice: !opts.Manual}
	l.doubts = doubts{lock: &l.mu, tail: &l.tail, progress: &l.progress}

	c := &l.committer
	*c = committer{end: &l.appender, progress: &l.progress, admission: &l.admission, files: &l.files, judge: &l.judge, doubts: &l.doubts,
		healer: healer{maker: o.maker, logger: opts.Logger, keepTail: o.keepTail}, prepare: make(chan struct{}, 1), kick: l.kick,
		now: opts.Now, maxAge: opts.MaxUnsyncedAge, manual: opts.Manual, writtenChain: o.chain, durableChain: o.durableChain}
	c.syncDone.L = &l.mu
	if o.trouble != nil {
		c.startInTrouble(o.trouble)
	}

	l.claims.file, l.claims.logger = logfile.ClaimFile{FS: opts.FS, Dir: opts.Dir}, opts.Logger
	l.claims.made = o.claimed
	l.preparer = preparer{files: &l.files, calls: &c.calls, admission: &l.admission, judge: &l.judge, claims: &l.claims, logger: opts.Logger, wanted: c.prepare}
	l.names = nameWatch{files: &l.files, calls: &c.calls, admission: &l.admission}
	l.readers.files, l.readers.progress, l.readers.committer = &l.files, &l.progress, c
	l.segments.files, l.segments.admission, l.segments.calls = &l.files, &l.admission, &c.calls
	l.packer.list, l.packer.maker, l.packer.chunk = &l.segments, o.maker, opts.packChunk
	if o.active != nil {
		l.packer.findPacked()
	}
	return l
}

// Ready returns nil when a change may be made and logged, else a *NotReadyError. The caller asks it before the change.
// It is one atomic load.
func (l *Log) Ready() error { return l.admission.ready() }

// Refuse makes Ready refuse changes for a reason of the owner's, until Refuse is called with nil.
func (l *Log) Refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admission.refuse(reasonOwner, err)
}

// Segments returns the list of the segments that are kept.
func (l *Log) Segments() *SegmentList { return &l.segments }

// Packer returns the part that packs segments.
func (l *Log) Packer() *Packer { return &l.packer }

// Quorum returns the part that waits for other nodes.
func (l *Log) Quorum() *Quorum { return &l.quorum }

// Written returns the offset up to which bytes were given to write().
func (l *Log) Written() uint64 { return l.progress.written.Load() }

// Durable returns the offset up to which bytes survive a power failure.
func (l *Log) Durable() uint64 { return l.progress.durable.Load() }

// Visible returns the offset up to which others may have what the log holds. Behind it CommitReadHere waits.
func (l *Log) Visible() uint64 { return l.progress.visible() }

// Policy returns the sync policy.
func (l *Log) Policy() SyncPolicy { return l.progress.syncPolicy() }

// Doubtful reports whether changes that are not safe must be told apart from those that are: see Doubts. It is nearly
// always one atomic load.
func (l *Log) Doubtful() bool { return l.progress.doubtful() }

// Failed reports whether the disk takes nothing, perhaps for long: the bytes of a write or sync that failed could not
// be put elsewhere either, or the disk hangs.
func (l *Log) Failed() bool { return l.progress.failed() }

// Hangs reports whether a write or a sync of the log has not ended for MaxUnsyncedAge. It is one atomic load.
func (l *Log) Hangs() bool { return l.progress.hangs.Load() }

// SetPolicy changes the sync policy. A Commit that already waits may finish by either.
func (l *Log) SetPolicy(p SyncPolicy) {
	l.mu.Lock()
	if was := SyncPolicy(l.progress.policy.Swap(int32(p))); was == SyncAlways && p != was && !l.opts.Manual {
		l.hurry.ask(l.opts.Now()) // for those in HurryDurable that left it to commits
	}
	l.judge.age()
	l.committer.policyChanged()
	l.mu.Unlock()
	wake(l.kick)
}

// Reserve sets how many bytes of the disk the log leaves free when it prepares its next segment. This is the room that
// a snapshot needs on a full disk; after the snapshot, log can be dropped. Default 0.
func (l *Log) Reserve(bytes int64) { l.files.maker.Reserve.Store(bytes) }

// History returns the history that new frames belong to.
func (l *Log) History() format.History {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.files.history
}

// SetHistory makes all records from now on belong to another history, in a segment of their own: a replica was
// promoted, or a primary has a new term. Everything before becomes durable first. SetHistory returns the errors of Sync,
// and then changes nothing.
func (l *Log) SetHistory(h format.History) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.committer.syncAll(); err != nil {
		return err
	}
	l.files.history, l.tail.epoch, l.files.rotate = h, h.Epoch, true // nothing is unwritten: the writer's role is free
	return nil
}

// Sync makes all bytes appended so far durable, whatever the policy: before an image is named by a manifest.
// Errors as Commit.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.committer.syncTo(l.tail.position())
}

// Doubts reports whether the log behind the offset safe changes an item. below is a log offset that all changes of the
// item that the caller saw end at or before. It is meant for a log that is Doubtful: it takes the log's lock.
func (l *Log) Doubts(counter uint32, mid, safe, below uint64) bool {
	return below > safe && l.doubts.has(itemKey{counter, mid}, safe, below)
}

// start begins the background work.
func (l *Log) start() {
	if l.opts.Manual {
		return
	}
	l.judge.watch = time.AfterFunc(time.Hour, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.judge.age()
	})
	l.mu.Lock()
	l.committer.watchCalls()
	l.mu.Unlock()
	l.loops.Add(2)
	go l.syncLoop()
	go func() {
		defer l.loops.Done()
		l.preparer.run(l.stop)
	}()
}
