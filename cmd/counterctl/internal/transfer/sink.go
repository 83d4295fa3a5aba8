package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/schema"
)

const (
	// ChunkSize is how many items are well written at a time: sorted among so many, they share blocks and cache lines.
	ChunkSize = 48 << 10
	// ChunkMax is how many a chunk may have: its additions are 100 commands at most, as a server remembers the last 128
	// numbers of a producer, and a command may have 65,536 arguments.
	ChunkMax = 3_000_000

	// numbers is how many numbers a chunk of additions takes at most.
	numbers = 100

	// pairs is how many numbers a command changes. With sorted posts a server takes 0.27 us for each, with scattered ones
	// 0.53, with 128 as with 512; with 1024 scattered ones took 0.7. Other clients wait 0.3 ms for one at most. An HSET for
	// each post of three columns takes as much as three keys of an MSET.
	pairs = 512
	// window is how many commands are under way: 16 are 250 KB, which fills a link of 2 ms and 1 Gbit/s.
	window = 16

	// slotWindow is how many commands of a few numbers are under way to a node of a cluster.
	slotWindow = 256
	// remembered is how many numbers of a producer a server remembers, and slotPairs how many numbers a command of additions
	// of one hash slot changes at most.
	remembered = 128
	slotPairs  = 32_000

	answerTimeout = time.Minute

	defaultPatience = time.Minute
	firstWait       = 50 * time.Millisecond
	longestWait     = 2 * time.Second
)

// SinkOptions say where a Sink writes to.
type SinkOptions struct {
	// Dial connects to the counterd. It is called anew when a connection is lost.
	Dial func(context.Context) (*wire.Conn, error)
	// Schema is the server's, and Columns what an item's Column is an index in.
	Schema  *schema.Schema
	Columns []mapping.Column
	// Producer numbers additions, so that they count once however often they are sent. Without one there must be none.
	Producer string
	// Rate is how many items a second are written at most; 0: as many as go.
	Rate float64
	// Patience is how long errors that may pass (a lost connection, LOADING, MISCONF, OOM, READONLY) are waited for without
	// anything being written in between. 0: a minute.
	Patience time.Duration
	// Log is told the reasons of waits; it may be nil.
	Log func(text string)
	// Shards is where the posts of a cluster are; nil: the target is one server. Additions then have a producer for each
	// group of hash slots.
	Shards *Shards
}

// Sink writes items to a counterd. It is not safe for concurrent use.
type Sink struct {
	o      SinkOptions
	lanes  map[string]*lane // by address; "": one server
	folder folder
	buffer []mapping.Item // of Put
	text   []byte         // of all commands of a chunk
	todo   []command      // of a chunk
	set    []mapping.Item // of a chunk
	added  []mapping.Item // of a chunk
	key    []byte
	seq    uint64              // the last number used
	seqs   [slot.Groups]uint64 // the last numbers of the producers of a cluster
	// slotPairs is the constant, but in tests.
	slotPairs int
	pacing    sync.Mutex // of due
	due       time.Time
	refused   uint64
	at        *position // behind the last chunk that is written; nil: not known
	blind     bool      // the target does not tell its position
}

// command is a command to be sent.
type command struct {
	name       string
	start, end int // in text
	items      int
	slot       uint16 // of its posts, in a cluster
}

// ErrChunk is a chunk of more than ChunkMax items.
var ErrChunk = fmt.Errorf("transfer: a chunk has at most %d items", ChunkMax)

// ErrGroup is a chunk that has more additions of one group of hash slots than can be repeated safely.
var ErrGroup = fmt.Errorf("transfer: a chunk takes more than %d numbers of one group of hash slots", remembered)

// TargetError is an item that the server did not take, after all retries.
type TargetError struct {
	Waited time.Duration // 0: waiting does not help
	Err    error
}

func (e *TargetError) Error() string {
	if e.Waited == 0 {
		return fmt.Sprintf("the target refused: %v", e.Err)
	}
	return fmt.Sprintf("the target took nothing for %v: %v", e.Waited.Round(time.Second), e.Err)
}

func (e *TargetError) Unwrap() error { return e.Err }

// NewSink makes a Sink. It connects with the first write.
func NewSink(o SinkOptions) *Sink {
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	return &Sink{o: o, lanes: map[string]*lane{}, slotPairs: slotPairs}
}

// Close closes the connections.
func (s *Sink) Close() (err error) {
	for _, l := range s.lanes {
		err = cmp.Or(err, l.close())
	}
	return err
}

// Seq returns the last number that an addition was sent under, and SetSeq says which that was. Items that are written
// again, all of a chunk in the same order behind the same number, count once.
func (s *Sink) Seq() uint64     { return s.seq }
func (s *Sink) SetSeq(n uint64) { s.seq = n }

// Seqs and SetSeqs are the same for a cluster: by group of hash slots. There is nothing to set without a list.
func (s *Sink) Seqs() []uint64 {
	if s.o.Shards == nil {
		return nil
	}
	return slices.Clone(s.seqs[:])
}
func (s *Sink) SetSeqs(list []uint64) { copy(s.seqs[:], list) }

// Refused returns how many additions the server did not make, as they would have left their column's range.
func (s *Sink) Refused() uint64 { return s.refused }

// Put writes an item some time until Flush has returned.
func (s *Sink) Put(ctx context.Context, i mapping.Item) error {
	s.buffer = append(s.buffer, i)
	if len(s.buffer) < ChunkSize {
		return nil
	}
	return s.Flush(ctx)
}

// Flush writes the items that were put. After an error it is still there, and Flush goes on with it; additions are not
// numbered anew.
func (s *Sink) Flush(ctx context.Context) error {
	seq, seqs := s.seq, s.seqs
	if err := s.Write(ctx, s.buffer); err != nil {
		s.seq, s.seqs = seq, seqs
		return err
	}
	s.buffer = s.buffer[:0]
	return nil
}

// Write writes a chunk and returns when the server has acknowledged all of it. The items of a number take effect in their
// order; those of different numbers may be made in any order. After an error some of the chunk is made. A *LostError says that
// an earlier chunk is lost. A chunk is written again, behind the same numbers, where the target may have lost a part of it.
func (s *Sink) Write(ctx context.Context, items []mapping.Item) error {
	if len(items) > ChunkMax {
		return ErrChunk
	}
	if s.at == nil {
		if _, err := s.stands(ctx, s.seq); err != nil {
			return err
		}
	}
	seq, seqs, refused := s.seq, s.seqs, s.refused
	for {
		s.seq, s.seqs, s.refused = seq, seqs, refused
		if err := s.plan(s.folder.fold(items)); err != nil {
			return err
		}
		if len(s.todo) == 0 {
			return nil
		}
		cut, err := s.sendAll(ctx, seq)
		if err != nil {
			return err
		}
		if again, err := s.stands(ctx, seq); !again && !cut || err != nil {
			return err
		}
		if s.o.Log != nil {
			s.o.Log("the target has a new history: writing the last values again")
		}
	}
}

// sendAll sends the planned commands until all are acknowledged. A new connection may be to a server that was started from an older
// copy of its directory, whose log may soon be as long as before: so the log is compared before anything is sent. again is as stands has it.
func (s *Sink) sendAll(ctx context.Context, seq uint64) (again bool, err error) {
	policy := patience.Policy{First: firstWait, Longest: longestWait, Limit: s.o.Patience, Tell: longestWait, Passes: func(err error) bool {
		lost := (*LostError)(nil)
		return !errors.As(err, &lost) && patience.Passes(err)
	}}
	if s.o.Log != nil {
		policy.Waiting = func(err error) { s.o.Log(fmt.Sprintf("waiting for the target: %v", err)) }
	}
	err = policy.Do(ctx, func() (bool, error) {
		if l := s.lanes[""]; l != nil && l.conn == nil {
			other, err := s.stands(ctx, seq)
			if again = again || other; err != nil {
				return false, err
			}
		}
		before := len(s.todo)
		err := s.send(ctx)
		return len(s.todo) < before, err
	})
	var spent *patience.SpentError
	if errors.As(err, &spent) {
		err = &TargetError{spent.Waited, spent.Err}
	}
	return again, err
}

// plan makes the commands of items, which are sorted.
func (s *Sink) plan(items []mapping.Item) error {
	s.text, s.todo, s.set, s.added = s.text[:0], s.todo[:0], s.set[:0], s.added[:0]
	for _, i := range items {
		switch i.Op {
		case mapping.Set:
			s.set = append(s.set, i)
		case mapping.Add:
			s.added = append(s.added, i)
		case mapping.Delete:
			s.delete(i)
		}
	}
	if s.o.Shards == nil {
		s.pairs("MSET", s.set, pairs, false)
		s.pairs("COUNTER.MINCRBY", s.added, max(pairs, (len(s.added)+numbers-1)/numbers), true)
		return nil
	}
	before := s.seqs
	bySlot(s.set, func(part []mapping.Item) { s.pairs("MSET", part, pairs, false) })
	bySlot(s.added, func(part []mapping.Item) { s.pairs("COUNTER.MINCRBY", part, s.slotPairs, true) })
	for group := range before {
		if s.seqs[group]-before[group] > remembered {
			s.seqs = before
			return ErrGroup
		}
	}
	return nil
}

// bySlot sorts items by hash slot, and calls f with the items of each slot.
func bySlot(items []mapping.Item, f func(part []mapping.Item)) {
	slices.SortStableFunc(items, func(a, b mapping.Item) int { return cmp.Compare(slot.Of(a.Mid), slot.Of(b.Mid)) })
	for n := 0; len(items) > 0; items, n = items[n:], 0 {
		for of := slot.Of(items[0].Mid); n < len(items) && slot.Of(items[n].Mid) == of; {
			n++
		}
		f(items[:n])
	}
}

// delete takes a number away.
func (s *Sink) delete(i mapping.Item) {
	column := s.o.Columns[i.Column]
	c := command{name: "HDEL", start: len(s.text), items: 1, slot: slot.Of(i.Mid)}
	s.text = wire.AppendArray(s.text, 3)
	s.text = wire.AppendArg(s.text, "HDEL")
	if s.o.Shards == nil {
		s.text = wire.AppendNamed(s.text, column.Counter.Name+":", i.Mid)
	} else {
		s.text = wire.AppendArg(s.text, fmt.Sprintf("%s:{%d}", column.Counter.Name, i.Mid))
	}
	s.text = wire.AppendArg(s.text, column.Counter.Columns[column.Index].Name)
	c.end = len(s.text)
	s.todo = append(s.todo, c)
}

// pairs makes commands of keys and numbers, most of them in each.
func (s *Sink) pairs(name string, items []mapping.Item, most int, numbered bool) {
	for len(items) > 0 {
		n := min(len(items), most)
		c := command{name: name, start: len(s.text), items: n, slot: slot.Of(items[0].Mid)}
		args := 1 + 2*n
		if numbered {
			args += len([]string{"QUIET", "IDMP", "producer", "seq"})
		}
		s.text = wire.AppendArray(s.text, args)
		s.text = wire.AppendArg(s.text, name)
		for _, i := range items[:n] {
			column := s.o.Columns[i.Column]
			if s.o.Shards == nil {
				s.key = s.o.Schema.AppendKey(s.key[:0], column.Counter, column.Index, i.Mid)
			} else {
				s.key = s.o.Schema.AppendTagged(s.key[:0], column.Counter, column.Index, i.Mid)
			}
			s.text = wire.AppendBytes(s.text, s.key)
			if i.Value >= 0 {
				s.text = wire.AppendUint(s.text, uint64(i.Value))
			} else {
				s.text = wire.AppendArg(s.text, strconv.FormatInt(i.Value, 10))
			}
		}
		if numbered {
			producer, seq := s.number(c.slot)
			s.text = wire.AppendArg(s.text, "QUIET")
			s.text = wire.AppendArg(s.text, "IDMP")
			s.text = wire.AppendArg(s.text, producer)
			s.text = wire.AppendUint(s.text, seq)
		}
		c.end = len(s.text)
		s.todo = append(s.todo, c)
		items = items[n:]
	}
}

// number takes the next number of additions to posts of a slot.
func (s *Sink) number(of uint16) (producer string, seq uint64) {
	if s.o.Shards == nil {
		s.seq++
		return s.o.Producer, s.seq
	}
	group := slot.GroupOf(of)
	s.seqs[group]++
	return groupProducer(s.o.Producer, group), s.seqs[group]
}

// lane is the lane with an address.
func (s *Sink) lane(addr string) *lane {
	l := s.lanes[addr]
	if l == nil {
		l = &lane{sink: s, addr: addr}
		s.lanes[addr] = l
	}
	return l
}

// send sends the commands to do and leaves the commands that were not acknowledged, with an error.
func (s *Sink) send(ctx context.Context) (failed error) {
	if s.o.Shards == nil {
		l := s.lane("")
		s.todo, failed = l.send(ctx, s.todo)
		s.refused += l.taken()
		return failed
	}
	return s.scatter(ctx)
}

// scatter is send to the nodes of a cluster, all at the same time.
func (s *Sink) scatter(ctx context.Context) (failed error) {
	if s.o.Shards.stale {
		s.o.Shards.refresh(ctx)
	}
	parts := map[string][]command{}
	for _, c := range s.todo {
		addr := s.o.Shards.leader(c.slot)
		parts[addr] = append(parts[addr], c)
	}
	s.todo = append(s.todo[:0], parts[""]...)
	if len(parts[""]) > 0 {
		failed = errNoLeader
	}
	delete(parts, "")
	type sent struct {
		lane *lane
		left []command
		err  error
	}
	results := make(chan sent, len(parts))
	for addr, part := range parts {
		l := s.lane(addr)
		go func() {
			left, err := l.send(ctx, part)
			results <- sent{l, left, err}
		}()
	}
	for range parts {
		r := <-results
		s.todo = append(s.todo, r.left...)
		s.refused += r.lane.taken()
		if r.err != nil && (failed == nil || patience.Passes(failed) && !patience.Passes(r.err)) {
			failed = fmt.Errorf("%s: %w", r.lane.addr, r.err)
		}
	}
	s.o.Shards.stale = s.o.Shards.stale || failed != nil
	return failed
}

// pace says how long to wait until a command may be sent.
func (s *Sink) pace(c command) time.Duration {
	if s.o.Rate <= 0 {
		return 0
	}
	s.pacing.Lock()
	defer s.pacing.Unlock()
	now := time.Now()
	if s.due.Before(now.Add(-time.Second)) {
		s.due = now
	}
	wait := s.due.Sub(now)
	s.due = s.due.Add(time.Duration(float64(c.items) / s.o.Rate * float64(time.Second)))
	return wait
}
