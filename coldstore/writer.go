package coldstore

import (
	"encoding/binary"
	"errors"

	"github.com/counterd/counterd/coldstore/page"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/vfs"
)

const (
	// minPageRows: a page holds at least so many rows if one of 64 KiB can, so that the index costs at most
	// 8/128 = 0.0625 bytes a row. Below it the writer doubles the page size. Real posts have 1900 in 4 KiB.
	minPageRows = 128

	// writeChunk is how many bytes of pages are gathered for one write.
	writeChunk = 256 << 10
)

// Writer writes one cold file, in the order of mids. It is not safe for concurrent use.
//
// The file has its final bytes only after Finish returned nil: a writer under another name (vfs's temporary
// naming), a rename and a sync of the directory, or an entry in a manifest, make it visible, and are the caller's.
// After an error of Add or Finish, and for a file no longer wanted, Abort removes it.
type Writer struct {
	fs   vfs.FS
	name string
	file vfs.File
	meta Meta
	err  error // first error, given by every later call
	done bool  // the file is finished or aborted

	mids     []uint64   // rows not in a page yet
	columns  [][]uint64 // the same, by column
	enc      page.Encoder
	plans    [2]page.Plan      // the best that fits, and the one being tried
	likeness []page.LadderPlan // of the plan that the next try is like
	guess    int               // rows of the next page
	likely   int               // the same, as the page that is made makes it likely
	need     int               // rows to gather before the next page is tried

	shift     int // log2 of the page size, 0 until the first page is made
	headerCRC uint32
	index     []uint64
	bounds    []columnBounds
	chunk     []byte // bytes from offset written on
	written   int64
	stats     Stats
	last      uint64
}

// Create makes a new file of that name, which must not exist.
func Create(fs vfs.FS, name string, meta Meta) (*Writer, error) {
	if err := meta.validate(); err != nil {
		return nil, err
	}
	f, err := fs.Create(name)
	if err != nil {
		return nil, err
	}
	meta.Columns = append([]Column(nil), meta.Columns...)
	w := &Writer{fs: fs, name: name, file: f, meta: meta, guess: 1536, need: 2048}
	w.columns = make([][]uint64, len(meta.Columns))
	w.bounds = make([]columnBounds, len(meta.Columns))
	w.enc.Cols, w.enc.OneGroup, w.enc.Group = len(meta.Columns), meta.OneGroup, meta.Group
	return w, nil
}

// Add appends a row. mid must be above the last one and inside the block's range; vals holds one value for each
// column of Meta, each below 2^Max. vals is not kept. A row refused with ErrInput changes nothing.
func (w *Writer) Add(mid uint64, vals []uint64) error {
	if w.err != nil {
		return w.err
	}
	if mid < w.meta.Lo || mid >= w.meta.Hi {
		return inputErrorf("mid %d outside of the block [%d, %d)", mid, w.meta.Lo, w.meta.Hi)
	}
	if w.stats.Items > 0 && mid <= w.last {
		return inputErrorf("mid %d after %d: want ascending order", mid, w.last)
	}
	if w.meta.OneGroup && slot.Group(mid) != w.meta.Group {
		return inputErrorf("mid %d of group %d, want %d", mid, slot.Group(mid), w.meta.Group)
	}
	if len(vals) != len(w.columns) {
		return inputErrorf("%d values, want %d", len(vals), len(w.columns))
	}
	for i, v := range vals {
		if c := &w.meta.Columns[i]; v&^page.Mask(uint(c.Max)) != 0 {
			return inputErrorf("value %d of column %d, want %d bits at most", v, c.ID, c.Max)
		}
	}
	w.mids = append(w.mids, mid)
	for i, v := range vals {
		w.columns[i] = append(w.columns[i], v)
	}
	w.stats.Items++
	w.last = mid
	if len(w.mids) >= w.need {
		w.err = w.drain(false)
	}
	return w.err
}

// AddRows appends rows as Add does, many at once and by column: columns[c][i] is row i's value in the column at position
// c of Meta. It takes 20 ns a row less than Add. Rows refused with ErrInput change nothing, as a whole.
func (w *Writer) AddRows(mids []uint64, columns [][]uint64) error {
	if w.err != nil || len(mids) == 0 {
		return w.err
	}
	if err := w.checkRows(mids, columns); err != nil {
		return err
	}
	for from := 0; from < len(mids) && w.err == nil; {
		to := min(from+max(w.need-len(w.mids), 1), len(mids))
		w.mids = append(w.mids, mids[from:to]...)
		for c, col := range columns {
			w.columns[c] = append(w.columns[c], col[from:to]...)
		}
		w.stats.Items += uint64(to - from)
		w.last = mids[to-1]
		if from = to; len(w.mids) >= w.need {
			w.err = w.drain(false)
		}
	}
	return w.err
}

// checkRows checks what AddRows is given.
func (w *Writer) checkRows(mids []uint64, columns [][]uint64) error {
	if len(columns) != len(w.columns) {
		return inputErrorf("%d values, want %d", len(columns), len(w.columns))
	}
	if mids[0] < w.meta.Lo || mids[len(mids)-1] >= w.meta.Hi {
		return inputErrorf("mids %d to %d outside of the block [%d, %d)", mids[0], mids[len(mids)-1], w.meta.Lo, w.meta.Hi)
	}
	if w.stats.Items > 0 && mids[0] <= w.last {
		return inputErrorf("mid %d after %d: want ascending order", mids[0], w.last)
	}
	for i := 1; i < len(mids); i++ {
		if mids[i] <= mids[i-1] {
			return inputErrorf("mid %d after %d: want ascending order", mids[i], mids[i-1])
		}
	}
	if w.meta.OneGroup {
		for _, mid := range mids {
			if slot.Group(mid) != w.meta.Group {
				return inputErrorf("mid %d of group %d, want %d", mid, slot.Group(mid), w.meta.Group)
			}
		}
	}
	for c, col := range columns {
		if len(col) != len(mids) {
			return inputErrorf("%d values in a column, want %d", len(col), len(mids))
		}
		most := page.Mask(uint(w.meta.Columns[c].Max))
		all := uint64(0)
		for _, v := range col {
			all |= v
		}
		if all&^most != 0 {
			return inputErrorf("a value of column %d of over %d bits", w.meta.Columns[c].ID, w.meta.Columns[c].Max)
		}
	}
	return nil
}

// Finish writes the remaining rows and makes the bytes of the file durable. The name is not: sync the directory. The
// writer cannot be used afterwards; only Abort may follow, and only after an error.
func (w *Writer) Finish() (Stats, error) {
	if w.err == nil {
		w.err = w.finish()
	}
	if w.err != nil {
		return Stats{}, w.err
	}
	w.err, w.done = ErrClosed, true
	return w.stats, nil
}

// Abort closes and removes the file. After a Finish without error it does nothing.
func (w *Writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	if w.err == nil {
		w.err = ErrClosed
	}
	return errors.Join(w.close(), w.fs.Remove(w.name))
}

// drain makes pages of the rows gathered: all of them if final, else while full pages can be made.
func (w *Writer) drain(final bool) error {
	done := 0 // rows in pages
	for len(w.mids)-done >= w.need || final && done < len(w.mids) {
		n, err := w.page(done, final)
		if err != nil {
			return err
		}
		if n == 0 { // all rows fit one page: gather more
			w.need = min(2*w.need, page.MaxItems)
			break
		}
		done += n
		w.guess = w.likely
		w.need = min(n+n/8+64, page.MaxItems)
	}
	w.mids = w.mids[:copy(w.mids, w.mids[done:])]
	for i, col := range w.columns {
		w.columns[i] = col[:copy(col, col[done:])]
	}
	return nil
}

// page makes one page of the rows from number from on and returns how many it holds. It returns 0 if more rows
// would fit and may still come.
func (w *Writer) page(from int, final bool) (int, error) {
	mids := w.mids[from:min(from+page.MaxItems, len(w.mids))]
	cols := make([][]uint64, len(w.columns))
	for i, c := range w.columns {
		cols[i] = c[from:]
	}
	if w.shift == 0 {
		w.startFile(mids, cols)
	}
	room := 1 << w.shift
	if len(w.index) == 0 {
		room -= headerSize(len(w.columns))
	}
	p := w.fit(mids, cols, room)
	if p.N == len(mids) && p.N < page.MaxItems && !final {
		return 0, nil
	}
	at := len(w.chunk)
	w.chunk = w.enc.AppendPage(w.chunk, p, mids, cols)
	w.stats.MidBytes += int64(p.Mids.Size)
	w.stats.PageHeadBytes += int64(page.HeadLen + 2*w.enc.Cols + page.TailLen)
	body := p.Size - p.Mids.Size - page.HeadLen - 2*w.enc.Cols - page.TailLen
	if p.Presence {
		b := page.BitsetSize(p.N, len(p.Live))
		w.stats.PresenceBytes += int64(b)
		body -= b
	}
	w.stats.ColumnBytes += int64(body)
	if last := final && from+p.N == len(w.mids); !last {
		w.chunk = append(w.chunk, make([]byte, room-p.Size)...)
		w.stats.PaddingBytes += int64(room - p.Size)
	}
	page.Seal(w.chunk[at:], page.Seed(w.headerCRC, len(w.index)))
	w.index = append(w.index, mids[0])
	for c := range w.bounds {
		w.bounds[c].add(p.Ends[c][0], p.Ends[c][1])
	}
	return p.N, w.flush(writeChunk)
}

// startFile chooses the page size from the first rows and puts the header in place.
func (w *Writer) startFile(mids []uint64, cols [][]uint64) {
	n := len(w.columns)
	// Page 0 shares its room with the header; a quarter of a page holds both the header and any one row.
	least := 4 * (headerSize(n) + page.HeadLen + 2*n + 20 + 12*n + page.TailLen)
	if len(mids) > 0 {
		p := &w.plans[0]
		w.enc.Plan(p, mids, cols, min(minPageRows, len(mids)))
		least = max(least, p.Size)
	}
	for w.shift = page.MinShift; w.shift < page.MaxShift && 1<<w.shift < least; {
		w.shift++
	}
	w.chunk = appendHeader(w.chunk, &w.meta, w.shift)
	w.headerCRC = binary.LittleEndian.Uint32(w.chunk[len(w.chunk)-4:])
}

// fit plans the most rows that take at most room bytes, or nearly the most: it stops when less than a 128th of the room is
// left. It aims at half of that, as sizes grow almost evenly with the rows: so one plan is enough for two pages of three,
// and a second for nearly all.
func (w *Writer) fit(mids []uint64, cols [][]uint64, room int) *page.Plan {
	best, try := &w.plans[0], &w.plans[1]
	best.N = 0
	hi := len(mids) // more are known not to fit
	aim := room - room/fitSlack/2
	n := min(w.guess, hi)
	w.enc.Plan(try, mids, cols, n)
	planned := n
	for {
		size := try.Size
		if size <= room {
			best, try = try, best
		} else {
			hi = n - 1
		}
		if best.N >= hi || best.N > 0 && room-best.Size < room/fitSlack {
			w.plans[0], w.plans[1] = *best, *try
			w.likely = max(1, best.N+(aim-best.Size)*best.N/best.Size)
			return &w.plans[0]
		}
		like := best
		if best.N == 0 { // n rows were too many
			n = min(hi, max(1, n*aim/size))
			like = try
		} else {
			n = best.N + (aim-best.Size)*best.N/best.Size
			n = min(max(n, best.N+1), hi)
		}
		if d := n - planned; d*16 > planned || -d*16 > planned { // other rows may want other encodings
			w.enc.Replan(try, mids, cols, n, nil)
			planned = n
			continue
		}
		w.likeness = append(w.likeness[:0], like.Column...)
		w.enc.Replan(try, mids, cols, n, &page.Plan{Presence: like.Presence, Column: w.likeness})
	}
}

// fitSlack: of a page, one part in so many may be left empty. Half of it is on average.
const fitSlack = 128

// Flush writes the chunk once it has at least so many bytes.
func (w *Writer) flush(least int) error {
	if len(w.chunk) < least {
		return nil
	}
	if _, err := w.file.WriteAt(w.chunk, w.written); err != nil {
		return err
	}
	w.written += int64(len(w.chunk))
	w.chunk = w.chunk[:0]
	return nil
}

func (w *Writer) finish() error {
	if err := w.drain(true); err != nil {
		return err
	}
	if w.shift == 0 {
		w.startFile(nil, nil)
	}
	f := footer{
		items: w.stats.Items, pages: len(w.index), headerCRC: w.headerCRC,
		indexOffset: w.written + int64(len(w.chunk)), last: w.last,
	}
	at := len(w.chunk)
	for _, x := range w.index {
		w.chunk = binary.LittleEndian.AppendUint64(w.chunk, x)
	}
	if len(w.index) > 0 {
		f.first = w.index[0]
	}
	bounds := len(w.chunk)
	w.chunk = appendBounds(w.chunk, w.bounds)
	bounds = len(w.chunk) - bounds
	f.indexCRC = page.Checksum(w.chunk[at:])
	f.size = w.written + int64(len(w.chunk)) + footerSize
	w.chunk = appendFooter(w.chunk, &f)
	if err := w.flush(0); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	if err := w.close(); err != nil {
		return err
	}
	w.stats.Pages, w.stats.PageSize, w.stats.Bytes = f.pages, 1<<w.shift, f.size
	w.stats.IndexBytes, w.stats.BoundBytes = int64(8*f.pages+bounds), int64(bounds)
	w.stats.First, w.stats.Last, w.stats.Checksum = f.first, f.last, f.checksum()
	return nil
}

// close closes the file once.
func (w *Writer) close() error {
	if w.file == nil {
		return nil
	}
	f := w.file
	w.file = nil
	return f.Close()
}
