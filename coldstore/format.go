package coldstore

import (
	"encoding/binary"

	"github.com/counterd/counterd/coldstore/page"
)

// A file, all integers little-endian:
//
//	+--------+--------+- ... -+--------+-------+--------+--------+
//	| header | page 0 | page 1 ... last | index | bounds | footer |
//	+--------+--------+- ... -+--------+-------+--------+--------+
//	0        |        P       2P                                 size
//
// Page 0 begins behind the header, page i at i*P, each ends where the next begins, the last one ends where the
// index begins. So no page crosses a multiple of P: a point read takes one disk read of one 4 KiB block if P is
// 4096.
//
// Header, 48 + 11 bytes a column:
//
//	 0 magic "ctrcold\n"        8
//	 8 version u16              2   2, or 3 where all mids are of one group of hash slots
//	10 columns u16              2   1..255
//	12 page size log2 u8        1   12..16
//	13 group u8                 1   0 in version 2
//	14 zeros                    2
//	16 counter u32              4
//	20 lo u64                   8
//	28 hi u64                   8
//	36 log offset u64           8
//	44 columns x | id u16 | max u8 | default u64 |
//	.. crc32c u32               4   of all bytes before
//
// Index: first mid u64 of each page. Bounds: see bounds.go. crc32c of both in the footer.
//
// Footer, 64 bytes:
//
//	 0 items u64                8
//	 8 pages u32                4
//	12 header crc32c u32        4   the same as in the header: header and footer are of one file
//	16 index offset u64         8
//	24 file size u64            8
//	32 first mid u64            8
//	40 last mid u64             8
//	48 index crc32c u32         4   of all bytes of index and bounds
//	52 crc32c u32               4   of bytes 0..51 of the footer
//	56 magic "ctrcend\n"        8
//
// A change of meaning of any byte needs a new version. A newer version keeps the
// first 12 bytes of the header, and its length with the crc32c at its end: only a whole header may claim a version, a
// damaged one must not pass for a newer one.
const (
	headerMagic = "ctrcold\n"
	footerMagic = "ctrcend\n"
	version     = 3
	versionAll  = 2 // of a file of mids of all groups

	headerFixed = 48 // with its checksum
	columnSize  = 11
	footerSize  = 64
)

func headerSize(cols int) int { return headerFixed + cols*columnSize }

func appendHeader(dst []byte, m *Meta, pageShift int) []byte {
	at := len(dst)
	le := binary.LittleEndian
	dst = append(dst, headerMagic...)
	v := uint16(versionAll)
	if m.OneGroup {
		v = version
	}
	dst = le.AppendUint16(dst, v)
	dst = le.AppendUint16(dst, uint16(len(m.Columns)))
	dst = append(dst, byte(pageShift), m.Group, 0, 0)
	dst = le.AppendUint32(dst, m.Counter)
	dst = le.AppendUint64(dst, m.Lo)
	dst = le.AppendUint64(dst, m.Hi)
	dst = le.AppendUint64(dst, m.Offset)
	for _, c := range m.Columns {
		dst = le.AppendUint16(dst, c.ID)
		dst = append(dst, c.Max)
		dst = le.AppendUint64(dst, c.Default)
	}
	return le.AppendUint32(dst, page.Checksum(dst[at:]))
}

// header is a decoded header.
type header struct {
	version   uint16
	meta      Meta
	pageShift int
	crc       uint32
}

// headerColumns returns the number of columns that the first headerFixed bytes of a file announce: all a reader needs
// to know how long the header is. The fields are trusted after parseHeader only.
func headerColumns(b []byte) (int, *CorruptError) {
	le := binary.LittleEndian
	if got, want := le.Uint64(b), le.Uint64([]byte(headerMagic)); got != want {
		return 0, &CorruptError{Offset: 0, Part: "header magic", Want: want, Got: got}
	}
	n := int(le.Uint16(b[10:]))
	if n < 1 || n > MaxColumns {
		return 0, &CorruptError{Offset: 10, Part: "number of columns", Want: MaxColumns, Got: uint64(n)}
	}
	return n, nil
}

// otherVersion tells whether b, all bytes of a header, is whole and of a version that this program does not read, and
// of which.
func otherVersion(b []byte) (v uint16, other bool) {
	le := binary.LittleEndian
	body := len(b) - 4
	v = le.Uint16(b[8:])
	return v, (v < versionAll || v > version) && page.Checksum(b[:body]) == le.Uint32(b[body:])
}

// parseHeader decodes b, all bytes of a header of cols columns and a version up to this.
func parseHeader(b []byte, cols int) (h header, bad *CorruptError) {
	le := binary.LittleEndian
	body := len(b) - 4
	h.crc = le.Uint32(b[body:])
	if sum := page.Checksum(b[:body]); sum != h.crc {
		return h, &CorruptError{Offset: int64(body), Part: "header checksum", Want: uint64(sum), Got: uint64(h.crc)}
	}
	h.version, h.pageShift = le.Uint16(b[8:]), int(b[12])
	if h.pageShift < page.MinShift || h.pageShift > page.MaxShift {
		return h, &CorruptError{Offset: 12, Part: "page size (log2)", Want: page.MinShift, Got: uint64(h.pageShift)}
	}
	if b[14]|b[15] != 0 || b[13] != 0 && h.version <= versionAll {
		return h, &CorruptError{Offset: 13, Part: "header zeros", Want: 0, Got: uint64(b[13] | b[14] | b[15])}
	}
	h.meta = Meta{Counter: le.Uint32(b[16:]), Lo: le.Uint64(b[20:]), Hi: le.Uint64(b[28:]), Offset: le.Uint64(b[36:]),
		OneGroup: h.version > versionAll, Group: b[13]}
	h.meta.Columns = make([]Column, cols)
	for i := range h.meta.Columns {
		p := b[headerFixed-4+i*columnSize:]
		h.meta.Columns[i] = Column{ID: le.Uint16(p), Max: p[2], Default: le.Uint64(p[3:])}
	}
	if h.meta.validate() != nil {
		return h, &CorruptError{Offset: 20, Part: "header range or column", Want: h.meta.Hi, Got: h.meta.Lo}
	}
	return h, nil
}

// footer is a decoded footer.
type footer struct {
	items       uint64
	pages       int
	headerCRC   uint32
	indexOffset int64
	size        int64
	first, last uint64
	indexCRC    uint32
}

// Checksum is that of the footer's fields.
func (f *footer) checksum() uint32 { return page.Checksum(appendFooter(nil, f)[:footerSize-12]) }

func appendFooter(dst []byte, f *footer) []byte {
	at := len(dst)
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, f.items)
	dst = le.AppendUint32(dst, uint32(f.pages))
	dst = le.AppendUint32(dst, f.headerCRC)
	dst = le.AppendUint64(dst, uint64(f.indexOffset))
	dst = le.AppendUint64(dst, uint64(f.size))
	dst = le.AppendUint64(dst, f.first)
	dst = le.AppendUint64(dst, f.last)
	dst = le.AppendUint32(dst, f.indexCRC)
	dst = le.AppendUint32(dst, page.Checksum(dst[at:]))
	return append(dst, footerMagic...)
}

// parseFooter decodes and checks the last footerSize bytes of a file of size bytes with header h.
func parseFooter(b []byte, size int64, h *header) (f footer, bad *CorruptError) {
	le := binary.LittleEndian
	at := size - footerSize
	fail := func(off int64, part string, want, got uint64) (footer, *CorruptError) {
		return footer{}, &CorruptError{Offset: at + off, Part: part, Want: want, Got: got}
	}
	if got, want := le.Uint64(b[56:]), le.Uint64([]byte(footerMagic)); got != want {
		return fail(56, "footer magic", want, got)
	}
	if got, want := le.Uint32(b[52:]), page.Checksum(b[:52]); got != want {
		return fail(52, "footer checksum", uint64(want), uint64(got))
	}
	f = footer{
		items: le.Uint64(b), pages: int(le.Uint32(b[8:])), headerCRC: le.Uint32(b[12:]),
		first: le.Uint64(b[32:]), last: le.Uint64(b[40:]), indexCRC: le.Uint32(b[48:]),
	}
	if f.headerCRC != h.crc {
		return fail(12, "header checksum in the footer", uint64(h.crc), uint64(f.headerCRC))
	}
	if got := le.Uint64(b[24:]); got != uint64(size) {
		return fail(24, "file size", uint64(size), got)
	}
	f.size = size
	// The pages determine where the index lies and how big it is; the bounds must fill the rest exactly.
	indexOffset := le.Uint64(b[16:])
	head := int64(headerSize(len(h.meta.Columns)))
	want := uint64(size - footerSize - 8*int64(f.pages))
	if indexOffset > want || want > uint64(size) {
		return fail(16, "index offset", want, indexOffset)
	}
	f.indexOffset = int64(indexOffset)
	switch p := int64(f.pages); {
	case p == 0 && (f.indexOffset != head || f.items != 0):
		return fail(8, "number of pages", 1, 0)
	case p == 1 && (f.indexOffset <= head || f.indexOffset > 1<<h.pageShift),
		p > 1 && (f.indexOffset <= (p-1)<<h.pageShift || f.indexOffset > p<<h.pageShift):
		return fail(8, "number of pages", uint64(f.indexOffset)>>h.pageShift, uint64(p))
	}
	if f.items < uint64(f.pages) || f.items > uint64(f.pages)*page.MaxItems {
		return fail(0, "number of items", uint64(f.pages)*page.MaxItems, f.items)
	}
	return f, nil
}

// parseIndex decodes the index, which b begins with, and checks it against header and footer. The rest of b are the
// bounds.
func parseIndex(b []byte, h *header, f *footer) (index []uint64, rest []byte, bad *CorruptError) {
	if sum := page.Checksum(b); sum != f.indexCRC {
		return nil, nil, &CorruptError{Offset: f.indexOffset, Part: "index checksum", Want: uint64(f.indexCRC), Got: uint64(sum)}
	}
	index = make([]uint64, f.pages)
	least := h.meta.Lo
	for i := range index {
		x := binary.LittleEndian.Uint64(b[8*i:])
		if x < least || x >= h.meta.Hi {
			return nil, nil, &CorruptError{Offset: f.indexOffset + int64(8*i), Part: "index order", Want: least, Got: x}
		}
		index[i], least = x, x+1
	}
	if n := len(index); n > 0 && (index[0] != f.first || index[n-1] > f.last || f.last >= h.meta.Hi) {
		return nil, nil, &CorruptError{Offset: f.size - footerSize + 32, Part: "first or last mid in the footer", Want: index[0], Got: f.first}
	}
	return index, b[8*f.pages:], nil
}
