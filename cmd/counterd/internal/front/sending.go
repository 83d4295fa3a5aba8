package front

import (
	"os"
	"sync/atomic"
	"syscall"
)

// writeAll writes all of b and waits where it must. Meanwhile sent counts what the kernel has taken, so that others see
// how it goes on: a client that reads slowly is none that does not read.
func writeAll(conn syscall.RawConn, b []byte, sent *atomic.Int64) (int, error) {
	n := 0
	var failed error
	err := conn.Write(func(fd uintptr) (done bool) {
		for n < len(b) {
			k, err := syscall.Write(int(fd), b[n:])
			switch {
			case err == syscall.EAGAIN:
				return false
			case err == syscall.EINTR:
			case err != nil:
				failed = os.NewSyscallError("write", err)
				return true
			default:
				n += k
				sent.Add(int64(k))
			}
		}
		return true
	})
	if failed != nil {
		err = failed
	}
	return n, err
}
