package repl

import (
	"context"
	"fmt"
	"strconv"
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

// TestFeedGivesWay feeds a replica that is behind by some hundred KB: others have a turn behind each buffer that is sent.
func TestFeedGivesWay(t *testing.T) {
	w := newWorld(t)
	a := w.primary.Store()
	for i := range 20_000 {
		if err := a.Set(fmt.Sprintf("%d.n", i%200), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	end := w.primary.commit()
	ps, pauses := newTestNode(w.primary).Peers(), int64(0)
	ps.Pause = func() { pauses++ } // by the feeder, which Close waits for
	p := ps.NewPeer(&scripted{})
	past := a.Replication().Lineage()
	if err := p.Configure("history", past.AppendText(nil)); err != nil {
		t.Fatal(err)
	}
	if _, stream, err := p.Sync(a, past.Current().ReplID.String(), strconv.FormatUint(w.behind, 10)); err != nil || !stream {
		t.Fatal(stream, err)
	}
	p.Feed()
	for p.sent.Load() < end {
		time.Sleep(time.Millisecond)
	}
	p.Close()
	if want := int64(end-w.behind) / (2 * sendBuffer); pauses < want || want < 2 {
		t.Errorf("gave way %d times while %d bytes were sent, want at least %d", pauses, end-w.behind, want)
	}
}
