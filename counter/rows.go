package counter

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/snapfile"
)

// merged is the rows of a block as they are now, in order of mid. Those of a cold block's file come with the overlay
// and the partial rows in front of them:
//
//	mid             3   5   7   9   11
//	file            a   b  (page that cannot be read)
//	overlay             B           D       gone: 3
//	partial rows                c
//	                -----------------
//	rows                B       c   D       lost: what else the page had
//
// A new file, a promotion, a digest, a scan and what is saved of a damaged file all read blocks through it.
type merged struct {
	file    *coldstore.File         // nil: the table is all there is
	table   *hot.Table              // a cold block's overlay, a hot block's table, or a copy of either
	partial []uint64                // mids of partial rows, of which not all columns are known
	columns []coldstore.Column      // of the rows given, in their order; none: only mids are wanted
	lost    func(snapfile.MidRange) // as for fileRows
}

// each calls fn for the rows from mid from on. vals are valid during the call, and nil for a partial row. Errors as
// fileRows.
func (m *merged) each(from uint64, fn func(mid uint64, vals []uint64) error) error {
	front := sortedRows(m.table)
	if len(m.partial) > 0 {
		for _, mid := range m.partial {
			front = append(front, tableRow{mid: mid, partial: true})
		}
		slices.SortFunc(front, byMid)
	}
	first, _ := slices.BinarySearchFunc(front, tableRow{mid: from}, byMid)
	front = front[first:]

	vals := make([]uint64, len(m.columns))
	fields := make([]int, len(m.columns)) // of the table
	if len(front) > 0 && m.table.Len() > 0 {
		for i, c := range m.columns {
			fields[i] = m.table.Layout().Index(c.ID)
		}
	}
	give := func(row tableRow) error {
		switch {
		case row.partial:
			return fn(row.mid, nil)
		case m.file != nil && m.table.Get(row.ref, 0) == rowGone:
			return nil
		}
		for i, f := range fields {
			if vals[i] = m.columns[i].Default; f >= 0 {
				vals[i] = m.table.Get(row.ref, f)
			}
		}
		return fn(row.mid, vals)
	}
	if m.file != nil {
		meta := m.file.Meta()
		places := make([]int, len(m.columns)) // in the file's rows
		for i, c := range m.columns {
			places[i] = -1
			if at, ok := meta.Column(c.ID); ok {
				places[i] = at
			}
		}
		if err := fileRows(m.file, from, m.lost, func(mid uint64, row []uint64) error {
			for len(front) > 0 && front[0].mid <= mid {
				next := front[0]
				front = front[1:]
				if err := give(next); err != nil || next.mid == mid {
					return err
				}
			}
			for i, at := range places {
				if vals[i] = m.columns[i].Default; at >= 0 {
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

// leaveOut is lost of who goes on without the rows that cannot be read, if it is set, else nil.
func leaveOut(lose bool) func(snapfile.MidRange) {
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

// readableRows calls fn for each row of a file that can be read and returns the ranges of pages that cannot be. The
// error is one of fn.
func readableRows(file *coldstore.File, fn func(mid uint64, vals []uint64) error) (lost []snapfile.MidRange, err error) {
	var ranges lostRanges
	err = fileRows(file, file.Meta().Lo, ranges.add, fn)
	return ranges, err
}

// tableRow is a row of a table, or a partial row.
type tableRow struct {
	mid     uint64
	ref     hot.Ref
	partial bool
}

func byMid(a, b tableRow) int { return cmp.Compare(a.mid, b.mid) }

// sortedRows returns all rows of a table in order of mid.
func sortedRows(tab *hot.Table) []tableRow {
	rows := make([]tableRow, 0, tab.Len())
	if tab.Len() > 0 {
		tab.Each(func(mid uint64, ref hot.Ref) { rows = append(rows, tableRow{mid: mid, ref: ref}) })
	}
	slices.SortFunc(rows, byMid)
	return rows
}

// coldRows calls fn for the rows of a cold block from mid from on, in order of mid, with the counter's present columns.
// Partial rows are made whole before, or it fails. lost as for fileRows. REQUIRES b.mu held.
func (ks *keyspace) coldRows(b *block, from uint64, lost func(snapfile.MidRange), fn func(mid uint64, row []uint64) error) error {
	if err := ks.foldAll(b); err != nil {
		return err
	}
	rows := merged{file: b.cold.file, table: &b.tab, columns: ks.fileColumns(), lost: lost}
	return rows.each(from, fn)
}

// appendMids appends the mids of all items, those of a hot block in no order, and returns the ranges of the pages that
// cannot be read: of those it knows only what was changed since. REQUIRES b.mu held.
func (b *block) appendMids(dst []uint64) (mids []uint64, lost []snapfile.MidRange) {
	if b.cold == nil {
		return b.tab.AppendMids(dst, 0), nil
	}
	var ranges lostRanges
	rows := merged{file: b.cold.file, table: &b.tab, partial: b.cold.partialMids(), lost: ranges.add}
	_ = rows.each(b.lo, func(mid uint64, _ []uint64) error { // fn returns nil
		dst = append(dst, mid)
		return nil
	})
	return dst, ranges
}
