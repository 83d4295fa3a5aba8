package block

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

const (
	StateColumn = 0 // column id in overlays; a schema's ids start at 1
	stateBits   = 2

	RowShadow = 0
	RowFresh  = 1
	RowGone   = 2
)

// insertOverlay makes a row in b's overlay, with its columns at their defaults and the state RowShadow.
// over is the layout of overlays today (Columns.Over), here and below.
func (m *Builder) insertOverlay(b *Block, over *schema.Layout, mid uint64) (hot.Ref, error) {
	if b.Span.Data == nil {
		if err := m.growOverlay(b, over); err != nil {
			return 0, err
		}
	}
	for try := 0; ; try++ {
		ref, err := b.Tab.AddAt(b.Tab.Home(mid))
		if err == nil {
			return ref, nil
		}
		if try == roomTries {
			return 0, noRoom(mid, &b.Tab, try, err)
		}
		if err := m.growOverlay(b, over); err != nil {
			return 0, err
		}
	}
}

// ReserveOverlay makes room for rows in b's overlay, which has the columns of over then.
func (m *Builder) ReserveOverlay(b *Block, over *schema.Layout, rows int) error {
	if n := b.Tab.Len() + rows; b.Span.Data == nil || b.Shape != over || float64(n) > GrowLoad*float64(b.Tab.Slots()) {
		return m.remakeOverlay(b, over, 2*n+4)
	}
	return nil
}

// growOverlay makes b's overlay twice as large. It is done in place: overlays are small, and nobody looks at one
// without the lock.
func (m *Builder) growOverlay(b *Block, over *schema.Layout) error {
	return m.remakeOverlay(b, over, roomier(&b.Tab, 2*b.Tab.Len()+4))
}

// RepackOverlay gives b's overlay the columns of over.
func (m *Builder) RepackOverlay(b *Block, over *schema.Layout) error {
	if b.Span.Data == nil {
		return nil
	}
	return m.remakeOverlay(b, over, b.Tab.Len()+4)
}

// remakeOverlay makes b's overlay anew, with room for so many items. On error it stays as it was.
func (m *Builder) remakeOverlay(b *Block, over *schema.Layout, items int) error {
	var err error
	for try := range tableTries {
		buckets := hot.BucketsFor(int(tableScale(try)*float64(items)), GrowLoad)
		c := m.placed(hot.Config{Lo: b.Lo, Hi: b.Hi, Buckets: buckets, Layout: over, Seed: m.tableSeed(), Probes: m.env.Probes})
		var span arena.Span
		if span, err = m.env.Arena.Alloc(c.Bytes(), false); err != nil {
			return err
		}
		t := hot.New(c, span.Data)
		if b.Span.Data != nil {
			err = b.Tab.CopyTo(&t)
		}
		if err == nil {
			old := b.Span
			b.Tab, b.Span, b.Shape = t, span, over
			m.env.Arena.Free(old)
			return nil
		}
		m.env.Arena.Free(span)
		if !errors.Is(err, hot.ErrFull) {
			return err
		}
	}
	return fmt.Errorf("counter: overlay of [%d,%d) for %d items: none of %d tables holds them: %w", b.Lo, b.Hi, items, tableTries, err)
}

// CountOverlay counts the rows of an overlay that was read back, by state.
func (b *Block) CountOverlay() error {
	if b.Span.Data == nil {
		return nil // there are partial rows only
	}
	l := b.Tab.Layout()
	if len(l.Fields) == 0 || l.Fields[0].ID != StateColumn {
		return fmt.Errorf("%w: an overlay image without row states", hot.ErrBadImage)
	}
	b.Tab.Each(func(_ uint64, s hot.Ref) {
		switch b.Tab.Get(s, 0) {
		case RowFresh:
			b.Cold.fresh++
		case RowGone:
			b.Cold.gone++
		}
	})
	return nil
}

// OverlayLayout is the layout of overlays: one column more than the counter has.
func OverlayLayout(def *schema.Counter) (*schema.Layout, error) {
	return schema.NewLayout(append([]schema.Column{{ID: StateColumn, Hint: stateBits, Max: stateBits}}, def.Columns...))
}
