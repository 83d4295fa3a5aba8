package producers

import (
	"slices"
	"unsafe"

	"github.com/counterd/counterd/persist/format"
)

// producer is the state of one.
type producer struct {
	id    string
	epoch uint64
	base  uint64 // that the log's seqs of it are relative to
	from  uint64 // seqs below have expired. One from here on was made if it is in ring or in made
	used  int64  // s since 1970, of the last use
	// logged is the log offset behind its last record; 0: that was replayed.
	logged uint64

	ring  ring   // seqs with results
	made  made   // seqs without
	blobs []byte // of the entries, and of some that are gone
	live  int    // bytes of it that entries have

	// Neighbours in the list by last use, as numbers; see Table.
	older, newer uint32
}

const (
	// Numbers are how many seqs of a producer are kept at least, those with results included.
	Numbers = 10_000
	// maxMade is how many there may be without results: a block goes at a time.
	maxMade = Numbers - Window + blockSeqs
	// maxSpans bounds the memory of seqs that are no runs to 8 KiB. One seq in three makes 470 spans of 10,000 seqs.
	maxSpans = 512
)

// fixedCost is the memory of a producer besides ring, made and blobs: the struct, its id, the entries of map and places.
const fixedCost = int64(unsafe.Sizeof(producer{})) + format.MaxProducerID + 64

// cost is the bytes that the producer is charged with.
func (p *producer) cost() int64 {
	return fixedCost + p.ring.cost() + p.made.cost() + bufferCost(cap(p.blobs))
}

// bufferCost is that of a buffer: the allocator rounds sizes up by an eighth at most.
func bufferCost(n int) int64 { return int64(n + n/8) }

// maxGrowth is more than cost rises by a series of requests without blobs, however many.
const maxGrowth = Window*wideWords*wordSize + (2*maxSpans+2)*spanSize

// growth is by how much cost rises with one more entry whose blob has size bytes. It may be negative. That a value makes the ring
// wide is not known before: it is charged when it does.
func (p *producer) growth(size int) (n int64) {
	if p.ring.n == Window {
		n = p.made.costWith() - p.made.cost()
	}
	if size == 0 && p.ring.room == Window { // the usual case
		return n
	}
	return n + p.ring.costWith(size > 0) - p.ring.cost() + bufferCost(p.room(size)) - bufferCost(cap(p.blobs))
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

// highest is the highest seq that was made; ok is false where none is remembered.
func (p *producer) highest() (seq uint64, ok bool) {
	if p.ring.n > 0 {
		seq, ok = p.ring.highest(), true
	}
	if p.made.count > 0 {
		seq, ok = max(seq, p.made.highest()), true
	}
	return seq, ok
}

// result is that of an entry.
func (p *producer) result(e entry) format.Result {
	r := format.Result{Kind: e.kind(), N: e.value}
	if r.Kind == format.ResultBlob {
		r.N, r.Blob = 0, p.blob(e)
	}
	return r
}

// blob is that of an entry that has one.
func (p *producer) blob(e entry) []byte {
	end := e.value + uint64(e.size)
	return p.blobs[e.value:end:end]
}

// put stores a result for seq, which find placed at i; found: in place of the present entry. REQUIRES: seq is not in made.
func (p *producer) put(i uint32, found bool, seq uint64, meta uint32, r format.Result) {
	if !found && i == 0 && p.ring.n == Window { // it came late: that it was made is kept, and not its result
		p.retire(seq)
		return
	}
	e := entry{seq: seq, meta: meta}
	if r.Kind == format.ResultInt || r.Kind == format.ResultBulk {
		e.value = r.N
	}
	if found {
		old := p.ring.at(i)
		p.drop(old)
		old.size = 0
		p.ring.set(i, old)
	}
	if len(r.Blob) > 0 { // an empty blob is nowhere: the old one may go
		e.value, e.size = uint64(p.addBlob(r.Blob)), uint32(len(r.Blob))
	}
	if found {
		p.ring.makeFit(&e)
		p.ring.set(i, e)
		return
	}
	if dropped, full := p.ring.insert(i, e); full {
		p.drop(dropped)
		p.retire(dropped.seq)
	}
}

// putSeries is put of the first of entries, whose seqs are above all others, as far as each takes the place of the lowest one in a narrow ring, and that
// one is in the block of the highest without a result. It returns how many these are.
func (p *producer) putSeries(entries []Entry) (n int) {
	r := &p.ring
	if r.n != Window || r.wide || len(p.made.spans) == 0 || len(p.made.spans) > maxSpans {
		return 0
	}
	words, head, base := r.words[:Window*narrowWords], r.head, r.base
	s := &p.made.spans[len(p.made.spans)-1]
	key, bits := s.key, s.bits
	most := int(maxMade) - int(p.made.count) // more, and the lowest have to go
	for n < min(len(entries), most) {
		e := &entries[n]
		w := words[head*narrowWords : head*narrowWords+narrowWords]
		lowest := base + uint64(w[0])
		with := bits | 1<<(lowest%blockSeqs)
		if e.Seq-base > lowWord || e.Value > lowWord || key != lowest/blockSeqs<<blockShift || with == bits || with == fullBlock {
			break
		}
		bits = with
		w[0], w[1], w[2] = uint32(e.Seq-base), uint32(e.Value), newMeta(e.Hash, format.ResultInt, e.Group)
		head = (head + 1) % Window
		n++
	}
	r.head, s.bits = head, bits
	p.made.count += uint32(n)
	return n
}

// retire keeps of a seq that it was made.
func (p *producer) retire(seq uint64) {
	p.made.add(seq)
	if from := p.made.excess(maxMade, maxSpans); from > 0 {
		p.forgetBelow(from)
	}
}

// forgetBelow lets all seqs below from expire.
func (p *producer) forgetBelow(from uint64) {
	if from <= p.from {
		return
	}
	p.from = from
	p.made.removeBelow(from)
	for p.ring.n > 0 && p.ring.seqAt(0) < from {
		p.drop(p.ring.removeLowest())
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
				p.ring.set(i, e)
			}
		}
		p.blobs = packed
	}
	at := len(p.blobs)
	p.blobs = append(p.blobs, b...)
	p.live += len(b)
	return at
}

// shrink gives back memory that is not needed.
func (p *producer) shrink() {
	p.ring.shrink()
	p.made.spans = slices.Clone(p.made.spans)
	if p.live == 0 {
		p.blobs = nil
	}
}

// size is the part of a producer in the totals of a table.
type size struct {
	bytes            int64
	results, numbers int
}

func (p *producer) size() size {
	return size{p.cost(), int(p.ring.n), int(p.ring.n) + int(p.made.count)}
}
