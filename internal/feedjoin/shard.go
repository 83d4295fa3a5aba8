package feedjoin

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/counterd/counterd/internal/sleep"
)

const (
	// least and most are the pauses between attempts that fail.
	least, most = 10 * time.Millisecond, time.Second
	// idle is the pause of a feed that does not wait for changes.
	idle = 10 * time.Millisecond
)

// shard is the feed of one shard. It belongs to the goroutine of Feed, but for more.
type shard[T any] struct {
	id      uint64
	first   string        // where it began, if that is a word
	at      string        // behind the last change that was given
	waiting []Change[T]   // that were read
	end     string        // behind them
	asked   bool          // for a reply that has not come yet
	ended   bool          // the last reply had nothing new
	missed  int           // looks at the cluster, one after the other, that have not found it
	more    chan struct{} // asks for the next reply
}

// left tells whether the shard has left the cluster. Nobody has its log any more; its place stays, as gains name it.
func (s *shard[T]) left() bool { return s.missed > 1 }

// answer is a reply that the goroutine of a shard has read.
type answer[T any] struct {
	shard uint64
	from  string
	reply Reply[T]
	err   error
}

// follow reads a shard until the feed ends: one reply each time that it is asked.
func (f *Feed[T]) follow(id uint64, at string, more <-chan struct{}) {
	var r Reader[T]
	defer func() {
		if r != nil {
			r.Close()
		}
	}()
	for {
		select {
		case <-more:
		case <-f.ctx.Done():
			return
		}
		a := answer[T]{shard: id, from: at}
		a.reply, a.err = f.reply(id, &r, &at)
		a.from = at
		select {
		case f.read <- a:
		case <-f.ctx.Done():
			return
		}
		if a.err != nil {
			return
		}
		if f.o.Polls && a.reply.Next == at && !sleep.For(f.ctx, idle) {
			return
		}
		at = a.reply.Next
	}
}

// reply reads the next reply of a shard, with any reader that has its log, until there is one or an error that ends the feed.
//
// A shard of a cluster whose oldest log is asked for begins at Begin, and where the log no longer reaches back to that, at the position
// that the node names: so the position is known before the first change is given.
func (f *Feed[T]) reply(id uint64, r *Reader[T], at *string) (reply Reply[T], err error) {
	oldest := *at == Oldest && id != 0
	if oldest {
		*at = Begin
	}
	for pause := least; ; pause = min(2*pause, most) {
		if *r == nil {
			*r, err = f.source.Reader(f.ctx, id)
		}
		if *r != nil {
			if reply, err = (*r).Read(f.ctx, *at); err == nil {
				return reply, nil
			}
			(*r).Close()
			*r = nil
		}
		if f.ctx.Err() != nil {
			return reply, f.ctx.Err()
		}
		end := f.source.Ends(id, *at, err)
		if gone, ok := errors.AsType[*PositionError](end); ok && oldest && !gone.History && gone.Next != "" {
			*at, oldest, pause = gone.Next, false, least
			continue
		}
		if end != nil {
			return reply, end
		}
		wait(f.ctx, pause)
	}
}

// wait pauses for about a time.
func wait(ctx context.Context, d time.Duration) { sleep.For(ctx, d/2+rand.N(d/2)) }
