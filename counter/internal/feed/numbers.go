package feed

import (
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/persist/format"
)

// numbers tells producer and number of changes. The define records that the feed has read say which producers they name; before them the
// store is asked.
type numbers struct {
	data *core.Data
	read map[uint32]named // by number in the log
}

// named is the producer that a number in the log stands for.
type named struct {
	id   string // empty: nobody
	base uint64
}

// define takes a define record.
func (n *numbers) define(rec *format.Record) {
	if n.read == nil {
		n.read = make(map[uint32]named)
	}
	n.read[rec.Number] = named{string(rec.Text), rec.Seq}
}

// look says of a change that it has the number of a once record, which ends at log offset pos.
func (n *numbers) look(c *Change, rec *format.Record, pos uint64) {
	c.Numbered = true
	p, ok := n.read[rec.Number]
	if !ok {
		p.id, p.base, ok = n.data.ProducerAt(rec.Number, pos)
	}
	if ok && p.id != "" {
		c.Producer, c.Seq = p.id, p.base+rec.Seq
	}
}
