package replica

import (
	"errors"
	"fmt"
	"strings"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// Frames and snapshots of a primary are checked before anything is changed by them: a frame that was appended and
// cannot be applied would be in the log for good, and a snapshot that cannot be opened would have cost the replica the
// data it had.

// FrameChecker tells whether the frames of a log can be applied, one after the other. NOT safe for concurrent use.
type FrameChecker struct {
	schema  *schema.Schema // in force behind the last frame
	cursors bool           // the last frame has records of cursors, of dropped ranges, or ticks
	rec     format.Record
}

// NewFrameChecker returns one for the frames behind a snapshot; nil: from the log's beginning. The snapshot has passed
// CheckManifest.
func NewFrameChecker(m *format.Manifest) (*FrameChecker, error) {
	if m == nil {
		return &FrameChecker{schema: schema.Empty()}, nil
	}
	s, err := manifestSchema(m)
	return &FrameChecker{schema: s}, err
}

func manifestSchema(m *format.Manifest) (*schema.Schema, error) {
	if len(m.Counters) == 0 && len(m.Schema) == 0 {
		return schema.Empty(), nil
	}
	return readSchema([]byte(strings.Join(m.Schema, "\n") + "\n"))
}

// readSchema reads a schema that could be put in force.
func readSchema(text []byte) (*schema.Schema, error) {
	s, err := schema.ParseDurable(text)
	if err != nil {
		return nil, err
	}
	if err := core.CheckIDs(s); err != nil {
		return nil, err
	}
	for _, def := range s.All() {
		if _, err := block.OverlayLayout(def); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Check verifies the records of a frame: each can be read, mids are below 2^63, and values fit the columns that the
// schema knows there. The error matches format.ErrCorrupt. The frame's checksum is the log's to check.
func (c *FrameChecker) Check(raw []byte) error {
	if len(raw) < format.FrameHeaderLen {
		return fmt.Errorf("frame of %d bytes, want %d at least: %w", len(raw), format.FrameHeaderLen, format.ErrCorrupt)
	}
	c.cursors = false
	now, next := c.schema, false
	for src := raw[format.FrameHeaderLen:]; len(src) > 0; {
		n, err := format.DecodeRecord(src, &c.rec)
		if err == nil {
			now, err = checkRecord(now, &c.rec)
		}
		if err == nil && next && c.rec.Kind != format.KindSet {
			err = fmt.Errorf("%s behind a once without a result, want a set: %w", c.rec.Kind, format.ErrCorrupt)
		}
		if err != nil {
			return fmt.Errorf("frame, byte %d: %w", len(raw)-len(src), err)
		}
		c.cursors = c.cursors || c.rec.Kind == format.KindCursor || c.rec.Kind == format.KindDropRange || c.rec.Kind == format.KindTick
		next = c.rec.Kind == format.KindOnce && c.rec.Result == format.ResultNext
		src = src[n:]
	}
	if next {
		return fmt.Errorf("frame: a once without a result at its end, want a set behind it: %w", format.ErrCorrupt)
	}
	c.schema = now
	return nil
}

// checkRecord returns the schema behind a record.
func checkRecord(s *schema.Schema, rec *format.Record) (*schema.Schema, error) {
	switch rec.Kind {
	case format.KindSchema:
		next, err := readSchema(rec.Text)
		if err == nil {
			err = checkSame(s, next)
		}
		if err != nil {
			return nil, errors.Join(format.ErrCorrupt, err)
		}
		return next, nil
	case format.KindSet, format.KindSetItem, format.KindDelete:
	case format.KindRows:
		return s, checkRows(s, rec)
	default:
		return s, nil
	}
	if rec.Mid >= hot.EndMid {
		return nil, fmt.Errorf("%s: mid %d, want less than 2^63: %w", rec.Kind, rec.Mid, format.ErrCorrupt)
	}
	def := s.CounterByID(rec.Counter)
	if def == nil || rec.Kind == format.KindDelete {
		return s, nil // a counter that was dropped: passed over
	}
	if rec.Kind == format.KindSet {
		return s, checkValue(def, rec.Column, rec.Value)
	}
	for _, c := range rec.Columns {
		if err := checkValue(def, c.Column, c.Value); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// checkRows reads all posts of a KindRows.
func checkRows(s *schema.Schema, rec *format.Record) error {
	var rows coldstore.Rows
	var vals []uint64
	def := s.CounterByID(rec.Counter)
	return core.EachRow(&rows, &vals, rec, func(mid uint64, row []uint64) error {
		if mid >= hot.EndMid {
			return fmt.Errorf("rows: mid %d, want less than 2^63: %w", mid, format.ErrCorrupt)
		}
		for i, c := range rec.Columns {
			if def == nil {
				break
			}
			if err := checkValue(def, c.Column, row[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkSame refuses a schema in which a column is another than before: columns are made and dropped, and an id is never
// used again. Values that are there would not fit.
func checkSame(before, next *schema.Schema) error {
	for _, def := range next.All() {
		was := before.CounterByID(def.ID)
		if was == nil {
			continue
		}
		for _, c := range def.Columns {
			i := was.Index(c.ID)
			if i < 0 {
				continue
			}
			c.Top = was.Columns[i].Top // a column may get a top list, or lose it
			if c != was.Columns[i] {
				return fmt.Errorf("schema: column %d of %s is %+v, want %+v as before", c.ID, def.Name, c, was.Columns[i])
			}
		}
	}
	return nil
}

func checkValue(def *schema.Counter, column uint16, value uint64) error {
	if i := def.Index(column); i >= 0 && value > def.Columns[i].Limit() {
		return fmt.Errorf("set: value %d of %s.%s, want at most %d: %w", value, def.Name, def.Columns[i].Name, def.Columns[i].Limit(), format.ErrCorrupt)
	}
	return nil
}

// CheckManifest verifies that a snapshot could be opened as far as its manifest tells: that the schema can be read, and
// that the blocks of each counter cover all mids. The error matches format.ErrCorrupt.
func CheckManifest(m *format.Manifest) error {
	bad := func(fault string, args ...any) error {
		return fmt.Errorf("manifest of generation %d: %w: "+fault, append([]any{m.Generation, format.ErrCorrupt}, args...)...)
	}
	s, err := manifestSchema(m)
	if err != nil {
		return bad("%w", err)
	}
	for i := range m.Counters {
		c := &m.Counters[i]
		if s.CounterByID(c.ID) == nil && len(c.Blocks) > 0 {
			return bad("blocks of counter %d, which the schema does not have", c.ID)
		}
		end, group, tiers := hot.EndMid, -1, map[uint64]format.Tier{}
		for _, b := range c.Blocks {
			if b.Tier == format.TierOverlay {
				continue
			}
			if int(b.Group) != group && end == hot.EndMid {
				end, group = 0, int(b.Group)
			}
			if b.Lo != end || int(b.Group) != group || tiers[b.Block] != "" {
				return bad("counter %s: block %d from %d on, want another from %d on", c.Name, b.Block, b.Lo, end)
			}
			end, tiers[b.Block] = b.Hi, b.Tier
		}
		if len(c.Blocks) > 0 && end != hot.EndMid {
			return bad("counter %s: blocks up to %d, want up to 2^63", c.Name, end)
		}
		for _, b := range c.Blocks {
			if b.Tier == format.TierOverlay {
				if tiers[b.Block] != format.TierCold {
					return bad("counter %s: an overlay of block %d, want one of a cold block, and one of each", c.Name, b.Block)
				}
				tiers[b.Block] = format.TierOverlay
			}
		}
	}
	return nil
}
