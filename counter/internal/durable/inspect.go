package durable

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// Contents of the files of blocks, for counterctl dump. No store is open.

// FileRow is one row of a block's file, as tools show it: without the schema, by the columns' ids.
type FileRow struct {
	Mid     uint64
	Columns []format.ColumnValue // valid during the call
	State   RowState
}

// RowState says how a row of an overlay relates to the cold file below it.
type RowState uint8

// States of rows. Rows of other files are RowPlain.
const (
	RowPlain   RowState = iota
	RowShadow           // in the cold file too: these are its values now
	RowFresh            // not in the cold file
	RowGone             // in the cold file, but deleted: the columns mean nothing
	RowPartial          // on a page of the cold file that cannot be read; the columns are those that were set since
)

func (s RowState) String() string {
	return [...]string{RowPlain: "", RowShadow: "changed", RowFresh: "new", RowGone: "deleted", RowPartial: "partly known"}[s]
}

// ImageRows verifies an image of a hot block or of an overlay and calls fn for each row, in order of mid, partial rows
// first.
func ImageRows(fsys vfs.FS, path string, fn func(FileRow) error) error {
	img, tab, partial, err := readTable(fsys, path)
	if err != nil {
		return err
	}
	for _, mid := range (&block.ColdRange{Partial: partial}).PartialMids() {
		if err := fn(FileRow{Mid: mid, Columns: partial[mid], State: RowPartial}); err != nil {
			return err
		}
	}
	if tab == nil {
		return nil
	}
	layout := tab.Layout()
	state := -1
	if img.Kind != 0 {
		if state = layout.Index(block.StateColumn); state < 0 {
			return fmt.Errorf("%s: %w: an overlay image without row states", path, hot.ErrBadImage)
		}
	}
	var row FileRow
	for _, r := range block.SortedRows(tab) {
		row.Mid, row.Columns = r.Mid, row.Columns[:0]
		for f := range layout.Fields {
			if f != state {
				row.Columns = append(row.Columns, format.ColumnValue{Column: layout.Fields[f].ID, Value: tab.Get(r.Ref, f)})
			}
		}
		if state >= 0 {
			row.State = map[uint64]RowState{block.RowShadow: RowShadow, block.RowFresh: RowFresh, block.RowGone: RowGone}[tab.Get(r.Ref, state)]
		}
		if err := fn(row); err != nil {
			return err
		}
	}
	return nil
}

// ColdRows calls fn for each row of a cold file that can be read, in order of mid, and returns the ranges of mids that
// cannot. An error is one of fn, or of a file that cannot be opened.
func ColdRows(fsys vfs.FS, path string, fn func(FileRow) error) (lost []snapfile.MidRange, err error) {
	file, err := openCold(fsys, path, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	columns := file.Meta().Columns
	var row FileRow
	return block.ReadableRows(file, func(mid uint64, vals []uint64) error {
		row.Mid, row.Columns = mid, row.Columns[:0]
		for i, v := range vals {
			row.Columns = append(row.Columns, format.ColumnValue{Column: columns[i].ID, Value: v})
		}
		return fn(row)
	})
}
