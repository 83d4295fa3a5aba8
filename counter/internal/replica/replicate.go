package replica

import (
	"fmt"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/persist/format"
)

// Replicate appends a primary's frame, header included, and applies its records; those of a frame that is one change
// with all readers kept out. It returns the log offset behind the frame; Commit makes it one to acknowledge.
//
// While the log takes no changes, as the disk fails or is full, the error is Store.Ready's, a *persist.NotReadyError,
// and nothing was changed: the same frame may be given again when Ready is nil. A frame that is not the next one, or
// whose records cannot be applied, gives an error that matches format.ErrCorrupt, and nothing was changed. Nor was it
// by one of a term that the store's lineage does not have, or whose damage makes it look so: that gives a
// *format.TermError, and Follow has to be told the primary's lineage first. After any other error memory may lack what the log has: the store must be opened again.
func (r *Replication) Replicate(raw []byte) (end uint64, err error) {
	r.s.Applying.Lock()
	defer r.s.Applying.Unlock()
	start, end, err := appendFrame(r, raw)
	if err != nil {
		return 0, err
	}
	return end, applyFrame(r, start, end, raw)
}

// appendFrame checks a frame and gives it to the log. REQUIRES applying held.
func appendFrame(r *Replication, raw []byte) (start, end uint64, err error) {
	s := r.s
	s.Gate.RLock()
	defer s.Gate.RUnlock()
	if s.Closed {
		return 0, 0, core.ErrClosed
	}
	if !s.Replica.Load() {
		return 0, 0, fmt.Errorf("counter: a frame for a store that is a primary: %w", format.ErrNotReady)
	}
	// As before a change of a client: data that the disk does not take stay in memory, and a primary sends as much as it
	// likes.
	if err := s.Log.Ready(); err != nil {
		return 0, 0, err
	}
	start = s.Log.Position()
	if len(raw) >= format.FrameHeaderLen {
		if err := r.lineage.Admits(start, format.FrameEpoch(raw)); err != nil { // only become changes it, and waits for applying
			return 0, 0, err
		}
	}
	r.checker.schema = s.Schema.Load()
	if err = r.checker.Check(raw); err != nil {
		return 0, 0, err
	}
	if r.checker.cursors {
		if err := r.admitCursors(); err != nil {
			return 0, 0, err
		}
	}
	end, err = s.Log.AppendFrame(raw)
	return start, end, err
}

// applyFrame makes the changes of a frame that was appended. REQUIRES applying held.
func applyFrame(r *Replication, start, end uint64, raw []byte) error {
	p := r.replayer
	if p == nil {
		p = r.s.NewFollower(false)
		r.replayer = p
	}
	p.Begin(end, r.observer)
	// A change that readers of the primary saw as one is one to the readers here. Other frames keep no readers out: their
	// changes were never promised to be seen together.
	whole := format.FrameWhole(raw)
	begin := p.Batch.Begin
	if whole {
		begin = p.Batch.BeginExclusive
	}
	if err := begin(); err != nil {
		return err
	}
	defer p.Batch.End()
	var rec format.Record
	f := format.Frame{FrameHeader: format.FrameHeader{Start: start, TimeMS: format.FrameTime(raw)}, Raw: raw, Payload: raw[format.FrameHeaderLen:]}
	err := f.Records(&rec, start, func(pos uint64, rec *format.Record) error {
		if rec.Kind != format.KindFlush && rec.Kind != format.KindSchema && rec.Kind != format.KindDropRange && !core.MovesGroups(rec.Kind) {
			return p.Apply(pos, rec)
		}
		err := p.Flush()
		if !whole {
			p.Batch.End()
			if err == nil {
				err = p.Batch.BeginExclusive()
			}
		}
		if err != nil {
			return err
		}
		if err = p.Apply(pos, rec); err != nil {
			return err
		}
		r.s.Altered = end
		if r.observer != nil && rec.Kind == format.KindDropRange {
			r.observer(p.Batch)
		} else if r.observer != nil {
			r.observer(nil)
		}
		if whole {
			return nil
		}
		p.Batch.End()
		return p.Batch.Begin()
	})
	if err != nil {
		return err
	}
	return p.Flush()
}

// Observe has f called after changes of the primary were applied, while the batch that made them is open; nil stands
// for a change of everything, by FLUSHALL or of the schema. The batch tells of a dropped range too (core.DroppedBy). f must not call the store. WATCH, which depends on items,
// uses it. Open again, the store has no observer.
func (r *Replication) Observe(f func(*core.Batch)) {
	r.s.Applying.Lock()
	r.observer = f
	r.s.Applying.Unlock()
}
