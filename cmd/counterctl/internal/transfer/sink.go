package transfer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
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
}

// Sink writes items to a counterd. It is not safe for concurrent use.
type Sink struct {
	o       SinkOptions
	conn    *wire.Conn
	folder  folder
	buffer  []mapping.Item // of Put
	text    []byte         // of all commands of a chunk
	todo    []command      // of a chunk
	set     []mapping.Item // of a chunk
	added   []mapping.Item // of a chunk
	key     []byte
	seq     uint64 // the last number used
	due     time.Time
	refused uint64
}

// command is a command to be sent.
type command struct {
	name       string
	start, end int // in text
	items      int
}

// ErrChunk is a chunk of more than ChunkMax items.
var ErrChunk = fmt.Errorf("transfer: a chunk has at most %d items", ChunkMax)

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
	return &Sink{o: o}
}

// Close closes the connection.
func (s *Sink) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}

// Seq returns the last number that an addition was sent under, and SetSeq says which that was. Items that are written
// again, all of a chunk in the same order behind the same number, count once.
func (s *Sink) Seq() uint64     { return s.seq }
func (s *Sink) SetSeq(n uint64) { s.seq = n }

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
	seq := s.seq
	if err := s.Write(ctx, s.buffer); err != nil {
		s.seq = seq
		return err
	}
	s.buffer = s.buffer[:0]
	return nil
}

// Write writes a chunk and returns when the server has acknowledged all of it. The items of a number take effect in their
// order; those of different numbers may be made in any order. After an error some of the chunk is made.
func (s *Sink) Write(ctx context.Context, items []mapping.Item) error {
	if len(items) > ChunkMax {
		return ErrChunk
	}
	s.plan(s.folder.fold(items))
	if len(s.todo) == 0 {
		return nil
	}
	policy := patience.Policy{First: firstWait, Longest: longestWait, Limit: s.o.Patience, Tell: longestWait}
	if s.o.Log != nil {
		policy.Waiting = func(err error) { s.o.Log(fmt.Sprintf("waiting for the target: %v", err)) }
	}
	err := policy.Do(ctx, func() (bool, error) {
		before := len(s.todo)
		err := s.send(ctx)
		return len(s.todo) < before, err
	})
	var spent *patience.SpentError
	if errors.As(err, &spent) {
		return &TargetError{spent.Waited, spent.Err}
	}
	return err
}

// plan makes the commands of items, which are sorted.
func (s *Sink) plan(items []mapping.Item) {
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
	s.pairs("MSET", s.set, pairs, false)
	s.pairs("COUNTER.MINCRBY", s.added, max(pairs, (len(s.added)+numbers-1)/numbers), true)
}

// delete takes a number away.
func (s *Sink) delete(i mapping.Item) {
	column := s.o.Columns[i.Column]
	c := command{name: "HDEL", start: len(s.text), items: 1}
	s.text = wire.AppendArray(s.text, 3)
	s.text = wire.AppendArg(s.text, "HDEL")
	s.text = wire.AppendNamed(s.text, column.Counter.Name+":", i.Mid)
	s.text = wire.AppendArg(s.text, column.Counter.Columns[column.Index].Name)
	c.end = len(s.text)
	s.todo = append(s.todo, c)
}

// pairs makes commands of keys and numbers, most of them in each.
func (s *Sink) pairs(name string, items []mapping.Item, most int, numbered bool) {
	for len(items) > 0 {
		n := min(len(items), most)
		c := command{name: name, start: len(s.text), items: n}
		args := 1 + 2*n
		if numbered {
			args += len([]string{"QUIET", "IDMP", "producer", "seq"})
		}
		s.text = wire.AppendArray(s.text, args)
		s.text = wire.AppendArg(s.text, name)
		for _, i := range items[:n] {
			column := s.o.Columns[i.Column]
			s.key = s.o.Schema.AppendKey(s.key[:0], column.Counter, column.Index, i.Mid)
			s.text = wire.AppendBytes(s.text, s.key)
			if i.Value >= 0 {
				s.text = wire.AppendUint(s.text, uint64(i.Value))
			} else {
				s.text = wire.AppendArg(s.text, strconv.FormatInt(i.Value, 10))
			}
		}
		if numbered {
			s.seq++
			s.text = wire.AppendArg(s.text, "QUIET")
			s.text = wire.AppendArg(s.text, "IDMP")
			s.text = wire.AppendArg(s.text, s.o.Producer)
			s.text = wire.AppendUint(s.text, s.seq)
		}
		c.end = len(s.text)
		s.todo = append(s.todo, c)
		items = items[n:]
	}
}

// send sends the commands to do and leaves those that were not acknowledged. The error is the first of those that were
// answered, or the connection's, which is then closed.
func (s *Sink) send(ctx context.Context) error {
	if s.conn == nil {
		conn, err := s.o.Dial(ctx)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	var failed error
	left := s.todo[:0] // those that are to be sent again stand before those that are to be sent
	sent, answered := 0, 0
	all := s.todo
	for answered < len(all) {
		var err error
		if sent < len(all) && sent-answered < window {
			if err = s.pace(ctx, all[sent]); err == nil {
				_ = s.conn.SetDeadline(time.Now().Add(answerTimeout))
				err = s.conn.Send(s.text[all[sent].start:all[sent].end])
				sent++
			}
		} else {
			_ = s.conn.SetDeadline(time.Now().Add(answerTimeout))
			var answer *wire.ServerError
			if err = s.answer(all[answered]); errors.As(err, &answer) {
				if failed == nil || patience.Passes(failed) && !patience.Passes(err) {
					failed = err
				}
				left = append(left, all[answered])
				answered++
				err = nil
			} else if err == nil {
				answered++
			}
		}
		if err != nil {
			s.conn.Close()
			s.conn = nil
			s.todo = append(left, all[answered:]...)
			return err
		}
	}
	s.todo = left
	return failed
}

// answer reads the answer to a command.
func (s *Sink) answer(c command) error {
	var err error
	switch made := int64(0); c.name {
	case "MSET":
		err = s.conn.ReadStatus()
	default:
		if made, err = s.conn.ReadInt(); err == nil && c.name == "COUNTER.MINCRBY" {
			s.refused += uint64(max(int64(c.items)-made, 0))
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// pace waits until a command may be sent.
func (s *Sink) pace(ctx context.Context, c command) error {
	if s.o.Rate <= 0 {
		return nil
	}
	now := time.Now()
	if s.due.Before(now.Add(-time.Second)) {
		s.due = now
	}
	wait := s.due.Sub(now)
	s.due = s.due.Add(time.Duration(float64(c.items) / s.o.Rate * float64(time.Second)))
	if wait <= 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
		return nil
	}
}
