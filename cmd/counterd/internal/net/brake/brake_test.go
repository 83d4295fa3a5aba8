package brake

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// TestLine: a burst passes at once, then one token comes every interval, in the order of those who wait; a token that was
// returned passes to the next one, and a client that goes away leaves the queue.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := NewLine(3, 100*time.Millisecond), time.Now()
		for range 3 {
			if !l.TryTake() {
				t.Fatal("a token of the burst was refused")
			}
		}
		if l.TryTake() {
			t.Fatal("there was a token beyond the burst")
		}
		type pass struct {
			n  int
			at time.Duration
		}
		passed := make(chan pass, 4)
		gone, leave := context.WithCancel(t.Context())
		for n := range 4 {
			ctx := t.Context()
			if n == 1 {
				ctx = gone
			}
			go func() {
				if err := l.AwaitToken(ctx); (err != nil) != (n == 1) {
					t.Errorf("%d: %v", n, err)
				}
				passed <- pass{n, time.Since(began)}
			}()
			synctest.Wait() // they stand in this order
		}
		leave()
		for _, want := range []pass{{1, 0}, {0, 100 * time.Millisecond}, {2, 200 * time.Millisecond}, {3, 300 * time.Millisecond}} {
			if got := <-passed; got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		for n := range 4 {
			if !l.MustWait() || l.TryOwe() != (n < 3) {
				t.Errorf("owed token %d: got another answer", n)
			}
		}
		time.Sleep(3 * l.interval)
		if l.TryTake() {
			t.Error("owed tokens were not paid first")
		}
		l.Return()
		if l.MustWait() || !l.TryTake() || l.TryTake() {
			t.Error("one token was returned, and not one was there")
		}
		time.Sleep(time.Hour)
		for n := range 4 {
			if l.TryTake() != (n < 3) {
				t.Errorf("after an hour: token %d", n)
			}
		}
	})
}

// TestGuesses: an address tries 10 wrong passwords at once and 10 a second, with as many connections as it likes; others do
// not wait for it, right passwords cost nothing, and nothing is remembered a second later.
func TestGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGuesses(FreeGuesses, GuessEvery)
		bad, good := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		const clients = 64
		ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
		defer end()
		tried := make(chan int)
		for range clients {
			go func() {
				n := 0
				for {
					c, err := g.Wait(ctx, bad)
					if err != nil {
						tried <- n
						return
					}
					c.Judge(false)
					n++
				}
			}()
		}
		time.Sleep(5*time.Second + time.Millisecond)
		for range 1000 {
			c, ok := g.Try(good)
			if !ok || g.Waits(good) {
				t.Fatal("another address had to wait")
			}
			c.Judge(true)
		}
		began := time.Now()
		c, err := g.Wait(t.Context(), bad) // a right password behind them
		if err != nil || time.Since(began) > (clients+1)*GuessEvery {
			t.Errorf("a right password waited for %v: %v", time.Since(began), err)
		}
		c.Judge(true)
		sum := 0
		for range clients {
			sum += <-tried
		}
		if want := FreeGuesses + int(10*time.Second/GuessEvery); sum > want || sum < want-2 {
			t.Errorf("%d passwords were tried in 10 s, want %d", sum, want)
		}
		time.Sleep(time.Second)
		if c, ok := g.Try(bad); !ok || g.Waits(bad) {
			t.Error("an address is not forgiven")
		} else if c.Judge(true); len(g.lines) != 0 {
			t.Errorf("%d addresses are remembered", len(g.lines))
		}
	})
}

// TestGuessesMemory: a flood from many addresses takes bounded memory, those that find no place share one line, and all
// are forgotten afterwards. Addresses of IPv6 count by 64 bits, and addresses of IPv4 in IPv6 as those of IPv4.
func TestGuessesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGuesses(FreeGuesses, GuessEvery)
		addr := func(n int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 6: byte(n >> 8), 7: byte(n), 15: byte(n)})
		}
		wrong := func(n int) bool {
			if g.Waits(addr(n)) {
				return false
			}
			c, ok := g.Try(addr(n))
			if ok {
				c.Judge(false)
			}
			return ok
		}
		passed := 0
		for n := range 2 * maxAddresses {
			if wrong(n) {
				passed++
			}
		}
		if want := maxAddresses + FreeGuesses; len(g.lines) != maxAddresses || passed != want {
			t.Errorf("%d addresses are remembered and %d guesses passed, want %d and %d", len(g.lines), passed, maxAddresses, want)
		}
		time.Sleep(time.Second)
		if !wrong(2*maxAddresses) || len(g.lines) != 1 {
			t.Errorf("a second later %d addresses are remembered, want 1", len(g.lines))
		}
		for _, one := range [][2]string{{"2001:db8::1", "2001:db8::2"}, {"10.0.0.1", "::ffff:10.0.0.1"}, {"fe80::1%eth0", "fe80::1%eth1"}} {
			if a, b := network(netip.MustParseAddr(one[0])), network(netip.MustParseAddr(one[1])); a != b {
				t.Errorf("%v counts as %v and %v", one, a, b)
			}
		}
		if network(netip.MustParseAddr("2001:db8::1")) == network(netip.MustParseAddr("2001:db8:0:1::1")) || network(netip.Addr{}) == network(netip.IPv4Unspecified()) {
			t.Error("different networks count as one")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range FreeGuesses {
			c, _ := g.Try(netip.Addr{})
			c.Judge(false)
		}
		if _, err := g.Wait(ctx, netip.Addr{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
