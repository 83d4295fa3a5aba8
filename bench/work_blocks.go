package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// blockLines are the lines of COUNTER.BLOCKS, each as its fields.
type blockLines []map[string]string

func (w *worker) blocks(ctx context.Context) (blockLines, error) {
	v, err := w.send(ctx, "COUNTER.BLOCKS", w.side.schema.Counter)
	if err != nil {
		return nil, err
	}
	var all blockLines
	for line := range strings.Lines(v.Text()) {
		fields := map[string]string{}
		for field := range strings.FieldsSeq(line) {
			if name, value, ok := strings.Cut(field, "="); ok {
				fields[name] = value
			}
		}
		all = append(all, fields)
	}
	return all, nil
}

// tierWork moves ranges of posts to files, one after the other: those of the older half, which are in files from the
// start, so that quiet windows find the same. To be moved, or not to be merged but moved, a range is first brought back
// to memory, which does not count. With again, ranges in files, with what has changed since, are written to new files.
type tierWork struct {
	worker
	again bool
	los   []string // first mids of the ranges
	next  int
}

func (w *tierWork) how() string {
	if w.again {
		return "COUNTER.DEMOTE of ranges in files"
	}
	return "COUNTER.DEMOTE"
}

func (w *tierWork) prepare(ctx context.Context) error {
	if err := w.only(); err != nil {
		return err
	}
	all, err := w.blocks(ctx)
	if err != nil {
		return err
	}
	var sealed []string
	for _, b := range all {
		if b["kind"] == "sealed" {
			sealed = append(sealed, b["lo"])
		}
	}
	w.los = sealed[:(len(sealed)+1)/2]
	if len(w.los) == 0 {
		return &notHere{"has too few posts for a range that could move"}
	}
	for _, lo := range w.los {
		if _, err := w.send(ctx, "COUNTER.DEMOTE", w.side.schema.Counter, lo); err != nil {
			return err
		}
	}
	return nil
}

func (w *tierWork) do(ctx context.Context, _ time.Duration, mark mark) error {
	lo := w.los[w.next%len(w.los)]
	w.next++
	var failed *wire.ServerError
	if !w.again {
		if _, err := w.send(ctx, "COUNTER.PROMOTE", w.side.schema.Counter, lo); err != nil && !errors.As(err, &failed) {
			return err // one that was brought back by itself is refused
		}
	}
	over := mark(w.how())
	defer over()
	_, err := w.send(ctx, "COUNTER.DEMOTE", w.side.schema.Counter, lo)
	return err
}

// end brings the ranges back to memory.
func (w *tierWork) end() error {
	for _, lo := range w.los {
		var failed *wire.ServerError
		if _, err := w.send(context.Background(), "COUNTER.PROMOTE", w.side.schema.Counter, lo); err != nil && !errors.As(err, &failed) {
			return err
		}
	}
	return nil
}

// repackWork adds a column and drops it again; each time all ranges are packed anew, one after the other.
type repackWork struct{ worker }

const (
	repackColumn = "benchmark"
	repackLook   = 50 * time.Millisecond // between two questions whether all ranges are packed: each lists them all
)

func (w *repackWork) how() string { return "ADD COLUMN, DROP COLUMN" }

func (w *repackWork) prepare(ctx context.Context) error {
	if err := w.only(); err != nil {
		return err
	}
	return w.packed(ctx)
}

func (w *repackWork) do(ctx context.Context, _ time.Duration, mark mark) error {
	for _, command := range []string{"ADD COLUMN %s " + repackColumn + " hint=8 max=32 default=0", "DROP COLUMN %s " + repackColumn} {
		over := mark(command[:strings.IndexByte(command, '%')-1])
		_, err := w.send(ctx, strings.Fields(fmt.Sprintf(command, w.side.schema.Counter))...)
		if err == nil {
			err = w.packed(ctx)
		}
		over()
		if err != nil {
			return err
		}
	}
	return nil
}

// packed waits until all ranges in memory have the columns that the schema says.
func (w *repackWork) packed(ctx context.Context) error {
	for {
		all, err := w.blocks(ctx)
		if err != nil {
			return err
		}
		old := 0
		for _, b := range all {
			if strings.HasSuffix(b["layout"], "(old)") {
				old++
			}
		}
		if old == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(repackLook):
		}
	}
}
