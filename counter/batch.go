package counter

import (
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// Operations, and the batches that run them.
type (
	// Batch runs operations on the store, many at once. It belongs to one goroutine, is made to be reused, and allocates
	// nothing then:
	//
	//	b := s.NewBatch()
	//	err := b.Begin()                     // the schema stands still from here on
	//	b.Add(counter.Op{Kind: counter.OpAdd, Counter: b.Schema().Counter("weibo"), Mid: 7, Arg: 1})
	//	b.Run()
	//	b.End()
	//	err = b.Commit()                     // waits for the disk; then results may be told
	//	n := b.Op(0).Value
	Batch = core.Batch
	// Op is one operation on one item.
	Op = core.Op
	// OpKind is the kind of an Op.
	OpKind = core.OpKind
	// Cond restricts an OpSet.
	Cond = core.Cond
	// Bounds are those of an addition: see Batch.AddWithin.
	Bounds = core.Bounds
	// Whole changes the schema, or removes all posts: see Batch.Whole.
	Whole = core.Whole
	// RangeDrop is a range of mids of a counter whose posts were removed at once: see Whole.DropRange.
	RangeDrop = core.RangeDrop
	// DropRangeError refuses a range. Nothing was changed.
	DropRangeError = core.DropRangeError
	// Ack is the wait between the operations of several batches and their replies: see Batch.Defer.
	Ack = core.Ack
	// UncertainError says that changes were made, but are not safe on disk yet, or not on all nodes that must have them.
	UncertainError = core.UncertainError
)

// Kinds of operations.
const (
	OpGet       = core.OpGet       // Value = the column
	OpSet       = core.OpSet       // column = Arg; Value = what it was before
	OpAdd       = core.OpAdd       // column += int64(Arg); Value = the new value
	OpReset     = core.OpReset     // column = its default, if the item exists; Value = what it was before
	OpRead      = core.OpRead      // all columns of the item, see Batch.Row
	OpExists    = core.OpExists    // only Found
	OpDelete    = core.OpDelete    // remove the item
	OpAddWithin = core.OpAddWithin // OpAdd, as far as bounds allow: see Batch.AddWithin
	OpSetRow    = core.OpSetRow    // several columns of the item: see Batch.SetRow
	// OpGetDerived: Run makes it of an OpGet of a derived column.
	OpGetDerived = core.OpGetDerived
)

// Conditions of an OpSet.
const (
	Always    = core.Always
	IfAbsent  = core.IfAbsent  // only where the item does not exist (NX)
	IfPresent = core.IfPresent // only where it exists (XX)
)

// Unbounded lets every value pass that the column holds.
var Unbounded = core.Unbounded

// MaxChangeSet is the largest number of operations in a change set: their records fit in one frame of the log.
const MaxChangeSet = core.MaxChangeSet

// MaxRows is how many OpSetRows of a number of columns may be in a change set.
func MaxRows(columns int) int { return core.MaxRows(columns) }

// Numbered changes, each of which is made once.
type (
	// Once is a change that its producer numbered, to be made once however often it is asked for: see Batch.Once.
	Once = core.Once
	// Result is the reply to a numbered change.
	Result = format.Result
	// Producers is the table of producers as a batch sees it: see Batch.Producers.
	Producers = core.Producers
	// ProducerLimits bound the memory of producers. The zero value of a field is its default.
	ProducerLimits = core.ProducerLimits
	// ProducerInfo describes a producer.
	ProducerInfo = core.ProducerInfo
	// ProducerStats are the totals of all producers.
	ProducerStats = core.ProducerStats

	// ExpiredError says that a number is older than all remembered numbers of its producer. Nothing was changed.
	ExpiredError = core.ExpiredError
	// FencedError says that a higher epoch of the producer is known. Nothing was changed.
	FencedError = core.FencedError
	// RepeatedError says that a change of a series was made before, and that its first answer is no number.
	RepeatedError = core.RepeatedError
	// ProducersFullError says that there is no place for one more producer, or no memory for its result. Nothing was
	// changed.
	ProducersFullError = core.ProducersFullError
)

// Kinds of results.
const (
	ResultInt  = core.ResultInt
	ResultOK   = core.ResultOK
	ResultBulk = core.ResultBulk
	ResultNil  = core.ResultNil
	ResultBlob = core.ResultBlob
	ResultGone = core.ResultGone
)

// MaxResult is how many bytes the blob of a result may have. A larger one is not kept, see ResultGone.
const MaxResult = core.MaxResult

// ProducerNumbers is how many numbers of a producer are remembered at least, if they are runs.
const ProducerNumbers = core.ProducerNumbers

// MaxOnceBytes is the most bytes of log that the changes of a transaction with a number may take, see Batch.TryOnce.
const MaxOnceBytes = core.MaxOnceBytes

// ChangeBytes is how many of them one change of a column of def may take, or of a post where col is negative. See core.ChangeBytes.
func ChangeBytes(def *schema.Counter, col int) int { return core.ChangeBytes(def, col) }

// ReadPosts appends OpReads of posts whose groups of hash slots the caller knows.
func ReadPosts(b *Batch, def *schema.Counter, mids []uint64, groups []uint8) {
	core.ReadPosts(b, def, mids, groups)
}

// ReadSet is Batch.ChangeSet of OpReads of one counter.
func ReadSet(b *Batch, first int) { core.ReadSet(b, first) }

// Expect tells a batch with everybody else kept out how many columns and posts it is going to change at most. See core.Expect.
func Expect(b *Batch, changes int) { core.Expect(b, changes) }

// LookOnce is Batch.TryOnce for a transaction that does not follow: it changes nothing, and any batch may ask.
func LookOnce(b *Batch, o *Once) bool { return core.LookOnce(b, o) }

// UpdateHash is the hash of a numbered change whose parts several shards make, each for the groups that it owns: a group that moves takes along that its posts
// were changed. Its Once has no Mid.
func UpdateHash(hash uint32) uint32 { return core.UpdateHash(hash) }

// OwnedGroups are the groups of hash slots that clients may touch, see Groups.Own: they stay the same until b.End.
func OwnedGroups(b *Batch) slot.Set { return core.OwnedGroups(b) }

// OnceSeries makes each operation of a batch, from number first on, a numbered change of its own, as Batch.Once of one operation does. They are OpAdds of one
// producer, and their numbers follow each other from seq on. See core.OnceSeries.
func OnceSeries(b *Batch, first int, producer []byte, epoch, seq uint64) (o *Once, number int) {
	return core.OnceSeries(b, first, producer, epoch, seq)
}

// UseDoor makes a batch enter its store by door n, not negative, from its next Begin on. There are as many doors as processors, and n counts on
// from the first again. Goroutines with different doors do not write each other's cache lines when they begin and end batches. REQUIRES the batch
// to be closed. UseDoor is for the goroutine that owns the batch.
func UseDoor(b *Batch, n int) { core.UseDoor(b, n) }

// DroppedBy is the range that an exclusive batch has removed last (Whole.DropRange), until it ends; nil: none. Also of a batch that Replication.Observe
// gives.
func DroppedBy(b *Batch) *RangeDrop { return core.DroppedBy(b) }

// ChangedBy is the counter, and the columns of it, a bit for each, that users may see changed by an operation of a batch. An operation
// on the space of a derived column, as Replication.Observe reports some, changes that column.
func ChangedBy(b *Batch, op *Op) (def *schema.Counter, columns uint64) { return core.ChangedBy(b, op) }

// Ahead has a batch look for the items of its operations with numbers below to, while the caller adds more operations. A pipeline of pages takes 4 to
// 6 % less time by it, and no result depends on it. REQUIRES: the operations below to are not changed any more.
func Ahead(b *Batch, to int) { core.Ahead(b, to) }
