package feed

import (
	"context"
	"time"

	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/internal/feedjoin"
)

// keeper moves a named cursor behind the sink, once a second at most: each move is a record in the log. Its errors end nothing, as the sink
// has its own position: they are told, and the next move makes up for them.
type keeper struct {
	nodes *nodes
	name  string
	moves chan string // the newest position that the sink has
	done  chan struct{}

	last string // the last position that was put into moves
	told string
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
	k := &keeper{nodes: n, name: name, moves: make(chan string, 1), done: make(chan struct{})}
	go func() {
		defer close(k.done)
		tick := time.NewTicker(keepEach)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			select {
			case position := <-k.moves:
				k.set(ctx, position)
			default:
			}
		}
	}()
	return k
}

// move has the cursor moved to a position that the sink has. moved tells whether the sink got changes.
func (k *keeper) move(position string, moved bool) {
	if !moved && !far(k.last, position) {
		return
	}
	k.last = position
	select {
	case <-k.moves: // an older one
	default:
	}
	k.moves <- position
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

// set moves the cursor.
func (k *keeper) set(ctx context.Context, position string) {
	ctx, cancel := context.WithTimeout(ctx, keepAnswer)
	defer cancel()
	err := feedjoin.SetCursor(ctx, k.nodes, k.name, position)
	text := ""
	if err != nil {
		text = cli.Text(err)
	}
	if text != k.told && text != "" {
		k.nodes.log("the cursor %s was not moved: %s", k.name, text)
	}
	k.told = text
}

// finish moves the cursor to where the sink is at the end.
func (k *keeper) finish(ctx context.Context, position string) {
	<-k.done
	if position != "" {
		k.set(ctx, position)
	}
}
