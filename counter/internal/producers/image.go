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
//	     | ver | 0 | producers | producer  | ... | producer           |
//	     |     |   | v         |           |     |                    |
//	     +-----+---+-----------+-----------+-----+--------------------+
//
//	producer   number v | id length v | id | epoch v | base v | from v | used v | entries v | entry ... | spans v | span ...
//	entry      seq v | meta u32 | value v | of a blob: bytes
//	span       block v | blocks v | of one block: bits u64
//
// v is a varint, u32 and u64 are little-endian. Producers stand in order of last use, oldest first, their entries ascend by seq. The seq
// of the first entry is less from, all others less the one before and 1. meta is argument hash << 11 | result kind << 8 |
// slot group; value is the result's N, or the length of its blob. used is in seconds since 1970. Spans are seqs without results, in
// blocks of 64: see made. The first block is less from/64, all others less the end of the span before.
//
// Version 1 has no spans, and numbers below 16,384. It is written as long as that says everything, so that programs that know no more
// can read it.
const (
	imageVersion  = 2
	version1Seats = 1 << 14
)

// ErrBadImage is returned for bytes that are no image.
var ErrBadImage = errors.New("producers: bad image")

// ErrNewerImage is returned for an image of a later version.
var ErrNewerImage = errors.New("producers: image of a newer version")

func corrupt(fault string, args ...any) error {
	return fmt.Errorf("producers: "+fault+": %w", append(args, format.ErrCorrupt)...)
}

const (
	maxProducerImage = 3 + 1 + format.MaxProducerID + 4*10 + 2 + 2 // without entries and spans
	maxEntryImage    = 10 + 4 + 10                                 // without a blob
	maxSpanImage     = 10 + 1 + 8
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
	return maxProducerImage + int64(p.ring.n)*maxEntryImage + int64(len(p.made.spans))*maxSpanImage + int64(p.live)
}

// version is the lowest that says everything.
func (t *Table) version() byte {
	for number, p := range t.places {
		if p != nil && (number >= version1Seats || p.made.count > 0) {
			return imageVersion
		}
	}
	return 1
}

// AppendImage appends the image of t to dst. Equal tables have equal images.
func (t *Table) AppendImage(dst []byte) []byte {
	version := t.version()
	dst = append(dst, version, 0)
	dst = binary.AppendUvarint(dst, uint64(len(t.byID)))
	for number := t.oldest; number != none; number = t.places[number].newer {
		p := t.places[number]
		dst = slices.Grow(dst, int(p.imageBytes()))
		dst = p.appendImage(binary.AppendUvarint(dst, uint64(number)))
		if version > 1 {
			dst = p.made.appendImage(dst, p.from)
		}
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

func (m *made) appendImage(dst []byte, from uint64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(m.spans)))
	end := from / blockSeqs
	for _, s := range m.spans {
		dst = binary.AppendUvarint(dst, s.block()-end)
		dst = binary.AppendUvarint(dst, s.blocks())
		if s.blocks() == 1 {
			dst = binary.LittleEndian.AppendUint64(dst, s.bits)
		}
		end = s.end()
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
		return nil, fmt.Errorf("%w: got version %d.%d, want 1.0 to %d.0", ErrBadImage, image[0], image[1], imageVersion)
	}
	d := decoder{b: image[2:], size: len(image), version: image[0]}
	t := New(l)
	count := d.uvarint("number of producers", d.seats())
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
	b       []byte
	size    int
	version byte
	err     error
}

// seats is how many numbers of producers there are.
func (d *decoder) seats() uint64 {
	if d.version == 1 {
		return version1Seats
	}
	return MaxPlaces
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
	number := uint32(d.uvarint("producer number", d.seats()-1))
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
	before := size{bytes: p.cost()}
	n := d.uvarint("number of entries", Window)
	for next, i := from, uint64(0); i < n && d.err == nil; i++ {
		less := d.uvarint("seq", most-next)
		if i > 0 && next == 0 {
			d.fail("a seq above the highest")
		}
		d.entry(p, next+less)
		next += less + 1
	}
	if d.version > 1 {
		d.made(p)
	}
	t.charge(p, before)
}

// made reads the seqs of a producer that have no results.
func (d *decoder) made(p *producer) {
	n := d.uvarint("number of spans", maxSpans)
	if d.err != nil || n == 0 {
		return
	}
	p.made.spans = make([]span, 0, n)
	const behind = 1 << (64 - blockShift) // the last block
	for block := p.from / blockSeqs; n > 0 && d.err == nil; n-- {
		block += d.uvarint("block", behind-1-min(block, behind-1))
		blocks, seqs := d.uvarint("number of blocks", maxBlocks), uint64(fullBlock)
		if blocks == 1 {
			if raw := d.bytes("seqs of a block", 8); raw != nil {
				seqs = binary.LittleEndian.Uint64(raw)
			}
		}
		if d.err == nil && (blocks == 0 || seqs == 0 || blocks > behind-min(block, behind)) {
			d.fail("a span of %d blocks at block %d, and seqs %x", blocks, block, seqs)
		}
		if d.err != nil {
			break
		}
		s := newSpan(block, blocks, seqs)
		p.made.spans, p.made.count = append(p.made.spans, s), p.made.count+s.seqs()
		block = s.end()
	}
	if d.err != nil {
		p.made = made{}
		return
	}
	if p.made.lowest() < p.from || p.made.count > maxMade {
		d.fail("%d seqs from %d on, want at most %d, from %d on", p.made.count, p.made.lowest(), maxMade, p.from)
	}
	for i := range p.ring.n {
		if seq := p.ring.seqAt(i); p.made.has(seq) {
			d.fail("seq %d with a result and without", seq)
		}
	}
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
