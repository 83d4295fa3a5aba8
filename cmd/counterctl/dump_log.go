package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
)

// printLog prints the records of the log. Records before damage are printed, then the damage is
// reported.
func (d *dumper) printLog() error {
	from := uint64(0)
	if d.from.Time.IsZero() {
		from = d.from.Offset
	}
	claim, err := logfile.ReadClaim(d.FS, d.Path)
	if err != nil && !errors.Is(err, format.ErrUnsupportedFormat) {
		return err
	}
	walked, err := logfile.Walk(d.FS, d.Path, from, claim.Offset, logfile.Visitor{
		Segment: func(h logfile.Header) error {
			role := ""
			if h.History.Replica {
				role = " replica"
			}
			if h.Packed {
				role += " compressed"
			}
			d.printf("segment %s start %d history %s epoch %d%s\n", format.SegmentName(h.Start), h.Start, h.History.ReplID, h.History.Epoch, role)
			return d.ctx.Err()
		},
		Frame:  d.printFrame,
		Record: d.printRecord,
	})
	switch {
	case errors.Is(err, format.ErrGap) && walked.Segments == 0 && d.fresh:
		return nil
	case errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupportedFormat):
		d.note("%v", err)
		return nil
	case err != nil:
		return err
	}
	if walked.Torn != nil && !d.InUse {
		d.note("%v", walked.Torn)
		d.bad = false // the next start cuts it: no harm
	}
	return nil
}

// printHistory prints whose log it is.
func (d *dumper) printHistory() error {
	l, err := logfile.ReadLineage(d.FS, d.Path)
	if errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupportedFormat) {
		d.note("%v", err)
		return nil
	}
	if err != nil || len(l.Terms) == 0 {
		return err
	}
	d.printf("history replica %t\n", l.Replica)
	for _, t := range l.Terms {
		d.printf("  term %s epoch %d from offset %d\n", t.ReplID, t.Epoch, t.Start)
	}
	return nil
}

// printDiverged prints the records that were cut from the log. An archive is printed by a dump of its
// own.
func (d *dumper) printDiverged() error {
	tails, archives, err := past.ListDiverged(d.FS, d.Path)
	if err != nil {
		return err
	}
	for _, t := range tails {
		d.printf("diverged %s\n", filepath.Base(t.Path))
		_, err := past.WalkDiverged(d.FS, t, logfile.Visitor{Frame: d.printFrame, Record: d.printRecord})
		if errors.Is(err, format.ErrCorrupt) || errors.Is(err, format.ErrUnsupportedFormat) {
			d.note("%v", err)
			continue
		}
		if err != nil {
			return err
		}
	}
	for _, a := range archives {
		d.printf("diverged %s: counterctl dump %s\n", filepath.Base(a.Path), a.Path)
	}
	return nil
}

// printFrame ends a walk behind --to and prints the frame, if that is wanted.
func (d *dumper) printFrame(_ logfile.SegmentInfo, f *format.Frame) error {
	if d.to.Time.IsZero() && f.Start >= d.to.Offset || !d.to.Time.IsZero() && f.TimeMS > d.to.Time.UnixMilli() {
		return io.EOF
	}
	if d.frames && !d.early(f) && (!d.from.Time.IsZero() || f.End() > d.from.Offset) {
		whole := ""
		if f.Whole {
			whole = " one-change"
		}
		d.printf("frame offset %d to %d time %s records %d bytes epoch %d durable %d crc %08x%s\n", f.Start, f.End(), human.Clock(f.TimeMS), f.Length,
			f.Epoch, f.Durable, f.CRC, whole)
	}
	return nil
}

// early reports whether a frame is from before --from.
func (d *dumper) early(f *format.Frame) bool {
	return !d.from.Time.IsZero() && f.TimeMS <= d.from.Time.UnixMilli()
}

// printOld prints the values before a change, if the record tells them.
func (d *dumper) printOld(r *format.Record) {
	switch old := &r.Old; {
	case !old.Told:
	case !old.There:
		d.printf(" old none")
	case len(old.Columns) == 0:
		d.printf(" old defaults")
	default:
		d.printf(" old %s", d.names.values(r.Counter, old.Columns))
	}
}

func (d *dumper) printRecord(f *format.Frame, pos uint64, r *format.Record) error {
	switch r.Kind {
	case format.KindSchema:
		_ = d.names.learn(string(r.Text)) // names that are not known are printed as numbers
	case format.KindDefine:
		d.names.define(r.Number, r.Text, r.Seq)
	}
	if d.to.Time.IsZero() && pos > d.to.Offset {
		return io.EOF
	}
	if d.early(f) || d.from.Time.IsZero() && pos <= d.from.Offset {
		return nil
	}
	name := d.names.counter(r.Counter)
	switch r.Kind {
	case format.KindSet, format.KindSetItem, format.KindDelete:
		if !d.wants(name, r.Mid) {
			return nil
		}
	case format.KindDefine, format.KindOnce, format.KindRows, format.KindFloor:
		if d.filtered {
			return nil // belongs to a record that may not be printed
		}
	}
	d.printf("%d %s %s", pos, human.Clock(f.TimeMS), r.Kind)
	switch r.Kind {
	case format.KindSet:
		d.printf(" %s %d %s=%d", name, r.Mid, d.names.column(r.Counter, r.Column), r.Value)
	case format.KindSetItem:
		d.printf(" %s %d %s", name, r.Mid, d.names.values(r.Counter, r.Columns))
	case format.KindDelete:
		d.printf(" %s %d", name, r.Mid)
	}
	switch r.Kind {
	case format.KindSet, format.KindSetItem, format.KindDelete:
		d.printOld(r)
	case format.KindDefine:
		d.printf(" %d %q epoch %d base %d", r.Number, r.Text, r.Epoch, r.Seq)
	case format.KindOnce:
		d.printf(" %s hash %06x %s", d.names.once(r.Number, r.Seq), r.Hash, onceResult(r))
	case format.KindFloor:
		d.printf(" %d from %d", r.Number, r.Seq)
	case format.KindCursor:
		d.printf(" %s position %q", r.Text, r.Position)
	case format.KindTick:
		d.printf(" %s", human.Clock(int64(r.Value)*1000))
	case format.KindDropRange:
		d.printf(" %s from %d to %d groups %s", name, r.Mid, r.Value, r.Groups)
	case format.KindImport, format.KindAccept, format.KindDrop:
		d.printf(" move %s groups %s", r.Text, r.Groups)
	case format.KindRows:
		d.printf(" %s %d columns %d bytes", name, len(r.Columns), len(r.Text))
	case format.KindSchema:
		d.printf("\n  %s", strings.ReplaceAll(strings.TrimSuffix(string(r.Text), "\n"), "\n", "\n  "))
	}
	d.printf("\n")
	return nil
}

// onceResult tells what a write with a producer answered.
func onceResult(r *format.Record) string {
	switch r.Result {
	case format.ResultNext:
		return "result next"
	case format.ResultInt, format.ResultBulk:
		return fmt.Sprintf("group %d result %s %d", r.Group, r.Result, r.Value)
	case format.ResultBlob:
		return fmt.Sprintf("group %d result %s %q", r.Group, r.Result, r.Text)
	}
	return fmt.Sprintf("group %d result %s", r.Group, r.Result)
}
