package persist

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// Recovery says what OpenLog found.
type Recovery struct {
	From     uint64 // the offset asked for
	End      uint64 // where the log goes on
	Frames   uint64 // read, including those before From in its segment
	Records  uint64 // given to apply
	Segments int    // read
	TimeMS   int64  // wall time of the last frame, 0: none
	History  History
	Torn     *TornTail // what was cut; nil: the log ended cleanly
	Epoch    uint32    // the highest of the frames
	// Strange is the *TermError of the first frame whose term LogOptions.Past does not have; nil: there is none. The log
	// is read and opened nevertheless.
	Strange error
}

// OpenLog reads the log of a data directory from an offset to its end, gives apply every record that ends behind the
// offset, and opens the log for appending. from is an offset that the log gave out: 0, or where an image stands.
// The caller holds the directory's lock.
//
// A torn tail is cut and reported. Damage of bytes that were durable gives a *CorruptError, a file of another version
// ErrUnsupportedFormat, and nothing is changed. No segment at all gives ErrGap inside a CorruptError unless opts.Create is
// set. An error of apply is returned as it is.
func OpenLog(opts LogOptions, from uint64, apply func(pos uint64, rec *Record) error) (*Log, Recovery, error) {
	opts.ensureDefaults()
	rec := Recovery{From: from, End: from, History: opts.History}
	if err := opts.validate(); err != nil {
		return nil, rec, err
	}
	claim, err := ReadClaim(opts.FS, opts.Dir)
	if err != nil && !opts.goesOn(err) {
		return nil, rec, err
	}
	segs, err := listSegments(opts.FS, opts.Dir)
	if err != nil {
		return nil, rec, err
	}
	if len(segs) == 0 {
		if !opts.Create || claim.Offset > from {
			return nil, rec, &CorruptError{Dir: opts.Dir, File: LogDir(opts.Dir), LogOffset: from, Want: "log segments", Got: "none", Err: ErrGap}
		}
		l, err := createLog(opts, from)
		return l, rec, err
	}
	first := len(segs) - 1
	for first > 0 && segs[first].start > from {
		first--
	}
	if segs[first].start > from {
		return nil, rec, &CorruptError{Dir: opts.Dir, File: segs[first].path, LogOffset: from,
			Want: fmt.Sprintf("log from offset %d", from), Got: fmt.Sprintf("a first segment that starts at %d", segs[first].start), Err: ErrGap}
	}
	if first, err = wholeFrom(opts.FS, segs, first); err != nil {
		return nil, rec, err
	}
	w := walk{fsys: opts.FS, dir: opts.Dir, segs: segs[first:], knownDurable: max(opts.KnownDurable, claim.Offset, from)}
	if err := w.replay(&opts, &rec, from, apply); err != nil {
		return nil, rec, err
	}
	rec.End, rec.Frames, rec.TimeMS, rec.Torn = w.end, w.frames, w.timeMS, w.torn
	if opts.History == (History{}) {
		opts.History = w.header.history
	}
	rec.History = w.header.history
	l := newLog(opts, w.end)
	if err := l.takeOver(&w, segs); err != nil {
		return nil, rec, err
	}
	l.claimed = l.durable.Load() // the header of the segment that was begun says so, or the claims that the walk read
	l.start()
	return l, rec, nil
}

// wholeFrom returns first, or the segment before it if first got its name but its header was lost in a crash: history
// and chain are then the ones before.
func wholeFrom(fsys vfs.FS, segs []segment, first int) (int, error) {
	for ; first > 0; first-- {
		file, err := openSegmentFile(fsys, &segs[first])
		if err != nil {
			return 0, err
		}
		_, fault, err := readSegmentHeader(file, &segs[first])
		if err = errors.Join(err, file.Close()); err != nil {
			return 0, err
		}
		if fault == nil {
			break
		}
	}
	return first, nil
}

// replay runs the walk and applies the records.
func (w *walk) replay(opts *LogOptions, rec *Recovery, from uint64, apply func(pos uint64, rec *Record) error) error {
	var done, total, told uint64
	for i, s := range w.segs {
		if i+1 < len(w.segs) {
			total += w.segs[i+1].start - s.start
		} else if info, err := w.fsys.Stat(s.path); err == nil {
			total += uint64(info.Size())
		}
	}
	var record Record
	fn := func(pos uint64, r *Record) error {
		rec.Records++
		return apply(pos, r)
	}
	w.segment = func(segment, *segmentHeader) error {
		rec.Segments++
		return nil
	}
	past := opts.Past
	if past != nil && len(past.Terms) == 0 {
		past = nil
	}
	w.frame = func(seg segment, f *Frame) error {
		done = f.End() - w.segs[0].start
		if rec.Epoch = max(rec.Epoch, f.Epoch); past != nil && rec.Strange == nil {
			rec.Strange = past.Admits(f.Start, f.Epoch)
		}
		if opts.Progress != nil && done >= told+1<<20 {
			told = done
			opts.Progress(done, max(total, done))
		}
		if f.End() <= from {
			return nil
		}
		return badRecord(f.Records(&record, from, fn), w.dir, seg, f)
	}
	return w.run()
}

// newLog returns a log that ends at an offset, with no segment yet.
func newLog(opts LogOptions, end uint64) *Log {
	l := &Log{
		opts: opts,
		kick: make(chan struct{}, 1), prepare: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	f := &l.files
	f.maker.fsys, f.maker.dir, f.maker.least, f.maker.guard = opts.FS, opts.Dir, opts.FirstSegmentBytes, opts.Guard
	f.most, f.history, f.lock, f.progress = opts.SegmentBytes, opts.History, &l.mu, &l.progress
	f.packed = map[uint64]int64{}
	l.claims = claimFile{fsys: opts.FS, dir: opts.Dir}
	l.logger = opts.Logger
	l.writeDone.L, l.syncDone.L = &l.mu, &l.mu
	l.policy.Store(int32(opts.Policy))
	l.confirmed.Store(everywhere)
	l.written.Store(end)
	l.durable.Store(end)
	l.tail.init(end, opts.History.Epoch, opts.Now)
	return l
}

// createLog makes the first segment of a new log.
func createLog(opts LogOptions, at uint64) (*Log, error) {
	if err := opts.FS.MkdirAll(LogDir(opts.Dir)); err != nil {
		return nil, err
	}
	if err := opts.FS.SyncDir(opts.Dir); err != nil {
		return nil, err
	}
	if _, err := vfs.RemoveTemps(opts.FS, LogDir(opts.Dir)); err != nil {
		return nil, err
	}
	if opts.History.ReplID == (ReplID{}) {
		opts.History.ReplID = NewReplID()
	}
	l := newLog(opts, at)
	s, err := l.files.maker.rewrite(segmentHeader{history: l.files.history, start: at, durable: at}, nil, nil)
	if err != nil {
		return nil, err
	}
	l.files.segs, l.files.active = []segment{s.segment}, s
	l.claimed = at
	l.start()
	return l, nil
}

// takeOver makes a recovered log one to append to. What the walk read is not durable for sure behind its claim: the
// process that wrote it may have died before a sync, or after a failed one. So the bytes from the claim to the end
// are copied into a new segment, by the steps of heal.go, and no segment of an earlier process is ever appended to.
func (l *Log) takeOver(w *walk, segs []segment) error {
	if _, err := vfs.RemoveTemps(l.opts.FS, LogDir(l.opts.Dir)); err != nil && !l.opts.goesOn(err) {
		return err
	}
	from, to := w.claim, w.end
	l.files.segs = segs
	keep := l.files.below(from)
	h := segmentHeader{history: w.header.history, start: from, durable: to}
	pieces, chain, err := w.collect(from)
	if err != nil {
		return err
	}
	h.chain = chain
	l.files.rotate = l.files.history != h.history
	if w.torn != nil { // before the rewrite removes it
		if w.torn.Kept, err = w.keepTail(); err != nil {
			err = fmt.Errorf("keep the log's torn tail: %w", err)
			if !l.files.rotate && l.opts.goesOn(err) {
				l.keepTail = w.keepTail
				l.waitForDisk(err, from, pieces, chain)
				return nil
			}
			return err
		}
	}
	s, err := l.files.maker.rewrite(h, pieces, segs[keep:])
	if err != nil && !l.files.rotate && l.opts.goesOn(err) {
		l.waitForDisk(err, from, pieces, chain)
		return nil
	}
	if err != nil {
		return err
	}
	if keep > 0 { // give back what is preallocated behind the bytes that count, and the torn tail
		err = cutSegment(l.opts.FS, &segs[keep-1], from)
	}
	if err != nil {
		return errors.Join(err, s.file.Close())
	}
	l.files.segs = append(segs[:keep:keep], s.segment)
	l.files.active = s
	l.files.chain = lastChain(pieces, chain)
	l.writtenChain, l.durableChain = l.files.chain, l.files.chain
	l.findPacked()
	return nil
}

// waitForDisk leaves a recovered log in trouble, as if it had met the error in service: the bytes from the claim on,
// which are not known to be durable, are in memory as well, and the background tries to write them to a segment of this
// process (heal.go).
func (l *Log) waitForDisk(err error, from uint64, pieces [][]byte, chain uint32) {
	l.tail.resume(from, pieces)
	l.durable.Store(from)
	l.durableChain, l.writtenChain = chain, lastChain(pieces, chain)
	l.files.chain = l.writtenChain
	l.trouble, l.healDelay = err, firstHealDelay
	l.failing.Store(diskFailed)
	l.refuse(reasonTrouble, err)
}

// collect reads the frames from an offset to the end of the walk into memory: what one interval of syncs
// left, at most MaxUnsynced bytes. chain is the checksum of the frame before it.
func (w *walk) collect(from uint64) (pieces [][]byte, chain uint32, err error) {
	first := len(w.segs) - 1
	for first > 0 && w.segs[first].start >= from {
		first--
	}
	again := walk{fsys: w.fsys, dir: w.dir, segs: w.segs[first:]}
	again.segment = func(_ segment, h *segmentHeader) error {
		if chain == 0 {
			chain = h.chain
		}
		return nil
	}
	again.frame = func(_ segment, f *Frame) error {
		switch {
		case f.Start >= w.end:
			return io.EOF
		case f.Start >= from:
			if n := len(pieces) - 1; n >= 0 && len(pieces[n])+len(f.Raw) <= chunkLen {
				pieces[n] = append(pieces[n], f.Raw...)
			} else {
				pieces = append(pieces, append([]byte(nil), f.Raw...))
			}
		default:
			chain = f.CRC
		}
		return nil
	}
	if err := again.run(); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	if again.end != w.end {
		return nil, 0, fmt.Errorf("log ended at %d and now at %d: %w", w.end, again.end, ErrCorrupt)
	}
	return pieces, chain, nil
}

// start begins the background work.
func (l *Log) start() {
	if l.opts.Manual {
		return
	}
	l.watch = time.AfterFunc(time.Hour, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.judgeAge()
	})
	l.mu.Lock()
	l.stall.timer = time.AfterFunc(time.Hour, l.watchCalls)
	l.stall.timer.Stop()
	l.mu.Unlock()
	l.loops.Add(2)
	go l.syncLoop()
	go l.prepareLoop()
}
