package coldstore

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/counterd/counterd/coldstore/page"
)

// Bounds say of each page, and of the file, between which values a column is, so that a scan with a condition need not
// read pages that cannot meet it. They stand behind the index:
//
//	+-----------+----------+-----------------+------------------+----------------+----------------+----
//	| least u64 | most u64 | low base, w: u8 | high base, w: u8 | low: pages x w | high: pages x w| next column
//	+-----------+----------+-----------------+------------------+----------------+----------------+----
//	least, most  of all rows of the file, exactly; 0 if there are none
//	low, high    fields of w bits, one a page: the code of its least (largest) value, less the base; filled up to a byte
//
// and behind the last column TailLen zeros.
//
// A code is a number of 8 bits that stands for a range of values: 0..15 for themselves, then four for each number of
// bits, so that a page's bounds are rounded outwards by a quarter at most. Real posts have a least value of 0 in nearly
// every page, which takes no bits, and largest values whose codes take 5 to 6: with three columns 0.0022 bytes a post,
// 0.1 % of a file of 64 Ki posts, half of them for the bounds of the file. 8 bytes each would take 0.025.
type bounds struct {
	least, most uint64
	low, high   codes
}

// codes are those of all pages.
type codes struct {
	base uint8
	w    uint8
	bit  int // of the first field, in the section
}

const exactCodes = 16 // values below are codes of their own

// codeOf returns the code whose range holds v.
func codeOf(v uint64) uint8 {
	if v < exactCodes {
		return uint8(v)
	}
	n := bits.Len64(v) // 5..64
	return uint8(exactCodes + (n-5)<<2 + int(v>>(n-3)&3))
}

// codeLow and codeHigh are the ends of a code's range.
func codeLow(c uint8) uint64 {
	if c < exactCodes {
		return uint64(c)
	}
	c -= exactCodes
	return uint64(4|c&3) << (c>>2 + 2)
}

func codeHigh(c uint8) uint64 {
	if c == math.MaxUint8 {
		return math.MaxUint64
	}
	return codeLow(c+1) - 1
}

// columnBounds gathers those of one column while a file is written.
type columnBounds struct {
	least, most uint64
	low, high   []uint8 // by page
}

// add notes the next page.
func (c *columnBounds) add(least, most uint64) {
	if len(c.low) == 0 {
		c.least = least
	}
	c.least, c.most = min(c.least, least), max(c.most, most)
	c.low, c.high = append(c.low, codeOf(least)), append(c.high, codeOf(most))
}

// appendBounds appends the section.
func appendBounds(dst []byte, columns []columnBounds) []byte {
	for i := range columns {
		c := &columns[i]
		dst = binary.LittleEndian.AppendUint64(dst, c.least)
		dst = binary.LittleEndian.AppendUint64(dst, c.most)
		low, high := planCodes(c.low), planCodes(c.high)
		w := page.BitWriter{Buf: append(dst, low.base, low.w, high.base, high.w)}
		for _, x := range c.low {
			w.Put(uint64(x-low.base), uint(low.w))
		}
		w.Flush()
		for _, x := range c.high {
			w.Put(uint64(x-high.base), uint(high.w))
		}
		dst = w.Flush()
	}
	return append(dst, make([]byte, page.TailLen)...)
}

func planCodes(v []uint8) codes {
	if len(v) == 0 {
		return codes{}
	}
	least, most := v[0], v[0]
	for _, x := range v {
		least, most = min(least, x), max(most, x)
	}
	return codes{base: least, w: uint8(bits.Len8(most - least))}
}

// parseBounds decodes the section of a file of so many pages. It returns false where b is not one.
func parseBounds(b []byte, cols, pages int) ([]bounds, bool) {
	if len(b) < page.TailLen {
		return nil, false
	}
	c := page.Cutter{B: b, End: len(b) - page.TailLen}
	all := make([]bounds, cols)
	for i := range all {
		x := &all[i]
		x.least, x.most = c.U64(), c.U64()
		x.low.base, x.low.w = uint8(c.U8()), uint8(c.U8())
		x.high.base, x.high.w = uint8(c.U8()), uint8(c.U8())
		if x.least > x.most || x.low.w > 8 || x.high.w > 8 {
			return nil, false
		}
		x.low.bit = 8 * c.Bits(pages, uint(x.low.w))
		x.high.bit = 8 * c.Bits(pages, uint(x.high.w))
	}
	return all, !c.Bad && c.Pos == c.End
}

// at returns the code of page i. b is the section.
func (c *codes) at(b []byte, i int) uint8 {
	return c.base + uint8(page.Load(b, c.bit+i*int(c.w), uint(c.w)))
}

// Bounds returns values that no row of the file is below, and above, in the column at position col.
func (f *File) Bounds(col int) (least, most uint64) {
	return f.bounds[col].least, f.bounds[col].most
}

// PageBounds is Bounds for the rows of page i. They are rounded outwards.
func (f *File) PageBounds(i, col int) (least, most uint64) {
	x := &f.bounds[col]
	return max(x.least, codeLow(x.low.at(f.codes, i))), min(x.most, codeHigh(x.high.at(f.codes, i)))
}
