package coldstore

import (
	"encoding/binary"
	"fmt"

	"github.com/counterd/counterd/coldstore/page"
)

// Rows in one page of their own, outside of a file: to be sent or logged, as compact as in one.

// MaxRowsBytes bounds a page that AppendRows makes: offsets in it take 16 bits.
const MaxRowsBytes = 1<<16 - 1

// RowsEncoder makes pages of rows. The zero value is good. It is made to be reused, and NOT safe for concurrent use.
type RowsEncoder struct {
	enc  page.Encoder
	plan page.Plan
}

// Append appends a page with the first of the rows, at most limit, and tells how many those are. mids rise; columns are
// column-major. REQUIRES: a row, a limit above 0, and at most 1024 columns, of which any one row fits.
func (e *RowsEncoder) Append(dst []byte, mids []uint64, columns [][]uint64, limit int) (raw []byte, n int) {
	e.enc.Cols = len(columns)
	n = min(len(mids), limit, page.MaxItems)
	for {
		e.enc.Plan(&e.plan, mids, columns, n)
		if e.plan.Size <= MaxRowsBytes || n == 1 {
			break
		}
		n = max(1, n*(MaxRowsBytes*7/8)/e.plan.Size) // fewer: it is less than 7/8 of them
	}
	at := len(dst)
	dst = e.enc.AppendPage(dst, &e.plan, mids, columns)
	page.Seal(dst[at:], 0)
	return dst, n
}

// Rows reads a page that RowsEncoder made. The zero value has none. It is made to be reused, and NOT safe for concurrent
// use.
type Rows struct {
	cursor page.Cursor
	last   uint64
	read   int
}

// errRows: bytes are no page of rows.
var errRows = fmt.Errorf("rows: %w", ErrCorrupt)

// Reset begins with the rows of a page. Any bytes are safe; the error matches ErrCorrupt. The page must stay as it is
// until the last Next.
func (r *Rows) Reset(raw []byte, columns int) error {
	if columns < 0 || columns > 1024 || len(raw) > MaxRowsBytes || len(raw) < page.HeadLen+2*columns+page.TailLen {
		return fmt.Errorf("%w: %d bytes of %d columns", errRows, len(raw), columns)
	}
	if want, got := binary.LittleEndian.Uint32(raw), page.Checksum(raw[4:]); want != got {
		return fmt.Errorf("%w: checksum %08x, want %08x", errRows, got, want)
	}
	if bad := r.cursor.Init(raw, columns); bad != "" {
		return fmt.Errorf("%w: %s", errRows, bad)
	}
	r.read = 0
	return nil
}

// Len is how many rows there are.
func (r *Rows) Len() int { return r.cursor.View.N }

// Next stores the next row's columns in vals. ok is false behind the last one. Mids rise; a page whose mids do not
// gives an error that matches ErrCorrupt, as one does that is damaged otherwise.
func (r *Rows) Next(vals []uint64) (mid uint64, ok bool, err error) {
	mid, ok, bad := r.cursor.Next(vals)
	if bad == "" && ok && r.read > 0 && mid <= r.last {
		bad = page.PartMids
	}
	if bad != "" {
		return 0, false, fmt.Errorf("%w: %s of row %d", errRows, bad, r.read)
	}
	r.last = mid
	r.read++
	return mid, ok, nil
}
