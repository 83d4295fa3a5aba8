package items

import (
	"errors"
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
)

// Numbered commands are planned like all others, by the same handlers. Their operations become one change of the
// producer (counter.Once). The first reply has the number:
//
//	Owed    ... | reply, once, count 3 | reply | reply | ...
//
// When the batch is run it has the result made by keep, which gives these replies to a Replies of its own. Afterwards
// the first one answers for them all where the change was made before or was refused; else they are given as usual.

// numbering is the state that a Call has for numbered commands from the first one on.
type numbering struct {
	make func(*counter.Batch, *counter.Once, int, int) counter.Result // Call.keep
	out  resp.Replies                                                 // replies to be kept
	blob []byte
	each bool // the command being planned is additions that may be refused one by one: COUNTER.MINCRBY
}

// retainedReplies is how much memory for replies to be kept a connection holds on to.
const retainedReplies = 512

// Numbered plans a command as the change of a producer. hash is that of the command. A command that is refused already,
// as its key is no longer valid, is looked up all the same: it may have been made before a column was dropped.
func (c *Call) Numbered(plan func(*Call, [][]byte), args [][]byte, num *idmp.Number, hash uint32) {
	if c.numbered == nil {
		c.numbered = &numbering{make: c.keep}
		c.numbered.out.SetProtocol(resp.Neutral)
	}
	reply, first := len(c.Owed), c.Batch.Len()
	c.numbered.each = false
	plan(c, args)
	ops := c.Batch.Len() - first
	if ops > counter.MaxChangeSet {
		c.Batch.Truncate(first)
		c.Owed = c.Owed[:reply]
		c.oweError(errTooMany)
		ops = 0
	}
	o, number := c.Batch.Once(first)
	o.Producer, o.Seq, o.Epoch, o.Hash, o.Hint = num.Producer, num.Seq, num.Epoch, hash, c.hint
	if o.Each = c.numbered.each; ops != 1 || o.Each || c.Batch.Op(first).Kind != counter.OpAdd {
		o.Make, o.Tag = c.numbered.make, reply
		o.Room = idmp.MaxBlob(len(c.Owed) - reply + ops)
	}
	c.Owed[reply].once, c.Owed[reply].count = int32(number+1), int32(len(c.Owed)-reply)
}

// NumberedEach is Numbered of commands that have one key each and are planned by plan, a PlanEach of additions. The first one has number num, and
// the others those behind it. It stops at a key that names no column, and returns how many it has planned.
func (c *Call) NumberedEach(plan func(*Call, [][]byte), keys [][]byte, num *idmp.Number, hash idmp.Hash) (planned int) {
	if len(keys) == 0 {
		return 0
	}
	reply, first := len(c.Owed), c.Batch.Len()
	plan(c, keys)
	if o := &c.Owed[reply]; o.count == series {
		planned = int(o.n)
	}
	c.Batch.Truncate(first + planned)
	if planned == 0 {
		c.Owed = c.Owed[:reply]
		return 0
	}
	for i, ops := 0, c.Batch.Ops(first, planned); i < len(ops); i++ {
		ops[i].SetHash(hash.With(keys[i]).Sum())
	}
	once, number := counter.OnceSeries(c.Batch, first, num.Producer, num.Epoch, num.Seq)
	once.Hint = c.hint
	// They go on with the last ones if both are INCRs or both are DECRs, and add the same number: an error is counted by the command of its reply.
	if o, last := &c.Owed[reply], reply-1; last >= 0 && c.Owed[last].once == int32(-number-1) && c.Batch.Op(first-1).Arg == c.Batch.Op(first).Arg {
		c.Owed[last].n += int32(planned)
		c.Owed = c.Owed[:reply]
	} else {
		o.reply, o.once = replyNumberedAdds, int32(-number-1)
		c.Owed = c.Owed[:reply+1]
	}
	return planned
}

// replyNumberedAdds is replyAdds of a series of changes with numbers (counter.OnceSeries): o.once is -1 less the number of its Once.
func replyNumberedAdds(c *Call, o *Owed) {
	c.hint = c.Batch.OnceAt(int(-o.once - 1)).Hint
	replyAdds(c, o)
}

var errTooMany = "ERR IDMP: a numbered command changes at most " + strconv.Itoa(counter.MaxChangeSet) + " keys"

// keep makes the result of a Once from the replies of its command.
func (c *Call) keep(_ *counter.Batch, o *counter.Once, _, _ int) (result counter.Result) {
	w := c.numbered
	out := c.Out
	c.Out = w.out
	for i := range int(c.Owed[o.Tag].count) {
		reply := &c.Owed[o.Tag+i]
		reply.reply(c, reply)
	}
	if reply := c.Out.From(0); len(reply) > 0 && reply[0] != '-' { // else it is refused, and nothing is to be kept
		result, w.blob = idmp.Keep(reply, w.blob)
	}
	if c.Out.Cut(0); c.Out.Cap() > retainedReplies {
		c.Out.Drop()
	}
	if c.Out, w.out = out, c.Out; cap(w.blob) > retainedReplies {
		w.blob = nil
	}
	return result
}

// answerOnce answers a numbered command that was made before or is refused. It is false for one whose replies are to be
// given.
func (c *Call) answerOnce(o *counter.Once) bool {
	c.hint = o.Hint
	switch {
	case o.Err != nil:
		c.StoreError(o.Err)
	case o.Repeat:
		c.AnswerResult(o.Result)
	case o.Each:
		return c.refusedWhole(o)
	default:
		return false
	}
	return true
}

// AnswerResult gives a reply that was kept.
func (c *Call) AnswerResult(r counter.Result) {
	if !idmp.Answer(&c.Out, r) {
		c.Out.Error(errUnknownResult)
	}
}

const errUnknownResult = "IDMPEXPIRED the change was made; its stored reply has a format that this version does not know"

// refusedWhole answers for additions of which one was refused for another reason than its range: none was made then.
func (c *Call) refusedWhole(o *counter.Once) bool {
	for i := range o.N {
		if op := c.Batch.Op(o.First + i); op.Err != nil && !errors.Is(op.Err, counter.ErrOutOfRange) {
			c.opError(op)
			return true
		}
	}
	return false
}

// onceCode is the first word of a reply that says why a number was refused; empty: err is not of numbers.
func onceCode(err error) string {
	var expired *counter.ExpiredError
	var fenced *counter.FencedError
	var full *counter.ProducersFullError
	switch {
	case errors.Is(err, counter.ErrMismatch):
		return "IDMPMISMATCH"
	case errors.As(err, &expired):
		return "IDMPEXPIRED"
	case errors.As(err, &fenced):
		return "IDMPFENCED"
	case errors.As(err, &full):
		return "IDMPFULL"
	}
	return ""
}
