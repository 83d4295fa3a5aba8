package client

import (
	"cmp"
	"context"
	"fmt"
)

// MaxBatch is how many additions a Batch takes. The server keeps its replies to the newest 128 changes of a producer;
// an Aggregator, which sends more at once, does not ask for the values.
const MaxBatch = 256

// Batch is additions that are sent, made and repeated together: one command, one number, one change in the server's
// log; in a cluster one a hash slot. It is not safe for concurrent use, and can be used again after Reset.
type Batch struct {
	c         *Client
	additions []Sum
}

// BatchResult is the result of one addition: the value after it, or the reason of its refusal.
type BatchResult struct {
	Value int64
	Err   error // out of the column's range; in a cluster also an error of the post's whole hash slot
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

// Do makes the additions and gives the result of each, in order. An addition that would leave its column's range is
// refused, and the others are made. The error is about all of them: then none was made, or it is in doubt whether all
// were.
//
// In a cluster it is one change, with one number, a hash slot: those go out together, and some may be made where others
// are not. Then the error is the first one, and the results are there too and say which.
func (b *Batch) Do(ctx context.Context) ([]BatchResult, error) {
	switch n := len(b.additions); {
	case n == 0:
		return nil, nil
	case n > MaxBatch:
		return nil, &BatchSizeError{n}
	}
	c := b.c
	pairs := make([]any, 0, 2*len(b.additions))
	for _, sum := range b.additions {
		cs, i, err := c.columns.find(ctx, sum.Column)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, cs.key(sum.Mid, i), sum.N)
	}
	if c.cluster {
		return b.doSlots(ctx, pairs)
	}
	reply, err := c.numbered(ctx, len(b.additions), append(append(make([]any, 0, len(pairs)+4), "COUNTER.MINCRBY"), pairs...))
	if err != nil {
		return nil, err
	}
	results := make([]BatchResult, len(b.additions))
	if err := fill(results, nil, reply); err != nil {
		return nil, err
	}
	return results, nil
}

// doSlots is Do with one change a hash slot.
func (b *Batch) doSlots(ctx context.Context, pairs []any) ([]BatchResult, error) {
	lists := bySlot(len(b.additions), func(i int) uint64 { return b.additions[i].Mid })
	all := make([][]any, len(lists))
	for k, list := range lists {
		all[k] = append(make([]any, 0, 2*len(list)+4), "COUNTER.MINCRBY")
		for _, i := range list {
			all[k] = append(all[k], pairs[2*i], pairs[2*i+1])
		}
	}
	results := make([]BatchResult, len(b.additions))
	var first error
	b.c.numberedMany(ctx, all, func(k int, reply any, err error) {
		if err == nil {
			err = fill(results, lists[k], reply)
		}
		if err != nil {
			for _, i := range lists[k] {
				results[i] = BatchResult{Err: err}
			}
			first = cmp.Or(first, err)
		}
	})
	return results, first
}

// fill puts the replies to additions into their places; nil: all, in order.
func fill(results []BatchResult, places []int, reply any) (err error) {
	replies, _ := reply.([]any)
	want := len(results)
	if places != nil {
		want = len(places)
	}
	if len(replies) != want {
		return fmt.Errorf("client: %d values in answer to %d additions", len(replies), want)
	}
	for i, reply := range replies {
		at := i
		if places != nil {
			at = places[i]
		}
		if refused, ok := reply.(error); ok {
			results[at].Err = refused
		} else if results[at].Value, err = number(reply); err != nil {
			return err
		}
	}
	return nil
}

// BatchSizeError is a Batch with too many additions. Nothing was sent.
type BatchSizeError struct{ Additions int }

func (e *BatchSizeError) Error() string {
	return fmt.Sprintf("client: a batch of %d additions, want at most %d", e.Additions, MaxBatch)
}
