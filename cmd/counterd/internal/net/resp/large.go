package resp

import "sync"

// large has memory of replies that were sent. Connections keep no memory for replies of many KiB. A command whose replies usually are
// that large takes it here: new memory of 1 MiB for each reply kept the garbage collector busy for a fifth of the command's time.
var large sync.Pool

// maxLarge bounds the memory of one reply in large, in bytes.
const maxLarge = 4 << 20

// TakeLarge drops all bytes and goes on in memory that DropLarge has left. DropLarge then leaves the memory to others.
func (r *Replies) TakeLarge() {
	if m, ok := large.Get().(*Region); ok {
		r.TakeMemory(m)
	} else {
		r.Drop()
	}
	r.large = true
}

// DropLarge is Drop. Memory is left to TakeLarge if these replies were begun there.
func (r *Replies) DropLarge() {
	if r.large && r.home == nil && cap(r.b) <= maxLarge {
		m := new(Region)
		r.GiveMemory(m)
		large.Put(m)
	}
	r.Drop()
}
