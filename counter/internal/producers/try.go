package producers

import (
	"github.com/counterd/counterd/persist/format"
)

// Request is a numbered request.
type Request struct {
	ID    []byte // 1 to format.MaxProducerID bytes
	Epoch uint64
	Seq   uint64
	Hash  uint32 // of command and arguments; 21 bits of it
	Room  int    // most bytes of Blob that its result may have
	Now   int64  // s since 1970
	Hint  uint32 // number that the producer may have, as an earlier Try had it: a right one saves the lookup
}

// Verdict says whether a request is new, a repeat, or refused.
type Verdict uint8

const (
	Fresh    Verdict = iota // it is to be made
	Repeat                  // it was made
	Mismatch                // its seq was used for a request with another hash
	Expired                 // its seq is below all that are remembered
	Fenced                  // its epoch is lower than the producer's
	Full                    // there is no place for one more producer, or no memory for the result
)

// Try is the answer of Begin.
type Try struct {
	Verdict Verdict
	Result  format.Result // Repeat; Blob is valid until the table changes
	Old     bool          // Repeat: it is known that the seq was made, and not for which request
	Logged  uint64        // Repeat to Fenced: log offset behind the producer's last record; 0 if that was replayed
	Number  uint32        // Fresh, Repeat: the producer's, below MaxPlaces
	Lowest  uint64        // Expired: the lowest seq that is taken
	OfBytes bool          // Full: Limits.Bytes is why; else Limits.Producers
	// Elsewhere: Mismatch, as another shard has used the number for an update, and Group has come from there. BeginInstead makes it Fresh while the
	// group has not.
	Elsewhere bool
	Group     uint8
	// A define record has to come first, with Epoch and Base, and then Insert, or InsertFence where Verdict is Repeat:
	// the producer is new, its epoch rises, or its base has moved.
	Define bool
	Epoch  uint64 // also Fenced: the one in force
	Base   uint64 // that seqs in the log are relative to
	// Forget are producers whose places or bytes are needed. The log has to say so before, but of the one that had
	// Number: that follows from the define record. Valid until the next Begin.
	Forget []uint32
	// Shed are idle producers whose results take room that is needed. The log has to say so before Forget, by floor records. Valid until
	// the next Begin.
	Shed []Floor

	p     *producer // nil: new
	i     uint32    // where seq belongs in its ring
	found bool      // and takes the place of another entry
}

// MaxSeqLess is how far above its base a seq may be: 2 bytes in the log.
const MaxSeqLess = 1<<14 - 1

// baseLess is how far below the seq that moves it a base is: seqs that come out of order do not move it again.
const baseLess = 1 << 10

// Begin tells what a request is, in y. It changes nothing but times of last use.
func (t *Table) Begin(r *Request, y *Try) {
	number, p := t.find(r.ID, r.Hint)
	*y = Try{Number: number, Epoch: r.Epoch, p: p}
	if t.look(r, y, p); y.Verdict != Fresh {
		t.count(y.Verdict)
	}
}

// look is Begin for p; nil: a producer that is not known.
func (t *Table) look(r *Request, y *Try, p *producer) {
	if p == nil {
		y.Base = max(r.Seq, baseLess) - baseLess
		t.place(y, r.ID, r.Room, r.Now)
		return
	}
	y.Logged, y.Base, y.Define = p.logged, p.base, r.Epoch > p.epoch
	if r.Epoch < p.epoch {
		y.Verdict, y.Epoch = Fenced, p.epoch
		return
	}
	var found bool
	if y.i, found = p.ring.find(r.Seq); !found {
		if r.Seq < p.from {
			y.Verdict, y.Lowest = Expired, p.from
			return
		}
		if p.made.has(r.Seq) {
			y.Verdict, y.Result, y.Old = Repeat, format.Result{Kind: format.ResultGone}, true
			t.touch(y.Number, p, r.Now)
			return
		}
		t.admit(r, y)
		return
	}
	e := p.ring.at(y.i)
	if e.hash() != r.Hash&(1<<hashBits-1) {
		y.Verdict, y.Elsewhere, y.Group = Mismatch, e.hash() == elsewhere, e.group()
		return
	}
	y.Verdict, y.Result = Repeat, p.result(e)
	t.touch(y.Number, p, r.Now)
}

// admit makes a request Fresh, unless there is no room for it.
func (t *Table) admit(r *Request, y *Try) {
	if r.Seq < y.Base || r.Seq-y.Base > MaxSeqLess {
		y.Base, y.Define = max(r.Seq, baseLess)-baseLess, true
	}
	if y.Verdict = Fresh; t.bytes+y.p.growth(r.Room) > t.limits.Bytes {
		t.makeRoom(y, r.ID, r.Room, r.Now)
	}
}

// BeginInstead is Begin where that gave Elsewhere and the group is still on its way: the request takes the place of the entry.
func (t *Table) BeginInstead(r *Request, y *Try) {
	t.stats.Mismatches-- // Begin counted it
	t.replace(r, y)
}

// replace makes a request Fresh that takes the place of an entry from elsewhere, unless there is no room for it.
func (t *Table) replace(r *Request, y *Try) {
	y.Elsewhere, y.found = false, true
	t.admit(r, y)
}

// BeginFence prepares the rise of a producer's epoch by one: InsertFence does it. An unknown producer becomes known.
func (t *Table) BeginFence(id []byte, now int64) Try {
	number, p := t.find(id, 0)
	y := Try{Number: number, Epoch: 1, Define: true, p: p}
	if p == nil {
		if t.place(&y, id, 0, now); y.Verdict == Full {
			t.count(Full)
		}
		return y
	}
	y.Logged, y.Base, y.Epoch = p.logged, p.base, min(p.epoch, MaxEpoch-1)+1
	return y
}

// MaxEpoch is the highest epoch. A fence leaves it.
const MaxEpoch = format.MaxEpoch

// Insert makes the entry that Begin prepared: result is copied, group the hash slot group of the changed posts, logged the
// offset behind its record. REQUIRES: Begin gave Fresh, and nothing changed the table since.
func (t *Table) Insert(r *Request, y *Try, result format.Result, group uint8, logged uint64) {
	p := y.p
	if p == nil || y.Define || len(y.Forget) > 0 || len(y.Shed) > 0 {
		p = t.define(r.ID, y, r.Now, logged)
	} else {
		t.touch(y.Number, p, r.Now)
		p.logged = logged
	}
	t.put(p, y.i, y.found, r.Seq, newMeta(r.Hash, result.Kind, group), result)
}

// BeginSeries is Begin of n requests whose seqs follow each other, r.Seq first. It returns how many of them, from the first on, are new and need nothing
// but Insert: they are above all seqs that were made, in the epoch in force, near enough to the base, and there is memory for all. Of none it may be
// wrong: Begin knows.
func (t *Table) BeginSeries(r *Request, n int, y *Try) (fresh int) {
	number, p := t.find(r.ID, r.Hint)
	if p == nil || r.Epoch != p.epoch || r.Seq < p.from || r.Seq < p.base || r.Seq-p.base > MaxSeqLess || t.bytes+maxGrowth > t.limits.Bytes {
		return 0
	}
	if highest, ok := p.highest(); ok && r.Seq <= highest {
		return 0
	}
	*y = Try{Number: number, Epoch: r.Epoch, Base: p.base, p: p}
	return min(n, int(p.base+MaxSeqLess-r.Seq)+1)
}

// Entry is a request of a series that was made, whose result is an integer.
type Entry struct {
	Seq, Value uint64
	Hash       uint32
	Group      uint8
}

// InsertSeries is Insert of some requests of a series that BeginSeries prepared, in their order. It may be called several times, until the table is changed
// in another way.
func (t *Table) InsertSeries(y *Try, entries []Entry, now int64, logged uint64) {
	p := y.p
	t.touch(y.Number, p, now)
	p.logged = logged
	before := p.size()
	for len(entries) > 0 {
		n := p.putSeries(entries)
		if entries = entries[n:]; len(entries) > 0 {
			e := &entries[0]
			p.put(p.ring.n, false, e.Seq, newMeta(e.Hash, format.ResultInt, e.Group), format.Result{Kind: format.ResultInt, N: e.Value})
			entries = entries[1:]
		}
	}
	t.charge(p, before)
}

// InsertFence makes the fence that BeginFence prepared, or that Begin found due for a repeat with a higher epoch.
func (t *Table) InsertFence(id []byte, y *Try, now int64, logged uint64) {
	t.define(id, y, now, logged)
}

// define makes or changes the producer of a Try.
func (t *Table) define(id []byte, y *Try, now int64, logged uint64) *producer {
	for _, f := range y.Shed {
		t.floor(t.places[f.Number], f.From)
	}
	for _, number := range y.Forget {
		t.forgetPlace(number)
	}
	p := y.p
	if p == nil {
		t.forgetPlace(y.Number)
		p = t.add(y.Number, id, now)
	} else {
		t.touch(y.Number, p, now)
	}
	if y.Define {
		p.epoch, p.base = y.Epoch, y.Base
	}
	p.logged = logged
	return p
}

// count counts a verdict.
func (t *Table) count(v Verdict) {
	switch v {
	case Repeat:
		t.stats.Repeats++
	case Mismatch:
		t.stats.Mismatches++
	case Expired:
		t.stats.Expired++
	case Fenced:
		t.stats.Fenced++
	case Full:
		t.stats.Full++
	}
}
