package feed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/internal/feedjoin"
)

// keeper moves a named cursor behind the sink, once a second at most: each move is a record in the log. Its errors end nothing, as the sink
// has its own position: they are told, and the move is tried again a second later.
type keeper struct {
	nodes *nodes
	name  string
	done  chan struct{}
	last  string // the last position that was wanted
	told  string // the error of the last attempt

	mu     sync.Mutex
	wanted string // the newest position that the sink has, and the cursor perhaps not; empty: none
}

const (
	keepEach = time.Second
	// keepFar is how much log the cursor may be behind a sink that gets no changes, as a filter lets none pass.
	keepFar = 1 << 20
	// keepAnswer is how long the nodes may take for a move.
	keepAnswer = 10 * time.Second
)

// keep starts a keeper, which ends with ctx.
func keep(ctx context.Context, n *nodes, name string) *keeper {
	k := &keeper{nodes: n, name: name, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		tick := time.NewTicker(keepEach)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				k.follow(ctx)
			case <-ctx.Done():
				return
			}
		}
	}()
	return k
}

// follow moves the cursor to the wanted position, if there is one.
func (k *keeper) follow(ctx context.Context) {
	k.mu.Lock()
	position := k.wanted
	k.mu.Unlock()
	if position == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepAnswer)
	defer cancel()
	err := feedjoin.SetCursor(ctx, k.nodes, k.name, position)
	k.tell(err)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && k.wanted == position {
		k.wanted = ""
	}
}

// move has the cursor moved to a position that the sink has. moved tells whether the sink got changes.
func (k *keeper) move(position string, moved bool) {
	if !moved && !far(k.last, position) {
		return
	}
	k.last = position
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted = position
}

// far tells whether a position is much further than another. The keeper's own records alone do not count.
func far(from, to string) bool {
	a, errA := feedjoin.ParsePosition(from)
	b, errB := feedjoin.ParsePosition(to)
	if errA != nil || errB != nil {
		return true
	}
	was, okA := a.Sum()
	is, okB := b.Sum()
	return !okA || okB && is > was+keepFar
}

// tell tells of the error of an attempt, if the last attempt had another one.
func (k *keeper) tell(err error) {
	text := ""
	if err != nil {
		text = cli.Text(err)
	}
	if text != k.told && text != "" {
		k.nodes.log("the cursor %s was not moved: %s", k.name, text)
	}
	k.told = text
}

// finish moves the cursor to where the sink is at the end. The readers of the feed have closed their connections, so the nodes are looked for again.
func (k *keeper) finish(ctx context.Context, position string) {
	<-k.done
	if position == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepAnswer)
	defer cancel()
	passes := func(err error) bool { return errors.Is(err, errNoPrimary) || patience.Passes(err) }
	policy := patience.Policy{First: firstPause, Longest: lookEach, Limit: keepAnswer, Passes: passes}
	err := error(nil)
	_ = policy.Do(ctx, func() (bool, error) { // its error may be that of ctx, which says less
		err = feedjoin.SetCursor(ctx, k.nodes, k.name, position)
		return false, err
	})
	k.tell(err)
}
