package producers

import (
	"unsafe"

	"github.com/counterd/counterd/persist/format"
)

// producer is the state of one.
type producer struct {
	id    string
	epoch uint64
	base  uint64 // that the log's seqs of it are relative to
	from  uint64 // seqs below that are not in the ring are expired: 1 above the highest that fell out of it
	used  int64  // s since 1970, of the last use
	// logged is the log offset behind its last record; 0: that was replayed.
	logged uint64

	ring  ring
	blobs []byte // of the entries, and of some that are gone
	live  int    // bytes of it that entries have

	// Neighbours in the list by last use, as numbers; see Table.
	older, newer uint32
}

// fixedCost is the memory of a producer besides ring and blobs: the struct, its id, the entries of map and places.
const fixedCost = int64(unsafe.Sizeof(producer{})) + format.MaxProducerID + 64

// cost is the bytes that the producer is charged with.
func (p *producer) cost() int64 {
	return fixedCost + int64(len(p.ring.buf)*entrySize) + bufferCost(cap(p.blobs))
}

// bufferCost is that of a buffer: the allocator rounds sizes up by an eighth at most.
func bufferCost(n int) int64 { return int64(n + n/8) }

// growth is by how much cost rises with one more entry whose blob has size bytes. It may be negative.
func (p *producer) growth(size int) int64 {
	return int64((p.ring.grown()-len(p.ring.buf))*entrySize) + bufferCost(p.room(size)) - bufferCost(cap(p.blobs))
}

// room is the capacity of the buffer with one more blob: as it is, or, when it has to be made anew, one and a half times the
// live bytes.
func (p *producer) room(size int) int {
	if size <= cap(p.blobs)-len(p.blobs) {
		return cap(p.blobs)
	}
	need := p.live + size
	return (need + need/2 + 63) &^ 63
}

// expired tells whether a seq that is not in the ring, where find says i, is older than the window. A full ring would drop
// an entry below its lowest.
func (p *producer) expired(i uint32, seq uint64) bool {
	return seq < p.from || i == 0 && p.ring.n == Window
}

// lowest is the lowest seq that is taken.
func (p *producer) lowest() uint64 {
	if p.ring.n == Window {
		return p.ring.at(0).seq + 1 // no overflow: there are higher ones
	}
	return p.from
}

// result is that of an entry.
func (p *producer) result(e *entry) format.Result {
	r := format.Result{Kind: e.kind(), N: e.value}
	if r.Kind == format.ResultBlob {
		r.N, r.Blob = 0, p.blob(e)
	}
	return r
}

// blob is that of an entry that has one.
func (p *producer) blob(e *entry) []byte {
	end := e.value + uint64(e.size)
	return p.blobs[e.value:end:end]
}

// put stores a result for seq, which find placed at i; found: in place of the present entry.
func (p *producer) put(i uint32, found bool, seq uint64, meta uint32, r format.Result) {
	e := entry{seq: seq, meta: meta}
	if r.Kind == format.ResultInt || r.Kind == format.ResultBulk {
		e.value = r.N
	}
	if found {
		p.drop(*p.ring.at(i))
		p.ring.at(i).size = 0
	}
	if len(r.Blob) > 0 { // an empty blob is nowhere: the old one may go
		e.value, e.size = uint64(p.addBlob(r.Blob)), uint32(len(r.Blob))
	}
	if found {
		*p.ring.at(i) = e
		return
	}
	if dropped, full := p.ring.insert(i, e); full {
		p.from = max(p.from, dropped.seq+1) // no overflow: there is a higher one
		p.drop(dropped)
	}
}

// drop takes an entry's blob out of the count.
func (p *producer) drop(e entry) {
	if e.size == 0 {
		return
	}
	if p.live -= int(e.size); p.live == 0 {
		if p.blobs = p.blobs[:0]; cap(p.blobs) > maxIdleBlobs {
			p.blobs = nil
		}
	}
}

// maxIdleBlobs is the largest buffer that is kept without a blob in it.
const maxIdleBlobs = 1 << 10

// addBlob returns where it put b. Blobs of entries that are gone make room for it.
func (p *producer) addBlob(b []byte) int {
	if room := p.room(len(b)); room != cap(p.blobs) || len(b) > room-len(p.blobs) {
		packed := make([]byte, 0, room)
		for i := range p.ring.n {
			if e := p.ring.at(i); e.size > 0 {
				at := len(packed)
				packed = append(packed, p.blob(e)...)
				e.value = uint64(at)
			}
		}
		p.blobs = packed
	}
	at := len(p.blobs)
	p.blobs = append(p.blobs, b...)
	p.live += len(b)
	return at
}
