package gather

import (
	"sync"
	"sync/atomic"
	"time"
)

// Round is what one connection asks of shards at the same time. Begin comes first. Not safe for
// concurrent use.
type Round struct {
	asks    []*Ask
	sent    int // of asks
	pending atomic.Int32
	over    chan struct{}
	resume  Waiter // is told that the round is over; nil: over is
	awaited bool   // Wait or Hold was called since the last Send
}

// Waiter is resumed when a round is over. Resume must not wait.
type Waiter interface{ Resume() }

// Begin forgets what was asked.
func (r *Round) Begin() {
	if r.over == nil {
		r.over = make(chan struct{}, 1)
	}
	clear(r.asks)
	r.asks, r.sent, r.resume, r.awaited = r.asks[:0], 0, nil, false
}

// asks are kept by all rounds together.
var asks = sync.Pool{New: func() any { return new(Ask) }}

// retained is the most memory for commands, and for replies, of an ask that is kept.
const retained = 32 << 10

// End is Begin, and the replies are not looked at any more.
func (r *Round) End() {
	for _, a := range r.asks {
		if a.err == nil && len(a.ends) == len(a.cmds) && cap(a.out) <= retained && cap(a.in) <= retained { // no link has it
			*a = Ask{out: a.out[:0], cmds: a.cmds[:0], in: a.in[:0], ends: a.ends[:0], page: joined{counter: a.page.counter[:0], ids: a.page.ids[:0]}}
			asks.Put(a)
		}
	}
	r.Begin()
}

// Bytes is how long all commands are that were not sent.
func (r *Round) Bytes() (n int) {
	for _, a := range r.asks[r.sent:] {
		n += a.Bytes()
	}
	return n
}

// Ask is where commands for a shard go, until Send. REQUIRES that it is another one's.
func (r *Round) Ask(s *Shard) *Ask {
	for i := len(r.asks) - 1; i >= r.sent; i-- {
		if a := r.asks[i]; a.Shard == s {
			if a.numbers < maxNumbers {
				return a
			}
			break
		}
	}
	a := asks.Get().(*Ask)
	a.Shard, a.round = s, r
	r.asks = append(r.asks, a)
	return a
}

// Send gives the asks since the last Send to the links of a loop: Flush, Wait and Hold write it. It does not wait.
func (r *Round) Send(lane int) { r.send(int64(lane), 0) }

// SendSlow is Send of what may take long, by links that nothing else waits for.
func (r *Round) SendSlow(session int64, within time.Duration) { r.send(session, within) }

func (r *Round) send(session int64, within time.Duration) {
	if r.sent == len(r.asks) {
		return
	}
	if r.sent == 0 || r.awaited {
		r.pending.Store(1) // Wait's, so that it is not over before
		r.resume, r.awaited = nil, false
	}
	now, set := time.Now(), r.asks[r.sent].Shard.of.settings()
	for ; r.sent < len(r.asks); r.sent++ {
		a := r.asks[r.sent]
		a.endPage()
		a.deadline = now.Add(set.ReadWithin())
		for i := range a.cmds {
			if a.cmds[i].kind != Read {
				a.deadline = now.Add(set.ChangeWithin())
				break
			}
		}
		links := a.Shard.links[:linksEach]
		a.patience, a.unsent = a.deadline.Sub(now), a.deadline
		if within > 0 {
			links, a.deadline = a.Shard.links[linksEach:], now.Add(within)
		}
		r.pending.Add(1)
		a.Shard.start()
		links[uint64(session)%uint64(len(links))].enqueue(a, now)
	}
}

// Flush writes the asks that were sent, together with those of other sessions on the same links.
func (r *Round) Flush() {
	for _, a := range r.asks {
		if a.link != nil {
			a.link.flush()
		}
	}
}

// Wait waits until all is answered, or given up. REQUIRES Send.
func (r *Round) Wait() {
	if r.sent == 0 || r.awaited {
		return
	}
	r.Flush()
	r.awaited = true
	if r.pending.Add(-1) > 0 {
		<-r.over
	}
}

// Hold is Wait that does not wait: w is resumed when all is answered, or given up. false: that is so already. REQUIRES Send.
func (r *Round) Hold(w Waiter) bool {
	if r.sent == 0 || r.awaited {
		return false
	}
	r.Flush()
	r.resume, r.awaited = w, true
	return r.pending.Add(-1) > 0
}

// finished is told of each ask that is answered or given up.
func (r *Round) finished() {
	if r.pending.Add(-1) > 0 {
		return
	}
	if r.resume != nil {
		r.resume.Resume()
	} else {
		r.over <- struct{}{}
	}
}
