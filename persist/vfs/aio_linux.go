package vfs

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A sync waits for the disk, some ms. In a plain system call the goroutine takes its processor of the Go runtime (P)
// along, until the runtime's monitor notices, which looks each 10 ms at worst. With two of them, one in a sync and one at
// work in the background, nobody asks the network who has sent something. So a sync is handed to the kernel (AIO,
// io_submit(2)), which tells an eventfd when it is done, and the goroutine waits for that as for a connection. What woke
// up beside a writer of images and of a log that are synced all the time, on two processors, waited (p99.9, max):
//
//	fdatasync(2)   5.4 ms   7.9
//	io_submit(2)   1.7 ms   3.8

// From linux/aio_abi.h.
const (
	iocbFsync     = 2 // IOCB_CMD_FSYNC
	iocbFdsync    = 3 // IOCB_CMD_FDSYNC
	iocbFlagResfd = 1 // IOCB_FLAG_RESFD: tell an eventfd
)

// iocb is struct iocb of linux/aio_abi.h. The two halves of its second word change places with the order of bytes, and
// both are 0 here.
type iocb struct {
	_      uint64 // data: comes back with the event
	_, _   uint32 // key, flags of preadv2
	opcode uint16
	_      int16 // priority
	fd     uint32
	_      [4]uint64 // buffer, bytes, offset, reserved
	flags  uint32
	resfd  uint32
}

// ioEvent is struct io_event.
type ioEvent struct {
	data, obj uint64
	res, res2 int64
}

// errNoAIO: the kernel does not take this sync: it has no AIO, or forbids it, or the file system's files cannot be synced
// so.
var errNoAIO = errors.New("vfs: no asynchronous sync")

// aioContext has one sync at a time under way.
type aioContext struct {
	id   uintptr
	bell *os.File // the eventfd, watched by the runtime
	fd   int      // of bell

	block iocb // of the sync under way: here, so that none allocates
	event ioEvent
	rings [8]byte
	lost  bool // the event may still come
}

// idleContexts are contexts that are not in use. At most mostIdleContexts are kept and the others are closed: each takes a
// descriptor and some pages of the kernel.
var idleContexts struct {
	mu   sync.Mutex
	list []*aioContext
}

// A snapshot has 16 at a time; to close one takes the kernel 10 ms and more.
const mostIdleContexts = 20

// noAIO: the kernel said once that it has none.
var noAIO atomic.Bool

func openContext() (*aioContext, error) {
	idleContexts.mu.Lock()
	if n := len(idleContexts.list); n > 0 {
		c := idleContexts.list[n-1]
		idleContexts.list = idleContexts.list[:n-1]
		idleContexts.mu.Unlock()
		return c, nil
	}
	idleContexts.mu.Unlock()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err // no descriptors left
	}
	c := &aioContext{fd: fd, bell: os.NewFile(uintptr(fd), "eventfd")}
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&c.id)), 0); errno != 0 {
		noAIO.Store(errno != unix.EAGAIN && errno != unix.ENOMEM) // those: others have all there is just now
		return nil, errors.Join(errno, c.bell.Close())
	}
	return c, nil
}

func (c *aioContext) closeOrKeep() {
	idleContexts.mu.Lock()
	keep := len(idleContexts.list) < mostIdleContexts
	if keep {
		idleContexts.list = append(idleContexts.list, c)
	}
	idleContexts.mu.Unlock()
	if !keep {
		c.close()
	}
}

// close waits for the sync under way, if its event was lost: the runtime has to know of the call.
func (c *aioContext) close() {
	_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, c.id, 0, 0)
	_ = c.bell.Close()
}

// syncParked is fsync or fdatasync, as opcode says, without a thread that waits. errNoAIO: nothing was done.
func syncParked(fd int, opcode uint16) error {
	if noAIO.Load() {
		return errNoAIO
	}
	c, err := openContext()
	if err != nil {
		return errNoAIO
	}
	if err = c.sync(fd, opcode); c.lost {
		c.close()
	} else {
		c.closeOrKeep()
	}
	return err
}

func (c *aioContext) sync(fd int, opcode uint16) error {
	c.block = iocb{opcode: opcode, fd: uint32(fd), flags: iocbFlagResfd, resfd: uint32(c.fd)}
	block := &c.block
	if n, _, _ := unix.RawSyscall(unix.SYS_IO_SUBMIT, c.id, 1, uintptr(unsafe.Pointer(&block))); n != 1 {
		return errNoAIO
	}
	_, _ = c.bell.Read(c.rings[:]) // without the runtime's watch it is waited for below
	for {
		n, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, c.id, 1, 1, uintptr(unsafe.Pointer(&c.event)), 0, 0)
		if n == 1 {
			break
		}
		if errno != unix.EINTR {
			noAIO.Store(true) // the call is forbidden; the sync may have failed, and no other sync may get its event
			c.lost = true
			return os.NewSyscallError("io_getevents", errno)
		}
	}
	if c.event.res < 0 {
		return unix.Errno(-c.event.res)
	}
	return nil
}
