package client

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// AggregatorOptions are the settings of an Aggregator. Zero values mean the defaults described here.
type AggregatorOptions struct {
	// Interval is how long increments are summed before they are sent: 10 ms, from 1 ms to 1 s. A process that is killed
	// loses the sums that it had not sent yet: about that much.
	Interval time.Duration
	// Keys is how many sums are sent in one command at most: 500, to 10,000.
	Keys int
	// Pending is how many sums are held at most, those on their way included: 100,000. A sum is a column of a post that
	// was added to; it takes about 60 bytes.
	Pending int
	// NoWait makes Add answer ErrFull, where it would otherwise wait for room: while the server cannot be reached, say.
	NoWait bool
	// Shards is how many producers send, each one command at a time: as many as processors, at most 4, to 256. A post
	// is always sent by the same one.
	Shards int
	// OnError is told of sums that were not made. It is called on the goroutine that sends, which goes on when it
	// returns: it must not wait for this Aggregator. Without it the next Flush or Close returns the first one.
	OnError func(*SumsError)
}

// check sets the defaults, and returns an error for invalid values.
func (o *AggregatorOptions) check() error {
	var errs []error
	set := func(name string, v *int, usual, most int) {
		if *v == 0 {
			*v = usual
		}
		if *v < 1 || *v > most {
			errs = append(errs, fmt.Errorf("client: %s is %d, want 1 to %d", name, *v, most))
		}
	}
	if o.Interval == 0 {
		o.Interval = 10 * time.Millisecond
	}
	if o.Interval < time.Millisecond || o.Interval > time.Second {
		errs = append(errs, fmt.Errorf("client: Interval is %v, want 1ms to 1s", o.Interval))
	}
	set("Keys", &o.Keys, 500, 10_000)
	set("Pending", &o.Pending, 100_000, 1<<30)
	set("Shards", &o.Shards, min(runtime.GOMAXPROCS(0), firstLanes), 256)
	return errors.Join(errs...)
}

// Sum is the total added to a column of a post in one tick.
type Sum struct {
	Mid    uint64
	Column string
	N      int64
}

// SumsError is sums that were not made, or that nobody knows of: ClassOf says which.
type SumsError struct {
	Sums []Sum
	// Refused is how many of them were not made. It is less than all where the server says how many additions of a
	// command were out of their column's range, and not which.
	Refused int
	Err     error
}

func (e *SumsError) Error() string {
	if e.Refused == 1 && len(e.Sums) == 1 {
		s := e.Sums[0]
		return fmt.Sprintf("client: %+d to %s of post %d: %v", s.N, s.Column, s.Mid, e.Err)
	}
	return fmt.Sprintf("client: %d of %d sums: %v", e.Refused, len(e.Sums), e.Err)
}

func (e *SumsError) Unwrap() error { return e.Err }

// ErrRange is in a SumsError of additions that would have left their columns' ranges, and the answer to an addition
// that would make a sum above 2^62.
var ErrRange = errors.New("out of the column's range")

// ErrForgotten is in a SumsError of sums in doubt that can no longer be repeated, as the server does not know their
// producer any more: it was out of reach for longer than it remembers one.
var ErrForgotten = errors.New("the server has forgotten the producer")

// ErrUnfinished is in the SumsError of a Close whose context ended first.
var ErrUnfinished = errors.New("closed before it was sent and answered")

// Aggregator sums increments and sends the sums, each tick those of many posts in one command under one number. A tick whose
// answer is lost is sent again, the same bytes, until the answer is known: it is counted once. There is at most one command
// of a shard on its way; increments that come meanwhile are summed for the next. So a slow server gets fewer and larger
// ticks, and a server that is down gets none, until Pending sums are held and Add waits.
//
//	Add(7, repost, 1) --+                     +-- tick 1: COUNTER.MINCRBY 7.cntrn 412 9.cntrn 3 QUIET IDMP producer 1
//	Add(7, repost, 1) --+--> shard: 7.cntrn 2 |          on its way, repeated while in doubt
//	Add(9, repost, 1) --+           9.cntrn 1 +-- tick 2: being summed
//
// It is safe for concurrent use.
type Aggregator struct {
	c       *Client
	options AggregatorOptions
	shards  []*shard
	shift   uint                       // a hash's top bits are the shard's number
	columns atomic.Pointer[[]interned] // that were added to, only ever appended to

	ctx    context.Context // ends the requests in flight, if Close may not wait for them
	cancel context.CancelFunc

	closing   chan struct{} // closed by the first Close
	closeOnce sync.Once
	ended     sync.WaitGroup // the shards' goroutines

	mu     sync.Mutex // guards failed; leaf
	failed error      // the first that nobody was told of
}

// NewAggregator makes an Aggregator, with a goroutine a shard until Close. The retry budget is not for it: it has one
// command a shard on its way, however many increments wait.
func (c *Client) NewAggregator(options AggregatorOptions) (*Aggregator, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	options.Shards = 1 << bits.Len(uint(options.Shards-1)) // to a power of two
	a := &Aggregator{c: c, options: options, shift: uint(64 - bits.Len(uint(options.Shards-1))), closing: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.columns.Store(new([]interned))
	for range options.Shards {
		s := newShard(a, max(1, options.Pending/options.Shards))
		a.shards = append(a.shards, s)
		a.ended.Go(s.run)
	}
	return a, nil
}

// Incr adds 1 to a column of a post.
func (a *Aggregator) Incr(ctx context.Context, mid uint64, column string) error {
	return a.Add(ctx, mid, column, 1)
}

// Add adds n, which may be negative, to a column of a post, by name or suffix. It returns before anything is sent, but waits
// where there is no room for another sum. A mid above 2^63-1 is refused. The sum of a tick is one addition to the server.
// The server checks the column's range for the sum.
func (a *Aggregator) Add(ctx context.Context, mid uint64, column string, n int64) error {
	if err := checkMid(mid); err != nil { // one such key would have the server refuse the sums of all others
		return err
	}
	id, err := a.column(ctx, column)
	if err != nil {
		return err
	}
	s := a.shards[mid*0x9e3779b97f4a7c15>>a.shift&uint64(len(a.shards)-1)]
	return s.add(ctx, cell{mid, id}, n)
}

// interned is a column's name as a caller gave it, and the column that the schema had for it then. A column that is called
// by its name and by its suffix is there twice, and has one sum: a post's sums are not made in the order of the additions,
// so that two of one column could pass its range in between.
type interned struct {
	name    string
	columns *columns
	column  int
	cell    uint32 // the number used by cells: the place of the first name for the column
}

// column gives a name the number that cells have.
func (a *Aggregator) column(ctx context.Context, column string) (uint32, error) {
	find := func(list []interned) int {
		for i := range list { // a few: cheaper than to hash
			if list[i].name == column {
				return i
			}
		}
		return -1
	}
	list := *a.columns.Load()
	if i := find(list); i >= 0 {
		return list[i].cell, nil
	}
	cs, place, err := a.c.columns.find(ctx, column)
	if err != nil {
		return 0, err
	}
	for {
		old := a.columns.Load()
		if i := find(*old); i >= 0 {
			return (*old)[i].cell, nil
		}
		added := interned{column, cs, place, uint32(len(*old))}
		for i := range *old {
			if other := &(*old)[i]; other.columns.suffixes[other.column] == cs.suffixes[place] {
				added.cell = other.cell
				break
			}
		}
		list := append((*old)[:len(*old):len(*old)], added)
		if a.columns.CompareAndSwap(old, &list) {
			return added.cell, nil
		}
	}
}

// Flush waits until all that was added before is on the server, or refused. It returns the context's error, or else the
// first error that nobody was told of.
func (a *Aggregator) Flush(ctx context.Context) error {
	ticks := make([]uint64, len(a.shards))
	for i, s := range a.shards {
		ticks[i] = s.flush()
	}
	for i, s := range a.shards {
		if err := s.await(ctx, ticks[i]); err != nil {
			return err
		}
	}
	return a.untold()
}

// Close refuses further additions, waits until all that was added is on the server, or refused, and ends the goroutines. If
// the context ends first, it returns SumsErrors for all sums that are not known to be made, joined: first for those in
// doubt, if any, then for those that were not sent.
func (a *Aggregator) Close(ctx context.Context) error {
	a.closeOnce.Do(func() { close(a.closing) })
	done := make(chan struct{})
	go func() {
		a.ended.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		a.cancel()
		<-done
	}
	a.cancel()
	return errors.Join(append([]error{a.untold()}, a.left()...)...)
}

// left returns the errors of a Close that did not wait: one for the sums in doubt, and one for the rest.
func (a *Aggregator) left() (errs []error) {
	var doubt, rest *SumsError
	for _, s := range a.shards {
		s.mu.Lock()
		for _, piece := range s.pieces {
			all := &rest
			if IsInDoubt(piece) {
				all = &doubt
			}
			if *all == nil {
				*all = &SumsError{Err: piece.Err}
			}
			(*all).Sums = append((*all).Sums, piece.Sums...)
			(*all).Refused += piece.Refused
		}
		s.pieces = nil
		s.mu.Unlock()
	}
	for _, e := range []*SumsError{doubt, rest} {
		if e != nil {
			errs = append(errs, e)
		}
	}
	return errs
}

// report tells of sums that were not made.
func (a *Aggregator) report(e *SumsError) {
	if a.options.OnError != nil {
		a.options.OnError(e)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed == nil {
		a.failed = e
	}
}

// untold is the first error that nobody was told of.
func (a *Aggregator) untold() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.failed
	a.failed = nil
	return err
}

// AggregatorStats are counts since the Aggregator was made, and the sums that it holds now.
type AggregatorStats struct {
	Added    uint64 // additions that were taken
	Sums     uint64 // that were answered
	Commands uint64 // that were answered
	Repeats  uint64
	Pending  int // sums held, on their way or not
}

// Stats adds up the shards.
func (a *Aggregator) Stats() (all AggregatorStats) {
	for _, s := range a.shards {
		s.mu.Lock()
		all.Added += s.stats.Added
		all.Sums += s.stats.Sums
		all.Commands += s.stats.Commands
		all.Repeats += s.stats.Repeats
		all.Pending += len(s.now.sums) + s.sending
		s.mu.Unlock()
	}
	return all
}
