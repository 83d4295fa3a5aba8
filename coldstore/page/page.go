package page

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/counterd/counterd/internal/slot"
)

// A page is the unit of reading, checksum and caching: as many rows as fit the file's page size. It begins with
// a directory, so that ids are searchable without touching a column, and a column without touching the others.
//
//	+------------+-----------+--------------+-----------------+------+----------+---------+- ... -+
//	| crc32c u32 | count u16 | presence u16 | columns: n x u16 | mids | presence | columns | zeros |
//	+------------+-----------+--------------+-----------------+------+----------+---------+- ... -+
//	count        rows, 1..MaxItems
//	presence     offset in the page of the presence part, 0 if there is none
//	columns      offset in the page of each column's part
//	mids         see mids.go
//	presence     bitset of count: the rows that differ from the common row
//	column part  ladder of count values; or, if there is a presence part,
//	             | the common row's value uvarint | ladder of one value for each row in the presence set |
//	zeros        TailLen of them in the last page; in others up to the next multiple of the page size
//
// The checksum covers the header's checksum and the page's number, which are not in the page, and all bytes of the
// page behind the checksum: so a page that is whole but in the wrong place, or from another file, is found out.
//
// The presence set is what most posts need: 85-88 % of the rows have every column zero. It takes 2.66 bits a row for
// three columns to 2.50 on the dense stream (1900 rows a page), and answers most point reads without a ladder.
const (
	HeadLen  = 8
	MaxItems = 16384
	MinShift = 12
	MaxShift = 16 // offsets inside a page are 16 bits
)

var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

func Checksum(b []byte) uint32 { return crc32.Checksum(b, Castagnoli) }

// Seed starts the checksum of page number i of the file whose header has checksum header. The odd factor gives
// each page of a file its own seed, and the same bytes from another seed never have the same CRC.
func Seed(header uint32, i int) uint32 { return header ^ uint32(i)*0x9e3779b1 }

// Plan says how rows are going to be encoded, and in how many bytes.
type Plan struct {
	N        int
	Mids     midsPlan
	Presence bool
	Live     []int32 // rows in the presence set, which is the encoder's
	common   []uint64
	Column   []LadderPlan
	Ends     [][2]uint64 // of each column: the least value and the largest
	Size     int
}

// Encoder plans and encodes pages. Its fields but the first three are scratch.
type Encoder struct {
	Cols     int
	OneGroup bool // all mids are of group
	Group    uint8
	numbers  []uint64
	sparse   sparse
	usual    []uint64 // the row that most rows of the last page were, column by column; nil: not known
	tally    tally
	planner  planner
	alt      []LadderPlan
	buf      []uint64
	fields   []uint64
	pos      []int32
}

// Plan fills p for the first n rows of mids and columns (column-major).
func (e *Encoder) Plan(p *Plan, mids []uint64, columns [][]uint64, n int) {
	e.startPage(columns, n)
	e.numbers = e.numbers[:0]
	e.choose(p, mids, columns, n, nil)
}

// Replan is plan for another number of rows of the page that the last plan was for. Where like is not nil it has the
// encodings that like has, which is of about as many rows: that takes a tenth of the time.
func (e *Encoder) Replan(p *Plan, mids []uint64, columns [][]uint64, n int, like *Plan) {
	e.choose(p, mids, columns, n, like)
}

// startPage starts a page of other rows.
func (e *Encoder) startPage(columns [][]uint64, n int) {
	if len(e.usual) != len(columns) {
		e.usual = e.usual[:0]
		for _, col := range columns {
			e.tally.count(col[:n])
			v, _ := e.tally.mode()
			e.usual = append(e.usual, v)
		}
	}
	e.sparse.startPage(e.usual)
}

func (e *Encoder) choose(p *Plan, mids []uint64, columns [][]uint64, n int, like *Plan) {
	p.N = n
	p.Mids = planMids(e.keys(mids[:n]))
	if e.OneGroup {
		p.Mids.Size++
	}
	e.sparse.setRows(columns, n)
	p.Live, p.common = e.sparse.live, append(p.common[:0], e.sparse.common...)
	m := len(p.Live)
	some := m > 0 && m < n
	p.Column, p.Ends, e.alt = p.Column[:0], p.Ends[:0], e.alt[:0]
	size, alt := 0, 0
	if some {
		alt = BitsetSize(n, m)
	}
	for c := range columns {
		t := &e.tally
		if some && (like == nil || like.Presence) {
			e.sparse.tally(t, c, false)
			l := e.ladder(t, like, c)
			e.alt = append(e.alt, l)
			alt += uvarintLen(p.common[c]) + l.size
		}
		if !some || like == nil || !like.Presence {
			e.sparse.tally(t, c, true)
			if like == nil {
				e.usual[c], _ = t.mode()
			}
			l := e.ladder(t, like, c)
			p.Column = append(p.Column, l)
			size += l.size
		}
		least, most := t.val[0], t.val[len(t.val)-1]
		if m < n {
			least, most = min(least, p.common[c]), max(most, p.common[c])
		}
		p.Ends = append(p.Ends, [2]uint64{least, most})
	}
	if p.Presence = some && (len(p.Column) == 0 || alt < size && len(e.alt) > 0); p.Presence {
		size = alt
		p.Column, e.alt = e.alt, p.Column
	}
	p.Size = HeadLen + 2*e.Cols + p.Mids.Size + size + TailLen
}

// ladder plans that of a column: as like has it, if it is one of the same kind.
func (e *Encoder) ladder(t *tally, like *Plan, c int) LadderPlan {
	if like == nil || like.Presence && (len(e.sparse.live) == 0 || len(e.sparse.live) == e.sparse.n) {
		return e.planner.plan(t)
	}
	return like.Column[c].resize(t)
}

// keys returns what the mids part has of mids: themselves, or their numbers, in scratch.
func (e *Encoder) keys(mids []uint64) []uint64 {
	if !e.OneGroup {
		return mids
	}
	for _, mid := range mids[min(len(e.numbers), len(mids)):] {
		e.numbers = append(e.numbers, slot.Number(mid))
	}
	return e.numbers[:len(mids)]
}

// gather returns the values of the given rows, in scratch.
func (e *Encoder) gather(col []uint64, rows []int32) []uint64 {
	e.buf = e.buf[:0]
	for _, i := range rows {
		e.buf = append(e.buf, col[i])
	}
	return e.buf
}

// AppendPage appends the page that p plans, without its checksum (see Seal). The result is p.size bytes longer
// than dst.
func (e *Encoder) AppendPage(dst []byte, p *Plan, mids []uint64, columns [][]uint64) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, HeadLen+2*e.Cols)...)
	binary.LittleEndian.PutUint16(dst[at+4:], uint16(p.N))
	dst = appendMids(dst, &p.Mids, e.keys(mids[:p.N]), e.OneGroup, e.Group, e.buf)
	if p.Presence {
		binary.LittleEndian.PutUint16(dst[at+6:], uint16(len(dst)-at))
		dst = appendBitset(dst, p.N, p.Live)
	}
	for c, col := range columns {
		binary.LittleEndian.PutUint16(dst[at+HeadLen+2*c:], uint16(len(dst)-at))
		if p.Presence {
			dst = binary.AppendUvarint(dst, p.common[c])
			e.gather(col, p.Live)
		} else {
			e.buf = append(e.buf[:0], col[:p.N]...)
		}
		dst, e.pos, e.fields = appendLadder(dst, &p.Column[c], e.buf, e.pos, e.fields)
	}
	return append(dst, make([]byte, TailLen)...)
}

// Seal sets the checksum of page, whose padding is in place.
func Seal(page []byte, seed uint32) {
	binary.LittleEndian.PutUint32(page, crc32.Update(seed, Castagnoli, page[4:]))
}

// View reads a page in place.
//
// Any bytes are safe to read: each accessor checks what it takes and names the part that is damaged. After
// the checksum held that can only be a fault of a writer.
type View struct {
	B        []byte
	end      int // end of the parts: len(b) - TailLen
	cols     int
	N        int // rows
	Presence int // offset of the presence part or 0
	Mids     midsView
	Set      bitset // the presence part
}

// Parts of a page, as CorruptError names them.
const (
	PartChecksum = "page checksum"
	partCount    = "page row count"
	PartMids     = "page mids part"
	PartPresence = "page presence part"
	PartColumn   = "page column part"
	PartFirst    = "page first mid"
)

// Parse reads the directory, the mids part and the presence part. It returns the name of the damaged part, or "".
func (v *View) Parse(b []byte, cols int) string {
	v.B, v.end, v.cols = b, len(b)-TailLen, cols
	if v.end < HeadLen+2*cols {
		return partCount
	}
	v.N = int(binary.LittleEndian.Uint16(b[4:]))
	v.Presence = int(binary.LittleEndian.Uint16(b[6:]))
	if v.N < 1 || v.N > MaxItems {
		return partCount
	}
	c := Cutter{B: b, Pos: HeadLen + 2*cols, End: v.end}
	if v.Mids.parse(&c, v.N); c.Bad {
		return PartMids
	}
	if v.Presence == 0 {
		return ""
	}
	c = Cutter{B: b, Pos: v.Presence, End: v.end}
	if v.Set.parse(&c, v.N); c.Bad {
		return PartPresence
	}
	return ""
}

// Live is how many rows have values in the column parts.
func (v *View) live() int {
	if v.Presence != 0 {
		return int(v.Set.m)
	}
	return v.N
}

// Part returns the part of a column.
func (v *View) Part(col int) Cutter { return pagePart(v.B, col) }

// pagePart returns the part of a column of page b, which was parsed.
func pagePart(b []byte, col int) Cutter {
	return Cutter{B: b, Pos: int(binary.LittleEndian.Uint16(b[HeadLen+2*col:])), End: len(b) - TailLen}
}

// Get looks mid up and stores the values of the given columns (nil: all) in dst.
func (v *View) Get(mid uint64, cols []int, dst []uint64) (found bool, bad string) {
	i, found := v.Mids.Search(v.B, mid)
	if !found || i >= v.N {
		return false, ""
	}
	n, live := v.N, true
	if v.Presence != 0 {
		i, live = v.Set.rank(v.B, i)
		if n = int(v.Set.m); live && i >= n {
			return false, PartPresence
		}
	}
	if cols == nil {
		for c := range v.cols {
			if !v.value(c, n, i, live, &dst[c]) {
				return false, PartColumn
			}
		}
		return true, ""
	}
	for k, c := range cols {
		if !v.value(c, n, i, live, &dst[k]) {
			return false, PartColumn
		}
	}
	return true, ""
}

// value reads value i of the n that column col stores, or the common one if not live.
func (v *View) value(col, n, i int, live bool, dst *uint64) bool {
	c := v.Part(col)
	if v.Presence != 0 {
		common := c.Uvarint()
		if !live {
			*dst = common
			return !c.Bad
		}
	}
	*dst = LadderGet(&c, n, i)
	return !c.Bad
}

// Cursor walks the rows of a page in order. Its memory is reused from page to page.
type Cursor struct {
	View   View
	i      int
	mids   midsCursor
	setCur bitsetCursor
	common []uint64
	column []ladderCursor
}

// Init parses the whole page. It returns the name of the damaged part, or "".
func (pc *Cursor) Init(b []byte, cols int) string {
	v := &pc.View
	if bad := v.Parse(b, cols); bad != "" {
		return bad
	}
	pc.i = 0
	pc.mids.init(&v.Mids, b)
	if v.Presence != 0 {
		pc.setCur.init(&v.Set, b)
	}
	if cap(pc.column) < cols {
		pc.column, pc.common = make([]ladderCursor, cols), make([]uint64, cols)
	}
	pc.column, pc.common = pc.column[:cols], pc.common[:cols]
	for k := range cols {
		c := v.Part(k)
		if v.Presence != 0 {
			pc.common[k] = c.Uvarint()
		}
		if pc.column[k].init(&c, v.live()); c.Bad {
			return PartColumn
		}
	}
	return ""
}

// Next stores the next row in vals, one value for each column. ok is false behind the last row; bad names a damaged
// part.
func (pc *Cursor) Next(vals []uint64) (mid uint64, ok bool, bad string) {
	if pc.i >= pc.View.N {
		return 0, false, ""
	}
	pc.i++
	if mid, ok = pc.mids.next(); !ok {
		return 0, false, PartMids
	}
	if pc.View.Presence != 0 && !pc.setCur.step() {
		copy(vals, pc.common)
		return mid, true, ""
	}
	for k := range pc.column {
		if vals[k], ok = pc.column[k].next(pc.View.B); !ok {
			return 0, false, PartColumn
		}
	}
	return mid, true, ""
}
