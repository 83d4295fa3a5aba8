package coldstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/counterd/counterd/coldstore/page"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/vfs"
)

// File is an open cold file. All methods may be called concurrently; the file never changes.
//
// In memory: the first mid of each page and the entry of its copy in the cache (12 bytes, 0.006 a row on real posts),
// the bounds (0.0022), one bit a page, the Meta.
type File struct {
	broken   error // see Broken; nothing else is set then but name, cache, meta, items and bounds
	name     string
	h        header
	f        footer
	index    []uint64 // first mid of each page, ascending
	perPage  uint64   // 2^64 pages a mid, see page
	bounds   []bounds // by column
	codes    []byte   // of bounds
	data     mapping
	prefetch Prefetcher // nil: advise the mapping
	cache    *Cache
	id       uint32 // spreads the pages over the cache's shards
	closed   atomic.Bool
	damaged  atomic.Bool     // a page could not be read, or is not what was written
	cached   []atomic.Uint32 // entryID by page, 0: not in the cache; written under the lock of the page's shard
	resident residency
}

// noCache stands for a nil cache: it counts and holds nothing.
var noCache = NewCache(0)

// Open opens a file and checks its header, index and footer; pages are checked when they are read. cache may be nil.
// Errors: a CorruptError, an UnreadableError, ErrUnsupportedFormat, or an error of the file system.
func Open(fs vfs.FS, name string, cache *Cache) (*File, error) {
	vf, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	f := &File{name: name, cache: cache}
	if f.cache == nil {
		f.cache = noCache
	}
	err = f.load(vf)
	if err := errors.Join(err, vf.Close()); err != nil {
		return nil, err
	}
	f.data = mapping{pool: mapped, fs: fs, name: name, size: f.f.size}
	f.id = f.cache.files.Add(1)
	f.cached = make([]atomic.Uint32, len(f.index))
	f.resident.init(len(f.index))
	f.prefetch, _ = fs.(Prefetcher)
	return f, nil
}

// Load reads and checks all but the pages. It takes no memory that the file's size does not vouch for.
func (f *File) load(vf vfs.File) error {
	size, err := vf.Size()
	if err != nil {
		return err
	}
	if size < headerFixed+columnSize+footerSize {
		return &CorruptError{File: f.name, Part: "file size", Want: headerFixed + columnSize + footerSize, Got: uint64(size)}
	}
	head := make([]byte, headerFixed, headerFixed+4*columnSize)
	if err := readFull(vf, head, 0); err != nil {
		return err
	}
	cols, bad := headerColumns(head)
	if bad != nil {
		return f.corrupt(bad)
	}
	n := headerSize(cols)
	if size < int64(n+footerSize) {
		return &CorruptError{File: f.name, Part: "file size", Want: uint64(n + footerSize), Got: uint64(size)}
	}
	head = append(head, make([]byte, n-headerFixed)...)
	if err := readFull(vf, head[headerFixed:], headerFixed); err != nil {
		return err
	}
	if v, other := otherVersion(head); other {
		return fmt.Errorf("%s: the file has version %d, this program reads versions %d and %d: %w", f.name, v, versionAll, version, ErrUnsupportedFormat)
	}
	if f.h, bad = parseHeader(head, cols); bad != nil {
		return f.corrupt(bad)
	}
	foot := make([]byte, footerSize)
	if err := readFull(vf, foot, size-footerSize); err != nil {
		return err
	}
	if f.f, bad = parseFooter(foot, size, &f.h); bad != nil {
		return f.corrupt(bad)
	}
	index := make([]byte, size-footerSize-f.f.indexOffset)
	if err := readFull(vf, index, f.f.indexOffset); err != nil {
		return err
	}
	var section []byte
	if f.index, section, bad = parseIndex(index, &f.h, &f.f); bad != nil {
		return f.corrupt(bad)
	}
	f.codes = bytes.Clone(section) // without the index, which would stay in memory with it
	var ok bool
	if f.bounds, ok = parseBounds(f.codes, cols, f.f.pages); !ok {
		return &CorruptError{File: f.name, Offset: f.f.indexOffset + int64(8*f.f.pages), Part: "bounds"}
	}
	f.setPerPage()
	return nil
}

func (f *File) corrupt(e *CorruptError) *CorruptError {
	e.File = f.name
	return e
}

// Close waits for the reads that go on in other goroutines, then unmaps and closes the file. Later calls of all
// methods return ErrClosed.
func (f *File) Close() error {
	if f.broken != nil {
		return nil
	}
	f.closed.Store(true)
	err := f.data.close()
	if err != ErrClosed {
		f.cache.remove(f)
	}
	return err
}

// Name returns the name the file was opened by.
func (f *File) Name() string { return f.name }

// Meta returns what the writer was given. The caller must not change its Columns.
func (f *File) Meta() *Meta { return &f.h.meta }

// Stat returns what the file holds.
func (f *File) Stat() Stats {
	return Stats{
		Items: f.f.items, Pages: f.f.pages, PageSize: 1 << f.h.pageShift, Bytes: f.f.size,
		IndexBytes: int64(12*len(f.index) + len(f.codes)), First: f.f.first, Last: f.f.last,
	}
}

// Checksum is the footer's: it covers the range, the counts and the sums of header and index, and with the name tells
// one file from another.
func (f *File) Checksum() uint32 { return f.f.checksum() }

// Broken returns a File that stands for a missing or unreadable file with a number of rows. Each read of its range
// returns err. Nothing is known of its values: its bounds admit all of them, so that no condition passes the file over.
func Broken(name string, meta Meta, items uint64, err error) *File {
	f := &File{name: name, cache: NewCache(0), broken: err}
	f.h.meta, f.f.items = meta, items
	f.bounds = make([]bounds, len(meta.Columns))
	for i := range f.bounds {
		f.bounds[i].most = math.MaxUint64
	}
	return f
}

// Damaged tells whether a read has found that the file, or a page of it, is not what was written or cannot be read. It is
// never taken back: another file has to take the place of this one.
func (f *File) Damaged() bool { return f.broken != nil || f.damaged.Load() }

// Err is why the file cannot be used, as Broken was told; nil for an opened file.
func (f *File) Err() error { return f.broken }

// Release gives back the memory that reads through the mapping have made the kernel count as this process's. The
// pages stay in the kernel's cache. It takes a few us, and the next reads some page faults.
func (f *File) Release() error {
	if f.broken != nil {
		return f.broken
	}
	return f.data.release()
}

// PageRange returns the range of mids [lo, hi) that a damaged page takes with it: those that share mid's page.
func (f *File) PageRange(mid uint64) (lo, hi uint64) {
	i := f.page(mid)
	lo, hi = f.h.meta.Lo, f.h.meta.Hi
	if i >= 0 {
		lo = f.index[i]
	}
	if i+1 < len(f.index) {
		hi = f.index[i+1]
	}
	return lo, hi
}

// Pages is how many pages the file has.
func (f *File) Pages() int { return len(f.index) }

// Page returns the number of the page that holds mid if any does: of the first where mid lies before that.
func (f *File) Page(mid uint64) int { return max(0, f.page(mid)) }

// PageStart returns the first mid of page i; of the one behind the last, the end of the block's range.
func (f *File) PageStart(i int) uint64 {
	if i >= len(f.index) {
		return f.h.meta.Hi
	}
	return f.index[i]
}

// page returns the number of the page that holds mid if any does, or -1. Pages hold about as many rows each and rows
// come about evenly, so it guesses by proportion, which saves 25 ns, and searches if that is off by more than two.
func (f *File) page(mid uint64) int {
	index := f.index
	if len(index) == 0 || mid < index[0] {
		return -1
	}
	guess, _ := bits.Mul64(mid-index[0], f.perPage)
	i := int(min(guess, uint64(len(index)-1)))
	for range 3 {
		switch {
		case index[i] > mid: // so i > 0
			i--
		case i+1 < len(index) && index[i+1] <= mid:
			i++
		default:
			return i
		}
	}
	base := 0 // invariant: the answer is in [base, base+n)
	for n := len(index); n > 1; {
		half := n / 2
		if index[base+half] <= mid {
			base += half
		}
		n -= half
	}
	return base
}

// setPerPage prepares for page's guesses.
func (f *File) setPerPage() {
	if n := len(f.index); n > 1 {
		f.perPage = math.MaxUint64 / (f.index[n-1] - f.index[0]) * uint64(n-1)
	}
}

// extent returns where page i lies.
func (f *File) extent(i int) (off int64, n int) {
	end := int64(i+1) << f.h.pageShift
	off = end - 1<<f.h.pageShift
	if i == 0 {
		off = int64(headerSize(len(f.h.meta.Columns)))
	}
	return off, int(min(end, f.f.indexOffset) - off)
}

// Get looks mid up and stores the values of the columns at positions cols (nil: all, in order) in dst, which must
// have room for them. It decodes no other column and no other row, and allocates nothing.
//
// Errors concern the page of mid only: CorruptError, UnreadableError. dst is undefined unless found.
func (f *File) Get(mid uint64, cols []int, dst []uint64) (found bool, err error) {
	return f.GetAt(NoPlace, mid, cols, dst)
}

// GetAt is Get with the result of Locate for mid, which saves a search. A place that Locate said of another file is
// harmless.
func (f *File) GetAt(at Place, mid uint64, cols []int, dst []uint64) (found bool, err error) {
	if f.broken != nil {
		return false, f.broken
	}
	if err := f.checkArgs(cols, dst); err != nil {
		return false, err
	}
	if f.closed.Load() {
		return false, ErrClosed
	}
	i := f.placed(at, mid)
	if i < 0 || mid > f.f.last {
		return false, nil
	}
	c := f.cache
	s := c.shard(f.id, i)
	s.mu.Lock()
	if id := f.cached[i].Load(); id != 0 {
		if _, d := c.entries.at(entryID(id)); d.Loaded {
			s.misses++
		} else {
			s.hits++
		}
		found, err = f.getCached(entryID(id), i, mid, cols, dst)
		s.mu.Unlock()
		return found, err
	}
	s.misses++
	id := s.allocEntry(c, f.h.pageShift)
	s.mu.Unlock()
	if id == 0 {
		return false, &UnreadableError{File: f.name, Len: 1 << f.h.pageShift, Err: syscall.ENOMEM}
	}

	b, d := c.entries.at(id)
	d.State, d.Used, d.Loaded = page.DirNew, false, false
	_, n := f.extent(i)
	if err = f.readPage(b[:n], i); err == nil {
		found, err = f.find(b[:n], i, mid, cols, dst)
	}
	s.mu.Lock()
	if err == nil {
		s.insert(f, i, id)
	} else {
		s.freeEntry(c, id, f.h.pageShift)
	}
	s.mu.Unlock()
	return found, err
}

// getCached looks mid up in page i, which is in a slot. REQUIRES: the lock of the page's shard.
func (f *File) getCached(id entryID, i int, mid uint64, cols []int, dst []uint64) (found bool, err error) {
	b, d := f.cache.entries.at(id)
	if d.Loaded { // for this read, which is the page's first
		d.Loaded = false
		_, n := f.extent(i)
		return f.find(b[:n], i, mid, cols, dst)
	}
	if !d.Used { // a write only when needed: it would move the cache line from core to core
		d.Used = true
	}
	if d.State == page.DirNew {
		_, n := f.extent(i)
		if bad := d.Build(b[:n], len(f.h.meta.Columns)); bad != "" {
			return false, f.badPage(i, bad)
		}
	}
	if d.State == page.DirNone {
		_, n := f.extent(i)
		return f.find(b[:n], i, mid, cols, dst)
	}
	found, bad := d.Get(b[:d.End], mid, cols, dst)
	if bad != "" {
		return false, f.badPage(i, bad)
	}
	return found, nil
}

func (f *File) checkArgs(cols []int, dst []uint64) error {
	n := len(f.h.meta.Columns)
	if cols == nil {
		if len(dst) < n {
			return inputErrorf("room for %d values, want %d", len(dst), n)
		}
		return nil
	}
	if len(dst) < len(cols) {
		return inputErrorf("room for %d values, want %d", len(dst), len(cols))
	}
	for _, c := range cols {
		if uint(c) >= uint(n) {
			return inputErrorf("column position %d, want 0..%d", c, n-1)
		}
	}
	return nil
}

// find parses page i, whose checksum held, and looks mid up in it.
func (f *File) find(b []byte, i int, mid uint64, cols []int, dst []uint64) (found bool, err error) {
	var v page.View
	bad := v.Parse(b, len(f.h.meta.Columns))
	if bad == "" {
		found, bad = v.Get(mid, cols, dst)
	}
	return found, f.badPage(i, bad)
}

// badPage is the error of a page whose checksum holds but whose parts contradict the format; nil if bad is "".
func (f *File) badPage(i int, bad string) error {
	if bad == "" {
		return nil
	}
	off, _ := f.extent(i)
	f.NoteDamage()
	return &CorruptError{File: f.name, Offset: off, Part: bad}
}

// readPage copies page i out of the mapping, into as many bytes, and checks it.
func (f *File) readPage(b []byte, i int) error {
	off, _ := f.extent(i)
	f.cache.reads.Add(1)
	now := generation.Load()
	var start time.Time
	believed := f.resident.believed(now, i)
	if believed {
		start = time.Now()
	} else {
		f.data.populate(off, int64(len(b)))
	}
	if err := f.data.copyAt(b, off); err != nil {
		if !errors.Is(err, ErrClosed) {
			f.NoteDamage()
		}
		return err
	}
	if believed && time.Since(start) > slowRead {
		generation.CompareAndSwap(now, now+1)
	}
	f.resident.note(now, i)
	return f.checkPage(b, i)
}

// checkPage checks what a page says of itself against the file: its checksum, which covers its place, and its first
// mid.
func (f *File) checkPage(raw []byte, i int) error {
	err := f.comparePage(raw, i)
	if err != nil {
		f.NoteDamage()
	}
	return err
}

func (f *File) comparePage(raw []byte, i int) error {
	off, _ := f.extent(i)
	head := page.HeadLen + 2*len(f.h.meta.Columns) // then kind u8, first mid u64
	if len(raw) < head+10 {
		return &CorruptError{File: f.name, Offset: off, Part: "page size", Want: uint64(head + 10), Got: uint64(len(raw))}
	}
	sum := crc32.Update(page.Seed(f.h.crc, i), page.Castagnoli, raw[4:])
	if got := binary.LittleEndian.Uint32(raw); got != sum {
		return &CorruptError{File: f.name, Offset: off, Part: page.PartChecksum, Want: uint64(sum), Got: uint64(got)}
	}
	at, want := head+1, f.index[i]
	if f.h.meta.OneGroup { // group u8 stands between
		at, want = head+2, slot.Number(want)
		if raw[head] < page.MidsGroup || raw[head+1] != f.h.meta.Group {
			return &CorruptError{File: f.name, Offset: off, Part: page.PartMids, Want: uint64(f.h.meta.Group), Got: uint64(raw[head+1])}
		}
	}
	if first := binary.LittleEndian.Uint64(raw[at:]); first != want || !f.h.meta.OneGroup && raw[head] >= page.MidsGroup {
		return &CorruptError{File: f.name, Offset: off, Part: page.PartFirst, Want: want, Got: first}
	}
	return nil
}
