package items

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/counter"
)

// Arrays of results, such as the replies of MGET, HMGET, COUNTER.MGET and COUNTER.MINCRBY.
//
// Client libraries must not act on an error inside an array. go-redis 9.23 stops to read an array at MOVED, READONLY,
// LOADING, OOM and the like and takes the rest of the array for the replies of the next commands. redis-py closes the
// connection at LOADING. No library follows a MOVED that is not the whole reply. So an array holds three errors at most, which
// every library keeps in their places: the IOERR of a post that cannot be read, and the ERR of an addition that leaves its
// column's range, or is to a derived column. Any other error takes the place of the whole array.

// standsInside tells whether an error may be an element of an array.
func standsInside(err error) bool {
	return errors.Is(err, counter.ErrOutOfRange) || errors.Is(err, counter.ErrCold) || errors.Is(err, counter.ErrDerived)
}

// oweArray notes an array of the n replies that are owed next, for operations of the batch from number op on.
func (c *Call) oweArray(op, n int) {
	c.owe(replyArray, op, n)
	c.Owed[len(c.Owed)-1].count = int32(1 + n)
}

// replyArray is the head of an array of n.
func replyArray(c *Call, o *Owed) { c.Out.Array(int(o.n)) }

// answerArray appends the array that begins with reply i, or the one error in its place. It returns the number of the
// reply behind it.
func (c *Call) answerArray(i int) (next int) {
	o := &c.Owed[i]
	start := c.beginArray(int(o.n))
	next = i + int(o.count)
	for k := i + 1; k < next; k++ {
		c.Breathe(k)
		part := &c.Owed[k]
		for part.reply(c, part); part.count == series && part.n > 0 && c.spoilt == nil; {
			part.reply(c, part)
		}
		if c.spoilt != nil {
			c.spoil(start, c.made(o), int(o.n))
			break
		}
	}
	return next
}

// beginArray appends the head of an array of n results, and returns where it begins.
func (c *Call) beginArray(n int) (start int) {
	c.spoilt = nil
	start = c.Out.Len()
	c.Out.Array(n)
	return start
}

// made counts the changes of an array that were made.
func (c *Call) made(o *Owed) (n int) {
	if c.Batch.Op(int(o.op)).Kind != counter.OpAdd { // it reads, and a key that is none has no operation
		return 0
	}
	for i := range int(o.n) {
		if c.Batch.Op(int(o.op) + i).Done {
			n++
		}
	}
	return n
}

// spoil puts the error of one element in the place of the array that begins at start. An error says that nothing was
// changed, so where some of n changes were made it is UNCERTAIN.
func (c *Call) spoil(start, made, n int) {
	c.Out.Cut(start)
	if made > 0 {
		c.Out.Error(fmt.Sprintf("UNCERTAIN %d of %d changes were made, then: %s", made, n, ErrorText(c.spoilt)))
	} else {
		c.StoreError(c.spoilt)
	}
}
