package feedjoin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Doer sends a command to the node that leads a shard. It waits for no node. ok is false of a reply that is null.
type Doer interface {
	Shards(ctx context.Context) ([]uint64, error)
	Do(ctx context.Context, shard uint64, words ...string) (text string, ok bool, err error)
}

// Cursor returns the position of a named cursor; empty: no shard has one. A shard without one is read from the beginning of its log, as
// a new shard is.
func Cursor(ctx context.Context, d Doer, name string) (string, error) {
	ids, err := d.Shards(ctx)
	if err != nil {
		return "", err
	}
	p := make(Position)
	for _, id := range ids {
		at, ok, err := d.Do(ctx, id, "COUNTER.CURSOR", "GET", name)
		if err != nil {
			return "", err
		}
		if ok {
			p[id] = at
		}
	}
	if len(p) == 0 {
		return "", nil
	}
	return p.String(), nil
}

// SetCursor makes or moves the cursor of each shard of a position. After an error some shards may have the new place, and the others have
// their old one: a feed from there gives changes again, and lacks none. A shard that has left the cluster has no cursor any more, which is no error.
func SetCursor(ctx context.Context, d Doer, name, position string) error {
	p, err := ParsePosition(position)
	if err != nil {
		return err
	}
	failed := make(map[uint64]error)
	for _, id := range slices.Sorted(maps.Keys(p)) {
		if _, _, err := d.Do(ctx, id, "COUNTER.CURSOR", "SET", name, p[id]); err != nil {
			failed[id] = err
		}
	}
	if err := failed[0]; err != nil || len(failed) == 0 { // a log of no cluster is alone in its position
		return err
	}
	ids, unknown := d.Shards(ctx)
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		if unknown != nil || slices.Contains(ids, id) {
			errs = append(errs, fmt.Errorf("shard %d: %w", id, failed[id]))
		}
	}
	return errors.Join(errs...)
}
