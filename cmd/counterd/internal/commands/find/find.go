package find

import (
	"errors"
	"slices"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/internal/query"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// ErrGone ends the query of a client that has gone, or of a server that ends: nobody waits for the answer.
var ErrGone error = items.Refusal("LOADING the server is shutting down, or the connection is closing")

// pageSteps is how many steps a page by cursor takes at most: a quarter of a second of work.
const pageSteps = 256

// runFind is COUNTER.FIND.
func runFind(c Conn, args [][]byte) { findPage(c, args, pageSteps) }

// findPage is runFind with a page's steps.
func findPage(c Conn, args [][]byte, most int) {
	out := &c.Call().Out
	var q query.Find
	var f *counter.Find
	var found rows
	begin := func(sch *schema.Schema) (err error) {
		found = rows{}
		if q, err = query.ParseFind(sch, args[1:]); err == nil {
			if f, err = counter.NewFind(q.Query); err == nil {
				f.GiveWay(c.GiveWay)
			}
		}
		return err
	}
	if err := begin(c.Schema()); err != nil {
		c.Call().StoreError(err)
		return
	}
	steps := 0
	start, _ := f.Next()
	err := c.Steps(false, func(b *counter.Batch) (bool, error) {
		done, err := f.Step(b)
		if dropped := (*counter.DroppedError)(nil); q.Columns == nil && errors.As(err, &dropped) {
			// A column of the rows, which none names, is gone: anew with those that are left. An unknown column in a
			// condition is an error.
			return false, begin(b.Schema())
		}
		found.add(f.Rows(), nil)
		steps++
		// A page gets on, however slow the machine is: the first step in a block may give nothing yet.
		next, _ := f.Next()
		return done || q.Paged && steps >= most && next != start, err
	})
	if err != nil {
		// A page has the rows before the unreadable ones: the next call begins there and answers the error.
		if _, more := f.Next(); !q.Paged || !more || found.len() == 0 || !errors.Is(err, counter.ErrCold) {
			c.Call().StoreError(err)
			return
		}
	}
	if q.Paged {
		out.Array(2)
		if next, more := f.Next(); more {
			out.BulkString(q.Next(next))
		} else {
			out.BulkString("0")
		}
	}
	found.reply(out, c.GiveWay)
}

// rows are those of an answer, as long as it is not known how many they are.
type rows struct {
	width   int // of a row: mid and values
	flat    []uint64
	columns []int16 // of an update's rows, rising
}

// add copies the rows of a step. columns are those of an update's rows, some of which may have been dropped since the step
// before; nil: they stay the same.
func (r *rows) add(from *counter.Rows, columns []int16) {
	if len(columns) < len(r.columns) {
		r.narrow(columns)
	}
	r.columns = append(r.columns[:0], columns...)
	for i := range from.Len() {
		mid, values := from.At(i)
		if i == 0 {
			r.width = 1 + len(values)
			r.flat = slices.Grow(r.flat, from.Len()*r.width)
		}
		r.flat = append(append(r.flat, mid), values...)
	}
}

// narrow leaves of all rows the columns that are still there.
func (r *rows) narrow(columns []int16) {
	n := 0
	for at := 0; at < len(r.flat); at += r.width {
		r.flat[n] = r.flat[at]
		n++
		for i, column := range r.columns {
			if slices.Contains(columns, column) {
				r.flat[n] = r.flat[at+1+i]
				n++
			}
		}
	}
	r.flat, r.width = r.flat[:n], 1+len(columns)
}

func (r *rows) len() int {
	if r.width == 0 {
		return 0
	}
	return len(r.flat) / r.width
}

// breath is how many rows are answered between two pauses: 30 us.
const breath = 256

// largeReply is how many rows are answered in the memory of large replies: 32 KiB and more.
const largeReply = 1024

// reply appends them. It calls pause now and then, so that others have their turn; nil: nobody waits.
func (r *rows) reply(out *resp.Replies, pause func()) {
	if pause != nil && r.len() >= largeReply && out.Len() == 0 {
		out.TakeLarge()
	}
	out.Array(r.len())
	for i := range r.len() {
		if pause != nil && i%breath == breath-1 {
			pause()
		}
		out.Array(r.width)
		for _, v := range r.flat[i*r.width:][:r.width] {
			out.Int(int64(v)) // mids and values are below 2^63
		}
	}
}
