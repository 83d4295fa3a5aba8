package posts

import (
	"context"
	"errors"
	"fmt"

	"github.com/counterd/counterd/cmd/counterctl/internal/export"
	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Store is the posts of a directory: nothing changes them.
type Store struct{ store *counter.Store }

// OfStore are the posts of a store.
func OfStore(s *counter.Store) *Store { return &Store{s} }

var _ Source = (*Store)(nil)

func (s *Store) Schema() *schema.Schema { return s.store.Schema() }
func (s *Store) Begin() error           { return nil }

func (s *Store) query(t *Wanted) (counter.Query, error) {
	q, err := Conditions(t.Counter, t.Words)
	q.Columns = make([]int16, len(t.Columns))
	for i, c := range t.Columns {
		q.Columns[i] = int16(c)
	}
	return q, err
}

func (s *Store) Count(t *Wanted) (uint64, error) {
	q, err := s.query(t)
	if err != nil {
		return 0, err
	}
	_, n, _, err := s.store.Aggregate(q, counter.Count, 0)
	return n, unreadable(err)
}

func (s *Store) Rows(ctx context.Context, t *Wanted, f func(mid uint64, values []uint64) error) error {
	q, err := s.query(t)
	if err != nil {
		return err
	}
	var stopped error
	n := 0
	err = s.store.Find(q, func(mid uint64, values []uint64) bool {
		if n++; n%1024 == 0 {
			stopped = ctx.Err()
		}
		if stopped == nil {
			stopped = f(mid, values)
		}
		return stopped == nil
	})
	if stopped != nil {
		return stopped
	}
	return unreadable(err)
}

func (s *Store) Tally(t *Wanted) (*export.Tally, bool, error) {
	posts, err := s.Count(t)
	if err != nil {
		return nil, false, err
	}
	q, err := s.query(t)
	if err != nil {
		return nil, false, err
	}
	said := export.NewTally(len(t.Columns))
	said.Posts = posts
	for i, c := range q.Columns {
		if said.Sums[i].Hi, said.Sums[i].Lo, _, err = s.store.Aggregate(q, counter.Sum, c); err != nil {
			return nil, false, err
		}
	}
	return said, false, nil
}

// unreadable says what can be done about a range that cannot be read.
func unreadable(err error) error {
	var lost *counter.RangeError
	if errors.As(err, &lost) {
		return fmt.Errorf("%w; nothing was written: posts below %d and from %s on can be exported by conditions (MID '<' ...)", err, lost.Lo, human.Mid(lost.Hi))
	}
	return err
}
