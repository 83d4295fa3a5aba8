//go:build linux && !noepoll

package front

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// trunk is a Trunk. The goroutine of its loop alone reads, and frees the descriptor. All others can but Close, which the loop hears of.
type trunk struct {
	conn    socket
	loop    *loop
	arrived func(b []byte) (used int, err error)
	ended   chan struct{}

	buf  []byte // buf[:have] was read and not used
	have int
}

// Watch has the n-th loop watch conn, counted from the first one on again behind the last. The loop hands arriving bytes to arrived,
// which must not wait, and returns how many of them it used: the rest is handed over again in front of later bytes. An error ends the
// trunk. conn belongs to the trunk. Without an error it may return nil: a loop cannot watch conn, which is still the caller's.
func (f *Front) Watch(n int, conn net.Conn, arrived func(b []byte) (used int, err error)) (Trunk, error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok || len(f.loops) == 0 {
		return nil, nil
	}
	l := f.loops[n%len(f.loops)]
	w := &trunk{loop: l, arrived: arrived, ended: make(chan struct{}), buf: make([]byte, trunkBuffer)}
	if err := w.conn.open(tcp); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bell < 0 { // the loop has ended
		w.conn.free()
		return nil, net.ErrClosed
	}
	if err := l.control(unix.EPOLL_CTL_ADD, w.conn.fd, unix.EPOLLIN|unix.EPOLLRDHUP); err != nil { // not edge-triggered: one read a cycle
		w.conn.free()
		return nil, err
	}
	if l.trunks == nil {
		l.trunks = make(map[int32]*trunk)
	}
	l.trunks[int32(w.conn.fd)] = w
	return w, nil
}

func (w *trunk) Offer(b []byte) (int, error) { return w.conn.push(b) }

func (w *trunk) Write(b []byte, within time.Duration) (int, error) {
	_ = w.conn.SetWriteDeadline(time.Now().Add(within))
	defer w.conn.forgetWaiter()
	return w.conn.drain(b)
}

func (w *trunk) Close()                 { _ = w.conn.Close() }
func (w *trunk) Ended() <-chan struct{} { return w.ended }

// readTrunks has the trunks read that something has arrived for. Sessions that are resumed meanwhile need no bell.
func (l *loop) readTrunks() {
	for i, w := range l.ready {
		l.ready[i] = nil
		if w.read() != nil {
			w.end()
		}
	}
	l.ready = l.ready[:0]
}

// read hands over the bytes that have arrived, as many as one buffer takes.
func (w *trunk) read() error {
	if w.have == len(w.buf) {
		w.buf = append(w.buf, make([]byte, len(w.buf))...)
	}
	n, err := w.conn.recv(w.buf[w.have:])
	if err != nil || n == 0 {
		return err
	}
	w.have += n
	used, err := w.arrived(w.buf[:w.have])
	if err != nil {
		return err
	}
	w.have = copy(w.buf, w.buf[used:w.have])
	if used > 0 && len(w.buf) > trunkBuffer && w.have < trunkBuffer {
		w.buf = append(make([]byte, 0, trunkBuffer), w.buf[:w.have]...)[:trunkBuffer]
	}
	return nil
}

// end frees the trunk. Only the goroutine of the loop calls it.
func (w *trunk) end() {
	l, fd := w.loop, w.conn.fd
	l.mu.Lock()
	delete(l.trunks, int32(fd))
	l.mu.Unlock()
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, fd, nil) // a copy of the descriptor would keep it in
	w.conn.free()
	close(w.ended)
}

// endTrunks ends all trunks, as the loop does. REQUIRES that silence was called: there are no new ones.
func (l *loop) endTrunks() {
	l.mu.Lock()
	l.ready = l.ready[:0]
	for _, w := range l.trunks {
		l.ready = append(l.ready, w)
	}
	l.mu.Unlock()
	for _, w := range l.ready {
		w.end()
	}
	l.ready = nil
}
