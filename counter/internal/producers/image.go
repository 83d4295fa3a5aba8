package producers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/counterd/counterd/persist/format"
)

// An image is a table as bytes. It carries no checksum: the file around it does.
//
//	byte 0     1
//	     +-----+---+-----------+-----------+-----+--------------------+
//	     | v 1 | 0 | producers | producer  | ... | producer           |
//	     |     |   | v         |           |     |                    |
//	     +-----+---+-----------+-----------+-----+--------------------+
//
//	producer   number v | id length v | id | epoch v | base v | from v | used v | entries v | entry ...
//	entry      seq v | meta u32 | value v | of a blob: bytes
//
// v is a varint, u32 little-endian. Producers stand in order of last use, oldest first, their entries ascend by seq. The seq
// of the first entry is less from, all others less the one before and 1. meta is argument hash << 11 | result kind << 8 |
// slot group; value is the result's N, or the length of its blob. used is in seconds since 1970.
const imageVersion = 1

// ErrBadImage is returned for bytes that are no image.
var ErrBadImage = errors.New("producers: bad image")

// ErrNewerImage is returned for an image of a later version.
var ErrNewerImage = errors.New("producers: image of a newer version")

func corrupt(fault string, args ...any) error {
	return fmt.Errorf("producers: "+fault+": %w", append(args, format.ErrCorrupt)...)
}

const (
	maxProducerImage = 2 + 1 + format.MaxProducerID + 4*10 + 2 // before its entries
	maxEntryImage    = 10 + 4 + 10                             // without a blob
)

// ImageBytes is an upper bound of the bytes that AppendImage appends.
func (t *Table) ImageBytes() int64 {
	n := int64(2 + binary.MaxVarintLen32)
	for _, p := range t.places {
		if p != nil {
			n += p.imageBytes()
		}
	}
	return n
}

func (p *producer) imageBytes() int64 {
	return maxProducerImage + int64(p.ring.n)*maxEntryImage + int64(p.live)
}

// AppendImage appends the image of t to dst. Equal tables have equal images.
func (t *Table) AppendImage(dst []byte) []byte {
	dst = append(dst, imageVersion, 0)
	dst = binary.AppendUvarint(dst, uint64(len(t.byID)))
	for number := t.oldest; number != none; number = t.places[number].newer {
		p := t.places[number]
		dst = slices.Grow(dst, int(p.imageBytes()))
		dst = p.appendImage(binary.AppendUvarint(dst, uint64(number)))
	}
	return dst
}

func (p *producer) appendImage(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p.id)))
	dst = append(dst, p.id...)
	for _, v := range []uint64{p.epoch, p.base, p.from, uint64(max(p.used, 0)), uint64(p.ring.n)} {
		dst = binary.AppendUvarint(dst, v)
	}
	next := p.from
	for i := range p.ring.n {
		e := p.ring.at(i)
		dst = binary.AppendUvarint(dst, e.seq-next)
		next = e.seq + 1
		dst = binary.LittleEndian.AppendUint32(dst, e.meta)
		if e.kind() == format.ResultBlob {
			dst = binary.AppendUvarint(dst, uint64(e.size))
			dst = append(dst, p.blob(e)...)
		} else {
			dst = binary.AppendUvarint(dst, e.value)
		}
	}
	return dst
}

// Load makes a table of an image. Limits are not asked. The error is ErrBadImage or ErrNewerImage.
func Load(image []byte, l Limits) (*Table, error) {
	if len(image) < 2 {
		return nil, fmt.Errorf("%w: got %d bytes, want at least 2", ErrBadImage, len(image))
	}
	if image[0] > imageVersion {
		return nil, fmt.Errorf("%w: got %d, want at most %d", ErrNewerImage, image[0], imageVersion)
	}
	if image[0] < 1 || image[1] != 0 {
		return nil, fmt.Errorf("%w: got version %d.%d, want %d", ErrBadImage, image[0], image[1], imageVersion)
	}
	d := decoder{b: image[2:], size: len(image)}
	t := New(l)
	count := d.uvarint("number of producers", MaxPlaces)
	for range count {
		d.producer(t)
		if d.err != nil {
			return nil, d.err
		}
	}
	if d.err == nil && len(d.b) > 0 {
		d.fail("%d bytes left over", len(d.b))
	}
	if d.err != nil {
		return nil, d.err
	}
	return t, nil
}

// decoder reads an image. After the first error everything it reads is 0.
type decoder struct {
	b    []byte
	size int
	err  error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: at byte %d of %d: "+format, append([]any{ErrBadImage, d.size - len(d.b), d.size}, args...)...)
		d.b = nil
	}
}

// uvarint reads a number of at most limit.
func (d *decoder) uvarint(what string, limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	switch {
	case d.err != nil:
		return 0
	case n <= 0:
		d.fail("no %s", what)
		return 0
	case v > limit:
		d.fail("%s %d, want at most %d", what, v, limit)
		return 0
	}
	d.b = d.b[n:]
	return v
}

// bytes reads n bytes, which refer to the image.
func (d *decoder) bytes(what string, n uint64) []byte {
	if d.err == nil && n > uint64(len(d.b)) {
		d.fail("%s of %d bytes, %d left", what, n, len(d.b))
	}
	if d.err != nil {
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

// producer reads one producer into t.
func (d *decoder) producer(t *Table) {
	number := uint32(d.uvarint("producer number", MaxPlaces-1))
	id := d.bytes("id", d.uvarint("length of an id", format.MaxProducerID))
	if d.err == nil && len(id) == 0 {
		d.fail("a producer without an id")
	}
	if _, ok := t.byID[string(id)]; ok {
		d.fail("two producers %q", id)
	}
	if t.at(number) != nil {
		d.fail("two producers with number %d", number)
	}
	if d.err != nil {
		return
	}
	const most = 1<<64 - 1
	epoch, base, from := d.uvarint("epoch", MaxEpoch), d.uvarint("base", most), d.uvarint("lowest seq", most)
	p := t.add(number, id, int64(d.uvarint("time", 1<<62)))
	p.epoch, p.base, p.from = epoch, base, from
	before := p.cost()
	n := d.uvarint("number of entries", Window)
	for next, i := from, uint64(0); i < n && d.err == nil; i++ {
		less := d.uvarint("seq", most-next)
		if i > 0 && next == 0 {
			d.fail("a seq above the highest")
		}
		d.entry(p, next+less)
		next += less + 1
	}
	t.bytes += p.cost() - before
}

// entry reads one entry of a producer, whose seq is above all others.
func (d *decoder) entry(p *producer, seq uint64) {
	raw := d.bytes("meta", 4)
	if raw == nil {
		return
	}
	e := entry{seq: seq, meta: binary.LittleEndian.Uint32(raw)}
	r := format.Result{Kind: e.kind()}
	if v := d.uvarint("value", 1<<64-1); r.Kind == format.ResultBlob {
		r.Blob = d.bytes("blob", v)
	} else {
		r.N = v
	}
	if !kept(r) {
		d.fail("a result of kind %d and %d bytes", r.Kind, len(r.Blob))
	}
	if d.err == nil {
		p.put(p.ring.n, false, seq, e.meta, r)
	}
}
