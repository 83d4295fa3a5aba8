package items

import (
	"errors"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// Call is the part of a connection that the handlers of commands on items use: a batch to add operations to, and the
// replies. The connection runs the batch between the two; see Owed.
type Call struct {
	Batch *counter.Batch // open while a command is planned
	Out   resp.Replies   // not to be touched while a command is planned: replies of commands before it are not there yet
	Owed  []Owed         // replies to give, in order, once the batch has run
	// Elsewhere is the error for a post whose hash slot is not served here, by the slot; nil: of no cluster.
	Elsewhere func(slot uint16) string

	// Packed tells whether COUNTER.MGET may have packed ids, and is then answered by packed rows: the connection is a link of another node, which
	// knows them. See package resp.
	Packed bool

	// For are the groups whose posts another node, or the forward port of this one, wants changed by an update; nil: those that the shard has. Others may come and go before it
	// begins.
	For *slot.Set

	// Pause lets others have their turn, in a long command: see Breathe; nil: nobody waits for this one.
	Pause func()

	spoilt   error      // an element of the array being given has it, and it must not stand inside: see answerArray
	hint     uint32     // counter.Once.Hint of the last numbered command
	numbered *numbering // nil: there was none yet
}

// Owed is a reply that waits for the batch to run.
type Owed struct {
	reply func(c *Call, o *Owed)
	op    int32  // number of the first operation in the batch
	n     int32  // how many, or another number for reply
	text  string // of an error or status

	once  int32 // of the first reply of a numbered command: number of its counter.Once, from 1 on; 0: it has none
	count int32 // of the first of several replies that are one: how many they are, itself included; see oweArray, Numbered; or series
}

// Answer appends reply i of those that are owed, and returns the number of the one to go on with: it may stand for
// several, and may have to be called again for the rest of those. REQUIRES the batch run.
func (c *Call) Answer(i int) (next int) {
	o := &c.Owed[i]
	if o.once > 0 && c.answerOnce(c.Batch.OnceAt(int(o.once-1))) {
		return i + int(o.count)
	}
	if o.count > 1 {
		return c.answerArray(i)
	}
	o.reply(c, o)
	if o.count == series && o.n > 0 {
		return i
	}
	return i + 1
}

// owe notes a reply to be given when the batch has run.
func (c *Call) owe(reply func(*Call, *Owed), op, n int) {
	c.Owed = append(c.Owed, Owed{reply: reply, op: int32(op), n: int32(n)})
}

// breath is how many parts of a command are planned, or answered, between two pauses: 30 us.
const breath = 512

// Breathe lets others have their turn now and then, while part i of a long command is planned or answered.
func (c *Call) Breathe(i int) {
	if c.Pause != nil && i%breath == breath-1 {
		c.Pause()
	}
}

// breatheBetween is Breathe where of some parts a few were planned, or answered, at once: so many were left, and so many are left now.
func (c *Call) breatheBetween(before, now int) {
	if before/breath != now/breath {
		c.Breathe(breath - 1)
	}
}

// Owe notes a reply that is not of package items.
func (c *Call) Owe(reply func(*Call, *Owed)) { c.owe(reply, 0, 0) }

// Refuse notes that the command being planned is answered by an error.
func (c *Call) Refuse(text string) { c.oweError(text) }

// oweError notes an error reply for the command that is being planned.
func (c *Call) oweError(text string) {
	c.Owed = append(c.Owed, Owed{reply: replyError, text: text})
}

// StoreError answers why the store refused something.
func (c *Call) StoreError(err error) {
	if away := (*counter.NotOwnedError)(nil); c.Elsewhere != nil && errors.As(err, &away) {
		c.Out.Error(c.Elsewhere(away.Slot))
		return
	}
	c.Out.Error(ErrorText(err))
}

// Refusal is an error in the words of a reply, its code first.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// ErrorText begins with the word that tells clients what to do: MISCONF and OOM are given before any change, UNCERTAIN
// after one.
func ErrorText(err error) string {
	var uncertain *counter.UncertainError
	var refusal Refusal
	if code := onceCode(err); code != "" {
		return code + " " + err.Error()
	}
	switch {
	case errors.As(err, &refusal):
		return string(refusal)
	case errors.As(err, &uncertain): // first: the wrapped error would say that nothing was changed
		return "UNCERTAIN " + err.Error()
	case errors.Is(err, counter.ErrReplica):
		return ErrReadOnly
	case errors.Is(err, counter.ErrClosed): // another takes its place, or the server ends
		return ErrLoading
	case errors.Is(err, counter.ErrNotReady):
		return "MISCONF Errors writing to the AOF file: " + err.Error()
	case errors.Is(err, counter.ErrCold):
		return "IOERR " + err.Error()
	case errors.Is(err, counter.ErrNoMemory), errors.Is(err, counter.ErrMaxMemory):
		return "OOM command not allowed: " + err.Error()
	}
	return "ERR " + err.Error()
}
