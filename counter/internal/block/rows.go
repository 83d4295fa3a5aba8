package block

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/snapfile"
)

// Merged is the rows of a block as they are now, in order of mid. Those of a cold block's file come with the overlay
// and the partial rows in front of them:
//
//	mid             3   5   7   9   11
//	file            a   b  (page that cannot be read)
//	overlay             B           D       gone: 3
//	partial rows                c
//	                -----------------
//	rows                B       c   D       lost: what else the page had
//
// A new file, a promotion, a digest, a scan and the rescue of a damaged file all read blocks through it.
type Merged struct {
	File    *coldstore.File         // nil: the table is all there is
	Table   *hot.Table              // a cold block's overlay, a hot block's table, or a copy of either
	partial []uint64                // mids of partial rows, of which not all columns are known
	Columns []coldstore.Column      // of the rows given, in their order; none: only mids are wanted
	Lost    func(snapfile.MidRange) // as for fileRows
	// Rest is called now and then while the table's rows are sorted, which takes 2 ms of 64 Ki; nil: it is not. REQUIRES a table that its user alone has.
	Rest func()
}

// Each calls fn for the rows from mid from on. vals are valid during the call, and nil for a partial row. Errors as
// fileRows.
func (m *Merged) Each(from uint64, fn func(mid uint64, vals []uint64) error) error {
	front := sortedRows(m.Table, m.Rest)
	if len(m.partial) > 0 {
		for _, mid := range m.partial {
			front = append(front, tableRow{Mid: mid, partial: true})
		}
		slices.SortFunc(front, byMid)
	}
	first, _ := slices.BinarySearchFunc(front, tableRow{Mid: from}, byMid)
	front = front[first:]

	vals := make([]uint64, len(m.Columns))
	fields := make([]int, len(m.Columns)) // of the table
	if len(front) > 0 && m.Table.Len() > 0 {
		for i, c := range m.Columns {
			fields[i] = m.Table.Layout().Index(c.ID)
		}
	}
	give := func(row tableRow) error {
		switch {
		case row.partial:
			return fn(row.Mid, nil)
		case m.File != nil && m.Table.Get(row.Ref, 0) == RowGone:
			return nil
		}
		for i, f := range fields {
			if vals[i] = m.Columns[i].Default; f >= 0 {
				vals[i] = m.Table.Get(row.Ref, f)
			}
		}
		return fn(row.Mid, vals)
	}
	if m.File != nil {
		meta := m.File.Meta()
		places := make([]int, len(m.Columns)) // in the file's rows
		for i, c := range m.Columns {
			places[i] = -1
			if at, ok := meta.Column(c.ID); ok {
				places[i] = at
			}
		}
		if err := fileRows(m.File, from, m.Lost, func(mid uint64, row []uint64) error {
			for len(front) > 0 && front[0].Mid <= mid {
				next := front[0]
				front = front[1:]
				if err := give(next); err != nil || next.Mid == mid {
					return err
				}
			}
			for i, at := range places {
				if vals[i] = m.Columns[i].Default; at >= 0 {
					vals[i] = row[at]
				}
			}
			return fn(mid, vals)
		}); err != nil {
			return err
		}
	}
	for _, row := range front {
		if err := give(row); err != nil {
			return err
		}
	}
	return nil
}

// fileRows calls fn for the rows of a cold file from mid from on, in order. It passes over pages that cannot be read,
// and tells lost of their ranges; where lost is nil, the first of them ends it with an error that matches ErrCold.
// Other errors are fn's.
func fileRows(file *coldstore.File, from uint64, lost func(snapfile.MidRange), fn func(mid uint64, vals []uint64) error) error {
	for from < file.Meta().Hi {
		last, some := from, false
		var inner error
		err := file.Iterate(from, func(mid uint64, vals []uint64) bool {
			last, some = mid, true
			inner = fn(mid, vals)
			return inner == nil
		})
		switch {
		case inner != nil:
			return inner
		case err == nil:
			return nil
		case lost == nil:
			return fmt.Errorf("%w: %w", ErrCold, err)
		}
		// The page of the last row was read, so the next one is bad; without a row it is the first.
		lo, hi := file.PageRange(last)
		if from = hi; !some {
			lost(snapfile.MidRange{Lo: lo, Hi: hi})
		}
	}
	return nil
}

// LeaveOut returns the function lost of a caller that goes on without unreadable rows (lose is set), else nil.
func LeaveOut(lose bool) func(snapfile.MidRange) {
	if !lose {
		return nil
	}
	return func(snapfile.MidRange) {}
}

// lostRanges are ranges that cannot be read, in order, with no two that touch.
type lostRanges []snapfile.MidRange

func (l *lostRanges) add(r snapfile.MidRange) {
	if n := len(*l); n > 0 && (*l)[n-1].Hi == r.Lo {
		(*l)[n-1].Hi = r.Hi
		return
	}
	*l = append(*l, r)
}

// ReadableRows calls fn for each row of a file that can be read and returns the ranges of pages that cannot be. The
// error is one of fn.
func ReadableRows(file *coldstore.File, fn func(mid uint64, vals []uint64) error) (lost []snapfile.MidRange, err error) {
	var ranges lostRanges
	err = fileRows(file, file.Meta().Lo, ranges.add, fn)
	return ranges, err
}

// tableRow is a row of a table, or a partial row.
type tableRow struct {
	Mid     uint64
	Ref     hot.Ref
	partial bool
}

func byMid(a, b tableRow) int { return cmp.Compare(a.Mid, b.Mid) }

// SortedRows returns all rows of a table in order of mid.
func SortedRows(tab *hot.Table) []tableRow { return sortedRows(tab, nil) }

// sortedRows is SortedRows, and calls rest now and then; nil: it does not.
func sortedRows(tab *hot.Table, rest func()) []tableRow {
	rows := make([]tableRow, 0, tab.Len())
	if tab.Len() > 0 {
		hot.EachResting(tab, rest, func(mid uint64, ref hot.Ref) { rows = append(rows, tableRow{Mid: mid, Ref: ref}) })
	}
	return sortRows(rows, rest)
}

const (
	// fewRows are sorted by comparisons.
	fewRows = 256
	// restRows are counted or moved between two rests: 0.1 ms where each goes to a cache line of its own.
	restRows = 8 << 10
)

// sortRows sorts rows by mid, no two of which are equal, one byte of the mids after the other from the lowest on: a block of 64 Ki posts has 28 bits
// of them that differ, and is sorted in a fifth of the time that comparisons take. It calls rest now and then; nil: it does not. It uses
// the memory of rows.
func sortRows(rows []tableRow, rest func()) []tableRow {
	if len(rows) < fewRows {
		slices.SortFunc(rows, byMid)
		return rows
	}
	if rest == nil {
		rest = func() {}
	}
	least, most := rows[0].Mid, rows[0].Mid
	for i := range rows {
		least, most = min(least, rows[i].Mid), max(most, rows[i].Mid)
	}
	spare := make([]tableRow, len(rows))
	for shift := 0; shift < 64 && (most-least)>>shift > 0; shift += 8 {
		var at [256]int // where the next row with a byte goes
		for part := range slices.Chunk(rows, restRows) {
			for i := range part {
				at[uint8((part[i].Mid-least)>>shift)]++
			}
			rest()
		}
		next := 0
		for i, n := range at {
			at[i], next = next, next+n
		}
		for part := range slices.Chunk(rows, restRows) {
			for i := range part {
				to := &at[uint8((part[i].Mid-least)>>shift)]
				spare[*to] = part[i]
				*to++
			}
			rest()
		}
		rows, spare = spare, rows
	}
	return rows
}

// ColdRows calls fn for the rows of a cold block from mid from on, in order of mid, with the counter's present columns.
// Partial rows are made whole before, or it fails. lost as for fileRows. REQUIRES b.Mu held.
func (ks *Keyspace) ColdRows(b *Block, from uint64, lost func(snapfile.MidRange), fn func(mid uint64, row []uint64) error) error {
	if err := ks.FoldAll(b); err != nil {
		return err
	}
	rows := Merged{File: b.Cold.File, Table: &b.Tab, Columns: ks.FileColumns(), Lost: lost}
	return rows.Each(from, fn)
}

// AppendMids appends the mids of all items, those of a hot block in no order, and returns the ranges of the pages that
// cannot be read. Of those ranges, only mids changed since the file was written are known. REQUIRES b.Mu held.
func (b *Block) AppendMids(dst []uint64) (mids []uint64, lost []snapfile.MidRange) {
	if b.Cold == nil {
		return b.Tab.AppendMids(dst, 0), nil
	}
	var ranges lostRanges
	rows := Merged{File: b.Cold.File, Table: &b.Tab, partial: b.Cold.PartialMids(), Lost: ranges.add}
	_ = rows.Each(b.Lo, func(mid uint64, _ []uint64) error { // fn returns nil
		dst = append(dst, mid)
		return nil
	})
	return dst, ranges
}
