package rangecopy

import (
	"errors"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

// Copy is a range of a counter as it was at one moment. What is in memory was copied then. Of a cold block the overlay
// was; its file never changes, and is read when the copy is.
//
//	mids     lo ................................ hi
//	blocks     hot: image | cold: overlay + file | hot: image
//
// It needs no lock. NOT safe for concurrent use.
type Copy struct {
	Lo, Hi  uint64
	def     *schema.Counter
	columns []coldstore.Column
	blocks  []copied
	buf     []byte // images, of which only the last may still grow
	mem     []byte // of the table that is read
	fields  []int
	row     []uint64
}

// copied is one block of a copy.
type copied struct {
	file  *coldstore.File // nil: the block is hot
	image []byte          // of the table or the overlay; empty: it has no rows
}

// imageSlack is what an image has beside its table.
const imageSlack = 4 << 10

// Reset makes c an empty copy of a range, in the memory that it has.
func (c *Copy) Reset(def *schema.Counter, columns []coldstore.Column, lo, hi uint64) {
	clear(c.blocks)
	c.Lo, c.Hi, c.def, c.columns, c.blocks, c.buf = lo, hi, def, columns, c.blocks[:0], c.buf[:0]
}

// Room makes room for the copy of a table of so many bytes, and tells whether there was room before. New memory costs as
// much as the copy, so a caller that holds a lock gives the lock back first: see Has.
func (c *Copy) Room(table int) {
	if c.Has(table) {
		return
	}
	// Images of earlier blocks stay where they are.
	c.buf = make([]byte, 0, table+table/4+imageSlack)
	clear(c.buf[:cap(c.buf)]) // so that the system gives the memory now
}

// Has tells whether there is room for the copy of a table of so many bytes.
func (c *Copy) Has(table int) bool { return cap(c.buf)-len(c.buf) >= table+imageSlack }

// Add copies a block. REQUIRES its lock held, and Room.
func (c *Copy) Add(b *block.Block) {
	var part copied
	if b.Cold != nil {
		part.file = b.Cold.File
	}
	if b.Tab.Len() > 0 {
		at := len(c.buf)
		c.buf = b.Tab.AppendImage(c.buf)
		part.image = c.buf[at:len(c.buf):len(c.buf)]
	}
	c.blocks = append(c.blocks, part)
}

// Digests sums the rows in [lo, hi), which is in the range of the copy, in equal parts. rest is called each 256 rows. The
// error matches block.ErrCold if a file cannot be read, and coldstore.ErrClosed if it was replaced meanwhile.
func (c *Copy) Digests(lo, hi uint64, parts int, rest func()) ([]Digest, error) {
	sums, n := NewSums(lo, hi, parts), 0
	sums.Of(c.def)
	err := c.each(lo, hi, func(mid uint64, row []uint64) error {
		if n++; n%256 == 0 {
			rest()
		}
		sums.Add(mid, row)
		return nil
	})
	return sums.Parts, err
}

// errEnough ends an iteration.
var errEnough = errors.New("enough")

// each calls fn for the rows in [lo, hi), those of hot blocks in no order.
func (c *Copy) each(lo, hi uint64, fn func(mid uint64, row []uint64) error) error {
	inside := func(mid uint64, row []uint64) error {
		switch {
		case mid < lo:
			return nil
		case mid >= hi:
			return errEnough
		}
		return fn(mid, row)
	}
	for _, part := range c.blocks {
		tab, err := c.table(part.image)
		if err != nil {
			return err
		}
		if part.file == nil {
			if err := c.hotRows(tab, lo, hi, fn); err != nil {
				return err
			}
			continue
		}
		from := max(lo, part.file.Meta().Lo)
		rows := block.Merged{File: part.file, Table: tab, Columns: c.columns}
		if err := rows.Each(from, inside); err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}

// table makes a table of an image.
func (c *Copy) table(image []byte) (*hot.Table, error) {
	var tab hot.Table
	if len(image) == 0 {
		return &tab, nil
	}
	im, err := hot.DecodeImage(image)
	if err != nil {
		return nil, err
	}
	if n := im.Config.Bytes(); cap(c.mem) < n {
		c.mem = make([]byte, n)
	} else {
		c.mem = c.mem[:n]
		clear(c.mem)
	}
	tab, err = im.Table(c.mem)
	return &tab, err
}

// hotRows calls fn for the rows of a table in [lo, hi).
func (c *Copy) hotRows(tab *hot.Table, lo, hi uint64, fn func(mid uint64, row []uint64) error) (err error) {
	if tab.Len() == 0 {
		return nil
	}
	same := len(tab.Layout().Fields) == len(c.columns) // column by column
	c.fields = c.fields[:0]
	for i := range c.columns {
		f := tab.Layout().Index(c.columns[i].ID)
		c.fields, same = append(c.fields, f), same && f == i
	}
	tab.Each(func(mid uint64, ref hot.Ref) {
		if mid < lo || mid >= hi || err != nil {
			return
		}
		if c.row = c.row[:0]; same {
			c.row = tab.AppendRow(c.row, ref)
		} else {
			for i, f := range c.fields {
				v := c.columns[i].Default
				if f >= 0 {
					v = tab.Get(ref, f)
				}
				c.row = append(c.row, v)
			}
		}
		err = fn(mid, c.row)
	})
	return err
}
