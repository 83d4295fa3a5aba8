package repl

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestWaitAsks: goroutines that wait for more replicas than there are ask the ones there are now and then, and not after each
// acknowledgement. Two replicas that answer at once would be asked without end.
func TestWaitAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := &Peers{}
		asked := 0
		for range 2 {
			p := &Peer{peers: ps}
			kick := context.CancelFunc(func() {
				if p.wantAck.Swap(false) {
					asked++
					if asked > 10_000 {
						t.Fatal("asked 10,000 times")
					}
					go func() {
						time.Sleep(time.Microsecond)
						ps.changed()
					}()
				}
			})
			p.kick.Store(&kick)
			ps.add(p)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		looked := 0
		ps.Wait(ctx, func() bool { looked++; return false })
		// 6 requests in the first 50 ms, and one each 50 ms then, to each of them.
		if want := 2 * (7 + int(10*time.Second/lastAsk)); asked > want || asked < want/2 {
			t.Errorf("asked %d times in 10 s, want %d about", asked, want)
		}
		if looked < asked {
			t.Errorf("looked %d times after %d acknowledgements", looked, asked)
		}
	})
}
