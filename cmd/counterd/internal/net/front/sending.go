package front

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// writing is a Write that waits where it must. Meanwhile sent counts the bytes that the kernel has taken, so that
// others see the progress: a slow reader is not a client that does not read.
type writing struct {
	b    []byte // all of it
	n    int    // bytes written
	sent *atomic.Int64
	err  error
	try  func(fd uintptr) (done bool) // made once: a function handed to a RawConn goes to the heap
}

// writings are kept, so that a write costs no allocation.
var writings = sync.Pool{New: func() any {
	w := new(writing)
	w.try = w.write
	return w
}}

// writeAll writes all of b.
func writeAll(conn syscall.RawConn, b []byte, sent *atomic.Int64) (int, error) {
	w := writings.Get().(*writing)
	w.b, w.n, w.sent, w.err = b, 0, sent, nil
	err := conn.Write(w.try)
	if w.err != nil {
		err = w.err
	}
	n := w.n
	w.b, w.sent, w.err = nil, nil, nil
	writings.Put(w)
	return n, err
}

// write writes as much as can be written at once; false: not all.
func (w *writing) write(fd uintptr) (done bool) {
	for w.n < len(w.b) {
		n, err := syscall.Write(int(fd), w.b[w.n:])
		switch {
		case err == syscall.EAGAIN:
			return false
		case err == syscall.EINTR:
		case err != nil:
			w.err = os.NewSyscallError("write", err)
			return true
		default:
			w.n += n
			w.sent.Add(int64(n))
		}
	}
	return true
}
