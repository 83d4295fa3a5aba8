package core

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/counterd/counterd/counter/internal/producers"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// ProducerLimits bound what is remembered of producers. The zero value of a field is its default.
type ProducerLimits struct {
	Producers int   // how many: 1..1048576, the default
	Bytes     int64 // of memory for all of them; at least 64 KiB, default 256 MiB
	MinIdle   int64 // seconds: a producer that was idle for that long may give its place to another; default 86400, a day
}

func (l ProducerLimits) WithDefaults() producers.Limits {
	if l.Producers == 0 {
		l.Producers = producers.MaxPlaces
	}
	if l.Bytes == 0 {
		l.Bytes = 256 << 20
	}
	if l.MinIdle == 0 {
		l.MinIdle = 86400
	}
	return producers.Limits{Producers: l.Producers, Bytes: l.Bytes, MinIdle: l.MinIdle}
}

// ProducerNumbers is how many numbers of a producer are remembered at least, if they are runs.
const ProducerNumbers = producers.Numbers

// ProducerInfo describes a producer.
type ProducerInfo = producers.Info

// ProducerStats are metrics of all producers.
type ProducerStats = producers.Stats

// ledger is the table of producers, and how it stands to log and snapshots.
type ledger struct {
	// Mu is held from the look at a producer's number over the change and its record to the entry: two tries of one number
	// at a time are one change. Its place among the locks: see Data.
	Mu    sync.Mutex
	Table *producers.Table
	Now   func() time.Time
	began time.Time // when the store was opened

	Logged uint64 // log offset behind the last record of any producer; 0: that was replayed

	defines defineLog // guarded by Mu

	from  uint64            // records up to this log offset are in the table: where its image stood, when it was read back
	id    uint64            // names its images; 0: it never had one
	Dirty bool              // changed since its image was made
	image *format.BlockFile // its newest; nil: none
}

// maxQuiet is for how many seconds the log may say nothing of producers until that counts as an outage. The log does not
// say when a process ended.
const maxQuiet = 10

// Seconds is the time that the table counts: the wall clock's when the store was opened, and from there on the monotonic
// clock's. Otherwise a clock that is set forward would make every producer idle, and repeats would count twice.
func (l *ledger) Seconds() int64 {
	return l.began.Unix() + int64(l.Now().Sub(l.began)/time.Second)
}

// Resume lets the idleness of producers go on: the log is replayed, or this store becomes a primary. A replica does not know
// for how long there was none, and its clock may differ from that of the last one.
func (l *ledger) Resume() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Table.Resume(l.Seconds())
}

// replayed tells the time of a record of producers in the log. REQUIRES Mu.
func (l *ledger) replayed(seconds int64) {
	if l.Table.Quiet(seconds) > maxQuiet {
		l.Table.Resume(seconds)
	}
}

// define takes over a record of the log that ends at pos. logged is the end of its frame, if that is a primary's; else 0.
func (l *ledger) define(pos uint64, rec *format.Record, logged uint64) error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if pos <= l.from {
		return nil
	}
	l.Dirty, l.Logged = true, max(l.Logged, logged)
	l.defines.add(rec.Number, pos, string(rec.Text), rec.Seq)
	l.replayed(rec.TimeMS / 1000)
	return l.Table.Define(rec.Number, rec.Epoch, rec.Seq, rec.Text, rec.TimeMS/1000)
}

// apply takes over a once; logged as in define.
func (l *ledger) apply(o *OnceRecord, logged uint64) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if o.Pos > l.from {
		l.Dirty, l.Logged = true, max(l.Logged, logged)
		l.replayed(o.seconds)
		l.Table.Apply(o.Number, o.Seq, o.Hash, o.Group, o.Result, o.seconds)
	}
}

// floor takes over a floor of the log; logged as in define.
func (l *ledger) floor(pos uint64, rec *format.Record, logged uint64) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if pos > l.from {
		l.Dirty, l.Logged = true, max(l.Logged, logged)
		l.replayed(rec.TimeMS / 1000)
		l.Table.Floor(rec.Number, rec.Seq)
	}
}

// forget takes over that a drop of groups, whose record of the log ends at pos, removes what was done in them.
func (l *ledger) forget(pos uint64, groups *slot.Set) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if pos > l.from {
		l.Dirty = true
		l.Table.ForgetGroups(groups)
	}
}

// OnceRecord is a once of the log, which may have to wait for the record behind it.
type OnceRecord struct {
	Pos     uint64 // behind it
	Number  uint32
	Hash    uint32
	Group   uint8
	Seq     uint64
	seconds int64
	Result  format.Result
}

func NewOnceRecord(pos uint64, rec *format.Record) OnceRecord {
	return OnceRecord{pos, rec.Number, rec.Hash, rec.Group, rec.Seq, rec.TimeMS / 1000, format.Result{Kind: rec.Result, N: rec.Value, Blob: rec.Text}}
}

// CopyTo copies the table as it is now, if it changed since its image was made, to buf. h says what the copy is of;
// saved is the image there is, nil: none is good. REQUIRES Data.Applying and Data.Gate held.
func (l *ledger) CopyTo(d *Data, buf []byte) (image []byte, h format.ImageHeader, saved *format.BlockFile) {
	// Memory first: with the largest table the copy takes 8 ms, in which no numbered change is made, and 31 with a buffer
	// that has to grow. An entry takes 6 bytes as a rule, of the 24 that ImageBytes counts.
	buf = slices.Grow(buf[:0], int(l.ImageBytes()/3))
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.Table.Len() == 0 {
		return buf, h, nil
	}
	if l.id == 0 {
		l.id = d.BlockIDs.Add(1)
	}
	h = format.ImageHeader{Block: l.id, Offset: d.Log.Position(), Items: uint64(l.Table.Len())}
	// No start goes on without the table, so each snapshot has a file of its own: damage of one makes the snapshot before count.
	if !l.Dirty && l.image != nil && l.image.Name == format.ImageName(l.id, h.Offset) {
		return buf, h, l.image
	}
	l.Dirty = false
	return l.Table.AppendImage(buf[:0]), h, nil
}

// Wrote notes the image that CopyTo's copy became; nil: it could not be written.
func (l *ledger) Wrote(image *format.BlockFile) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if image == nil {
		l.Dirty = true
	} else {
		l.image = image
	}
}

// Lose forgets images that are damaged, or that no manifest names: the next snapshot writes another.
func (l *ledger) Lose(bad func(image *format.BlockFile) bool) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.image != nil && bad(l.image) {
		l.Dirty = true
	}
}

// ImageBytes is what the image would take that a snapshot made now writes.
func (l *ledger) ImageBytes() int64 {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.Table.Len() == 0 || !l.Dirty && l.image != nil {
		return 0
	}
	return l.Table.ImageBytes()
}

// Reset forgets everything, and begins with the table of a manifest's image.
func (l *ledger) Reset(t *producers.Table, image *format.BlockFile) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.Table, l.image, l.Dirty, l.from, l.id, l.Logged = t, nil, false, 0, 0, 0
	if image != nil {
		saved := *image
		l.image, l.from, l.id = &saved, image.Offset, image.Block
	}
	l.defines.reset(t, l.from)
}

// noteDefines notes what define said in records that end at pos. REQUIRES Mu.
func (l *ledger) noteDefines(y *producers.Try, id []byte, pos uint64) {
	for _, number := range y.Forget {
		l.defines.add(number, pos, "", 0)
	}
	if y.Define {
		l.defines.add(y.Number, pos, string(id), y.Base)
	}
}

// noteDefine notes a define record that was applied in another way. pos is the log offset behind it.
func (l *ledger) noteDefine(pos uint64, rec *format.Record) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.defines.add(rec.Number, pos, string(rec.Text), rec.Seq)
}

// Producers is the table of producers as a batch sees it, beside the numbered changes that it makes: see Once.
type Producers struct{ b *Batch }

// Producers is the table of producers. REQUIRES the batch to be open while it is used.
func (b *Batch) Producers() Producers { return Producers{b} }

// Fence raises a producer's epoch by one and returns it: what comes with a lower one is refused from then on. The error
// is ErrReplica, ErrNotReady or a *ProducersFullError.
func (p Producers) Fence(id []byte) (epoch uint64, err error) {
	b, r, l := p.b, &p.b.changeSets, &p.b.data.Producers
	if b.checkState(); b.refused != nil {
		return 0, b.refused
	}
	if r.pending {
		return 0, errNested
	}
	if err := checkProducer(id); err != nil {
		return 0, err
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	r.req = producers.Request{ID: id, Now: r.seconds()}
	if r.lookup = l.Table.BeginFence(id, r.req.Now); r.lookup.Verdict == producers.Full {
		return 0, &ProducersFullError{r.lookup.OfBytes}
	}
	r.raise()
	return r.lookup.Epoch, nil
}

// Last returns the highest number of a producer that was made; ok is false where none is remembered. The error is
// ErrReplica or an *UncertainError.
func (p Producers) Last(id []byte) (seq uint64, ok bool, err error) {
	b, l := p.b, &p.b.data.Producers
	if b.checkState(); errors.Is(b.refused, ErrReplica) {
		return 0, false, b.refused
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	seq, logged, ok := l.Table.Last(id)
	return seq, ok, noteMade(b, logged)
}

// List describes those that were used last, at most limit. The error is an *UncertainError.
func (p Producers) List(limit int) ([]ProducerInfo, error) {
	b, l := p.b, &p.b.data.Producers
	b.checkState()
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err := b.seen.noteSeenLogged(l.Logged); err != nil {
		return nil, err
	}
	return l.Table.List(limit), nil
}

// defineLog tells which producer a number in a record of the log stands for: the define records before that record say it. It knows those
// that this process has logged, applied or replayed, and the table of the snapshot that the start began with. A feed that reads older
// log reads the define records there, or does not know.
//
// Invariant: the entries of a number ascend by place.
type defineLog struct {
	by map[uint32][]defined
	n  int // entries
}

// defined is the producer of a number from a log offset on.
type defined struct {
	pos  uint64 // behind the define record, or behind the records that were appended with it
	id   string // empty: for nobody
	base uint64
}

// maxDefined bounds the memory to 4 MiB, and 200 bytes for each producer there is: one takes a further entry each 16,384 changes.
const maxDefined = 1 << 16

// reset begins with a table as it was at a log offset.
func (d *defineLog) reset(t *producers.Table, pos uint64) {
	*d = defineLog{}
	t.Each(func(number uint32, id string, base uint64) { d.add(number, pos, id, base) })
}

// add says which producer a number has from pos on. Of too many entries all but the last of each number go: the producers of older
// records are not known then.
func (d *defineLog) add(number uint32, pos uint64, id string, base uint64) {
	if d.by == nil {
		d.by = make(map[uint32][]defined)
	}
	if d.n >= maxDefined+2*len(d.by) {
		d.n = 0
		for number, list := range d.by {
			d.by[number] = slices.Clone(list[len(list)-1:])
			d.n++
		}
	}
	d.by[number] = append(d.by[number], defined{pos, id, base})
	d.n++
}

// at tells which producer a number has in a record that ends at pos. ok is false where it is not known.
func (d *defineLog) at(number uint32, pos uint64) (id string, base uint64, ok bool) {
	list := d.by[number]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].pos <= pos {
			return list[i].id, list[i].base, list[i].id != ""
		}
	}
	return "", 0, false
}

// ProducerAt tells which producer a number in a record of the log that ends at pos stands for, and the base of its sequence numbers
// there. ok is false where that is not known: see defineLog.
func (d *Data) ProducerAt(number uint32, pos uint64) (id string, base uint64, ok bool) {
	l := &d.Producers
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.defines.at(number, pos)
}
