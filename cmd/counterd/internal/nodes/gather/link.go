package gather

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// window is how many numbers of a producer are remembered: no more of a link's may be without an answer.
	window = 128
	// maxNumbers is how many changes one ask has: half of a window, so that another may fly beside it.
	maxNumbers = window / 2
	// maxWaiting is how many bytes of commands wait for one link at most: 200,000 INCRs. What comes then is refused.
	maxWaiting = 8 << 20
)

// link is one connection to the primary of a shard after the other, and the commands that are sent by it. Sessions share
// it; each sticks to one of a shard, so that its commands there are executed in its order.
//
// Its changes have numbers, of a producer of its own: a lane. The other side counts with it (CLIENT IDMP), so what
// goes over the wire is the commands alone. Numbers are given as commands come to the wire, and stay with them: behind a
// lost connection, or a failover, the first one that was not answered and all behind it are sent again, by the same
// numbers, and those that were made are answered and not made again.
type link struct {
	shard *Shard
	loop  int           // number of the event loop that reads it; -1: a goroutine does
	wake  chan struct{} // has an element when there is something to be asked
	moved chan struct{} // has one when the address is another

	mu       sync.Mutex // guards the rest; a leaf
	queue    fifo       // not sent yet
	flying   fifo       // sent, in order
	numbered fifo       // of those, the ones with changes: all have numbers of lane
	waiting  int        // bytes of all these
	lane     *lane      // gives the next number
	lanes    []*lane    // all
	theirs   uint64     // number that the other side gives next, unless foreign
	foreign  bool       // the other side does not number by the lane, or not yet
	conn     *conn      // nil: there is none
	out      []byte     // to be written to it
	spare    []byte
	writing  bool // somebody writes
	used     time.Time
	probe    bool // a connection is to be tried, though nothing waits for it
	idle     bool // conn was closed as nothing had been asked for long
	closed   bool
}

func newLink(s *Shard, name string, loop int) *link {
	first := newLane(name)
	return &link{shard: s, lane: first, lanes: []*lane{first}, loop: loop, wake: make(chan struct{}, 1), moved: make(chan struct{}, 1)}
}

// enqueue takes an ask over, now. It is written by flush.
func (l *link) enqueue(a *Ask, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.link = l
	l.used = now
	switch {
	case l.closed:
		a.err = errClosed
	case l.waiting+len(a.out) > maxWaiting && l.waiting > 0:
		a.err = fmt.Errorf("more than %d bytes of commands are waiting", maxWaiting)
	case l.conn == nil:
		if a.err = l.shard.hopeless(l.used); a.err != nil { // but who asks later is to find one that works again
			l.probe = true
			rouse(l.wake)
		}
	}
	if a.err != nil {
		a.round.finished()
		return
	}
	l.waiting += len(a.out)
	l.queue.push(a)
	l.admit()
	if l.conn == nil {
		rouse(l.wake)
	}
}

// rouse has run look.
func rouse(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// admit brings to the wire what may go. REQUIRES mu.
func (l *link) admit() {
	for l.conn != nil {
		a := l.queue.front()
		if a == nil || a.numbers > 0 && !l.numbers(uint64(a.numbers)) {
			return
		}
		l.queue.pop()
		a.flying, a.lane = true, l.lane
		for i := range a.cmds {
			if c := &a.cmds[i]; c.kind == Change {
				c.seq = l.lane.next
				l.lane.next++
			}
		}
		l.flying.push(a)
		if a.numbers > 0 {
			l.numbered.push(a)
		}
		l.append(a)
	}
}

// numbers tells whether the lane has numbers for n changes. A lane that only waits for held numbers is put aside for another: a repeat whose number is held may
// be queued behind these changes, or be one of them. REQUIRES mu, and n <= maxNumbers.
func (l *link) numbers(n uint64) bool {
	flying := l.numbered.front()
	lowest := l.lane.lowest()
	if flying != nil {
		lowest = min(lowest, flying.firstNumber())
	}
	switch {
	case l.lane.next+n-lowest <= window:
		return true
	case flying != nil:
		return false
	}
	l.foreign = true
	for _, other := range l.lanes {
		if len(other.held) == 0 {
			l.lane = other
			return true
		}
	}
	l.lane = l.shard.of.furtherLane()
	l.lanes = append(l.lanes, l.lane)
	return true
}

// append appends to out what of a has no answer. REQUIRES mu.
func (l *link) append(a *Ask) {
	plain := a.packed && !l.conn.packed
	if a.at == 0 && !a.foreign && !plain && (a.numbers == 0 || !l.foreign) {
		whole := true
		for i := range a.cmds {
			c := &a.cmds[i]
			c.extra = 0
			if c.kind == Change {
				whole = whole && c.seq == l.theirs
				l.theirs++
			}
		}
		if whole {
			l.out = append(l.out, a.out...)
			return
		}
		l.foreign = true
	}
	for i := a.at; i < len(a.cmds); i++ {
		c := &a.cmds[i]
		c.extra = 0
		if c.kind == Change {
			if l.foreign || l.theirs != c.seq {
				l.out = appendNumbering(l.out, a.lane.producer, c.seq, 0)
				c.extra = 1
			}
			l.foreign, l.theirs = false, c.seq+1
		}
		from := int32(0)
		if i > 0 {
			from = a.cmds[i-1].end
		}
		if plain && c.packed {
			l.out = appendPlain(l.out, a.out[from:c.end])
		} else {
			l.out = append(l.out, a.out[from:c.end]...)
		}
		l.foreign = l.foreign || c.foreign
	}
}

// hold and release: see Ask.Hold.
func (l *link) hold(of *lane, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of.hold(seq)
}

func (l *link) release(of *lane, seq uint64) {
	l.mu.Lock()
	of.release(seq)
	l.admit()
	l.mu.Unlock()
	l.flush()
}

// received takes over the replies that b has whole, and returns how long they are. Not for one of an older connection.
func (l *link) received(c *conn, b []byte) (used int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return 0, errReplaced
	}
	for used < len(b) {
		a := l.flying.front()
		if a != nil {
			if n := a.counted(b[used:]); n > 0 {
				if used += n; a.at == len(a.cmds) {
					l.done(a)
				}
				continue
			}
		}
		n, err := c.scan.next(b[used:])
		if err != nil {
			return used, err
		}
		if n == 0 {
			break
		}
		if a == nil {
			return used, fmt.Errorf("%w: nothing was asked, and %.40q came", ErrProtocol, b[used:used+n])
		}
		done, err := a.answered(b[used : used+n])
		if err != nil {
			return used, err
		}
		if used += n; done {
			l.done(a)
		}
	}
	l.admit()
	return used, nil
}

// done ends an ask, the first that was sent, which has all its replies. REQUIRES mu.
func (l *link) done(a *Ask) {
	l.flying.pop()
	l.forget(a)
	if !a.given {
		a.round.finished()
	}
}

// forget takes what a ask that is in no list any more counted for. REQUIRES mu.
func (l *link) forget(a *Ask) {
	l.waiting -= len(a.out)
	if l.numbered.front() == a {
		l.numbered.pop()
	}
}

// connected makes c, a connection to the primary of a state of the shard, the connection, and sends again by it what was not answered. It returns false
// if the shard has another primary by now: cut found no connection to end.
func (l *link) connected(c *conn, to *shardState) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.shard.state.Load().same(to) {
		return false
	}
	l.conn, l.out, l.foreign, l.probe, l.idle = c, l.out[:0], true, false, false
	l.used = time.Now()
	for _, a := range l.flying.all() {
		l.append(a)
	}
	l.admit()
	return true
}

// lost takes back the connection. What must not be sent twice is given up.
func (l *link) lost(c *conn, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return
	}
	l.conn = nil
	flying := l.flying.all()
	l.flying, l.numbered = fifo{}, fifo{}
	for _, a := range flying {
		again := !a.given && a.again()
		switch {
		case again:
			a.unsent = time.Now().Add(a.patience)
			l.flying.push(a)
			if a.numbers > 0 {
				l.numbered.push(a)
			}
			continue
		case !a.given:
			a.err = why
			a.round.finished()
		}
		l.waiting -= len(a.out)
	}
}

// expire gives up what is overdue. Where something is that was sent, the connection is of no use any more.
func (l *link) expire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	overdue := l.shard.overdue()
	kept := fifo{}
	for _, a := range l.queue.all() {
		if now.Before(a.deadline) && (l.conn != nil || now.Before(a.unsent)) {
			kept.push(a)
			continue
		}
		l.waiting -= len(a.out)
		a.err = overdue
		a.round.finished()
	}
	l.queue = kept
	hung := false
	for _, a := range l.flying.all() {
		if !a.given && (now.After(a.deadline) || l.conn == nil && now.After(a.unsent)) {
			a.given, a.err, hung = true, overdue, true
			a.round.finished()
		}
	}
	idle := l.flying.len() == 0 && l.queue.len() == 0 && now.Sub(l.used) > idleAfter
	if l.conn != nil && (hung || idle) {
		l.idle = idle
		l.conn.close()
	}
}

// busy tells whether something waits for a connection.
func (l *link) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.len() > 0 || l.flying.len() > 0 || l.probe
}

// wasIdle tells whether the connection was ended for want of use, which says nothing of the shard.
func (l *link) wasIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := l.idle
	l.idle = false
	return idle
}

// tried notes that a connection was not to be had. It is tried again while the shard has an address, though nothing waits for it: else a shard that is back would be refused until
// somebody asks.
func (l *link) tried() {
	l.mu.Lock()
	l.probe = true
	l.mu.Unlock()
}

// close ends it: nothing more is answered.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, a := range append(l.queue.all(), l.flying.all()...) {
		if !a.given {
			a.err = errClosed
			a.round.finished()
		}
	}
	l.queue, l.flying, l.numbered, l.waiting = fifo{}, fifo{}, fifo{}, 0
	if l.conn != nil {
		l.conn.close()
	}
	rouse(l.moved)
}

// cut ends the connection, as its primary is none any more.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.conn.close()
	}
	rouse(l.moved)
}

// fifo is asks in order.
type fifo struct {
	list []*Ask
	head int
}

func (f *fifo) len() int    { return len(f.list) - f.head }
func (f *fifo) push(a *Ask) { f.list = append(f.list, a) }

func (f *fifo) front() *Ask {
	if f.len() == 0 {
		return nil
	}
	return f.list[f.head]
}

func (f *fifo) pop() {
	f.list[f.head] = nil
	if f.head++; f.head == len(f.list) {
		f.list, f.head = f.list[:0], 0
	} else if f.head > 64 && f.head > len(f.list)/2 {
		n := copy(f.list, f.list[f.head:])
		clear(f.list[n:])
		f.list, f.head = f.list[:n], 0
	}
}

// all is a copy of the list.
func (f *fifo) all() []*Ask { return slices.Clone(f.list[f.head:]) }
