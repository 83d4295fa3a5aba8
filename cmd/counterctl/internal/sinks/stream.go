package sinks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/internal/feedjoin"
	"github.com/counterd/counterd/internal/wire"
)

// stream is a stream of Redis. Each change is an entry:
//
//	id        <offset>-0: where the log ends behind the change. Redis refuses an id that is not above the last one. In a cluster, the
//	          sum of the offsets of all shards
//	position  the position
//	change    the line of JSON
//
// So a repeat is refused, also if another process writes to the same stream: each change is in it once, and in order. Changes that belong together
// (Batch.Whole) are added by one transaction, as Redis answers a transaction from its own memory.
//
// Invariant: the stream's last id is last, and Position is that of this entry. Older entries may be removed (XDEL, XTRIM). The last one
// must stay: behind another writer's id, or behind changes that were taken back and removed, Redis would refuse changes that the
// stream does not have.
type stream struct {
	conn     *wire.Conn
	key      string
	keep     uint64 // MAXLEN; 0: all
	position string
	last     uint64
}

const (
	// streamAnswer is how long Redis may take for an answer.
	streamAnswer = 30 * time.Second
	// streamAtOnce is how many bytes are sent before replies are read, so that both sides never wait for each other.
	streamAtOnce = 256 << 10
)

// openStream connects, and looks for the last entry.
func openStream(ctx context.Context, dial func(context.Context) (*wire.Conn, error), db int, key string, keep uint64) (_ Sink, err error) {
	conn, err := dial(ctx)
	if err != nil {
		return nil, broken(err)
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	s := &stream{conn: conn, key: key, keep: keep}
	_ = conn.SetDeadline(time.Now().Add(streamAnswer))
	if db > 0 {
		if _, err := conn.Do("SELECT", strconv.Itoa(db)); err != nil {
			return nil, broken(err)
		}
	}
	if err := s.find(); err != nil {
		return nil, broken(err)
	}
	return s, nil
}

// broken tells errors that may pass.
func broken(err error) error {
	if patience.Passes(err) {
		return &BrokenError{err}
	}
	return err
}

// find makes the invariant hold.
func (s *stream) find() error {
	kind, err := s.conn.Do("TYPE", s.key)
	if err != nil {
		return err
	}
	switch kind.Str {
	case "none":
		return nil
	case "stream":
	default:
		return &noStreamError{ForeignError{s.key, "it is a " + kind.Str}}
	}
	info, err := s.conn.Do("XINFO", "STREAM", s.key)
	if err != nil {
		return err
	}
	id := ""
	for i := 0; i+1 < len(info.Array); i += 2 {
		if info.Array[i].Str == "last-generated-id" {
			id = info.Array[i+1].Str
		}
	}
	offset, _, _ := strings.Cut(id, "-")
	if s.last, err = strconv.ParseUint(offset, 10, 64); err != nil {
		return fmt.Errorf("%w: XINFO STREAM with a last-generated-id %q", wire.ErrProtocol, id)
	}
	entries, err := s.conn.Do("XREVRANGE", s.key, "+", "-", "COUNT", "1")
	if err != nil {
		return err
	}
	if len(entries.Array) == 0 {
		if id != "0-0" {
			return &noStreamError{ForeignError{s.key, "its last entry " + id + " was removed, and the position with it: want a stream that does not exist"}}
		}
		return nil
	}
	if entry := entries.Array[0].Array; len(entry) == 2 {
		for i := 0; i+1 < len(entry[1].Array); i += 2 {
			if entry[1].Array[i].Str == "position" {
				s.position = entry[1].Array[i+1].Str
			}
		}
	}
	at, err := Offset(s.position)
	switch {
	case err != nil:
		return &noStreamError{ForeignError{s.key, "its last entry has no position"}}
	case at < s.last:
		return &noStreamError{ForeignError{s.key, fmt.Sprintf("its last entry %s was removed, so Redis would refuse changes behind %d-0 that were not written: XSETID %s %d-0 takes them",
			id, at, s.key, at)}}
	}
	s.last = at // another process may have added entries since
	return nil
}

// noStreamError is a ForeignError of a key. It does not pass.
type noStreamError struct{ ForeignError }

func (e *noStreamError) Unwrap() error {
	return &wire.ServerError{Text: "ERR " + e.ForeignError.Error()}
}

func (s *stream) Position() string { return s.position }

// Write sends the entries of a part of the batch, and reads their replies.
func (s *stream) Write(_ context.Context, b *Batch) error {
	joined := b.Whole || feedjoin.IsCluster(b.Position())
	for at := 0; at < len(b.Changes); {
		if joined {
			if err := s.watch(); err != nil {
				return broken(err)
			}
			s.conn.Out = wire.AppendCommand(s.conn.Out, "MULTI")
		}
		sent := 0
		for ; at < len(b.Changes) && (b.Whole || len(s.conn.Out) < streamAtOnce); at++ {
			position := b.Changes[at].Position
			offset, err := Offset(position)
			if err != nil {
				return err
			}
			if offset > s.last {
				s.add(offset, position, b.Line(at))
				s.last = offset
				sent++
			}
		}
		if joined {
			s.conn.Out = wire.AppendCommand(s.conn.Out, "EXEC")
		}
		if err := s.settle(sent, joined); err != nil {
			return broken(err)
		}
	}
	s.position = b.Position()
	return nil
}

// watch has Redis refuse the next transaction if another process adds an entry, and fails if an entry was added since the last call. The feeds of
// shards may be joined in another order by another process: so two of them must not add entries in turns, though each id is above the last.
func (s *stream) watch() error {
	_ = s.conn.SetDeadline(time.Now().Add(streamAnswer))
	if _, err := s.conn.Do("WATCH", s.key); err != nil {
		return err
	}
	entries, err := s.conn.Do("XREVRANGE", s.key, "+", "-", "COUNT", "1")
	if err != nil {
		return err
	}
	id := "0-0"
	if len(entries.Array) > 0 && len(entries.Array[0].Array) > 0 {
		id = entries.Array[0].Array[0].Str
	}
	if id != strconv.FormatUint(s.last, 10)+"-0" {
		return errTaken
	}
	return nil
}

// add appends an XADD.
func (s *stream) add(offset uint64, position string, line []byte) {
	args := 7
	if s.keep > 0 {
		args += 3
	}
	out := wire.AppendArray(s.conn.Out, args)
	out = wire.AppendArg(out, "XADD")
	out = wire.AppendArg(out, s.key)
	if s.keep > 0 {
		out = wire.AppendArg(out, "MAXLEN")
		out = wire.AppendArg(out, "~")
		out = wire.AppendUint(out, s.keep)
	}
	out = wire.AppendArg(out, strconv.FormatUint(offset, 10)+"-0")
	out = wire.AppendArg(out, "position")
	out = wire.AppendArg(out, position)
	out = wire.AppendArg(out, "change")
	s.conn.Out = wire.AppendBytes(out, line)
}

// settle sends the appended commands, and reads all of their replies, also behind an error.
func (s *stream) settle(sent int, joined bool) (err error) {
	if sent == 0 && !joined {
		return nil
	}
	_ = s.conn.SetDeadline(time.Now().Add(streamAnswer))
	if err := s.conn.Flush(); err != nil {
		return err
	}
	if joined {
		return s.executed(sent)
	}
	for range sent {
		_, _, failed := s.conn.ReadBulk()
		if failed == nil {
			continue
		}
		if refused := (*wire.ServerError)(nil); !errors.As(failed, &refused) {
			return failed
		} else if strings.Contains(refused.Text, "equal or smaller") { // another process has written it: the next open reads on from there
			failed = errTaken
		}
		if err == nil {
			err = failed
		}
	}
	return err
}

// executed reads the replies to a transaction.
func (s *stream) executed(sent int) error {
	for range 1 + sent { // OK, and QUEUED
		if _, err := s.conn.ReadValue(); err != nil && !errors.As(err, new(*wire.ServerError)) {
			return err
		} // EXEC is refused behind an entry that is
	}
	done, err := s.conn.ReadValue()
	switch {
	case err != nil:
		return err
	case done.Null:
		return errTaken
	}
	for _, v := range done.Array {
		if v.IsErr {
			return &wire.ServerError{Text: v.Str}
		}
	}
	return nil
}

// errTaken passes: it is no error of a server.
var errTaken = errors.New("another process adds entries to the stream")

// Close closes the connection.
func (s *stream) Close() error { return s.conn.Close() }
