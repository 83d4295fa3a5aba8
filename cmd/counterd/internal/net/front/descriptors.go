package front

import (
	"net"
	"syscall"
)

// spareFiles is how many descriptors connections leave to others: segments of the log, images and cold files under way,
// files that replicas fetch, connections that wait to write. Of a small limit it is a quarter.
const spareFiles = 128

// lastDescriptor tells whether conn took one of the descriptors that connections must leave. If maxclients is above the
// number that the process may open, connections would take the last ones, and then neither a segment of the log nor a
// snapshot can be made. A process is given the lowest number that is free, so the number says how many are in use, for
// whatever.
func lastDescriptor(conn net.Conn) bool {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return false
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	last := false
	_ = raw.Control(func(fd uintptr) { last = uint64(fd) >= limit.Cur-min(spareFiles, limit.Cur/4) }) // its only error is that conn is closed
	return last
}
