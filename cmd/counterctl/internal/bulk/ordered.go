package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/tsv"
)

// chunk is a piece of a file, and its result.
type chunk struct {
	name    string
	piece   tsv.Piece
	slow    *tsv.Rows // already parsed
	columns []int
	failed  error // of reading: there is no piece
	done    chan struct{}

	rows  tsv.Rows // which say at which lines posts stand
	posts counter.Posts
	bad   []error
	err   error
	order *OrderError
	twice *DuplicateError
	dups  uint64
}

// each cuts the inputs into chunks and gives them to emit, until it returns false.
func (r *reading) each(ctx context.Context, emit func(*chunk) bool) {
	for _, path := range r.o.Inputs {
		if err := r.file(ctx, path, emit); err != nil {
			if !errors.Is(err, errStopped) {
				emit(&chunk{name: path, failed: err, done: make(chan struct{})})
			}
			return
		}
	}
}

var errStopped = errors.New("stopped")

func (r *reading) file(ctx context.Context, path string, emit func(*chunk) bool) error {
	name, src, err := r.open(path, "reading")
	if err != nil {
		return err
	}
	defer src.Close()
	pieces, err := tsv.NewPieces(name, src, r.o.options(path))
	if errors.Is(err, tsv.ErrText) && path != "-" {
		src.Close()
		return r.slowFile(ctx, path, emit)
	}
	if err != nil {
		return err
	}
	defer pieces.Close()
	columns, err := r.fields(name, pieces)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		piece, err := pieces.Next(nil, pieceBytes)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !emit(&chunk{name: name, piece: piece, columns: columns, done: make(chan struct{})}) {
			return errStopped
		}
	}
	return errStopped
}

// slowRows is how many rows of a file that has no pieces are a chunk.
const slowRows = 64 << 10

// slowFile is file for files whose fields hold any text: they are parsed as they are read.
func (r *reading) slowFile(ctx context.Context, path string, emit func(*chunk) bool) error {
	name, src, err := r.open(path, "reading")
	if err != nil {
		return err
	}
	defer src.Close()
	in, err := tsv.New(name, src, r.o.options(path))
	if err != nil {
		return err
	}
	defer in.Close()
	columns, err := r.fields(name, in)
	if err != nil {
		return err
	}
	row := make([]uint64, len(columns))
	for ended := false; !ended && ctx.Err() == nil; {
		c := &chunk{name: name, columns: columns, slow: &tsv.Rows{Columns: make([][]uint64, len(columns))}, done: make(chan struct{})}
		for len(c.slow.IDs) < slowRows {
			id, err := in.Read(row)
			var wrong *tsv.Error
			if err == io.EOF {
				ended = true
				break
			}
			if errors.As(err, &wrong) {
				if c.bad = append(c.bad, err); len(c.bad) > r.o.SkipBad {
					c.err, ended = err, true
					break
				}
				continue
			}
			if err != nil {
				return err
			}
			c.slow.Append(id, row, in.Line())
		}
		if !emit(c) {
			return errStopped
		}
	}
	return nil
}

// parse parses the chunk.
func (c *chunk) parse(r *reading) {
	if c.failed != nil {
		return
	}
	if c.slow != nil {
		c.rows, c.slow = *c.slow, nil
		return
	}
	c.err = c.piece.Parse(&c.rows, func(e *tsv.Error) error {
		if c.bad = append(c.bad, e); len(c.bad) > r.o.SkipBad {
			return e
		}
		return nil
	})
	c.piece = tsv.Piece{}
}

// inOrder checks that the chunk's mids rise, and deals with those that stand twice.
func (c *chunk) inOrder(r *reading) {
	if c.failed != nil || c.err != nil {
		return
	}
	c.posts = r.posts(&c.rows, c.columns)
	mids := c.posts.Mids
	for i := 1; i < len(mids); i++ {
		if mids[i] <= mids[i-1] {
			c.untangle(r, i)
			return
		}
	}
}

// untangle is inOrder from row i on, which does not come behind the one before.
func (c *chunk) untangle(r *reading, i int) {
	mids, n := c.posts.Mids, i
	for ; i < len(mids); i++ {
		switch {
		case mids[i] > mids[n-1]:
			mids[n] = mids[i]
			for _, col := range c.posts.Columns {
				col[n] = col[i]
			}
			n++
		case mids[i] < mids[n-1]:
			c.order = &OrderError{c.name, c.rows.Line(i), mids[i], mids[n-1]}
			return
		case r.o.Duplicates == Refuse:
			c.twice = &DuplicateError{Mid: mids[i], Where: []string{c.at(i - 1), c.at(i)}}
			return
		default:
			c.dups++
			for k, col := range c.posts.Columns {
				v, err := r.both(k, mids[i], col[n-1], col[i])
				if err != nil {
					c.err = fmt.Errorf("%s: %w", c.at(i), err)
					return
				}
				col[n-1] = v
			}
		}
	}
	c.posts = c.posts.Slice(0, n)
}

// at says where row i stands.
func (c *chunk) at(i int) string { return fmt.Sprintf("%s:%d", c.name, c.rows.Line(i)) }

// both combines two values of one post's column.
func (r *reading) both(column int, mid, first, second uint64) (uint64, error) {
	if r.o.Duplicates == Last {
		return second, nil
	}
	col := &r.o.Counter.Columns[column]
	if sum := first + second; sum <= col.Limit() { // both are below 2^63
		return sum, nil
	}
	return 0, fmt.Errorf("the sum of %s of post %d is above %d", col.Name, mid, col.Limit())
}

// take notes what a chunk says beside its posts.
func (r *reading) take(c *chunk) error {
	if c.failed != nil {
		return c.failed
	}
	for _, bad := range c.bad {
		if r.stats.Bad == r.o.SkipBad {
			return &TooManyBadError{r.o.SkipBad, bad}
		}
		r.stats.Bad++
		r.o.Bad(bad)
	}
	r.stats.Duplicates += c.dups
	switch {
	case c.err != nil:
		return c.err
	case c.order != nil:
		return c.order
	case c.twice != nil:
		return c.twice
	}
	return nil
}

// ordered is Read of inputs whose posts come in order.
func (r *reading) ordered(ctx context.Context, add func(counter.Posts) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	work := make(chan *chunk)
	turn := make(chan *chunk, 2*r.workers) // the chunks in order: bounds how many there are
	wg.Add(1 + r.workers)
	go func() {
		defer wg.Done()
		defer close(turn)
		defer close(work)
		r.each(ctx, func(c *chunk) bool {
			for _, to := range []chan *chunk{turn, work} {
				select {
				case to <- c:
				case <-ctx.Done():
					return false
				}
			}
			return true
		})
	}()
	for range r.workers {
		go func() {
			defer wg.Done()
			for c := range work {
				c.parse(r)
				c.inOrder(r)
				close(c.done)
			}
		}()
	}
	held := holding{r: r, add: add}
	for c := range turn {
		select {
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := r.take(c); err != nil {
			return err
		}
		if err := held.next(c); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return held.flush()
}

// holding keeps the last chunk back, as its last post may stand in the next one again.
type holding struct {
	r     *reading
	add   func(counter.Posts) error
	posts counter.Posts
	where string // of its last post
}

func (h *holding) next(c *chunk) error {
	p, n := c.posts, len(c.posts.Mids)
	if n == 0 {
		return nil
	}
	first, last := c.at(0), c.at(n-1)
	if k := len(h.posts.Mids); k > 0 {
		before := h.posts.Mids[k-1]
		switch {
		case p.Mids[0] < before:
			return &OrderError{c.name, c.rows.Line(0), p.Mids[0], before}
		case p.Mids[0] > before:
		case h.r.o.Duplicates == Refuse:
			return &DuplicateError{Mid: before, Where: []string{h.where, first}}
		default:
			h.r.stats.Duplicates++
			for i, col := range p.Columns {
				v, err := h.r.both(i, before, h.posts.Columns[i][k-1], col[0])
				if err != nil {
					return fmt.Errorf("%s: %w", first, err)
				}
				col[0] = v
			}
			h.posts = h.posts.Slice(0, k-1)
		}
	}
	if err := h.flush(); err != nil {
		return err
	}
	h.posts, h.where = p, last
	return nil
}

func (h *holding) flush() error {
	p := h.posts
	h.posts = counter.Posts{}
	h.r.stats.Posts += uint64(len(p.Mids))
	return h.add(p)
}
