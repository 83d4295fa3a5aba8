package client

import (
	"context"
	"fmt"
)

// MaxBatch is how many additions a Batch takes. The server keeps what it answered to each of the newest 128 changes of
// a producer; an Aggregator, which sends more at once, does not ask for the values.
const MaxBatch = 256

// Batch is additions that are sent, made and repeated together: one command, one number, one change in the server's
// log. It is not safe for concurrent use, and can be used again after Reset.
type Batch struct {
	c         *Client
	additions []Sum
}

// BatchResult is what became of one addition: the value after it, or why it was refused.
type BatchResult struct {
	Value int64
	Err   error // out of the column's range
}

// Batch makes an empty one.
func (c *Client) Batch() *Batch { return &Batch{c: c} }

// Add adds an addition of n, which may be negative, to a column of a post, by name or suffix. Nothing is sent yet.
func (b *Batch) Add(mid uint64, column string, n int64) *Batch {
	b.additions = append(b.additions, Sum{mid, column, n})
	return b
}

// Len is how many additions it has.
func (b *Batch) Len() int { return len(b.additions) }

// Reset makes it empty.
func (b *Batch) Reset() { b.additions = b.additions[:0] }

// Do makes the additions and gives the result of each, in order. One that would leave its column's range is refused,
// and the others are made. The error is about all of them: then none was made, or it is in doubt whether all were.
func (b *Batch) Do(ctx context.Context) ([]BatchResult, error) {
	switch n := len(b.additions); {
	case n == 0:
		return nil, nil
	case n > MaxBatch:
		return nil, &BatchSizeError{n}
	}
	c := b.c
	args := make([]any, 1, 1+2*len(b.additions)+3)
	args[0] = "COUNTER.MINCRBY"
	for _, sum := range b.additions {
		cs, i, err := c.column(ctx, sum.Column)
		if err != nil {
			return nil, err
		}
		args = append(args, cs.key(sum.Mid, i), sum.N)
	}
	reply, err := c.numbered(ctx, args)
	if err != nil {
		return nil, err
	}
	replies, _ := reply.([]any)
	if len(replies) != len(b.additions) {
		return nil, fmt.Errorf("client: %d values in answer to %d additions", len(replies), len(b.additions))
	}
	results := make([]BatchResult, len(replies))
	for i, reply := range replies {
		if refused, ok := reply.(error); ok {
			results[i].Err = refused
		} else if results[i].Value, err = number(reply); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// BatchSizeError is a Batch with too many additions. Nothing was sent.
type BatchSizeError struct{ Additions int }

func (e *BatchSizeError) Error() string {
	return fmt.Sprintf("client: a batch of %d additions, want at most %d", e.Additions, MaxBatch)
}
