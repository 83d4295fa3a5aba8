package server

import (
	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
	"github.com/counterd/counterd/counter"
)

// scratch is the memory that a connection works in. One that waits has none: it takes a scratch when something arrives
// and gives it back when all is answered and nothing more is there. So 10,000 idle connections hold no buffers, and
// those at work share a few that stay in the processor's cache: a loop's all use the same, 19 KB for a pipeline of 64.
type scratch struct {
	input resp.Memory
	out   resp.Region // of a client that is away; in a loop replies are in the loop's
	owed  []items.Owed
	runs  []run
	batch *counter.Batch
	store *counter.Store // that batch is of
}

// inputSize is the buffer that a scratch begins with: 190 INCRs. A flood of small commands outruns the collector with
// 16 KiB.
const inputSize = 8 << 10

// space is where the next read goes.
func (c *client) space() []byte {
	if c.work == nil {
		w, _ := c.srv.scratches.Get().(*scratch)
		if w == nil {
			w = &scratch{input: resp.NewMemory(inputSize)}
		}
		c.work = w
		c.rd.Attach(&w.input)
		c.Owed, c.runs = w.owed, w.runs
		if !c.inLoop() {
			c.Out.Take(&w.out)
		}
		if w.store == c.store {
			c.Batch = w.batch
		} else {
			c.Batch = c.store.NewBatch()
		}
	}
	return c.rd.Space(readSize)
}

// rest gives the scratch back, unless it holds the beginning of a command. Everything read was executed.
func (c *client) rest() {
	w := c.work
	if w == nil || !c.rd.Release(&w.input) {
		return
	}
	w.owed, w.runs, w.batch, w.store = c.Owed, c.runs, c.Batch, c.store
	c.Owed, c.runs, c.Batch, c.work = nil, nil, nil, nil
	if c.where.Load() == away {
		c.Out.Give(&w.out)
		c.charge(c.holding())
	}
	if w.input.Size() == inputSize {
		c.srv.scratches.Put(w)
	}
}
