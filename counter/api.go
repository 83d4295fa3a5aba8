package counter

// The functions that a program which embeds a store needs first: Open, Get, Set, Incr, MGet, Scan, Alter, AlterScript,
// Snapshot, Close. Each call is a batch of its own, acknowledged when it returns; many at once go into a Batch.

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/schema"
)

// Key finds the counter, column and mid that a key names, e.g. "19089006004.cntcm": see schema.Schema.ParseKey.
func (s *Store) Key(key string) (schema.Key, error) {
	k, ok := s.Schema().ParseKey([]byte(key))
	if !ok {
		return k, fmt.Errorf("%w: %q", ErrNoKey, key)
	}
	return k, nil
}

// do runs one operation on the column that key names.
func (s *Store) do(key string, op Op) (Op, error) {
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return op, err
	}
	defer b.End()
	k, ok := b.Schema().ParseKey([]byte(key))
	if !ok || k.Col < 0 {
		return op, fmt.Errorf("%w: %q", ErrNoKey, key)
	}
	op.Counter, op.Column, op.Mid = k.Counter, int16(k.Col), k.Mid
	b.Add(op)
	b.Run()
	b.End()
	err := b.Commit()
	if op := b.Op(0); op.Err != nil {
		err = op.Err
	}
	return *b.Op(0), err
}

// Get returns a counter's value and whether its item exists.
func (s *Store) Get(key string) (value uint64, found bool, err error) {
	op, err := s.do(key, Op{Kind: OpGet})
	return op.Value, op.Found, err
}

// Set stores a value. The error is ErrNoKey, ErrOutOfRange, ErrNoMemory or ErrClosed.
func (s *Store) Set(key string, value uint64) error {
	_, err := s.do(key, Op{Kind: OpSet, Arg: value})
	return err
}

// Incr adds n, which may be negative, and returns the new value. It makes an absent item. The error is ErrNoKey,
// ErrOutOfRange (nothing was changed), ErrNoMemory or ErrClosed.
func (s *Store) Incr(key string, n int64) (value uint64, err error) {
	op, err := s.do(key, Op{Kind: OpAdd, Arg: uint64(n)})
	return op.Value, err
}

// Value is the result of MGet for a key.
type Value struct {
	N     uint64 // 0 where there is no item
	Found bool   // the item exists
}

// MGet returns the values of several keys as they were at one moment: no change made as one, as by a change set, is seen in
// part. The error is ErrNoKey where one of them names no column, ErrCold where one of them cannot be read, or
// ErrClosed.
func (s *Store) MGet(keys ...string) ([]Value, error) {
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return nil, err
	}
	defer b.End()
	for _, key := range keys {
		k, ok := b.Schema().ParseKey([]byte(key))
		if !ok || k.Col < 0 {
			return nil, fmt.Errorf("%w: %q", ErrNoKey, key)
		}
		b.Add(Op{Kind: OpGet, Counter: k.Counter, Column: int16(k.Col), Mid: k.Mid})
	}
	b.ChangeSet(0)
	b.Run()
	b.End()
	if err := b.Commit(); err != nil {
		return nil, err
	}
	values := make([]Value, len(keys))
	for i := range values {
		op := b.Op(i)
		if op.Err != nil {
			return nil, fmt.Errorf("%s: %w", keys[i], op.Err)
		}
		values[i] = Value{op.Value, op.Found}
	}
	return values, nil
}

// Scan returns about count items from a cursor on, and the cursor to go on with: 0 starts, and 0 is returned at the end.
// See Reader.Scan for its guarantees and its errors.
func (s *Store) Scan(cursor uint64, count int) (items []ScanItem, next uint64, err error) {
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return nil, 0, err
	}
	items, next, err = NewReader(b).Scan(nil, cursor, count)
	b.End()
	return items, next, errors.Join(err, b.Commit())
}

// Len is the number of items of all counters.
func (s *Store) Len() (uint64, error) {
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return 0, err
	}
	n := b.Items()
	b.End()
	return uint64(n), b.Commit()
}

// Alter changes the schema by one statement. A statement that changes nothing is no error. Data is not touched: a new
// column answers its default at once, and blocks are re-packed in the background, one at a time.
func (s *Store) Alter(st schema.Statement) error {
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return err
	}
	err := b.Whole().Alter(st)
	b.End()
	return errors.Join(err, b.Commit())
}

// AlterScript applies a schema script, all of it or nothing. See schema.ParseScript.
func (s *Store) AlterScript(script string) error {
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return err
	}
	err := b.Whole().AlterScript(script)
	b.End()
	return errors.Join(err, b.Commit())
}
