package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/producers"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// Result is what a write with a producer answered.
type Result = format.Result

// Kinds of results.
const (
	ResultInt  = format.ResultInt
	ResultOK   = format.ResultOK
	ResultBulk = format.ResultBulk
	ResultNil  = format.ResultNil
	ResultBlob = format.ResultBlob
	ResultGone = format.ResultGone
)

// MaxResult is how many bytes the blob of a result may have. A larger one is not kept, see ResultGone.
const MaxResult = format.MaxResult

// Once is a change that its producer numbered, to be made once however often it is asked for.
//
// A producer is a client, by an id of its own choice. For each of its newest 128 numbers the store keeps what was
// answered, in the same record of the log as the change itself, and of 10,000 numbers that they were made. A client that gets no answer
// asks again with the same number: if the change was made, by this process or by the one before it or by the primary before, it is not
// made again, and the answer is the same, or ResultGone.
type Once struct {
	Producer []byte // 1 to 32 bytes; must not change until Run returns
	Epoch    uint64 // of the producer: a higher one than was known shuts out the lower ones
	Seq      uint64 // the change's number: rising, gaps and any order within the newest 10,000 allowed
	Hash     uint32 // of the command and its arguments, of which 21 bits count
	Hint     uint32 // Run sets it: given again with the same producer, it saves looking that up
	Room     int    // most bytes that the result's blob may have; with more it is kept as ResultGone
	Mid      uint64 // by whose hash slot it is kept; Run takes that of the first operation
	Tag      int    // the caller's, for Make
	First, N int    // its operations: set by Batch.Once
	// Each: ErrOutOfRange of an OpAdd is a part of the result. Without it an operation alone that is out of range leaves
	// no entry, like any other that was refused.
	Each bool
	// Make returns the result once the operations, n from number first on, are done. It is called with locks held and
	// must only look at the batch. nil: the value of the operation, an integer. The zero Result says that nothing was done
	// and nothing is to be kept, as the command was refused.
	Make func(b *Batch, o *Once, first, n int) Result

	// Repeat: it was made before. The operations were not run.
	Repeat bool
	Old    bool   // Repeat: whether it was the same command is not known any more. Result is ResultGone
	Result Result // what was answered, or is to be; valid until Reset
	// Err: nothing was changed. ErrMismatch, *ExpiredError, *FencedError, *ProducersFullError, *NotOwnedError, ErrReplica,
	// ErrNotReady, or an *UncertainError: it was made before, but a crash may take it back. Where an operation was refused
	// for another reason, it is that one which says so.
	Err error
}

// ErrMismatch: the number was used for another command, or with other arguments. Nothing was changed.
var ErrMismatch = errors.New("counter: the producer used this number for another command")

// ExpiredError says that a number is older than what is remembered of its producer. Nothing was changed; whether it was
// made once is not known any more.
type ExpiredError struct{ Seq, Lowest uint64 }

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("counter: number %d is older than what is remembered of its producer: want %d at least", e.Seq, e.Lowest)
}

// FencedError says that a higher epoch of the producer is known. Nothing was changed.
type FencedError struct{ Epoch, Want uint64 }

func (e *FencedError) Error() string {
	return fmt.Sprintf("counter: epoch %d of the producer is fenced: want %d at least", e.Epoch, e.Want)
}

// ProducersFullError says that there is no place for one more producer, or no memory for what was to be kept. Nothing
// was changed.
type ProducersFullError struct{ Bytes bool } // Bytes: it is ProducerLimits.Bytes that is reached

func (e *ProducersFullError) Error() string {
	if e.Bytes {
		return "counter: what is kept of producers has reached its limit of memory, and none is idle for long enough to be forgotten"
	}
	return "counter: there are as many producers as there may be, and none is idle for long enough to be forgotten"
}

// Once makes the operations from number first on, none or one or several, one change of a producer; several are a change set
// (see ChangeSet), which may be OpAdds too: one of those out of its range says so in its Err, and the others are made. It
// returns what the caller is to fill, valid until the next Once, and its number for OnceAt. As ChangeSet it comes behind its
// operations, before Run, and in order; a ChangeSet of these operations is one with it.
func (b *Batch) Once(first int) (o *Once, number int) {
	r := &b.changeSets
	number = len(r.onces)
	if number < cap(r.onces) {
		r.onces = r.onces[:number+1]
	} else {
		r.onces = append(r.onces, Once{})
	}
	for n := len(r.list); n > 0 && r.list[n-1].from >= first && r.list[n-1].once == 0; n-- {
		r.list = r.list[:n-1]
	}
	r.list = append(r.list, changeSet{from: first, to: len(b.ops), once: number + 1})
	o = &r.onces[number]
	o.First, o.N = first, len(b.ops)-first
	return o, number
}

// OnceAt returns one of those added since Reset, with its result after Run. It is valid until Reset or the next Once.
func (b *Batch) OnceAt(number int) *Once { return &b.changeSets.onces[number] }

// TryOnce looks whether a transaction has been made before, or is refused: then o says so, and the answer is false. If
// it is true, the transaction is to be executed and KeepOnce called at its end; another Once meanwhile is refused.
// REQUIRES BeginExclusive, and that at most MaxOnceBytes are to come, by ChangeBytes.
func (b *Batch) TryOnce(o *Once) bool {
	b.checkState()
	l := &b.data.Producers
	l.Mu.Lock()
	defer l.Mu.Unlock()
	b.changeSets.pending = b.changeSets.try(o)
	return b.changeSets.pending
}

// LookOnce is Batch.TryOnce for a transaction that does not follow: it changes nothing, and any batch may ask.
func LookOnce(b *Batch, o *Once) bool {
	b.checkState()
	l := &b.data.Producers
	l.Mu.Lock()
	defer l.Mu.Unlock()
	b.changeSets.looks = true
	defer func() { b.changeSets.looks = false }()
	return b.changeSets.try(o)
}

// UpdateHash is the hash of a change whose parts several shards make, each of its own groups.
func UpdateHash(hash uint32) uint32 { return producers.UpdateHash(hash) }

// OwnedGroups are the groups of hash slots that clients may touch, as Own says while b is open.
func OwnedGroups(b *Batch) slot.Set { return slot.AllGroups().Minus(b.data.Own.Foreign) }

// KeepOnce logs and remembers what the transaction that TryOnce let through has answered. REQUIRES: no End since.
func (b *Batch) KeepOnce(o *Once, result Result) {
	l := &b.data.Producers
	l.Mu.Lock()
	defer l.Mu.Unlock()
	r := &b.changeSets
	r.pending = false
	o.Result = result
	r.prefix(o, o.Mid, false)
	r.append(0)
	r.remember(o)
}

var errNested = errors.New("counter: a numbered change, or a fence, within a transaction that has a number itself")

func checkProducer(id []byte) error {
	if n := len(id); n == 0 || n > format.MaxProducerID {
		return fmt.Errorf("counter: producer of %d bytes, want 1..%d", n, format.MaxProducerID)
	}
	return nil
}

// try finds out whether o is to be made. If not, o says why or what was answered. REQUIRES producers.mu held.
func (r *changeSets) try(o *Once) bool {
	b, l := r.b, &r.b.data.Producers
	switch n := len(o.Producer); {
	case n == 0 || n > format.MaxProducerID:
		o.Err = checkProducer(o.Producer)
		return false
	case r.pending:
		o.Err = errNested
		return false
	case b.refused != nil && errors.Is(b.refused, ErrReplica): // a repeat too: what is in its log may be cut from it
		o.Err = b.refused
		return false
	}
	r.req = producers.Request{ID: o.Producer, Epoch: o.Epoch, Seq: o.Seq, Hash: o.Hash, Room: min(o.Room, MaxResult), Now: r.seconds(), Hint: o.Hint}
	y := &r.lookup
	l.Table.Begin(&r.req, y)
	if o.Hint = y.Number; y.Elsewhere {
		if coming := b.data.Moving.Imported(); coming.Has(y.Group) {
			l.Table.BeginInstead(&r.req, y)
		}
	}
	switch y.Verdict {
	case producers.Fresh:
		if !r.looks {
			o.Err = b.refused
		}
		return o.Err == nil
	case producers.Repeat:
		raise := y.Define && !r.looks
		if raise && b.refused != nil { // its epoch cannot be taken down
			o.Err = b.refused
			return false
		}
		o.Repeat, o.Old, o.Result = true, y.Old, y.Result
		o.Result.Blob = slices.Clone(y.Result.Blob)
		if o.Err = noteMade(b, y.Logged); raise {
			r.raise()
		}
		return false
	case producers.Mismatch:
		o.Err = ErrMismatch
	case producers.Expired:
		o.Err = &ExpiredError{o.Seq, y.Lowest}
	case producers.Fenced:
		o.Err = &FencedError{o.Epoch, y.Epoch}
	default:
		o.Err = &ProducersFullError{y.OfBytes}
	}
	if err := noteMade(b, y.Logged); err != nil {
		o.Err = err
	}
	return false
}

// raise logs and makes the epoch that the last look at the table wants. REQUIRES as try.
func (r *changeSets) raise() {
	b, l, y := r.b, &r.b.data.Producers, &r.lookup
	if b.data.Log != nil {
		r.define()
		b.pos, _ = b.data.Log.Append(r.records) // it is short
	}
	l.noteDefines(y, r.req.ID, b.pos)
	l.Table.InsertFence(r.req.ID, y, r.req.Now, b.pos)
	l.Dirty, l.Logged = true, b.pos
}

// define begins records with those that the last look at the table wants first: floors and freed numbers of other producers, and
// number, epoch and base of this one.
func (r *changeSets) define() {
	y := &r.lookup
	r.records = r.records[:0]
	for _, f := range y.Shed {
		r.records = format.AppendFloor(r.records, f.Number, f.From)
	}
	for _, number := range y.Forget {
		r.records = format.AppendDefine(r.records, number, 0, 0, nil)
	}
	if y.Define {
		r.records = format.AppendDefine(r.records, y.Number, y.Epoch, y.Base, r.req.ID)
	}
}

// maxDefine is the most bytes of define.
const maxDefine = producers.MaxShed*format.MaxFloorLen + producers.MaxForget*format.MinDefineLen + format.MaxDefineLen

// prefix begins the records of o's change, mid's: its result is known. next: its change is one set, of that value.
func (r *changeSets) prefix(o *Once, mid uint64, next bool) {
	if o.Result.Kind == format.ResultNext || o.Result.Kind == ResultBlob && len(o.Result.Blob) > min(o.Room, MaxResult) {
		o.Result = Result{Kind: ResultGone}
	}
	r.hashGroup = slot.Group(mid)
	r.define()
	result, y := o.Result, &r.lookup
	if next {
		result.Kind = format.ResultNext
	}
	r.records = format.AppendOnce(r.records, y.Number, o.Seq-y.Base, o.Hash&(1<<format.HashBits-1), r.hashGroup, result)
}

// append logs the records that prefix began, of so many changes. Several changes, which only together are one, have a frame of their own; a
// single one and its once stay together in any frame. Behind a once without a change the frame ends: a feed would take the next record in
// it for the change.
func (r *changeSets) append(changes int) {
	switch b := r.b; {
	case b.data.Log == nil:
	case changes > 1:
		b.pos, _ = b.data.Log.AppendWhole(r.records) // MaxChangeSet sees to it that they are not too long
	default:
		b.pos, _ = b.data.Log.Append(r.records)
		if changes == 0 {
			_, _ = b.data.Log.AppendWhole(nil) // without records it cannot fail
		}
	}
}

// remember makes o's entry, whose records are in the log.
func (r *changeSets) remember(o *Once) {
	l := &r.b.data.Producers
	l.noteDefines(&r.lookup, r.req.ID, r.b.pos)
	l.Table.Insert(&r.req, &r.lookup, o.Result, r.hashGroup, r.b.pos)
	l.Dirty, l.Logged = true, r.b.pos
}

// runOnes runs the first change sets of list as far as each is one numbered operation on a block in memory, and returns how
// many. It keeps the table of producers locked from one to the next, which comes behind the blocks' locks: so it takes
// the next block's if nobody has it, else it lets the table go and begins anew.
func (r *changeSets) runOnes(list []changeSet) (n int) {
	b, l := r.b, &r.b.data.Producers
	var cur *block.Block
	for ; n < len(list); n++ {
		g := list[n]
		if g.once == 0 || g.series || g.to-g.from != 1 || n > 0 && g.from != list[n-1].to || r.derivesAlone(g) {
			break
		}
		op := &b.ops[g.from]
		if op.block == nil || op.block.Cold != nil {
			break // it is not owned, or may wait for the disk
		}
		if op.block != cur {
			if cur != nil {
				cur.Mu.Unlock()
				if cur = op.ks.TryLock(op.block); cur == nil {
					l.Mu.Unlock()
				}
			}
			if cur == nil {
				cur = op.ks.LockFor(op.block, op.Mid)
				l.Mu.Lock()
			}
		}
		cur = r.runLocked(&r.onces[g.once-1], op, cur, g.from)
	}
	if cur != nil {
		l.Mu.Unlock()
		cur.Mu.Unlock()
	}
	return n
}

// runOne runs a change set of one operation, or of none, that is numbered.
func (r *changeSets) runOne(g changeSet) {
	b, o, l := r.b, &r.onces[g.once-1], &r.b.data.Producers
	if g.from == g.to {
		l.Mu.Lock()
		if r.try(o) {
			if o.Result = o.Make(b, o, g.from, 0); o.Result.Kind != format.ResultNext {
				r.prefix(o, o.Mid, false)
				r.append(0)
				r.remember(o)
			}
		}
		l.Mu.Unlock()
		return
	}
	op := &b.ops[g.from]
	if !(r.ready(o) && r.warm(g)) {
		return
	}
	blk := op.ks.LockFor(op.block, op.Mid)
	l.Mu.Lock()
	blk = r.runLocked(o, op, blk, g.from)
	l.Mu.Unlock()
	blk.Mu.Unlock()
}

// runLocked runs operation number i, which is numbered, in its block. Block and table are locked; it returns what has
// taken the block's place.
func (r *changeSets) runLocked(o *Once, op *Op, blk *block.Block, i int) *block.Block {
	b := r.b
	if !r.try(o) {
		return blk
	}
	silent := b.silent
	b.silent, b.tops.held = true, true // it is logged here, behind the record of its number
	blk = b.apply(blk, op)
	b.silent, b.tops.held = silent, false
	if op.Err == nil || o.Each && op.Err == ErrOutOfRange {
		r.keepOne(o, op, i)
		blk.Logged = max(blk.Logged, b.pos)
		if !b.tops.Empty() {
			tellTops(b, b.pos)
		}
	}
	if op.Err == nil || op.Err == ErrOutOfRange { // which tells of the value too
		b.seen.noteSeen(blk.Logged)
	}
	return blk
}

// seconds is the time that the table of producers counts, asked once a Run.
func (r *changeSets) seconds() int64 {
	if r.now == 0 {
		r.now = r.b.data.Producers.Seconds()
	}
	return r.now
}

// ready is try before anything is read or locked: a repeat needs nothing of what its change did.
func (r *changeSets) ready(o *Once) bool {
	r.b.data.Producers.Mu.Lock()
	defer r.b.data.Producers.Mu.Unlock()
	return r.try(o)
}

// keepOne logs and remembers operation number i, which was run.
func (r *changeSets) keepOne(o *Once, op *Op, i int) {
	if o.Result = (Result{Kind: ResultInt, N: op.Value}); o.Make != nil {
		if o.Result = o.Make(r.b, o, i, 1); o.Result.Kind == format.ResultNext && !op.Done {
			return
		}
	}
	set := op.Done && op.Kind != OpDelete && op.Kind != OpSetRow
	var value format.ColumnValue
	if set {
		value = op.result()
	}
	r.prefix(o, op.Mid, set && o.Result.Kind == ResultInt && o.Result.N == value.Value)
	switch log := r.b.data.Log; {
	case log == nil:
	case set && r.b.old.keeps(op.ks):
		if old, ok := r.b.old.before(op); ok {
			r.records = r.b.old.appendSet(r.records, op.Counter.ID, value.Column, op.Mid, value.Value, op.Found, old)
		} else {
			r.records = format.AppendSet(r.records, op.Counter.ID, value.Column, op.Mid, value.Value)
		}
		r.append(1)
	case set:
		r.b.pos = log.AppendOnceSet(r.records, op.Counter.ID, value.Column, op.Mid, value.Value)
	default:
		changes := 1
		switch {
		case op.Done && op.Kind == OpSetRow:
			r.records = r.appendRow(r.records, op)
		case op.Done:
			r.records = r.b.old.appendDelete(r.records, op)
		default:
			changes = 0
		}
		r.append(changes)
	}
	r.remember(o)
}
