package resp

// Shrink gives memory back that a large command took: a buffer above MaxRetained
// is dropped, or exchanged for one of MaxRetained when half of that holds what is
// buffered. It does nothing to a Reader of ordinary size, so it may be called
// after every batch, but then a client of large commands allocates for each of
// them: once a second is better. It ends the validity of all arguments returned
// before.
func (r *Reader) Shrink() {
	r.endBatch(maxBatchArgs)
	if len(r.buf) <= MaxRetained {
		return
	}
	switch used := r.end - r.start; {
	case used == 0:
		r.Release()
	case used <= MaxRetained/2:
		r.moveTo(make([]byte, MaxRetained))
	}
}

// Release takes the buffer from a Reader that has nothing buffered and returns
// it, for a pool; nil if something is buffered or there is no buffer. The Reader
// is then of about 200 bytes, plus up to 512 for lists of arguments, and remains
// usable: Attach gives it a buffer again, or Space allocates one. It ends the
// validity of all arguments returned before.
func (r *Reader) Release() []byte {
	if r.err == nil && r.end > r.start {
		return nil
	}
	buf := r.buf
	r.base += int64(r.end)
	r.buf, r.start, r.pos, r.end, r.scan = nil, 0, 0, 0, 0
	r.endBatch(maxRetainedArgs)
	clear(r.args[:cap(r.args)]) // they would keep the buffer alive
	return buf
}

// Attach gives buf, all cap(buf) bytes of it, to a Reader that has no buffer, and
// reports whether it took it. It refuses when it has one already, or when buf is
// below MinBuffer. What is in buf does not matter.
func (r *Reader) Attach(buf []byte) bool {
	if r.buf != nil || cap(buf) < MinBuffer {
		return false
	}
	r.buf = buf[:cap(buf)]
	return true
}
