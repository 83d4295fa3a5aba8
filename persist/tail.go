package persist

import (
	"time"

	"github.com/counterd/counterd/persist/format"
)

const (
	// chunkLen is the size of a piece of the tail, and with it the largest frame of small records. Large
	// enough that a frame's 36 bytes vanish under load. The first chunks are smaller: an idle log costs nothing.
	chunkLen      = 256 << 10
	firstChunkLen = 4 << 10

	// maxFreeChunks are kept for reuse: what one sync at full load frees. An idle log gives them back (tick).
	maxFreeChunks = syncAtBytes / chunkLen
)

// chunk holds consecutive bytes of the log.
type chunk struct {
	start uint64 // log offset of buf[0]
	buf   []byte // len: bytes appended; never grows past its first capacity
}

func (c *chunk) end() uint64 { return c.start + uint64(len(c.buf)) }

// tail is the end of the log that lives in memory: every byte from the durable offset to the position, so that it can
// be written again elsewhere when the disk fails. NOT safe for concurrent use: Log.mu guards it.
//
//	 durable           sealed        position
//	    |  sealed frames  |  open frame  |
//	[ chunk    ][ chunk    ][ chunk          (room) ]
//
// Invariants: durable <= sealed <= position. Sealed frames are final: header and checksum are in place, and the bytes
// are read without the lock. The open frame, if there is one, is in the last chunk, behind sealed. No frame
// crosses a chunk's end. While held is set the open frame stays open, and is moved to a larger chunk when it grows; it
// holds nothing from before.
type tail struct {
	chunks  []*chunk // consecutive, oldest first, never empty
	free    [][]byte // of chunkLen, for reuse
	durable uint64
	sealed  uint64
	epoch   uint32
	held    bool // see Log.HoldFrame
	now     func() time.Time
}

// init empties the tail and sets it to an offset.
func (t *tail) init(pos uint64, epoch uint32, now func() time.Time) {
	*t = tail{durable: pos, sealed: pos, epoch: epoch, now: now}
	t.chunks = append(t.chunks, &chunk{start: pos})
}

// resume empties the tail, sets it to an offset, and appends pieces of whole frames that are not durable.
func (t *tail) resume(pos uint64, pieces [][]byte) {
	t.init(pos, t.epoch, t.now)
	for _, p := range pieces {
		t.chunks = append(t.chunks, &chunk{start: t.sealed, buf: p})
		t.sealed += uint64(len(p))
	}
}

func (t *tail) last() *chunk { return t.chunks[len(t.chunks)-1] }

// position returns the offset behind the last byte appended.
func (t *tail) position() uint64 { return t.last().end() }

// room returns the last chunk with an open frame and space for n more bytes of records.
func (t *tail) room(n int) *chunk {
	c := t.chunks[len(t.chunks)-1]
	if c.end() > t.sealed && cap(c.buf)-len(c.buf) >= n {
		return c
	}
	return t.roomSlow(n)
}

func (t *tail) roomSlow(n int) *chunk {
	c := t.last()
	if cap(c.buf)-len(c.buf) < n+format.FrameHeaderLen {
		if open := int(c.end() - t.sealed); t.held && open > 0 && open+n <= format.FrameHeaderLen+format.MaxFramePayload {
			return t.stretch(n)
		}
		t.sealOpen() // also while held: there are no larger frames
		c = t.grow(n + format.FrameHeaderLen)
	}
	if c.end() == t.sealed {
		c.buf = c.buf[:len(c.buf)+format.FrameHeaderLen] // written by seal
	}
	return c
}

// grow adds a chunk with space for n bytes.
func (t *tail) grow(n int) *chunk {
	last := t.last()
	size := max(min(2*cap(last.buf), chunkLen), firstChunkLen, n)
	c := &chunk{start: last.end()}
	if free := len(t.free) - 1; free >= 0 && size == chunkLen {
		c.buf, t.free = t.free[free], t.free[:free]
	} else {
		c.buf = make([]byte, 0, size)
	}
	t.chunks = append(t.chunks, c)
	t.release(t.durable) // the chunk before may have been durable but for being the last
	return c
}

// stretch moves the open frame, which nobody else reads, to a chunk of its own with space for n more bytes.
func (t *tail) stretch(n int) *chunk {
	c := t.last()
	open := c.buf[t.sealed-c.start:]
	size := max(min(2*len(open), format.FrameHeaderLen+format.MaxFramePayload), len(open)+n)
	larger := &chunk{start: t.sealed, buf: append(make([]byte, 0, size), open...)}
	if c.buf = c.buf[:t.sealed-c.start]; len(c.buf) == 0 {
		t.chunks[len(t.chunks)-1] = larger
	} else {
		t.chunks = append(t.chunks, larger)
	}
	return larger
}

// hold keeps what is appended from now on in a frame of its own, until it is let go.
func (t *tail) holdFrame() {
	t.sealOpen()
	t.held = true
}

func (t *tail) releaseFrame() {
	t.sealOpen()
	t.held = false
}

// seal closes the open frame, if there is one and it is not held.
func (t *tail) seal() {
	if !t.held {
		t.sealOpen()
	}
}

func (t *tail) sealOpen() {
	c := t.last()
	if c.end() == t.sealed {
		return
	}
	raw := c.buf[t.sealed-c.start:]
	format.PutFrameHeader(raw, t.held, t.sealed, t.durable, t.now().UnixMilli(), t.epoch)
	t.sealed = c.end()
}

// slices appends to dst the bytes of the log from one offset to another. REQUIRES: durable <= from <= to <= sealed.
func (t *tail) slices(dst [][]byte, from, to uint64) [][]byte {
	for _, c := range t.chunks {
		if lo, hi := max(from, c.start), min(to, c.end()); lo < hi {
			dst = append(dst, c.buf[lo-c.start:hi-c.start:hi-c.start])
		}
	}
	return dst
}

// release forgets the bytes below durable. REQUIRES: all reads of them have ended.
func (t *tail) release(durable uint64) {
	t.durable = durable
	n := 0
	for n < len(t.chunks)-1 && t.chunks[n].end() <= durable {
		if c := t.chunks[n]; cap(c.buf) == chunkLen && len(t.free) < maxFreeChunks {
			t.free = append(t.free, c.buf[:0])
		}
		n++
	}
	if n > 0 {
		m := copy(t.chunks, t.chunks[n:])
		clear(t.chunks[m:])
		t.chunks = t.chunks[:m]
	}
}
