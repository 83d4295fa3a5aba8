package coldstore

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
//	count        rows, 1..maxPageItems
//	presence     offset in the page of the presence part, 0 if there is none
//	columns      offset in the page of each column's part
//	mids         see mids.go
//	presence     bitset of count: the rows that differ from the common row
//	column part  ladder of count values; or, if there is a presence part,
//	             | the common row's value uvarint | ladder of one value for each row in the presence set |
//	zeros        pageTail of them in the last page; in others up to the next multiple of the page size
//
// The checksum covers the header's checksum and the page's number, which are not in the page, and all bytes of the
// page behind the checksum: so a page that is whole but in the wrong place, or from another file, is found out.
//
// The presence set is what most posts need: 85-88 % of the rows have every column zero. It takes 2.66 bits a row for
// three columns to 2.50 on the dense stream (1900 rows a page), and answers most point reads without a ladder.
const (
	pageHead     = 8
	maxPageItems = 16384
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// pageSeed starts the checksum of page number i of the file whose header has checksum header. The odd factor gives
// each page of a file its own seed, and the same bytes from another seed never have the same CRC.
func pageSeed(header uint32, i int) uint32 { return header ^ uint32(i)*0x9e3779b1 }

// pagePlan says how rows are going to be encoded, and in how many bytes.
type pagePlan struct {
	n        int
	mids     midsPlan
	presence bool
	live     []int32 // rows in the presence set, which is the encoder's
	common   []uint64
	column   []ladderPlan
	ends     [][2]uint64 // of each column: the least value and the largest
	size     int
}

// pageEncoder plans and encodes pages. Its fields but the first three are scratch.
type pageEncoder struct {
	cols    int
	grouped bool // all mids are of group
	group   uint8
	numbers []uint64
	sparse  sparse
	usual   []uint64 // the row that most rows of the last page were, column by column; nil: not known
	tally   tally
	planner planner
	alt     []ladderPlan
	buf     []uint64
	fields  []uint64
	pos     []int32
}

// plan fills p for the first n rows of mids and columns (column-major).
func (e *pageEncoder) plan(p *pagePlan, mids []uint64, columns [][]uint64, n int) {
	e.begin(columns, n)
	e.numbers = e.numbers[:0]
	e.choose(p, mids, columns, n, nil)
}

// replan is plan for another number of rows of the page that the last plan was for. Where like is not nil it has the
// encodings that like has, which is of about as many rows: that takes a tenth of the time.
func (e *pageEncoder) replan(p *pagePlan, mids []uint64, columns [][]uint64, n int, like *pagePlan) {
	e.choose(p, mids, columns, n, like)
}

// begin takes the rows of another page up.
func (e *pageEncoder) begin(columns [][]uint64, n int) {
	if len(e.usual) != len(columns) {
		e.usual = e.usual[:0]
		for _, col := range columns {
			e.tally.count(col[:n])
			v, _ := e.tally.mode()
			e.usual = append(e.usual, v)
		}
	}
	e.sparse.begin(e.usual)
}

func (e *pageEncoder) choose(p *pagePlan, mids []uint64, columns [][]uint64, n int, like *pagePlan) {
	p.n = n
	p.mids = planMids(e.keys(mids[:n]))
	if e.grouped {
		p.mids.size++
	}
	e.sparse.take(columns, n)
	p.live, p.common = e.sparse.live, append(p.common[:0], e.sparse.common...)
	m := len(p.live)
	some := m > 0 && m < n
	p.column, p.ends, e.alt = p.column[:0], p.ends[:0], e.alt[:0]
	size, alt := 0, 0
	if some {
		alt = bitsetSize(n, m)
	}
	for c := range columns {
		t := &e.tally
		if some && (like == nil || like.presence) {
			e.sparse.tally(t, c, false)
			l := e.ladder(t, like, c)
			e.alt = append(e.alt, l)
			alt += uvarintLen(p.common[c]) + l.size
		}
		if !some || like == nil || !like.presence {
			e.sparse.tally(t, c, true)
			if like == nil {
				e.usual[c], _ = t.mode()
			}
			l := e.ladder(t, like, c)
			p.column = append(p.column, l)
			size += l.size
		}
		least, most := t.val[0], t.val[len(t.val)-1]
		if m < n {
			least, most = min(least, p.common[c]), max(most, p.common[c])
		}
		p.ends = append(p.ends, [2]uint64{least, most})
	}
	if p.presence = some && (len(p.column) == 0 || alt < size && len(e.alt) > 0); p.presence {
		size = alt
		p.column, e.alt = e.alt, p.column
	}
	p.size = pageHead + 2*e.cols + p.mids.size + size + pageTail
}

// ladder plans that of a column: as like has it, if it is one of the same kind.
func (e *pageEncoder) ladder(t *tally, like *pagePlan, c int) ladderPlan {
	if like == nil || like.presence && (len(e.sparse.live) == 0 || len(e.sparse.live) == e.sparse.n) {
		return e.planner.plan(t)
	}
	return like.column[c].resize(t)
}

// keys returns what the mids part has of mids: themselves, or their numbers, in scratch.
func (e *pageEncoder) keys(mids []uint64) []uint64 {
	if !e.grouped {
		return mids
	}
	for _, mid := range mids[min(len(e.numbers), len(mids)):] {
		e.numbers = append(e.numbers, slot.Number(mid))
	}
	return e.numbers[:len(mids)]
}

// gather returns the values of the given rows, in scratch.
func (e *pageEncoder) gather(col []uint64, rows []int32) []uint64 {
	e.buf = e.buf[:0]
	for _, i := range rows {
		e.buf = append(e.buf, col[i])
	}
	return e.buf
}

// appendPage appends the page that p plans, without its checksum (see sealPage). The result is p.size bytes longer
// than dst.
func (e *pageEncoder) appendPage(dst []byte, p *pagePlan, mids []uint64, columns [][]uint64) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, pageHead+2*e.cols)...)
	binary.LittleEndian.PutUint16(dst[at+4:], uint16(p.n))
	dst = appendMids(dst, &p.mids, e.keys(mids[:p.n]), e.grouped, e.group, e.buf)
	if p.presence {
		binary.LittleEndian.PutUint16(dst[at+6:], uint16(len(dst)-at))
		dst = appendBitset(dst, p.n, p.live)
	}
	for c, col := range columns {
		binary.LittleEndian.PutUint16(dst[at+pageHead+2*c:], uint16(len(dst)-at))
		if p.presence {
			dst = binary.AppendUvarint(dst, p.common[c])
			e.gather(col, p.live)
		} else {
			e.buf = append(e.buf[:0], col[:p.n]...)
		}
		dst, e.pos, e.fields = appendLadder(dst, &p.column[c], e.buf, e.pos, e.fields)
	}
	return append(dst, make([]byte, pageTail)...)
}

// sealPage sets the checksum of page, whose padding is in place.
func sealPage(page []byte, seed uint32) {
	binary.LittleEndian.PutUint32(page, crc32.Update(seed, castagnoli, page[4:]))
}

// pageView reads a page in place.
//
// Any bytes are safe to read: each accessor checks what it takes and names the part that is damaged. After
// the checksum held that can only be a fault of a writer.
type pageView struct {
	b        []byte
	end      int // end of the parts: len(b) - pageTail
	cols     int
	n        int // rows
	presence int // offset of the presence part or 0
	mids     midsView
	set      bitset // the presence part
}

// Parts of a page, as CorruptError names them.
const (
	partChecksum = "page checksum"
	partCount    = "page row count"
	partMids     = "page mids part"
	partPresence = "page presence part"
	partColumn   = "page column part"
	partFirst    = "page first mid"
)

// parse reads the directory, the mids part and the presence part. It returns the name of the damaged part, or "".
func (v *pageView) parse(b []byte, cols int) string {
	v.b, v.end, v.cols = b, len(b)-pageTail, cols
	if v.end < pageHead+2*cols {
		return partCount
	}
	v.n = int(binary.LittleEndian.Uint16(b[4:]))
	v.presence = int(binary.LittleEndian.Uint16(b[6:]))
	if v.n < 1 || v.n > maxPageItems {
		return partCount
	}
	c := cutter{b: b, pos: pageHead + 2*cols, end: v.end}
	if v.mids.parse(&c, v.n); c.bad {
		return partMids
	}
	if v.presence == 0 {
		return ""
	}
	c = cutter{b: b, pos: v.presence, end: v.end}
	if v.set.parse(&c, v.n); c.bad {
		return partPresence
	}
	return ""
}

// live is how many rows have values in the column parts.
func (v *pageView) live() int {
	if v.presence != 0 {
		return int(v.set.m)
	}
	return v.n
}

// part returns the part of a column.
func (v *pageView) part(col int) cutter { return pagePart(v.b, col) }

// pagePart returns the part of a column of page b, which was parsed.
func pagePart(b []byte, col int) cutter {
	return cutter{b: b, pos: int(binary.LittleEndian.Uint16(b[pageHead+2*col:])), end: len(b) - pageTail}
}

// get looks mid up and stores the values of the given columns (nil: all) in dst.
func (v *pageView) get(mid uint64, cols []int, dst []uint64) (found bool, bad string) {
	i, found := v.mids.search(v.b, mid)
	if !found || i >= v.n {
		return false, ""
	}
	n, live := v.n, true
	if v.presence != 0 {
		i, live = v.set.rank(v.b, i)
		if n = int(v.set.m); live && i >= n {
			return false, partPresence
		}
	}
	if cols == nil {
		for c := range v.cols {
			if !v.value(c, n, i, live, &dst[c]) {
				return false, partColumn
			}
		}
		return true, ""
	}
	for k, c := range cols {
		if !v.value(c, n, i, live, &dst[k]) {
			return false, partColumn
		}
	}
	return true, ""
}

// value reads value i of the n that column col stores, or the common one if not live.
func (v *pageView) value(col, n, i int, live bool, dst *uint64) bool {
	c := v.part(col)
	if v.presence != 0 {
		common := c.uvarint()
		if !live {
			*dst = common
			return !c.bad
		}
	}
	*dst = ladderGet(&c, n, i)
	return !c.bad
}

// pageCursor walks the rows of a page in order. Its memory is reused from page to page.
type pageCursor struct {
	view   pageView
	i      int
	mids   midsCursor
	setCur bitsetCursor
	common []uint64
	column []ladderCursor
}

// init parses the whole page. It returns the name of the damaged part, or "".
func (pc *pageCursor) init(b []byte, cols int) string {
	v := &pc.view
	if bad := v.parse(b, cols); bad != "" {
		return bad
	}
	pc.i = 0
	pc.mids.init(&v.mids, b)
	if v.presence != 0 {
		pc.setCur.init(&v.set, b)
	}
	if cap(pc.column) < cols {
		pc.column, pc.common = make([]ladderCursor, cols), make([]uint64, cols)
	}
	pc.column, pc.common = pc.column[:cols], pc.common[:cols]
	for k := range cols {
		c := v.part(k)
		if v.presence != 0 {
			pc.common[k] = c.uvarint()
		}
		if pc.column[k].init(&c, v.live()); c.bad {
			return partColumn
		}
	}
	return ""
}

// next stores the next row in vals, one value for each column. ok is false behind the last row; bad names a damaged
// part.
func (pc *pageCursor) next(vals []uint64) (mid uint64, ok bool, bad string) {
	if pc.i >= pc.view.n {
		return 0, false, ""
	}
	pc.i++
	if mid, ok = pc.mids.next(); !ok {
		return 0, false, partMids
	}
	if pc.view.presence != 0 && !pc.setCur.step() {
		copy(vals, pc.common)
		return mid, true, ""
	}
	for k := range pc.column {
		if vals[k], ok = pc.column[k].next(pc.view.b); !ok {
			return 0, false, partColumn
		}
	}
	return mid, true, ""
}
