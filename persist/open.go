package persist

import (
	"errors"
	"fmt"
	"io"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
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
	History  format.History
	Torn     *format.TornTail // what was cut; nil: the log ended cleanly
	Epoch    uint32           // the highest of the frames
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
func OpenLog(opts LogOptions, from uint64, apply func(pos uint64, rec *format.Record) error) (*Log, Recovery, error) {
	opts.ensureDefaults()
	rec := Recovery{From: from, End: from, History: opts.History}
	if err := opts.validate(); err != nil {
		return nil, rec, err
	}
	claim, err := logfile.ReadClaim(opts.FS, opts.Dir)
	if err != nil && !opts.goesOn(err) {
		return nil, rec, err
	}
	segs, err := logfile.ListSegments(opts.FS, opts.Dir)
	if err != nil {
		return nil, rec, err
	}
	if len(segs) == 0 {
		if !opts.Create || claim.Offset > from {
			return nil, rec, &format.CorruptError{Dir: opts.Dir, File: format.LogDir(opts.Dir), LogOffset: from, Want: "log segments", Got: "none", Err: format.ErrGap}
		}
		o, err := createLog(&opts, from)
		if err != nil {
			return nil, rec, err
		}
		o.claimed = claim.Offset
		l := newLog(opts, o)
		l.start()
		return l, rec, nil
	}
	first := len(segs) - 1
	for first > 0 && segs[first].Start > from {
		first--
	}
	if segs[first].Start > from {
		return nil, rec, &format.CorruptError{Dir: opts.Dir, File: segs[first].Path, LogOffset: from,
			Want: fmt.Sprintf("log from offset %d", from), Got: fmt.Sprintf("a first segment that starts at %d", segs[first].Start), Err: format.ErrGap}
	}
	if first, err = logfile.WholeFrom(opts.FS, segs, first); err != nil {
		return nil, rec, err
	}
	w := logfile.Walker{FS: opts.FS, Dir: opts.Dir, Segs: segs[first:], KnownDurable: max(opts.KnownDurable, claim.Offset, from)}
	if err := replay(&w, &opts, &rec, from, apply); err != nil {
		return nil, rec, err
	}
	rec.End, rec.Frames, rec.TimeMS, rec.Torn = w.End, w.Frames, w.TimeMS, w.Torn
	if opts.History == (format.History{}) {
		opts.History = w.Header.History
	}
	rec.History = w.Header.History
	o, err := takeOver(&opts, &w, segs)
	if err != nil {
		return nil, rec, err
	}
	o.claimed = claim.Offset
	l := newLog(opts, o)
	l.start()
	return l, rec, nil
}

// replay runs the walk and applies the records.
func replay(w *logfile.Walker, opts *LogOptions, rec *Recovery, from uint64, apply func(pos uint64, rec *format.Record) error) error {
	var done, total, told uint64
	for i, s := range w.Segs {
		if i+1 < len(w.Segs) {
			total += w.Segs[i+1].Start - s.Start
		} else if info, err := w.FS.Stat(s.Path); err == nil {
			total += uint64(info.Size())
		}
	}
	var record format.Record
	fn := func(pos uint64, r *format.Record) error {
		rec.Records++
		return apply(pos, r)
	}
	w.Segment = func(logfile.Segment, *format.SegmentHeader) error {
		rec.Segments++
		return nil
	}
	past := opts.Past
	if past != nil && len(past.Terms) == 0 {
		past = nil
	}
	w.Frame = func(seg logfile.Segment, f *format.Frame) error {
		done = f.End() - w.Segs[0].Start
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
		return logfile.BadRecord(f.Records(&record, from, fn), w.Dir, seg, f)
	}
	return w.Run()
}

// opened is what a log starts with. newLog makes the log of it.
//
// Invariants: durable <= end. Without trouble durable is end, and active is the last of segs. With trouble, active is nil,
// and pieces are the frames from durable to end.
type opened struct {
	maker        *logfile.Maker
	durable, end uint64
	claimed      uint64 // that the file DURABLE says is durable
	chain        uint32 // crc32c of the frame that ends at end
	durableChain uint32 // crc32c of the frame that ends at durable
	segs         []logfile.Segment
	active       *logfile.OpenSegment
	rotate       bool // the history changed: the next frame begins a new segment

	trouble  error // the disk takes no writes: LogOptions.Unwritable
	pieces   [][]byte
	keepTail func() (path string, err error) // see healer
}

// newMaker returns the maker of the segments of a log.
func newMaker(opts *LogOptions) *logfile.Maker {
	return &logfile.Maker{FS: opts.FS, Dir: opts.Dir, Least: opts.FirstSegmentBytes, Guard: opts.Guard}
}

// createLog makes the first segment of a new log, and a history id if opts has none.
func createLog(opts *LogOptions, at uint64) (*opened, error) {
	if err := opts.FS.MkdirAll(format.LogDir(opts.Dir)); err != nil {
		return nil, err
	}
	if err := opts.FS.SyncDir(opts.Dir); err != nil {
		return nil, err
	}
	if _, err := vfs.RemoveTemps(opts.FS, format.LogDir(opts.Dir)); err != nil {
		return nil, err
	}
	if opts.History.ReplID == (format.ReplID{}) {
		opts.History.ReplID = format.NewReplID()
	}
	o := &opened{maker: newMaker(opts), durable: at, end: at}
	s, err := o.maker.Rewrite(format.SegmentHeader{History: opts.History, Start: at, Durable: at}, nil, nil)
	if err != nil {
		return nil, err
	}
	o.segs, o.active = []logfile.Segment{s.Segment}, s
	return o, nil
}

// takeOver makes a recovered log one to append to. Bytes behind the claim of the walk are not known to be durable: the
// process that wrote them may have died before a sync, or after a failed one. So the bytes from the claim to the end are
// copied into a new segment, by the steps of heal.go, and no segment of an earlier process is ever appended to.
//
// Where the disk takes no writes and LogOptions.Unwritable is set, the log starts in trouble, as if it had met the error in
// service.
func takeOver(opts *LogOptions, w *logfile.Walker, segs []logfile.Segment) (*opened, error) {
	if _, err := vfs.RemoveTemps(opts.FS, format.LogDir(opts.Dir)); err != nil && !opts.goesOn(err) {
		return nil, err
	}
	from, to := w.Claim, w.End
	pieces, chain, err := collect(w, from)
	if err != nil {
		return nil, err
	}
	last := lastChain(pieces, chain)
	o := &opened{maker: newMaker(opts), durable: to, end: to, chain: last, durableChain: last, segs: segs, rotate: opts.History != w.Header.History}
	inTrouble := func(err error) *opened {
		o.trouble, o.pieces, o.durable, o.durableChain = err, pieces, from, chain
		return o
	}
	if w.Torn != nil { // before the rewrite removes it
		keep := func() (string, error) {
			if opts.Torn != nil {
				if err := opts.Torn(); err != nil {
					return "", err
				}
			}
			return w.KeepTail()
		}
		if w.Torn.Kept, err = keep(); err != nil {
			err = fmt.Errorf("keep the log's torn tail: %w", err)
			if !o.rotate && opts.goesOn(err) {
				o.keepTail = keep
				return inTrouble(err), nil
			}
			return nil, err
		}
	}
	keep := logfile.Below(segs, from)
	s, err := o.maker.Rewrite(format.SegmentHeader{History: w.Header.History, Start: from, Durable: to, Chain: chain}, pieces, segs[keep:])
	if err != nil && !o.rotate && opts.goesOn(err) {
		return inTrouble(err), nil
	}
	if err != nil {
		return nil, err
	}
	if keep > 0 { // give back what is preallocated behind the bytes that count, and the torn tail
		if err := logfile.CutSegment(opts.FS, &segs[keep-1], from); err != nil {
			return nil, errors.Join(err, s.File.Close())
		}
	}
	o.segs, o.active = append(segs[:keep:keep], s.Segment), s
	return o, nil
}

// collect reads the frames from an offset to the end of the walk into memory: what one interval of syncs
// left, at most MaxUnsynced bytes. chain is the checksum of the frame before it.
func collect(w *logfile.Walker, from uint64) (pieces [][]byte, chain uint32, err error) {
	first := len(w.Segs) - 1
	for first > 0 && w.Segs[first].Start >= from {
		first--
	}
	again := logfile.Walker{FS: w.FS, Dir: w.Dir, Segs: w.Segs[first:]}
	again.Segment = func(_ logfile.Segment, h *format.SegmentHeader) error {
		if chain == 0 {
			chain = h.Chain
		}
		return nil
	}
	again.Frame = func(_ logfile.Segment, f *format.Frame) error {
		switch {
		case f.Start >= w.End:
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
	if err := again.Run(); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	if again.End != w.End {
		return nil, 0, fmt.Errorf("log ended at %d and now at %d: %w", w.End, again.End, format.ErrCorrupt)
	}
	return pieces, chain, nil
}
