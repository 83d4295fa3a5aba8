package counter

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

// AlterScript applies a schema script, all of it or nothing. See schema.ParseScript.
func (s *Store) AlterScript(script string) error {
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return err
	}
	err := b.AlterScript(script)
	b.End()
	return errors.Join(err, b.Commit())
}
