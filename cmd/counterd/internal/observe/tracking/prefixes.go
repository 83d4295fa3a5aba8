package tracking

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// prefixes are the clients in BCAST mode. The zero value has none.
//
// Every change of a post takes mu while a client is in BCAST mode, so nothing holds it for long: to add or to remove a
// prefix costs a look-up in two maps, however many prefixes there are, and after every removeSlice prefixes others have
// their turn.
type prefixes struct {
	n atomic.Int32 // prefixes, one of several clients counted once

	mu       sync.Mutex // guards what follows
	clients  map[string]map[*Client]struct{}
	ofLength [maxPrefix + 1]int32 // number of prefixes of each length
	lengths  []int                // those of which there are some, in order

	ending   sync.Mutex // guards the rest; a leaf
	leaving  []leaving  // connections that have ended, for removeLeaving
	removing bool       // removeLeaving runs
}

// leaving is a client that has ended and whose prefixes are still in the table.
type leaving struct {
	client *Client
	list   []string
}

// removeSlice is how many prefixes are added or removed at a time: 10 µs.
const removeSlice = 64

func (p *prefixes) len() int { return int(p.n.Load()) }

// add adds a client to some prefixes. REQUIRES that none is longer than maxPrefix.
func (p *prefixes) add(c *Client, list []string) {
	for part := range slices.Chunk(list, removeSlice) {
		p.mu.Lock()
		if p.clients == nil {
			p.clients = make(map[string]map[*Client]struct{})
		}
		for _, prefix := range part {
			of := p.clients[prefix]
			if of == nil {
				of = make(map[*Client]struct{}, 1)
				p.clients[prefix] = of
				p.count(len(prefix), 1)
			}
			of[c] = struct{}{}
		}
		p.mu.Unlock()
	}
}

// remove takes a client from some prefixes.
func (p *prefixes) remove(c *Client, list []string) {
	for part := range slices.Chunk(list, removeSlice) {
		p.mu.Lock()
		for _, prefix := range part {
			of := p.clients[prefix]
			if of == nil {
				continue
			}
			if delete(of, c); len(of) == 0 {
				delete(p.clients, prefix)
				p.count(len(prefix), -1)
			}
		}
		p.mu.Unlock()
	}
}

// count notes that there are n more prefixes of a length. REQUIRES mu.
func (p *prefixes) count(length int, n int32) {
	was := p.ofLength[length]
	p.ofLength[length] = was + n
	p.n.Add(n)
	at, _ := slices.BinarySearch(p.lengths, length)
	switch {
	case was == 0:
		p.lengths = slices.Insert(p.lengths, at, length)
	case was+n == 0:
		p.lengths = slices.Delete(p.lengths, at, at+1)
	}
}

// leave removes the prefixes of a client that has ended. Many are removed in the background, and leave does not wait for
// mu: a loop ends connections, and has others to serve. One goroutine removes those of all clients, so that a change has
// one rival for mu and not hundreds. REQUIRES that the client does not come back.
func (p *prefixes) leave(c *Client, list []string) {
	if len(list) <= removeSlice {
		p.remove(c, list)
		return
	}
	p.ending.Lock()
	defer p.ending.Unlock()
	p.leaving = append(p.leaving, leaving{c, list})
	if !p.removing {
		p.removing = true
		go p.removeLeaving()
	}
}

// removeLeaving removes what leave has left to it.
func (p *prefixes) removeLeaving() {
	for {
		p.ending.Lock()
		list := p.leaving
		p.leaving, p.removing = nil, len(list) > 0
		p.ending.Unlock()
		if len(list) == 0 {
			return
		}
		for _, l := range list {
			for part := range slices.Chunk(l.list, removeSlice) {
				p.remove(l.client, part)
				runtime.Gosched()
			}
		}
	}
}
