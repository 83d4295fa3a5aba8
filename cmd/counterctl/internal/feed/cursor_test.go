package feed

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/internal/feedjoin"
)

// keeping are the nodes of a keeper, and the moves of the cursor that they answer.
func keeping(s *shards) (n *nodes, position string, moves []string) {
	position = feedjoin.Position{2: place(2), 3: place(3)}.String()
	n = newNodes(&Options{Addrs: []string{"127.0.0.1:2"}, Dial: s.dial, Log: func(string, ...any) {}})
	return n, position, []string{"2 COUNTER.CURSOR SET search " + place(2), "3 COUNTER.CURSOR SET search " + place(3)}
}

// TestCursorAgain: a shard without a primary gets the move of the cursor when it has one, also if no change comes meanwhile, and once.
func TestCursorAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shards{headless: true}
		n, position, moves := keeping(s)
		ctx, stop := context.WithCancel(t.Context())
		k := keep(ctx, n, "search")
		k.move(position, true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !slices.Contains(s.sent, moves[0]) || slices.Contains(s.sent, moves[1]) {
			t.Errorf("shard 3 has no primary: got %q, want %q alone", s.sent, moves[0])
		}
		s.mu.Lock()
		s.sent, s.headless = nil, false
		s.mu.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if !slices.Equal(s.sent, moves) {
			t.Errorf("shard 3 has a primary: got %q, want %q", s.sent, moves)
		}
		stop()
		k.finish(t.Context(), "")
		synctest.Wait()
	})
}

// TestCursorAtEnd: the readers of a feed that has ended take their nodes for gone, and the cluster was asked for its primaries a moment ago. The cursor comes to the end
// of the feed nevertheless.
func TestCursorAtEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(shards)
		n, position, moves := keeping(s)
		ctx, stop := context.WithCancel(t.Context())
		k := keep(ctx, n, "search")
		for shard := range uint64(2) {
			addr, err := n.node(ctx, 2+shard)
			if err != nil {
				t.Fatal(err)
			}
			n.suspect(2+shard, addr)
		}
		stop()
		k.finish(t.Context(), position)
		synctest.Wait()
		if !slices.Equal(s.sent, moves) {
			t.Errorf("got %q, want %q", s.sent, moves)
		}
	})
}
