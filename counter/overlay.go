package counter

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

const (
	stateColumn = 0 // column id in overlays; a schema's ids start at 1
	stateBits   = 2

	rowShadow = 0
	rowFresh  = 1
	rowGone   = 2
)

// insertOverlay makes a row in b's overlay, with its columns at their defaults and the state rowShadow.
func (ks *keyspace) insertOverlay(b *block, mid uint64) (hot.Ref, error) {
	if b.span.Data == nil {
		if err := ks.growOverlay(b); err != nil {
			return 0, err
		}
	}
	for try := 0; ; try++ {
		ref, err := b.tab.AddAt(b.tab.Home(mid))
		if err == nil {
			return ref, nil
		}
		if try == roomTries {
			return 0, noRoom(mid, &b.tab, try, err)
		}
		if err := ks.growOverlay(b); err != nil {
			return 0, err
		}
	}
}

// reserveOverlay makes room for rows in b's overlay, which has the counter's present columns then.
func (ks *keyspace) reserveOverlay(b *block, rows int) error {
	if n := b.tab.Len() + rows; b.span.Data == nil || b.shape != ks.over || float64(n) > growLoad*float64(b.tab.Slots()) {
		return ks.remakeOverlay(b, 2*n+4)
	}
	return nil
}

// growOverlay makes b's overlay twice as large. It is done in place: overlays are small, and nobody looks at one
// without the lock.
func (ks *keyspace) growOverlay(b *block) error {
	return ks.remakeOverlay(b, roomier(&b.tab, 2*b.tab.Len()+4))
}

// repackOverlay gives b's overlay the counter's present columns.
func (ks *keyspace) repackOverlay(b *block) error {
	if b.span.Data == nil {
		return nil
	}
	return ks.remakeOverlay(b, b.tab.Len()+4)
}

// remakeOverlay makes b's overlay anew, with room for so many items. On error it stays as it was.
func (ks *keyspace) remakeOverlay(b *block, items int) error {
	var err error
	for try := range tableTries {
		buckets := hot.BucketsFor(int(tableScale(try)*float64(items)), growLoad)
		c := ks.placed(hot.Config{Lo: b.lo, Hi: b.hi, Buckets: buckets, Layout: ks.over, Seed: ks.tableSeed(), Probes: ks.probes})
		var span arena.Span
		if span, err = ks.arena.Alloc(c.Bytes(), false); err != nil {
			return err
		}
		t := hot.New(c, span.Data)
		if b.span.Data != nil {
			err = b.tab.CopyTo(&t)
		}
		if err == nil {
			old := b.span
			b.tab, b.span, b.shape = t, span, ks.over
			ks.arena.Free(old)
			return nil
		}
		ks.arena.Free(span)
		if !errors.Is(err, hot.ErrFull) {
			return err
		}
	}
	return fmt.Errorf("counter: overlay of [%d,%d) for %d items: none of %d tables holds them: %w", b.lo, b.hi, items, tableTries, err)
}

// countOverlay counts the rows of an overlay that was read back, by state.
func (b *block) countOverlay() error {
	if b.span.Data == nil {
		return nil // there are partial rows only
	}
	l := b.tab.Layout()
	if len(l.Fields) == 0 || l.Fields[0].ID != stateColumn {
		return fmt.Errorf("%w: an overlay image without row states", hot.ErrBadImage)
	}
	b.tab.Each(func(_ uint64, s hot.Ref) {
		switch b.tab.Get(s, 0) {
		case rowFresh:
			b.cold.fresh++
		case rowGone:
			b.cold.gone++
		}
	})
	return nil
}

// overlayLayout is the layout of overlays: one column more than the counter has.
func overlayLayout(def *schema.Counter) (*schema.Layout, error) {
	return schema.NewLayout(append([]schema.Column{{ID: stateColumn, Hint: stateBits, Max: stateBits}}, def.Columns...))
}
