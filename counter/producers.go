package counter

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/counterd/counterd/counter/internal/producers"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// ProducerLimits bound what is remembered of producers. The zero value of a field is its default.
type ProducerLimits struct {
	Producers int   // how many: 1..16384, default 10000
	Bytes     int64 // of what is kept for all of them; at least 64 KiB, default 64 MiB
	MinIdle   int64 // seconds: one that was idle for that long may give its place to another; default 600
}

func (l ProducerLimits) withDefaults() producers.Limits {
	if l.Producers == 0 {
		l.Producers = 10000
	}
	if l.Bytes == 0 {
		l.Bytes = 64 << 20
	}
	if l.MinIdle == 0 {
		l.MinIdle = 600
	}
	return producers.Limits{Producers: l.Producers, Bytes: l.Bytes, MinIdle: l.MinIdle}
}

// ProducerInfo describes a producer.
type ProducerInfo = producers.Info

// ProducerStats are metrics of all producers.
type ProducerStats = producers.Stats

// ledger is the table of producers, and how it stands to log and snapshots.
type ledger struct {
	// mu is held from the look at a producer's number over the change and its record to the entry: two tries of one number
	// at a time are one change. Its place among the locks: see Store.
	mu    sync.Mutex
	table *producers.Table
	now   func() time.Time // for tests; nil: time.Now

	logged uint64 // log offset behind the last record of any producer; 0: that was replayed

	from  uint64            // records up to this log offset are in the table: where its image stood, when it was read back
	id    uint64            // names its images; 0: it never had one
	dirty bool              // changed since its image was made
	image *format.BlockFile // its newest; nil: none
}

// seconds is the time that the table counts.
func (l *ledger) seconds() int64 {
	if l.now != nil {
		return l.now().Unix()
	}
	return time.Now().Unix()
}

// resume lets the idleness of producers go on, now that the log is replayed.
func (l *ledger) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table.Resume(l.seconds())
}

// define takes over a record of the log that ends at pos. logged is the end of its frame, if that is a primary's; else 0.
func (l *ledger) define(pos uint64, rec *format.Record, logged uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pos <= l.from {
		return nil
	}
	l.dirty, l.logged = true, max(l.logged, logged)
	return l.table.Define(rec.Number, rec.Epoch, rec.Seq, rec.Text, rec.TimeMS/1000)
}

// apply takes over a once; logged as in define.
func (l *ledger) apply(o *onceRecord, logged uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.pos > l.from {
		l.dirty, l.logged = true, max(l.logged, logged)
		l.table.Apply(o.number, o.seq, o.hash, o.group, o.result, o.seconds)
	}
}

// floor takes over a floor of the log; logged as in define.
func (l *ledger) floor(pos uint64, rec *format.Record, logged uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pos > l.from {
		l.dirty, l.logged = true, max(l.logged, logged)
		l.table.Floor(rec.Number, rec.Seq, rec.TimeMS/1000)
	}
}

// forget takes over that a drop of groups, whose record of the log ends at pos, removes what was done in them.
func (l *ledger) forget(pos uint64, groups *slot.Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pos > l.from {
		l.dirty = true
		l.table.ForgetGroups(groups)
	}
}

// onceRecord is a once of the log, which may have to wait for the record behind it.
type onceRecord struct {
	pos     uint64 // behind it
	number  uint32
	hash    uint32
	group   uint8
	seq     uint64
	seconds int64
	result  format.Result
}

func newOnceRecord(pos uint64, rec *format.Record) onceRecord {
	return onceRecord{pos, rec.Number, rec.Hash, rec.Group, rec.Seq, rec.TimeMS / 1000, format.Result{Kind: rec.Result, N: rec.Value, Blob: rec.Text}}
}

// copyTo copies the table as it is now, if it changed since its image was made, to w.buf. h says what the copy is of;
// saved is the image there is, nil: none is good. REQUIRES repl.applying and the gate held.
func (l *ledger) copyTo(w *snapshot) (h format.ImageHeader, saved *format.BlockFile) {
	// Memory first: with the largest table the copy takes 8 ms, in which no numbered change is made, and 31 with a buffer
	// that has to grow. An entry takes 6 bytes as a rule, of the 24 that imageBytes counts.
	w.buf = slices.Grow(w.buf[:0], int(l.imageBytes()/3))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.table.Len() == 0 {
		return h, nil
	}
	if l.id == 0 {
		l.id = w.s.blockIDs.Add(1)
	}
	h = format.ImageHeader{Kind: producersImage, Block: l.id, Offset: w.s.log.Position(), Items: uint64(l.table.Len())}
	if !l.dirty && l.image != nil {
		return h, l.image
	}
	w.buf = l.table.AppendImage(w.buf[:0])
	l.dirty = false
	return h, nil
}

// wrote notes the image that copyTo's copy became; nil: it could not be written.
func (l *ledger) wrote(image *format.BlockFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if image == nil {
		l.dirty = true
	} else {
		l.image = image
	}
}

// lose forgets images that are damaged, or that no manifest names: the next snapshot writes another.
func (l *ledger) lose(bad func(image *format.BlockFile) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.image != nil && bad(l.image) {
		l.dirty = true
	}
}

// imageBytes is what the image would take that a snapshot made now writes.
func (l *ledger) imageBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.table.Len() == 0 || !l.dirty && l.image != nil {
		return 0
	}
	return l.table.ImageBytes()
}

// reset forgets everything, and begins with the table of a manifest's image.
func (l *ledger) reset(t *producers.Table, image *format.BlockFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table, l.image, l.dirty, l.from, l.id, l.logged = t, nil, false, 0, 0, 0
	if image != nil {
		saved := *image
		l.image, l.from, l.id = &saved, image.Offset, image.Block
	}
}

// readProducers reads the image of a table of producers.
func readProducers(fsys vfs.FS, path string, limits producers.Limits) (info format.ImageInfo, t *producers.Table, err error) {
	img, err := snapfile.OpenImage(fsys, path)
	if err != nil {
		return info, nil, err
	}
	defer func() { err = errors.Join(err, img.Close()) }()
	info = img.ImageInfo
	if err := knownKind(path, info.Kind, info.Kind == producersImage); err != nil {
		return info, nil, err
	}
	buf := make([]byte, img.Length()) // the file's size vouches for it
	if err := img.ReadInto(buf); err != nil {
		return info, nil, err
	}
	t, err = producers.Load(buf, limits)
	switch {
	case errors.Is(err, producers.ErrNewerImage):
		return info, nil, fmt.Errorf("%s: %w: %w", path, format.ErrUnsupportedFormat, err)
	case err == nil && uint64(t.Len()) != info.Items:
		err = fmt.Errorf("%d", t.Len())
	}
	if err != nil {
		return info, nil, &format.CorruptError{File: path, Want: fmt.Sprintf("an image of %d producers", info.Items), Got: err.Error(), Err: err}
	}
	return info, t, nil
}

// ImageProducers reads the image of a table of producers, and describes them all.
func ImageProducers(fsys vfs.FS, path string) ([]ProducerInfo, error) {
	_, t, err := readProducers(fsys, path, ProducerLimits{}.withDefaults())
	if err != nil {
		return nil, err
	}
	return t.List(t.Len()), nil
}

// Producers is the table of producers as a batch sees it, beside the numbered changes that it makes: see Once.
type Producers struct{ b *Batch }

// Producers is the table of producers. REQUIRES the batch to be open while it is used.
func (b *Batch) Producers() Producers { return Producers{b} }

// Fence raises a producer's epoch by one and returns it: what comes with a lower one is refused from then on. The error
// is ErrReplica, ErrNotReady or a *ProducersFullError.
func (p Producers) Fence(id []byte) (epoch uint64, err error) {
	b, r, l := p.b, &p.b.changeSets, &p.b.s.producers
	if b.checkState(); b.refused != nil {
		return 0, b.refused
	}
	if r.pending {
		return 0, errNested
	}
	if err := checkProducer(id); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.req = producers.Request{ID: id, Now: r.seconds()}
	if r.lookup = l.table.BeginFence(id, r.req.Now); r.lookup.Verdict == producers.Full {
		return 0, &ProducersFullError{r.lookup.OfBytes}
	}
	r.raise()
	return r.lookup.Epoch, nil
}

// Last returns the highest number of a producer that was made; ok is false where none is remembered. The error is
// ErrReplica or an *UncertainError.
func (p Producers) Last(id []byte) (seq uint64, ok bool, err error) {
	b, l := p.b, &p.b.s.producers
	if b.checkState(); errors.Is(b.refused, ErrReplica) {
		return 0, false, b.refused
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	seq, logged, ok := l.table.Last(id)
	return seq, ok, b.noteSeenLogged(logged)
}

// List describes those that were used last, at most limit. The error is an *UncertainError.
func (p Producers) List(limit int) ([]ProducerInfo, error) {
	b, l := p.b, &p.b.s.producers
	b.checkState()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := b.noteSeenLogged(l.logged); err != nil {
		return nil, err
	}
	return l.table.List(limit), nil
}

// ProducerStats counts what is remembered of producers.
func (a Admin) ProducerStats() ProducerStats {
	a.s.producers.mu.Lock()
	defer a.s.producers.mu.Unlock()
	return a.s.producers.table.Stats()
}

// SetProducerLimits changes Options.Producers. What is above the new limits stays until it is idle and a place is
// needed.
func (a Admin) SetProducerLimits(l ProducerLimits) {
	a.s.producers.mu.Lock()
	defer a.s.producers.mu.Unlock()
	a.s.producers.table.SetLimits(l.withDefaults())
}
