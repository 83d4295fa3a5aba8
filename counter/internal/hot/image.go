package hot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/counterd/counterd/schema"
)

// An image is a table as bytes: a header, the buckets as they lie in memory, the overflow entries. Reading it back is
// copying, not inserting. It carries no checksum: the file around it does.
//
//	byte 0    1     2       10      18         26         34          42       44
//	     +----+-----+-------+-------+----------+----------+-----------+--------+----------------+
//	     | v  |group| lo u64| hi u64| seed u64 | m u64    | items u64 | layout | layout         |
//	     |    |     |       |       |          |          |           | len u16| (schema's form)|
//	     +----+-----+-------+-------+----------+----------+-----------+--------+----------------+
//	     | buckets, m * (17+W) bytes          | entries u64 | key u64, value u64, ... |
//	     +------------------------------------+-------------+-------------------------+
//
// All numbers are little-endian, and so are the buckets on every machine. The version v says what the table's keys are:
// in version 2 mids, and the group is 0; in version 3 the numbers of mids in a group of hash slots.
const (
	imagePlain    = 2
	imageOneGroup = 3
	imageVersion  = 3
	imageFixed    = 44
)

// ErrBadImage is returned for bytes that are no image, or not one of a table that New could have made.
var ErrBadImage = errors.New("hot: bad block image")

// ErrUnsupportedImage is returned for an image of a version that this program does not read.
var ErrUnsupportedImage = errors.New("hot: block image of an unsupported version")

// AppendImage appends the image of t to dst.
func (t *Table) AppendImage(dst []byte) []byte {
	le := binary.LittleEndian
	buckets := int(t.geo.m) * int(t.items.stride)
	dst = slices.Grow(dst, imageFixed+schema.MaxLayoutSize+buckets+8+16*t.items.over.n)
	version := byte(imagePlain)
	if t.geo.oneGroup {
		version = imageOneGroup
	}
	dst = append(dst, version, t.geo.group)
	for _, v := range []uint64{t.lo, t.hi, t.geo.seed, t.geo.m, uint64(t.n)} {
		dst = le.AppendUint64(dst, v)
	}
	at := len(dst)
	dst = append(dst, 0, 0)
	dst = t.items.layout.AppendBinary(dst)
	le.PutUint16(dst[at:], uint16(len(dst)-at-2))
	dst = append(dst, t.data[:buckets]...)
	dst = le.AppendUint64(dst, uint64(t.items.over.n))
	for i := range t.items.over.capacity() {
		if k, v, used := t.items.over.at(i); used {
			dst = le.AppendUint64(le.AppendUint64(dst, k), v)
		}
	}
	return dst
}

// ImageSize is an upper bound of the bytes that AppendImage appends.
func (t *Table) ImageSize() int {
	return imageFixed + schema.MaxLayoutSize + int(t.geo.m)*int(t.items.stride) + 8 + 16*t.items.over.n
}

// Image is a decoded header and the parts behind it, not copied yet.
type Image struct {
	Config  Config
	items   int
	buckets []byte
	entries []byte
}

// DecodeImage checks the header and the sizes of an image. It refers to b.
func DecodeImage(b []byte) (*Image, error) {
	le := binary.LittleEndian
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrBadImage}, args...)...)
	}
	if len(b) < imageFixed {
		return nil, bad("got %d bytes, want at least %d", len(b), imageFixed)
	}
	if b[0] < imagePlain || b[0] > imageVersion {
		return nil, fmt.Errorf("%w: got %d, want %d to %d", ErrUnsupportedImage, b[0], imagePlain, imageVersion)
	}
	if b[1] != 0 && b[0] != imageOneGroup {
		return nil, bad("group %d in an image of version %d", b[1], b[0])
	}
	im := Image{Config: Config{OneGroup: b[0] == imageOneGroup, Group: b[1]}}
	c := &im.Config
	c.Lo, c.Hi, c.Seed = le.Uint64(b[2:]), le.Uint64(b[10:]), le.Uint64(b[18:])
	m, items := le.Uint64(b[26:]), le.Uint64(b[34:])
	if c.Lo >= c.Hi || c.Hi > EndMid || m < 1 || m > MaxBuckets || m != primeAtLeast(m) || items > m*slotsPerBucket {
		return nil, bad("range [%d,%d), %d buckets, %d items", c.Lo, c.Hi, m, items)
	}
	c.Buckets, im.items = int(m), int(items)
	n := int(le.Uint16(b[42:]))
	b = b[imageFixed:]
	if n > len(b) {
		return nil, bad("layout of %d bytes, %d left", n, len(b))
	}
	l, rest, err := schema.DecodeLayout(b[:n])
	if err != nil || len(rest) != 0 {
		return nil, bad("layout: %v, %d bytes left over", err, len(rest))
	}
	c.Layout = l
	b = b[n:]
	buckets := c.bucketBytes()
	if buckets+8 > len(b) {
		return nil, bad("got %d bytes of buckets, want %d", len(b), buckets+8)
	}
	im.buckets = b[:buckets]
	entries := le.Uint64(b[buckets:])
	im.entries = b[buckets+8:]
	if entries > uint64(len(im.entries)/16) || int(entries)*16 != len(im.entries) {
		return nil, bad("%d overflow entries in %d bytes", entries, len(im.entries))
	}
	if c.Hi != EndMid { // an open block is not re-packed for them
		c.Overflow = OverflowRoom(int(entries), c.Buckets)
	}
	return &im, nil
}

// Table makes a table of the image in mem, which must be as for New with im.Config. The image is checked as far as that
// costs little: the number of used lanes, their probe numbers, the keys of overflow entries. All else is left to the
// checksum.
func (im *Image) Table(mem []byte) (Table, error) {
	t := New(im.Config, mem)
	copy(t.data, im.buckets)
	for b := range t.geo.m {
		off := t.items.at(uint64(b))
		for s := uintptr(0); s < slotsPerBucket; s++ {
			l := load16(t.items.base, off+2*s)
			if l == 0 {
				continue
			}
			if uint(l&(1<<probeBits-1)) == 0 || uint(l&(1<<probeBits-1)) > uint(t.geo.probes) {
				return t, fmt.Errorf("%w: bucket %d: lane %#04x", ErrBadImage, b, l)
			}
			t.n++
		}
	}
	if t.n != im.items {
		return t, fmt.Errorf("%w: got %d used lanes, want %d", ErrBadImage, t.n, im.items)
	}
	t.items.over.reserve(len(im.entries) / 16)
	limit := uint64(t.Slots()) * uint64(t.items.count)
	for e := im.entries; len(e) > 0; e = e[16:] {
		k, v := binary.LittleEndian.Uint64(e), binary.LittleEndian.Uint64(e[8:])
		if k >= limit || v > t.Limit(int(k%uint64(t.items.count))) {
			return t, fmt.Errorf("%w: overflow entry %d = %d", ErrBadImage, k, v)
		}
		t.items.over.set(k, v)
	}
	return t, nil
}
