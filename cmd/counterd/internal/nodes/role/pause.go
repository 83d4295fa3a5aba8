package role

import (
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// Pauses hold commands back: their connections wait, and the commands run, or are refused, when the pause is over. CLIENT
// PAUSE begins one for a time, FAILOVER and HoldWrites one for as long as they take. Commands planned before are not held
// back; a replica's connection never is.

// The causes of a pause. Each has one at most; they last independently of each other.
const (
	pausedByCommand = iota
	pausedByFailover
	pausedByHold
	pausers
)

// pauses are those in force. Their bits are also in the guard's, which every command reads. A change of pauses must call
// refresh.
type pauses struct {
	mu   sync.Mutex // guards the rest
	by   [pausers]pause
	news chan struct{} // closed when a pause changes; nil: nobody waits
}

// pause is one of them; a pause that is over counts as none.
type pause struct {
	bits  uint32    // guardPauseWrite or guardPauseAll
	until time.Time // zero: until it is ended
}

func (p *pause) active(now time.Time) bool {
	return p.bits != 0 && (p.until.IsZero() || now.Before(p.until))
}

// begin pauses for a time, or for good if that is 0. A pause of the same cause gets neither weaker nor shorter, as in
// Redis.
func (p *pauses) begin(by int, bits uint32, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	next := pause{bits: bits}
	if d > 0 {
		next.until = now.Add(d)
	}
	if old := &p.by[by]; old.active(now) {
		next.bits |= old.bits
		if old.until.IsZero() || !next.until.IsZero() && next.until.Before(old.until) {
			next.until = old.until
		}
	}
	p.by[by] = next
	p.changed()
}

// end ends a pause, if there is one.
func (p *pauses) end(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.by[by] = pause{}
	p.changed()
}

// changed wakes who waits. REQUIRES mu.
func (p *pauses) changed() {
	if p.news != nil {
		close(p.news)
		p.news = nil
	}
}

// bits are the guard's bits of the pauses in force.
func (p *pauses) bits() (bits uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for now, i := time.Now(), 0; i < pausers; i++ {
		if p.by[i].active(now) {
			bits |= p.by[i].bits
		}
	}
	return bits
}

// look is bits, with the event to wait for: a change, or the time of the first pause that ends by itself; 0: none does.
func (p *pauses) look() (bits uint32, news <-chan struct{}, next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for i := range p.by {
		one := &p.by[i]
		if !one.active(now) {
			continue
		}
		bits |= one.bits
		if left := one.until.Sub(now); !one.until.IsZero() && (next == 0 || left < next) {
			next = left
		}
	}
	if p.news == nil {
		p.news = make(chan struct{})
	}
	return bits, p.news, next
}

// pause begins a pause, and unpause ends one.
func (g *Guard) pause(by int, bits uint32, d time.Duration) {
	g.pauses.begin(by, bits, d)
	g.refresh()
}

func (g *Guard) unpause(by int) {
	g.pauses.end(by)
	g.refresh()
}

const errPauseMode = "ERR CLIENT PAUSE mode must be WRITE or ALL"

// ClientPause: CLIENT PAUSE timeout [WRITE | ALL].
func (g *Guard) ClientPause(c Conn, args [][]byte) {
	out := &c.Call().Out
	bits := uint32(guardPauseAll)
	if len(args) == 4 {
		switch {
		case resp.EqualFold(args[3], "WRITE"):
			bits = guardPauseWrite
		case !resp.EqualFold(args[3], "ALL"):
			out.Error(errPauseMode)
			return
		}
	}
	if len(args) > 4 {
		out.Error("ERR unknown subcommand or wrong number of arguments for '" + resp.Printable(args[1], 128) + "'. Try CLIENT HELP.")
		return
	}
	d, text := waitTimeout(args[2])
	if text != "" {
		out.Error(text)
		return
	}
	if d > 0 {
		g.pause(pausedByCommand, bits, d)
	}
	out.Status("OK")
}

// ClientUnpause: CLIENT UNPAUSE.
func (g *Guard) ClientUnpause(c Conn, _ [][]byte) {
	g.EndPause()
	c.Call().Out.Status("OK")
}

// PauseWrites holds changes back for a time, as CLIENT PAUSE does.
func (g *Guard) PauseWrites(d time.Duration) { g.pause(pausedByCommand, guardPauseWrite, d) }

// EndPause ends what CLIENT PAUSE, or PauseWrites, began.
func (g *Guard) EndPause() { g.unpause(pausedByCommand) }
