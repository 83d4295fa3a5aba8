package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/command"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
)

// Pauses hold commands back: their connections wait, and the commands run, or are refused, when the pause is over.
// CLIENT PAUSE begins one for a time, FAILOVER one for as long as it takes. What was planned before is not held back; a
// replica's connection never is.

// Who began a pause. Each has one at most; they last independently of each other.
const (
	pausedByCommand = iota
	pausedByFailover
	pausers
)

// pauses are those in force. Their bits are also in Server.guard, which every command looks at: whoever changes pauses
// calls RoleChanged.
type pauses struct {
	mu   sync.Mutex // guards the rest
	by   [pausers]pause
	news chan struct{} // closed when a pause changes; nil: nobody waits
}

// pause is one of them; one that is over counts as none.
type pause struct {
	bits  uint32    // guardPauseWrite or guardPauseAll
	until time.Time // zero: until it is ended
}

func (p *pause) active(now time.Time) bool {
	return p.bits != 0 && (p.until.IsZero() || now.Before(p.until))
}

// begin pauses for a time, or for good if that is 0. One that its pauser has begun before gets neither weaker nor
// shorter, as in Redis.
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

// look is bits with what to wait for: a change, or the time of the first pause that ends by itself; 0: none does.
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

// flagsOf are a command's flags; EXEC has those of what it executes.
func (c *client) flagsOf(cmd *row) command.Flags {
	if !cmd.Is("exec") {
		return cmd.Flags
	}
	f := cmd.Flags
	for i := range c.multi.queued {
		q := c.multi.queued[i].cmd.Flags
		f |= q & command.Write
		f &= q | ^(command.Loading | command.Stale)
	}
	return f
}

// heldBack tells whether a pause makes a command of this connection wait. Replicas must go on, and change nothing:
// whoever only says that it is one waits.
func (c *client) heldBack(bits uint32, f command.Flags) bool {
	if c.peer.Load() != nil && f&command.Write == 0 {
		return false
	}
	return bits&guardPauseAll != 0 || bits&guardPauseWrite != 0 && f&command.Write != 0
}

// pause waits while a pause holds back commands with such flags. It is a place where commands block: see block.
func (c *client) pause(f command.Flags) {
	s := c.srv
	c.block(context.Background(), func(ctx context.Context) {
		for {
			bits, news, next := s.pauses.look()
			if !c.heldBack(bits, f) {
				break
			}
			if next == 0 {
				next = time.Hour
			}
			timer := time.NewTimer(next)
			select {
			case <-news:
			case <-timer.C:
			case <-ctx.Done(): // the command was not executed, and will not be
				c.closed = true
			}
			timer.Stop()
			if c.closed {
				return
			}
		}
		s.RoleChanged() // the guard still has the bits of a pause that ended by itself
	})
}

// Why a wait ended early: causes of its context.
var (
	errConnectionEnded = errors.New("the connection has ended")
	errServerEnds      = errors.New("the server ends")
	errUnblocked       = errors.New("unblocked by CLIENT UNBLOCK")
	errTimeUp          = errors.New("unblocked by CLIENT UNBLOCK as if its time were over")
)

// block runs wait, which returns when the command may go on, or ctx ends: with the connection, with the server, or by
// cancel. A connection that has ended meanwhile executes nothing more: whoever sent what it held has long tried
// elsewhere. What was answered before it is sent first.
func (c *client) block(ctx context.Context, wait func(ctx context.Context)) {
	if c.send() != nil {
		c.closed = true
		return
	}
	c.publish(0)
	c.blocked.Store(true)
	c.srv.blocked.Add(1)
	began := time.Now()
	defer func() {
		c.waited += time.Since(began)
		c.srv.blocked.Add(-1)
		c.blocked.Store(false)
		c.lastRead.Store(c.srv.clock.Load()) // it was not idle
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gone, stop := c.conn.watch()
	defer stop()
	go func() {
		select {
		case <-gone:
			cancel(errConnectionEnded)
		case <-c.srv.quit:
			cancel(errServerEnds)
		case <-ctx.Done():
		}
	}()
	wait(ctx)
	select {
	case <-gone:
		c.closed = true
	default:
	}
}

const errPauseMode = "ERR CLIENT PAUSE mode must be WRITE or ALL"

// runClientPause: CLIENT PAUSE timeout [WRITE | ALL].
func runClientPause(c *client, args [][]byte) {
	bits := uint32(guardPauseAll)
	if len(args) == 4 {
		switch {
		case resp.EqualFold(args[3], "WRITE"):
			bits = guardPauseWrite
		case !resp.EqualFold(args[3], "ALL"):
			c.Out.Error(errPauseMode)
			return
		}
	}
	if len(args) > 4 {
		c.Out.Error("ERR unknown subcommand or wrong number of arguments for '" + resp.Printable(args[1], 128) + "'. Try CLIENT HELP.")
		return
	}
	d, text := waitTimeout(args[2])
	if text != "" {
		c.Out.Error(text)
		return
	}
	if d > 0 {
		c.srv.pauses.begin(pausedByCommand, bits, d)
		c.srv.RoleChanged()
	}
	c.Out.Status("OK")
}

func runClientUnpause(c *client, _ [][]byte) {
	c.srv.pauses.end(pausedByCommand)
	c.srv.RoleChanged()
	c.Out.Status("OK")
}
