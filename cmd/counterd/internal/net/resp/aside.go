package resp

import "github.com/counterd/counterd/internal/slicepool"

// aside is the part of an unfinished command whose bytes are in buffers that were full. Its arguments point there, so the bytes
// of a large command of small arguments are neither copied nor moved.
//
//	buffers set aside                        | buf
//	* args | args ... | args ... | args ...  | the rest of the command ...
//	       ^ bytes: headers included ------->|start
//
// Invariant: bytes > 0 only while left > 0. Then args are all arguments that began before buf[start].
type aside struct {
	args  [][]byte
	bytes int // of the command, in front of buf[start]
	bufs  [][]byte
}

func (a *aside) held() int {
	n := 24 * cap(a.args)
	for _, b := range a.bufs {
		n += len(b)
	}
	return n
}

// asideArgs and asideBuffers have the memory of large commands that were executed. A command of 16 MiB of new memory made the collector run once, and
// the loop help it: single turns then took milliseconds.
var (
	asideArgs    slicepool.Pool[[]byte]
	asideBuffers slicepool.Pool[byte]
)

// mostPooled is the largest buffer that asideBuffers gets.
const mostPooled = 2 * asideSize

// setAside leaves the arguments that have arrived of an unfinished command where they are, and tells whether it did: the buffer
// is to be replaced then. It does where they fill three quarters of a buffer of asideSize or more, so that buffers hold little else.
func (r *Reader) setAside() bool {
	if r.left == 0 || len(r.buf) < asideSize || r.pos-r.start < len(r.buf)/4*3 {
		return false
	}
	a := &r.aside
	a.bytes += r.pos - r.start
	a.bufs = append(a.bufs, r.buf)
	if a.args == nil {
		a.args = asideArgs.Take(len(r.spans))
	}
	a.args = r.appendArgs(growTwice(a.args, len(r.spans)))
	r.start = r.pos
	return true
}

// finishAside is finish of a command that has a part aside.
func (r *Reader) finishAside() [][]byte {
	args := r.appendArgs(growTwice(r.aside.args, len(r.spans)))
	r.aside.args, r.aside.bytes = args, 0 // and the rest until the arguments are not valid any more: see Held
	r.start = r.pos
	r.head.forget()
	return args[:len(args):len(args)]
}

// growTwice makes room for n more arguments. A list that becomes longer becomes twice as long at least: append would move a list of 65,536
// arguments more than a dozen times on its way.
func growTwice(args [][]byte, n int) [][]byte {
	if len(args)+n <= cap(args) {
		return args
	}
	return append(make([][]byte, 0, max(2*cap(args), len(args)+n)), args...)
}

// free leaves the memory to other commands. REQUIRES: the arguments are not valid any more.
func (a *aside) free() {
	if a.bufs == nil {
		return
	}
	clear(a.args)
	asideArgs.Give(a.args)
	for _, b := range a.bufs {
		giveBuffer(b)
	}
	*a = aside{}
}

// newBuffer returns a buffer of size bytes or more, with any content.
func newBuffer(size int) []byte {
	if size >= asideSize && size <= mostPooled {
		if b := asideBuffers.Take(size); b != nil {
			return b[:cap(b)]
		}
	}
	return make([]byte, size)
}

// giveBuffer leaves a buffer to newBuffer, if it is of a size that newBuffer looks for there.
func giveBuffer(b []byte) {
	if cap(b) >= asideSize && cap(b) <= mostPooled {
		asideBuffers.Give(b)
	}
}
