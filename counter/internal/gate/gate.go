// Package gate has a lock that very many readers share, and a writer may have alone. It is pure.
package gate

import (
	"sync"
	"sync/atomic"
	"time"
)

// Gate is a lock that many share and one may have alone. Two things are different from sync.RWMutex.
//
// Readers on several processors do not write the same cache line: a gate has as many doors as there are processors. A
// reader comes by one of them, which costs 11 ns if no other processor has its line, and 78 if one has. A writer shuts
// all.
//
// A reader that stays does not stop the others. One that reads a cold file may wait for a disk that hangs, and a writer has
// to wait for it. New readers wait with the writer for a short time only, its patience. Then the writer leaves the late
// readers behind and opens the gate to all others again. When the late ones are out, it tries again, with twice the
// patience: it gets in as soon as it is more patient than readers are slow. So the loops of a server, which are readers, are
// stopped for 10 ms by a disk that hangs for minutes, and what needs the gate alone waits for the disk.
//
// No reader may enter again before it has left, as of any RWMutex.
type Gate struct {
	doors   []Door // one at least
	next    atomic.Uint32
	seldom  sync.RWMutex  // of readers that are in no hurry, in no loop of a server
	writers sync.Mutex    // held by the one that has the gate, or waits for it
	left    chan struct{} // a shut room may be empty now

	opening sync.Mutex // guards that rooms are opened
	opened  sync.Cond
}

// Door is one way in, on lines of its own: a processor may load two at a time.
type Door struct {
	room atomic.Pointer[Room] // where readers are now
	gate *Gate
	_    [128 - 16]byte
}

// Room is what readers of one door are in. A writer leaves one that does not become empty behind, shut, and gives the door
// another.
type Room struct {
	in   atomic.Int64 // readers, and those who look whether they may stay
	shut atomic.Bool
	gate *Gate
	_    [128 - 24]byte
}

// patienceAtFirst is how long a writer keeps new readers out at first, while others are still in. Most leave within a
// millisecond: cold pages of a disk that is well take 0.1.
const patienceAtFirst = 10 * time.Millisecond

func New(doors int) *Gate {
	g := &Gate{doors: make([]Door, doors), left: make(chan struct{}, 1)}
	g.opened.L = &g.opening
	for i := range g.doors {
		g.doors[i].gate = g
		g.doors[i].room.Store(&Room{gate: g})
	}
	return g
}

// Door returns a way in for a frequent reader: one after the other, so that those at work at a time seldom share one.
func (g *Gate) Door() *Door { return &g.doors[int(g.next.Add(1)-1)%len(g.doors)] }

// DoorAt is door n, of as many as there are: the number of an event loop, for example. Batches of one event loop take turns, so each loop has its
// number: a door of two processors costs 78 ns a batch instead of 11. n is not negative.
func (g *Gate) DoorAt(n int) *Door { return &g.doors[n%len(g.doors)] }

// Enter waits while a writer has the gate, or keeps readers out. The caller leaves the room it returns.
func (d *Door) Enter() *Room {
	r := d.room.Load()
	r.in.Add(1)
	if !r.shut.Load() {
		return r
	}
	return d.await(r)
}

// await is Enter for a reader that found r shut, and counts in it.
func (d *Door) await(r *Room) *Room {
	for {
		r.Leave()
		d.gate.opening.Lock()
		for r = d.room.Load(); r.shut.Load(); r = d.room.Load() {
			d.gate.opened.Wait()
		}
		d.gate.opening.Unlock()
		r.in.Add(1)
		if !r.shut.Load() {
			return r
		}
	}
}

// Leave ends Enter. Any goroutine may call it.
func (r *Room) Leave() {
	if r.in.Add(-1) == 0 && r.shut.Load() {
		r.tell()
	}
}

// tell wakes the writer.
func (r *Room) tell() {
	select {
	case r.gate.left <- struct{}{}:
	default: // it has not taken the last one yet, and looks at all rooms then
	}
}

// Lock waits until no reader is in and keeps all out until Unlock.
func (g *Gate) Lock() {
	g.writers.Lock()
	g.seldom.Lock()
	for patience := patienceAtFirst; ; patience *= 2 {
		for i := range g.doors {
			g.doors[i].room.Load().shut.Store(true)
		}
		if g.empty() || g.emptied(time.After(patience), g.rooms()) {
			return
		}
		late := g.rooms()
		g.open(func(d *Door) { d.room.Store(&Room{gate: g}) })
		g.emptied(nil, late)
	}
}

// empty tells whether nobody is in now.
func (g *Gate) empty() bool {
	for i := range g.doors {
		if g.doors[i].room.Load().in.Load() > 0 {
			return false
		}
	}
	return true
}

// rooms are those of all doors.
func (g *Gate) rooms() []*Room {
	rooms := make([]*Room, len(g.doors))
	for i := range g.doors {
		rooms[i] = g.doors[i].room.Load()
	}
	return rooms
}

// emptied waits until nobody is in any of the rooms, which are shut; false: the time was over before.
func (g *Gate) emptied(over <-chan time.Time, rooms []*Room) bool {
	for _, r := range rooms {
		for r.in.Load() > 0 {
			select {
			case <-g.left:
			case <-over:
				return false
			}
		}
	}
	return true
}

// open lets readers in by all doors, and wakes those that wait.
func (g *Gate) open(each func(*Door)) {
	g.opening.Lock()
	defer g.opening.Unlock()
	for i := range g.doors {
		each(&g.doors[i])
	}
	g.opened.Broadcast()
}

// Unlock ends Lock.
func (g *Gate) Unlock() {
	g.open(func(d *Door) { d.room.Load().shut.Store(false) })
	g.seldom.Unlock()
	g.writers.Unlock()
}

// RLock lets in who reads seldom, and may wait for as long as a writer waits for readers: no loop of a server does.
func (g *Gate) RLock() { g.seldom.RLock() }

// RUnlock ends RLock.
func (g *Gate) RUnlock() { g.seldom.RUnlock() }
