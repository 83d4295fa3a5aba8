package coldstore

import (
	"errors"
	"math"
	"sync"

	"github.com/counterd/counterd/coldstore/page"
	"github.com/counterd/counterd/persist/vfs"
)

// scanChunk is how many bytes a scan reads with one call: a read of 256 KiB costs a disk hardly more than one of 4.
const scanChunk = 256 << 10

// scanner reads pages in order by large reads, past the cache and the mapping.
type scanner struct {
	f      *File
	file   vfs.File // f's, opened by the first read
	buf    []byte   // pages from..to-1
	from   int
	to     int
	i      int     // number of the current page
	page   pageBuf // the current one
	cursor page.Cursor
	vals   []uint64
	// Of Verify: least and largest value of each column in the page, and in all pages so far.
	ends, all [][2]uint64
}

// scanners keeps the buffers of ended scans, some 300 KiB each.
var scanners = sync.Pool{New: func() any { return new(scanner) }}

func (f *File) newScanner() *scanner {
	s := scanners.Get().(*scanner)
	s.f, s.from, s.to = f, 0, 0
	if s.page.shift != f.h.pageShift {
		s.page = newPageBuf(f.h.pageShift)
	}
	if n := len(f.h.meta.Columns); cap(s.vals) < n {
		s.vals = make([]uint64, n)
	}
	s.vals = s.vals[:len(f.h.meta.Columns)]
	return s
}

func (s *scanner) close() {
	s.closeFile()
	scanners.Put(s)
}

// closeFile closes the file.
func (s *scanner) closeFile() {
	if s.file != nil {
		_ = s.file.Close() // it was only read
	}
	s.f, s.file = nil, nil
}

// Load makes page i the current one and checks it. Pages up to last are going to be read.
func (s *scanner) load(i, last int) error {
	b, err := s.bytes(i, last)
	if err == nil {
		s.page.end = copy(s.page.b, b)
	}
	return err
}

// bytes returns page i, checked and valid until the next call. Pages up to last, which may lie before i, are going to
// be read.
func (s *scanner) bytes(i, last int) ([]byte, error) {
	f := s.f
	if f.closed.Load() {
		return nil, ErrClosed
	}
	off, n := f.extent(i)
	if i < s.from || i >= s.to {
		chunk := max(1, scanChunk>>f.h.pageShift)
		from, to := i, min(last+1, i+chunk)
		if last < i {
			from, to = max(last, i+1-chunk, 0), i+1
		}
		err := s.read(from, to)
		if err != nil && to-from > 1 && !errors.Is(err, ErrClosed) { // it may be another page that cannot be read
			err = s.read(i, i+1)
		}
		if err != nil {
			return nil, err
		}
	}
	start, _ := f.extent(s.from)
	f.cache.reads.Add(1)
	b := s.buf[off-start:][:n]
	return b, f.checkPage(b, i)
}

// read fills the buffer with the pages from..to-1.
func (s *scanner) read(from, to int) error {
	start, _ := s.f.extent(from)
	end, m := s.f.extent(to - 1)
	size := int(end + int64(m) - start)
	if cap(s.buf) < size {
		s.buf = make([]byte, size)
	}
	s.buf, s.from, s.to = s.buf[:size], from, to
	var err error
	if s.file == nil {
		s.file, err = s.f.data.openFile()
	}
	if err == nil {
		err = readFull(s.file, s.buf, start)
		if err != nil && to-from == 1 { // of more, another page may be the one
			s.f.NoteDamage()
		}
	} else if vfs.IsNotExist(err) {
		s.f.NoteDamage()
	}
	if err != nil {
		s.to = s.from
	}
	return err
}

// Iterate calls fn for each row with a mid of at least from, in ascending order, until fn returns false. vals holds
// all columns in order and is only valid during the call. No lock is held while fn runs; it may close the file,
// which ends the iteration with ErrClosed.
//
// It stops at the first page that cannot be read or is corrupt. To go on behind that, start again at the end of
// the PageRange of the next mid wanted.
func (f *File) Iterate(from uint64, fn func(mid uint64, vals []uint64) bool) error {
	if f.broken != nil {
		return f.broken
	}
	s := f.newScanner()
	defer s.close()
	pages := len(f.index)
	for i := max(f.page(from), 0); i < pages; i++ {
		// Read ahead only once the first page was used up: a short look costs one page.
		last := pages - 1
		if s.to == 0 {
			last = i
		}
		if err := s.load(i, last); err != nil {
			return err
		}
		c := &s.cursor
		if bad := c.Init(s.page.b[:s.page.end], len(s.vals)); bad != "" {
			return f.badPage(i, bad)
		}
		for {
			mid, ok, bad := c.Next(s.vals)
			if bad != "" {
				return f.badPage(i, bad)
			}
			if !ok {
				break
			}
			if mid >= from && !fn(mid, s.vals) {
				return nil
			}
		}
	}
	if f.closed.Load() {
		return ErrClosed
	}
	return nil
}

// maxVerifyErrors bounds what Verify reports of one file.
const maxVerifyErrors = 100

// Verify reads the whole file as it is on disk (or in the kernel's cache) and checks every checksum, that each page
// decodes, that mids ascend within the block and that values fit their columns. It returns all errors it found
// joined, at most 100 of them.
//
// After each page it calls pace, if not nil, with the number of bytes read; pace may sleep to limit the rate. An
// error of pace ends the verification and is returned.
func (f *File) Verify(pace func(bytes int) error) error { return verify(f, pace, true) }

// VerifySums is Verify of the checksums alone: a disk that loses or swaps bits does not leave them right. It takes 1 ns for each
// post, and Verify 130 ns.
func (f *File) VerifySums(pace func(bytes int) error) error { return verify(f, pace, false) }

func verify(f *File, pace func(bytes int) error, rows bool) error {
	if f.broken != nil {
		return f.broken
	}
	if err := f.verifyEnds(); err != nil {
		return err
	}
	s := f.newScanner()
	defer s.close()
	s.ends, s.all = noEnds(len(s.vals)), noEnds(len(s.vals))
	var errs []error
	var items uint64
	for i := range f.index {
		err := s.load(i, len(f.index)-1)
		if err == nil && rows {
			var n int
			n, err = s.verifyPage(i)
			items += uint64(n)
		}
		if errors.Is(err, ErrClosed) {
			return err
		}
		if err != nil {
			if errs = append(errs, err); len(errs) >= maxVerifyErrors {
				break
			}
		}
		if pace != nil {
			_, n := f.extent(i)
			if err := pace(n); err != nil {
				return err
			}
		}
	}
	if !rows {
		return errors.Join(errs...)
	}
	for k := range f.bounds {
		if x := &f.bounds[k]; len(errs) == 0 && (x.least != s.all[k][0] || x.most != s.all[k][1]) && items > 0 {
			return &CorruptError{File: f.name, Offset: f.boundsOffset(), Part: "bounds of the file", Want: s.all[k][1], Got: x.most}
		}
	}
	if len(errs) == 0 && items != f.f.items {
		return &CorruptError{File: f.name, Offset: f.f.size - footerSize, Part: "number of items", Want: f.f.items, Got: items}
	}
	return errors.Join(errs...)
}

// verifyEnds checks header, index and footer once more, as they are now.
func (f *File) verifyEnds() error {
	file, err := f.data.openFile()
	if err != nil {
		return err
	}
	now := File{name: f.name}
	return errors.Join(now.load(file), file.Close())
}

// verifyPage checks the rows of the current page, number i, and returns how many there are.
func (s *scanner) verifyPage(i int) (rows int, err error) {
	f, c := s.f, &s.cursor
	if bad := c.Init(s.page.b[:s.page.end], len(s.vals)); bad != "" {
		return 0, f.badPage(i, bad)
	}
	s.ends = noEnds(len(s.vals))
	least, end := f.index[i], f.f.last+1
	if i+1 < len(f.index) {
		end = f.index[i+1]
	}
	for {
		mid, ok, bad := c.Next(s.vals)
		switch {
		case bad != "":
			return rows, f.badPage(i, bad)
		case !ok:
			if i == len(f.index)-1 && least != end {
				return rows, f.badPage(i, "last mid of the file")
			}
			for k, e := range s.ends {
				s.all[k][0], s.all[k][1] = min(s.all[k][0], e[0]), max(s.all[k][1], e[1])
			}
			return rows, f.checkBounds(i, s.ends)
		case mid < least || mid >= end:
			return rows, f.badPage(i, "order of mids")
		}
		least = mid + 1
		for k, v := range s.vals {
			if v&^page.Mask(uint(f.h.meta.Columns[k].Max)) != 0 {
				return rows, f.badPage(i, "value of a column")
			}
			s.ends[k][0], s.ends[k][1] = min(s.ends[k][0], v), max(s.ends[k][1], v)
		}
		rows++
	}
}

func noEnds(cols int) [][2]uint64 {
	ends := make([][2]uint64, cols)
	for k := range ends {
		ends[k][0] = math.MaxUint64
	}
	return ends
}

func (f *File) boundsOffset() int64 { return f.f.indexOffset + int64(8*len(f.index)) }

// checkBounds compares what the bounds say of page i with the least and largest values of its columns.
func (f *File) checkBounds(i int, ends [][2]uint64) error {
	for k := range f.bounds {
		x := &f.bounds[k]
		for end, got := range [2]uint8{x.low.at(f.codes, i), x.high.at(f.codes, i)} {
			v := ends[k][end]
			if want := codeOf(v); got != want || v < x.least || v > x.most {
				return &CorruptError{File: f.name, Offset: f.boundsOffset(), Part: "bounds of a page", Want: uint64(want), Got: uint64(got)}
			}
		}
	}
	return nil
}
