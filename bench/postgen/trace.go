package postgen

import (
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/counterd/counterd/internal/tsv"
)

// Trace is a record of increments, in their order: the posts that were touched, and which of them each event touched.
type Trace struct {
	posts  MIDs
	events []uint32 // indexes in posts
}

// ReadTrace reads a trace from a file that has the mid of the post touched in the named column; events without one,
// that have 0 there, are left out.
func ReadTrace(r *tsv.Reader, column string) (*Trace, error) {
	at := slices.Index(r.Columns(), column)
	if at < 0 {
		return nil, fmt.Errorf("the trace has no column %q; it has %v", column, r.Columns())
	}
	var mids []uint64
	row := make([]uint64, len(r.Columns()))
	for {
		_, err := r.Read(row)
		if err == io.EOF {
			return NewTrace(mids)
		}
		if err != nil {
			return nil, err
		}
		if row[at] != 0 {
			mids = append(mids, row[at])
		}
	}
}

// NewTrace returns the trace that touches these posts, in this order.
func NewTrace(mids []uint64) (*Trace, error) {
	if uint64(len(mids)) > 1<<32-1 {
		return nil, fmt.Errorf("a trace of %d events, at most %d are played", len(mids), uint32(1<<32-1))
	}
	t := &Trace{posts: slices.Clone(mids), events: make([]uint32, len(mids))}
	slices.Sort(t.posts)
	t.posts = slices.Compact(t.posts)
	for i, mid := range mids {
		t.events[i] = uint32(sort.Search(len(t.posts), func(k int) bool { return t.posts[k] >= mid }))
	}
	return t, nil
}

// Len returns the number of events.
func (t *Trace) Len() int { return len(t.events) }

// Posts returns the posts that the trace touches.
func (t *Trace) Posts() MIDs { return t.posts }

// Events returns the index in Posts of the post that each event touches. The caller must not change it.
func (t *Trace) Events() []uint32 { return t.events }
