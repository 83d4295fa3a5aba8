package toplist

import "sync"

// note is one post that may come into a list, move in it or leave it.
type note struct {
	list *List
	Entry
	gone bool
}

// Notes are changes of a batch that the lists do not know yet: they are told at once for many changes, when these are in the log, and
// before the blocks are unlocked. Not safe for concurrent use.
type Notes struct{ list []note }

// Empty tells whether nothing waits.
func (n *Notes) Empty() bool { return len(n.list) == 0 }

// Add notes that a post has a value.
func (n *Notes) Add(l *List, mid, value uint64) {
	n.list = append(n.list, note{list: l, Entry: Entry{Value: value, Mid: mid}})
}

// Gone notes that a post was removed.
func (n *Notes) Gone(l *List, mid uint64) {
	n.list = append(n.list, note{list: l, Entry: Entry{Mid: mid}, gone: true})
}

// retained is how many notes stay allocated.
const retained = 1024

// Tell gives the notes to their lists; logged is the log offset behind the changes. It answers whether a list has to be built again.
func (n *Notes) Tell(logged uint64) (short bool) {
	var locked *sync.Mutex
	for i := range n.list {
		v := &n.list[i]
		l := v.list
		if locked != &l.mu {
			if locked != nil {
				locked.Unlock()
			}
			locked = &l.mu
			locked.Lock()
			l.seen = max(l.seen, logged)
		}
		if l.at == nil {
			continue // it takes nothing
		}
		full := len(l.entries) >= l.Want
		l.note(v.Entry, v.gone)
		short = short || full && len(l.entries) < l.Want && l.sure != (Entry{})
	}
	if locked != nil {
		locked.Unlock()
	}
	if n.list = n.list[:0]; cap(n.list) > retained {
		n.list = nil
	}
	return short
}
