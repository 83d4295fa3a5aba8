package follow

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
)

// copy takes over a new snapshot.
func (f *follower) copy(ctx context.Context, full fullCopy) error {
	f.target.some = false
	if !f.journal.state.copying && !f.Overwrite {
		held, err := f.target.held(ctx)
		if err != nil {
			return err
		}
		if held > 0 {
			return fmt.Errorf("the target already has %d numbers in the columns that the copy would replace: give --overwrite to replace them, or name another target by --to", held)
		}
	}
	if err := f.journal.write(note{Copying: true}, true); err != nil {
		return err
	}
	f.result.Copies++
	process, err := f.target.process(ctx)
	if err != nil {
		return err
	}
	if err := f.target.empty(ctx); err != nil {
		return err
	}
	f.in.stale = staleKeys{keys: map[ref]*staleKey{}}
	f.in.window, f.parser, f.in.multi, f.in.skipped = newWindow(f.Rules.Columns()), parser{}, false, mapping.Tally{}
	sink := transfer.NewSink(transfer.SinkOptions{Dial: f.Target, Schema: f.Schema, Columns: f.Rules.Columns(), Rate: f.Rate, Patience: 24 * time.Hour,
		Log: func(text string) { f.Log("%s", text) }})
	defer sink.Close()
	f.result.Phase = "loading"
	shown := time.Now()
	c, err := copyFile(ctx, full.path, &f.Options, sink, &f.in.stale, &f.in.skipped, func(done, total uint64) {
		f.done.Store(done)
		f.total.Store(total)
		if time.Since(shown) > time.Second {
			shown = time.Now()
			f.report()
		}
	})
	if lost := (*transfer.LostError)(nil); errors.As(err, &lost) {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	if err != nil {
		return err
	}
	f.target.producer = "follow:" + randomName()
	if _, err := f.target.commit(ctx, f.in.window, full.offset); err != nil { // by its number the copy is known to be there
		return err
	}
	if err := f.target.settle(ctx); err != nil {
		return err
	}
	if now, err := f.target.process(ctx); err != nil {
		return err
	} else if now != process {
		return fmt.Errorf("the target was started again while the copy was loaded: %w", errLost)
	}
	f.result.Expiring += c.expiring
	f.offset, f.end, f.rewound, f.in.rewinding, f.in.selected = full.offset, full.offset, 0, false, c.selected
	f.goal = 0
	f.applied.Store(full.offset)
	if err := f.journal.copied(full, f.target.producer, c.selected); err != nil {
		return err
	}
	if err := f.note(); err != nil {
		return err
	}
	f.result.Phase = "following"
	f.Log("copied %d keys at offset %d; %d values did not map", c.keys, full.offset, f.in.skipped.Total()-f.in.skipped.Count(mapping.NoRule))
	return os.Remove(full.path)
}

// randomName returns a name that is not in use.
func randomName() string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
