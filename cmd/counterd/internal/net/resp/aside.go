package resp

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
	bufs  int // bytes of the buffers
}

func (a *aside) held() int { return a.bufs + 24*cap(a.args) }

// setAside leaves the arguments that have arrived of an unfinished command where they are, and tells whether it did: the buffer
// is to be replaced then. It does where they fill three quarters of a buffer of asideSize or more, so that buffers hold little else.
func (r *Reader) setAside() bool {
	if r.left == 0 || len(r.buf) < asideSize || r.pos-r.start < len(r.buf)/4*3 {
		return false
	}
	r.aside.bytes += r.pos - r.start
	r.aside.bufs += len(r.buf)
	r.aside.args = r.appendArgs(r.aside.args)
	r.start = r.pos
	return true
}

// finishAside is finish of a command that has a part aside.
func (r *Reader) finishAside() [][]byte {
	args := r.appendArgs(r.aside.args)
	r.aside.args, r.aside.bytes = args, 0 // and the rest until the arguments are not valid any more: see Held
	r.start = r.pos
	r.head.forget()
	return args[:len(args):len(args)]
}
