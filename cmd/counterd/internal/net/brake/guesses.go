package brake

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

const (
	// FreeGuesses is how many wrong passwords one address may give at once, and GuessEvery how often one more.
	FreeGuesses = 10
	GuessEvery  = 100 * time.Millisecond
)

const (
	// maxAddresses is how many addresses are remembered; those beyond share one line.
	maxAddresses = 4096
	// sweepEvery is how often addresses that are forgiven are looked for, at most.
	sweepEvery = 100 * time.Millisecond
)

// Guesses bounds how many passwords an address can try: so many at once, and then one every interval. Connections do not
// matter, since a client can open as many as it likes. Create one with NewGuesses; it may be used concurrently.
//
// Each check of a password takes a token of its address's line, and gives it back if the password was right. So right
// passwords cost nothing, and they wait only for the wrong ones that came before them from the same address: 64 clients
// that guess behind the same proxy delay a right password by 6.4 s at 10 a second. The result of a check never comes earlier than
// the token: an answer that is fast for right passwords alone would tell which they are.
//
// INVARIANT: an address is remembered while one of its checks is under way or its line is not full: for a second after
// its last wrong password, at 10 a second. There are maxAddresses lines at most, of 300 bytes each.
type Guesses struct {
	burst    int
	interval time.Duration

	mu     sync.Mutex // guards the rest
	lines  map[netip.Prefix]*guesser
	others guesser // of addresses that found no place
	swept  time.Time
}

// guesser is the line of an address.
type guesser struct {
	*Line
	checks int // under way, or waiting
}

// Check is the right to check one password. Call End exactly once.
type Check struct {
	guesses *Guesses
	from    netip.Prefix
	guesser *guesser
}

// NewGuesses returns a Guesses of lines of burst tokens, of which one comes back every interval.
func NewGuesses(burst int, interval time.Duration) *Guesses {
	return &Guesses{burst: burst, interval: interval, lines: make(map[netip.Prefix]*guesser), others: guesser{Line: NewLine(burst, interval)}}
}

// Waits tells whether Wait would wait for a check of a password from an address now. addr is the zero Addr for clients
// that have no address, such as those of a unix socket; they count as one.
func (g *Guesses) Waits(addr netip.Addr) bool {
	g.mu.Lock()
	l := g.lines[network(addr)]
	if l == nil && len(g.lines) >= maxAddresses {
		l = &g.others
	}
	g.mu.Unlock()
	return l != nil && l.MustWait()
}

// Try begins the check of a password from an address without a wait, for clients that cannot wait. It may borrow from
// the address's later checks. If too much is borrowed, ok is false, and there is no check to end.
func (g *Guesses) Try(addr netip.Addr) (c Check, ok bool) {
	c = g.enter(addr)
	if c.guesser.TryOwe() {
		return c, true
	}
	c.forgetAddress()
	return Check{}, false
}

// Wait begins the check of a password from an address when its turn has come. If ctx ends first, Wait returns the
// context's error, and there is no check to end.
func (g *Guesses) Wait(ctx context.Context, addr netip.Addr) (Check, error) {
	c := g.enter(addr)
	if err := c.guesser.AwaitToken(ctx); err != nil {
		c.forgetAddress()
		return Check{}, err
	}
	return c, nil
}

// Judge ends a check. right tells whether the password was right.
func (c Check) Judge(right bool) {
	if right {
		c.guesser.Return()
	}
	c.forgetAddress()
}

// enter finds the line of an address, or makes one.
func (g *Guesses) enter(addr netip.Addr) Check {
	from := network(addr)
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[from]
	if l == nil {
		if len(g.lines) >= maxAddresses {
			g.sweep()
		}
		if len(g.lines) >= maxAddresses {
			return Check{g, from, &g.others}
		}
		l = &guesser{Line: NewLine(g.burst, g.interval)}
		g.lines[from] = l
	}
	l.checks++
	return Check{g, from, l}
}

// forgetAddress forgets the address if nothing is held against it.
func (c Check) forgetAddress() {
	c.guesses.mu.Lock()
	defer c.guesses.mu.Unlock()
	if c.guesser == &c.guesses.others {
		return
	}
	if c.guesser.checks--; c.guesser.checks == 0 && c.guesser.full() {
		delete(c.guesses.lines, c.from)
	}
}

// sweep forgets the addresses that are forgiven. REQUIRES mu.
func (g *Guesses) sweep() {
	now := time.Now()
	if now.Sub(g.swept) < sweepEvery {
		return
	}
	g.swept = now
	for from, l := range g.lines {
		if l.checks == 0 && l.full() {
			delete(g.lines, from)
		}
	}
}

// network is the unit that counts as one address: an address of IPv4, or the 64 bits of IPv6 that a provider gives one
// customer.
func network(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	from, _ := addr.Prefix(bits) // the zero Prefix for the zero Addr
	return from
}
