package resp

// Memory is the working memory of a Reader: its buffer and its lists of arguments. A Reader that has nothing buffered
// can do without, so connections that wait share the Memory of those that are at work. The zero value is ready.
type Memory struct {
	buf   []byte
	spans []span
	args  [][]byte
}

// NewMemory returns a Memory with a buffer of size bytes, at least MinBuffer.
func NewMemory(size int) Memory { return Memory{buf: make([]byte, max(size, MinBuffer))} }

// Size is the number of bytes of the buffer.
func (m *Memory) Size() int { return len(m.buf) }

// Held is the number of bytes of the Reader's memory.
func (r *Reader) Held() int { return len(r.buf) + 8*cap(r.spans) + 24*cap(r.args) + r.aside.held() }

// Shrink gives memory back that a large command took: a buffer above MaxRetained is dropped, or exchanged for one of
// MaxRetained when half of that holds the buffered bytes. It does nothing to a Reader of ordinary size, so it may be
// called after every batch, but then a client of large commands allocates for each of them: once a second is better. It
// ends the validity of all arguments returned before.
func (r *Reader) Shrink() {
	r.endBatch(maxBatchArgs)
	if len(r.buf) <= MaxRetained {
		return
	}
	switch used := r.end - r.start; {
	case used == 0:
		var m Memory
		r.Release(&m)
		giveBuffer(m.buf)
	case used <= MaxRetained/2:
		old := r.buf
		r.moveTo(make([]byte, MaxRetained))
		giveBuffer(old)
	}
}

// Release moves the memory of a Reader that has nothing buffered to m, and reports whether it did. The Reader is then
// of about 200 bytes and remains usable: Attach gives it memory again, or Space allocates some. It ends the validity of
// all arguments returned before.
func (r *Reader) Release(m *Memory) bool {
	if r.Partial() || r.buf == nil {
		return false
	}
	r.endBatch(maxBatchArgs)
	*m = Memory{r.buf, r.spans[:0], r.args}
	r.base += int64(r.end)
	r.buf, r.start, r.pos, r.end, r.scan = nil, 0, 0, 0, 0
	r.spans, r.args = nil, nil
	return true
}

// Attach moves the memory in m to a Reader that has none, and reports whether it did: not when it has some already, or
// when m's buffer is below MinBuffer. The content of the buffer does not matter.
func (r *Reader) Attach(m *Memory) bool {
	if r.buf != nil || len(m.buf) < MinBuffer {
		return false
	}
	r.buf, r.spans, r.args = m.buf, m.spans, m.args
	*m = Memory{}
	return true
}
