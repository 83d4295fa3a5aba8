package front

import (
	"sync/atomic"
	"time"
)

// account is one session's part of the memory of all connections.
type account struct {
	front  *Front
	conn   *socket      // of the session
	holds  atomic.Int64 // bytes, as set noted
	beside int64        // of them those of the handler
}

// set notes that the session holds n bytes now. Only who owns it may call it.
func (a *account) set(n int64) {
	old := a.holds.Load()
	if n == old {
		return
	}
	a.holds.Store(n)
	m := &a.front.memory
	held := m.held.Add(n - old)
	if limit := m.limit.Load(); n > old && limit > 0 && held+a.front.host.Unread() > limit {
		m.tell()
	}
}

// mustWait tells whether the session holds much where all together hold too much: it must not take more. A session
// that has ended gives its memory back.
func (a *account) mustWait() bool {
	return a.holds.Load() > much && a.front.crowded() && !a.conn.closed() && !a.front.ending()
}

// awaitRoom waits until the janitor has closed the sessions that hold most, and a while for them to end.
func (a *account) awaitRoom() {
	f, m := a.front, &a.front.memory
	m.mu.Lock()
	if m.looked == nil {
		m.looked = make(chan struct{})
	}
	looked := m.looked
	m.mu.Unlock()
	m.tell()
	select {
	case <-looked:
	case <-f.quit:
		return
	}
	for end := time.Now().Add(emptying); f.crowded() && !a.conn.closed() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}
