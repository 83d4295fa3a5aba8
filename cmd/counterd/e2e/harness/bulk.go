package harness

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Bulk sends n requests down one connection, as fast as they are taken, while it reads their replies.
// request appends request i to dst; check is given reply i: the type byte and the contents, "$-1" for a nil.
// Arrays are not understood here: bulk is for single values by the million, without garbage.
// It must have the connection to itself.
func Bulk(c *Conn, n int, request func(dst []byte, i int) []byte, check func(i int, reply []byte) error) error {
	writeErr := make(chan error, 1)
	stop := make(chan struct{})
	go func() {
		buf := make([]byte, 0, 80<<10)
		for i := range n {
			buf = request(buf, i)
			if len(buf) < 64<<10 && i < n-1 {
				continue
			}
			if err := c.TryWrite(buf); err != nil {
				writeErr <- err
				return
			}
			buf = buf[:0]
			select {
			case <-stop:
				writeErr <- nil
				return
			default:
			}
		}
		writeErr <- nil
	}()
	var readErr error
	var body []byte
	for i := 0; i < n && readErr == nil; i++ {
		if i%1024 == 0 {
			readErr = c.Nc.SetReadDeadline(time.Now().Add(IoTimeout))
		}
		if readErr == nil {
			body, readErr = readShort(c.Br, body[:0])
		}
		if readErr == nil {
			readErr = check(i, body)
		}
		if readErr != nil {
			readErr = fmt.Errorf("reply %d of %d: %w", i, n, readErr)
		}
	}
	close(stop)
	if readErr != nil {
		c.Close() // wakes the writer
	}
	if err := <-writeErr; readErr == nil {
		return err
	}
	return readErr
}

// readShort reads a reply that is no array into dst: type byte and contents without line ends.
func readShort(br *bufio.Reader, dst []byte) ([]byte, error) {
	line, err := br.ReadSlice('\n')
	if err != nil {
		return dst, err
	}
	if len(line) < 3 {
		return dst, fmt.Errorf("reply line %q", line)
	}
	if line[0] != '$' || line[1] == '-' {
		return append(dst, line[:len(line)-2]...), nil
	}
	n, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil {
		return dst, err
	}
	body, err := br.Peek(n + 2)
	if err != nil {
		return dst, io.ErrUnexpectedEOF
	}
	dst = append(append(dst, '$'), body[:n]...)
	_, err = br.Discard(n + 2)
	return dst, err
}

// BulkParallel splits n requests over several connections; request and check get indexes of the whole.
func BulkParallel(t testing.TB, s *Server, conns, n int, request func(dst []byte, i int) []byte, check func(i int, reply []byte) error) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, conns)
	for k := range conns {
		lo, hi := k*n/conns, (k+1)*n/conns
		c := s.Dial(t)
		wg.Go(func() {
			defer c.Close()
			errs[k] = Bulk(c, hi-lo,
				func(dst []byte, i int) []byte { return request(dst, lo+i) },
				func(i int, reply []byte) error { return check(lo+i, reply) })
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// WantReply is a check that every reply is the same.
func WantReply(want string) func(int, []byte) error {
	return func(i int, reply []byte) error {
		if string(reply) != want {
			return fmt.Errorf("got %q, want %q", reply, want)
		}
		return nil
	}
}

// AppendCall appends a request whose second argument is a key made of a number and two texts around it,
// and which may have one more, numeric argument (negative: none). It allocates nothing.
func AppendCall(dst []byte, command, before string, mid uint64, after string, arg int64) []byte {
	if arg < 0 {
		dst = append(dst, "*2\r\n"...)
	} else {
		dst = append(dst, "*3\r\n"...)
	}
	dst = AppendBulk(dst, command, 0, false, "")
	dst = AppendBulk(dst, before, mid, true, after)
	if arg >= 0 {
		dst = AppendBulk(dst, "", uint64(arg), true, "")
	}
	return dst
}

func AppendBulk(dst []byte, before string, number uint64, digits bool, after string) []byte {
	var room [20]byte
	d := room[:0]
	if digits {
		d = strconv.AppendUint(d, number, 10)
	}
	dst = append(dst, '$')
	dst = strconv.AppendInt(dst, int64(len(before)+len(d)+len(after)), 10)
	dst = append(dst, '\r', '\n')
	dst = append(dst, before...)
	dst = append(dst, d...)
	dst = append(dst, after...)
	return append(dst, '\r', '\n')
}
