package wire

import "io"

// Data other than replies, on a connection that is used for more than commands and replies: the stream that follows the
// answer to PSYNC, and a file that is taken piece by piece.

var _ io.Reader = (*Reader)(nil)

// Read reads the next bytes, whatever they are.
func (r *Reader) Read(p []byte) (int, error) {
	if r.pos == r.end {
		if len(p) >= len(r.buf) { // past the buffer, which has nothing to add
			r.reads++
			return r.src.Read(p)
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.buf[r.pos:r.end])
	r.pos += n
	return n, nil
}

// ReadByte reads one byte.
func (r *Reader) ReadByte() (byte, error) {
	if r.pos == r.end {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	c := r.buf[r.pos]
	r.pos++
	return c, nil
}

// Peek returns the next n bytes and leaves them where they are. They take a buffer of n bytes: n must be the caller's
// own, not the server's word.
func (r *Reader) Peek(n int) ([]byte, error) {
	for r.end-r.pos < n {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	return r.buf[r.pos : r.pos+n], nil
}

// ReadLine consumes the line that a reply starts with, and returns it with its type, without its end. An error reply
// becomes a *ServerError. Empty lines before it are passed over: with them a Redis keeps a replica alive that waits for
// its answer.
func (r *Reader) ReadLine() (string, error) {
	for {
		b, err := r.Peek(1)
		if err != nil {
			return "", err
		}
		if b[0] != '\r' && b[0] != '\n' {
			break
		}
		r.pos++
	}
	kind, rest, err := r.header()
	if err != nil {
		return "", err
	}
	return string(kind) + string(rest), nil
}
