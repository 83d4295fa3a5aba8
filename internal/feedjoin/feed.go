package feedjoin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Change is a change of a log as a user's Source reads it.
type Change[T any] struct {
	Position string // behind it, in the log of its shard
	Gains    []Gain
	Value    T
}

// Gain says that groups of hash slots are a shard's from here on. The log of the shard From has nothing of them from Offset on.
type Gain struct {
	Groups string
	From   uint64 // 0: not known, and nothing waits
	Offset uint64
}

// Reply is a reply of COUNTER.FEED.
type Reply[T any] struct {
	Changes []Change[T]
	Next    string // behind the changes, and behind those that are not shown
}

// Reader reads the log of a shard on one node. It belongs to one goroutine.
type Reader[T any] interface {
	// Read returns the changes behind a position or word. It waits for about a second for a change, unless the position is Now. The
	// memory of a reply is the user's until the next Read but one.
	Read(ctx context.Context, from string) (Reply[T], error)
	// Close lets the node go, behind an error of Read or at the end of the feed.
	Close()
}

// Source is the nodes. Safe for concurrent use.
type Source[T any] interface {
	// Shards returns the shards that there are now: 0 alone if it is no cluster. With an error there may be more of them than it returns, as the number
	// of a shard is known only while a node leads it.
	Shards(ctx context.Context) ([]uint64, error)
	// Reader returns a reader of a shard's log. Behind an error of Read it may be on another node.
	Reader(ctx context.Context, shard uint64) (Reader[T], error)
	// Ends is the error that ends the feed, of an error of Shards (shard 0, from empty), Reader or Read; nil: it may pass.
	Ends(shard uint64, from string, err error) error
}

// Options are the options of a feed.
type Options struct {
	From  string // a position, Now or Oldest
	Polls bool   // replies do not wait for changes
}

// look is how often a feed looks for new shards.
const look = 2 * time.Second

// Feed gives the changes of one log, or of the shards of a cluster. It belongs to one goroutine, and must be closed.
type Feed[T any] struct {
	source  Source[T]
	o       Options
	ctx     context.Context
	cancel  context.CancelFunc
	shards  map[uint64]*shard[T]
	place   Position // of all shards: behind the changes that were given
	unknown int      // shards whose place is a word
	lacks   bool     // there may be more shards: not all were known when it began
	turn    uint64   // the shard that gave changes last
	failed  error    // an answer's, once all before it was given

	read  chan answer[T]
	found chan found
	done  sync.WaitGroup
}

// found is the result of a look for new shards.
type found struct {
	ids []uint64
	all bool // there are no others
}

// Batch is changes of one shard, in order. Without changes it says that the position is another, or that the shard had nothing new.
type Batch[T any] struct {
	Shard   uint64
	Changes []Change[T]
	// Head and Tail stand around the position of a change in the position of the feed behind it.
	Head, Tail string
}

// Position is the position of the feed behind a change.
func (b *Batch[T]) Position(i int) string { return b.Head + b.Changes[i].Position + b.Tail }

// Open begins a feed. It waits until a node has told the shards. The error is one of ctx, or of Source.Ends.
func Open[T any](ctx context.Context, source Source[T], o Options) (*Feed[T], error) {
	f := &Feed[T]{source: source, o: o, shards: make(map[uint64]*shard[T]), place: make(Position), read: make(chan answer[T]), found: make(chan found)}
	f.ctx, f.cancel = context.WithCancel(ctx)
	if err := f.begin(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// begin adds the shards.
func (f *Feed[T]) begin() error {
	first := Begin
	if word(f.o.From) {
		first = f.o.From
	} else {
		p, err := ParsePosition(f.o.From)
		if err != nil {
			return err
		}
		for id, at := range p {
			f.add(id, at)
		}
		if f.shards[0] != nil {
			return nil
		}
	}
	for pause := least; ; pause = min(2*pause, most) {
		ids, err := f.source.Shards(f.ctx)
		if err == nil || len(f.shards) > 0 && len(ids) > 0 { // a shard without a place in the position is new, and may come later
			if f.lacks = err != nil; f.lacks && f.o.Polls {
				_ = f.source.Ends(0, "", err) // users are told why the feed does not end
			}
			f.addAll(ids, first)
			if err == nil {
				f.miss(ids)
			}
			break
		}
		if f.ctx.Err() != nil {
			return f.ctx.Err()
		}
		if err = f.source.Ends(0, "", err); err != nil {
			return err
		}
		wait(f.ctx, pause)
	}
	if f.shards[0] == nil {
		f.done.Go(f.lookOut)
	}
	return nil
}

// lookOut looks for new shards until the feed ends. Each look makes up for the last one.
func (f *Feed[T]) lookOut() {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.ctx.Done():
			return
		}
		ids, err := f.source.Shards(f.ctx)
		if err != nil && len(ids) == 0 {
			continue
		}
		select {
		case f.found <- found{ids, err == nil}:
		case <-f.ctx.Done():
			return
		}
	}
}

func (f *Feed[T]) addAll(ids []uint64, at string) {
	for _, id := range ids {
		if f.shards[id] == nil {
			f.add(id, at)
		}
	}
}

// add begins to read a shard.
func (f *Feed[T]) add(id uint64, at string) {
	s := &shard[T]{id: id, at: at, end: at, asked: true, more: make(chan struct{}, 1)}
	if word(at) {
		s.first = at
		f.unknown++
	}
	f.shards[id], f.place[id] = s, at
	s.more <- struct{}{}
	f.done.Go(func() { f.follow(id, at, s.more) })
}

// miss counts the looks that have found all shards of the cluster but one of the feed. A single look may have asked a node that has an old map.
func (f *Feed[T]) miss(ids []uint64) {
	for id, s := range f.shards {
		if slices.Contains(ids, id) {
			s.missed = 0
		} else if s.missed++; s.left() && s.first != "" { // its place will never be known
			f.failed = fmt.Errorf("%w: shard %d", ErrShardLeft, id)
		}
	}
}

// Next returns the next changes. A batch without changes comes behind each reply that has none. The error is that of the context, or one
// of Source.Ends: a *PositionError there has the positions of the feed. It comes when all changes before it were given.
func (f *Feed[T]) Next() (Batch[T], error) {
	for {
		b, ok, err := f.give()
		if ok || err != nil {
			return b, err
		}
		if f.failed != nil {
			return Batch[T]{}, f.failed
		}
		select {
		case <-f.ctx.Done():
			return Batch[T]{}, f.ctx.Err()
		case look := <-f.found:
			f.addAll(look.ids, Begin)
			f.lacks = f.lacks && !look.all
			if look.all {
				f.miss(look.ids)
			}
		case a := <-f.read:
			if f.take(&a) {
				return Batch[T]{Shard: a.shard}, nil
			}
		}
	}
}

// take takes the answer of a shard. It is true for a reply without changes.
func (f *Feed[T]) take(a *answer[T]) bool {
	s := f.shards[a.shard]
	if a.err != nil {
		f.failed = f.failure(s, a.err)
		return false
	}
	if s.first != "" {
		f.unknown--
		s.at = a.from
		if s.first == Now { // it began a moment later
			s.at, a.reply.Changes = a.reply.Next, nil
		}
		if s.id == 0 && s.first == Oldest {
			s.at = Oldest
		}
		s.first = ""
	}
	s.waiting, s.end, s.asked = a.reply.Changes, a.reply.Next, false
	s.ended = len(s.waiting) == 0 && (a.from == a.reply.Next)
	if len(s.waiting) > 0 {
		f.place[s.id] = s.at
		return false
	}
	f.passed(s)
	return true
}

// failure is the error of a shard that ends the feed, with the positions of all shards.
func (f *Feed[T]) failure(s *shard[T], err error) error {
	if gone, ok := errors.AsType[*PositionError](err); ok {
		gone.Shard, gone.At = s.id, f.place.String()
		if gone.Next != "" {
			next := maps.Clone(f.place)
			next[s.id] = gone.Next
			gone.Next = next.String()
		}
	}
	return err
}

// give returns changes that need not wait. The shards have their turns.
func (f *Feed[T]) give() (b Batch[T], ok bool, err error) {
	if f.unknown > 0 {
		return b, false, nil
	}
	ids := slices.Sorted(maps.Keys(f.shards))
	at, _ := slices.BinarySearch(ids, f.turn+1)
	for i := range ids {
		s := f.shards[ids[(at+i)%len(ids)]]
		n, err := f.ready(s)
		if err != nil {
			return b, false, err
		}
		if n == 0 {
			continue
		}
		f.turn = s.id
		b = Batch[T]{Shard: s.id, Changes: s.waiting[:n]}
		b.Head, b.Tail = f.place.around(s.id)
		if s.waiting = s.waiting[n:]; len(s.waiting) > 0 {
			s.at = b.Changes[n-1].Position
			f.place[s.id] = s.at
		} else {
			f.passed(s)
		}
		return b, true, nil
	}
	return b, false, nil
}

// passed notes that all changes of a reply were given, and asks for the next ones.
func (f *Feed[T]) passed(s *shard[T]) {
	s.at, s.asked = s.end, true
	f.place[s.id] = s.at
	s.more <- struct{}{}
}

// ready is how many changes of a shard may be given: those in front of a gain whose source has not come to the place that it names.
func (f *Feed[T]) ready(s *shard[T]) (n int, err error) {
	for ; n < len(s.waiting); n++ {
		for _, g := range s.waiting[n].Gains {
			if g.From == 0 || s.id == 0 {
				continue
			}
			if n > 0 { // the changes before it first: the shard that it waits for may wait for these
				return n, nil
			}
			source := f.shards[g.From]
			if source == nil { // it is new, too, or it has gone
				ids, err := f.source.Shards(f.ctx)
				f.addAll(ids, Begin)
				if source = f.shards[g.From]; source == nil && err != nil {
					return 0, f.source.Ends(0, "", err)
				}
				if source == nil {
					return 0, g.shardLeft()
				}
			}
			if at, ok := Offset(source.at); !ok || at < g.Offset {
				if source.left() && len(source.waiting) == 0 {
					return 0, g.shardLeft()
				}
				return 0, nil
			}
		}
	}
	return n, nil
}

// shardLeft is the error of a gain whose source has gone before the feed has come to its offset.
func (g *Gain) shardLeft() error {
	return fmt.Errorf("%w: groups of hash slots came from shard %d at its offset %d", ErrShardLeft, g.From, g.Offset)
}

// Position is behind all changes that were given. It may have a word before the first batch.
func (f *Feed[T]) Position() string { return f.place.String() }

// CaughtUp tells whether the last reply of each shard had nothing new. It is false while a shard may be there that is not known.
func (f *Feed[T]) CaughtUp() bool {
	for _, s := range f.shards {
		if !s.ended && !s.left() || len(s.waiting) > 0 {
			return false
		}
	}
	return f.unknown == 0 && !f.lacks
}

// Settled tells whether Position is one to go on from.
func (f *Feed[T]) Settled() bool { return f.unknown == 0 }

// Close ends all reading.
func (f *Feed[T]) Close() {
	f.cancel()
	f.done.Wait()
}
