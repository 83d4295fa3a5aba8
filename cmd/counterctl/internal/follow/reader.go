package follow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/internal/wire"
)

// reader reads keys from the source, as its clients do.
type reader struct {
	dial func(context.Context) (*wire.Conn, error)
	db   int
	conn *wire.Conn
}

// found is the value of a key.
type found struct {
	ref   ref
	items []mapping.Item // that make its numbers what they were
	fits  bool           // all of them
}

func (r *reader) close() {
	if r.conn != nil {
		r.conn.Close()
		r.conn = nil
	}
}

func (r *reader) open(ctx context.Context) error {
	if r.conn != nil {
		return nil
	}
	conn, err := r.dial(ctx)
	if err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(answerTimeout))
	if r.db != 0 {
		if _, err := conn.Do("SELECT", strconv.Itoa(r.db)); err != nil {
			conn.Close()
			return err
		}
	}
	r.conn = conn
	return nil
}

// position returns the source's history, and how far it is.
func (r *reader) position(ctx context.Context) (replid string, offset uint64, err error) {
	if err := r.open(ctx); err != nil {
		return "", 0, err
	}
	_ = r.conn.SetDeadline(time.Now().Add(answerTimeout))
	answer, err := r.conn.Do("INFO", "replication")
	if err != nil {
		r.close()
		return "", 0, err
	}
	return parsePosition(answer.Str)
}

func parsePosition(info string) (replid string, offset uint64, err error) {
	err = fmt.Errorf("%w: INFO replication without master_repl_offset", wire.ErrProtocol)
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "master_replid":
			replid = value
		case "master_repl_offset":
			offset, err = strconv.ParseUint(value, 10, 64)
		}
	}
	return replid, offset, err
}

// read reads keys and the source's offset in one transaction.
func (r *reader) read(ctx context.Context, rules *mapping.Rules, refs []ref, skipped *mapping.Tally) (list []found, replid string, offset uint64, err error) {
	if err := r.open(ctx); err != nil {
		return nil, "", 0, err
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	_ = r.conn.SetDeadline(time.Now().Add(answerTimeout))
	r.conn.Out = wire.AppendCommand(r.conn.Out[:0], "MULTI")
	var asked []question
	for _, ref := range refs {
		q, ok := ask(rules, ref)
		if !ok { // rules that it did not fit were never applied to it
			list = append(list, found{ref: ref, fits: true})
			continue
		}
		asked = append(asked, q)
		r.conn.Out = wire.AppendCommand(r.conn.Out, q.words...)
	}
	r.conn.Out = wire.AppendCommand(r.conn.Out, "INFO", "replication")
	r.conn.Out = wire.AppendCommand(r.conn.Out, "EXEC")
	if err := r.conn.Flush(); err != nil {
		return nil, "", 0, err
	}
	for range len(asked) + 2 {
		if err := r.conn.ReadStatus(); err != nil {
			return nil, "", 0, err
		}
	}
	answer, err := r.conn.ReadValue()
	if err != nil {
		return nil, "", 0, err
	}
	if len(answer.Array) != len(asked)+1 {
		return nil, "", 0, fmt.Errorf("%w: %d answers in EXEC, want %d", wire.ErrProtocol, len(answer.Array), len(asked)+1)
	}
	for i, q := range asked {
		f, err := q.understand(answer.Array[i], skipped)
		if err != nil {
			return nil, "", 0, err
		}
		list = append(list, f)
	}
	replid, offset, err = parsePosition(answer.Array[len(asked)].Str)
	return list, replid, offset, err
}

// question is a command that reads a key.
type question struct {
	ref   ref
	match mapping.Match
	field []byte
	words []string
}

func ask(rules *mapping.Rules, r ref) (q question, ok bool) {
	key, field, ok := r.split()
	if !ok {
		return q, false
	}
	q = question{ref: r, field: field}
	if q.match, ok = rules.Find(key); !ok || namesPosts(q.match) != (field != nil) {
		return q, false
	}
	switch {
	case q.match.Shape() == mapping.String:
		q.words = []string{"GET", string(key)}
	case q.match.Shape() == mapping.Hash && field != nil:
		q.words = []string{"HGET", string(key), string(field)}
	case q.match.Shape() == mapping.Hash:
		q.words = []string{"HMGET", string(key)}
	case field != nil:
		q.words = []string{"ZSCORE", string(key), string(field)}
	default:
		q.words = []string{"ZMSCORE", string(key)}
	}
	if q.match.Shape() != mapping.String && field == nil {
		for _, f := range q.match.Fields() {
			q.words = append(q.words, string(f))
		}
	}
	return q, true
}

// understand makes of an answer what the key's numbers are.
func (q *question) understand(answer wire.Value, skipped *mapping.Tally) (found, error) {
	f := found{ref: q.ref}
	before := skipped.Total() - skipped.Count(mapping.NoField)
	if answer.IsErr {
		if !strings.HasPrefix(answer.Str, "WRONGTYPE") {
			return f, &wire.ServerError{Text: answer.Str}
		}
		q.match.Wrong("another", skipped)
		answer = wire.Value{Null: true}
		before++ // it holds no number: to the target it is gone
	}
	switch {
	case q.field != nil:
		f.items = q.match.PairGone(f.items, q.field)
		if !answer.Null {
			f.items = q.match.Pair(f.items, q.field, []byte(answer.Str), skipped)
		}
	case q.match.Shape() == mapping.String:
		f.items, _ = q.match.Gone(f.items)
		if !answer.Null {
			f.items = q.match.Value(f.items, []byte(answer.Str), skipped)
		}
	default:
		f.items, _ = q.match.Gone(f.items)
		fields := q.match.Fields()
		if !answer.Null && len(answer.Array) != len(fields) {
			return f, errors.Join(wire.ErrProtocol, fmt.Errorf("%d values of %d fields", len(answer.Array), len(fields)))
		}
		for i, value := range answer.Array {
			if !value.Null {
				f.items = q.match.Pair(f.items, fields[i], []byte(value.Str), skipped)
			}
		}
	}
	f.fits = skipped.Total()-skipped.Count(mapping.NoField) == before
	return f, nil
}
