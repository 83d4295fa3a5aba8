package console

import (
	"strconv"
	"time"
)

// Bounds of the map.
const (
	maxCells = 2048 // in all, about
	maxRows  = 256  // counters that have a row of their own; the others are one number
	minCells = 8    // of a row, before it is thinned
	rowCells = 256  // of a row at most
)

// Map is where posts are.
type Map struct {
	Seq  uint64 `json:"seq"`
	At   int64  `json:"at"`   // ms since 1970
	Took int64  `json:"took"` // microseconds that the walk took
	Rows []Row  `json:"rows"`
	Left int    `json:"left"` // counters beyond maxRows
}

// Row is a counter: cells in order of mid.
type Row struct {
	Counter string `json:"counter"`
	Posts   int64  `json:"posts"`
	Blocks  int    `json:"blocks"`
	Each    int    `json:"each"` // blocks in a cell, but for the last
	Cells   []Cell `json:"cells"`

	max int
}

// Cell is some neighbouring blocks.
type Cell struct {
	Lo      string  `json:"lo"` // mid: more than a float64 has digits for
	Time    int64   `json:"time,omitempty"`
	Hot     int64   `json:"hot"`  // posts in memory
	Cold    int64   `json:"cold"` // posts in files
	Overlay int64   `json:"over"` // rows of overlays
	Bytes   int64   `json:"bytes"`
	Disk    int64   `json:"disk"`
	Uses    float64 `json:"uses"` // operations a second
	Idle    int64   `json:"idle"` // seconds, -1: not used since the start
	Lost    int     `json:"lost,omitempty"`
	Open    bool    `json:"open,omitempty"`
	Blocks  int     `json:"blocks"`

	lo uint64
}

// mark is a block as the walk before saw it.
type mark struct {
	lo   uint64
	uses uint32
	cold bool
}

// mapper makes maps, one after the other.
type mapper struct {
	seq   uint64
	at    time.Time
	marks [][]mark // of the walk before, by counter in the order of the walk; nil without one
	names []string
}

// walk makes a map of the source's blocks.
func (m *mapper) walk(src Source, counters int, now func() time.Time) (*Map, error) {
	began := now()
	past := began.Sub(m.at).Seconds()
	if m.at.IsZero() || past > 60 {
		m.marks, m.names = nil, nil
	}
	out := &Map{Rows: []Row{}}
	var names []string
	var marks [][]mark
	perRow := min(max(maxCells/max(1, counters), minCells), rowCells)
	var row *Row
	var old []mark
	err := src.Walk(func(b Block) {
		if len(names) == 0 || names[len(names)-1] != b.Counter {
			names, marks = append(names, b.Counter), append(marks, nil)
			row, old = nil, nil
			if i := len(names) - 1; i < len(m.names) && m.names[i] == b.Counter {
				old = m.marks[i]
			}
			if len(out.Rows) < maxRows {
				out.Rows = append(out.Rows, Row{Counter: b.Counter, Each: 1, Cells: []Cell{}, max: perRow})
				row = &out.Rows[len(out.Rows)-1]
			} else {
				out.Left++
			}
		}
		i := len(names) - 1
		marks[i] = append(marks[i], mark{b.Lo, b.Uses, b.Cold})
		for len(old) > 0 && old[0].lo < b.Lo {
			old = old[1:]
		}
		uses := 0.0
		switch {
		case b.Cold: // it is halved each second, and looked at between two halvings
			uses = float64(b.Uses) / 1.5
		case len(old) > 0 && old[0].lo == b.Lo && !old[0].cold && past > 0:
			uses = float64(b.Uses-old[0].uses) / past // it may wrap around
		}
		if row != nil {
			row.add(&b, uses)
		}
	})
	if err != nil {
		return nil, err
	}
	for i := range out.Rows {
		out.Rows[i].finish(src.MidTime())
	}
	m.seq++
	m.at, m.names, m.marks = began, names, marks
	out.Seq, out.At, out.Took = m.seq, began.UnixMilli(), now().Sub(began).Microseconds()
	return out, nil
}

// forget frees the memory of the last walk: 16 bytes a block.
func (m *mapper) forget() { m.marks, m.names = nil, nil }

// add puts a block into the row's last cell, or into a new one. When the row is full, each two neighbours become one.
func (r *Row) add(b *Block, uses float64) {
	r.Posts += int64(b.Posts)
	r.Blocks++
	if n := len(r.Cells); n == 0 || r.Cells[n-1].Blocks >= r.Each {
		if n == r.max {
			for i := range n / 2 {
				r.Cells[i] = r.Cells[2*i]
				r.Cells[i].merge(&r.Cells[2*i+1])
			}
			if n%2 == 1 {
				r.Cells[n/2] = r.Cells[n-1]
			}
			r.Cells = r.Cells[:n-n/2]
			r.Each *= 2
		}
		if n = len(r.Cells); n == 0 || r.Cells[n-1].Blocks >= r.Each {
			r.Cells = append(r.Cells, Cell{lo: b.Lo, Idle: -1})
		}
	}
	c := Cell{Bytes: int64(b.Bytes) + b.Index, Disk: b.FileBytes, Uses: uses, Idle: b.Idle, Open: b.Open, Blocks: 1}
	if b.Cold {
		c.Cold, c.Overlay = int64(b.Posts), int64(b.Overlay)
	} else {
		c.Hot = int64(b.Posts)
	}
	if b.Lost {
		c.Lost = 1
	}
	r.Cells[len(r.Cells)-1].merge(&c)
}

// merge adds a neighbour above.
func (c *Cell) merge(o *Cell) {
	c.Hot += o.Hot
	c.Cold += o.Cold
	c.Overlay += o.Overlay
	c.Bytes += o.Bytes
	c.Disk += o.Disk
	c.Uses += o.Uses
	c.Lost += o.Lost
	c.Blocks += o.Blocks
	c.Open = c.Open || o.Open
	if o.Idle >= 0 && (c.Idle < 0 || o.Idle < c.Idle) {
		c.Idle = o.Idle
	}
}

// finish fills in the values that depend on all blocks.
func (r *Row) finish(k MidTime) {
	for i := range r.Cells {
		c := &r.Cells[i]
		c.Lo = strconv.FormatUint(c.lo, 10)
		c.Uses = float64(int64(c.Uses*100)) / 100
		if c.lo > 0 {
			c.Time = k.of(c.lo)
		}
	}
}
