package coldstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/persist/vfs"
)

// File is an open cold file. All methods may be called concurrently; the file never changes.
//
// In memory: the first mid of each page (8 bytes, 0.004 a row on real posts), one bit a page, the Meta.
type File struct {
	broken   error // see Broken; nothing else is set then but name, cache, meta and items
	name     string
	h        header
	f        footer
	index    []uint64 // first mid of each page, ascending
	data     mapping
	prefetch Prefetcher // nil: advise the mapping
	cache    *Cache
	id       uint32 // in the cache's keys
	closed   atomic.Bool
	resident residency
}

// noCache stands for a nil cache: it counts and holds nothing.
var noCache = NewCache(0)

// Open opens a file and checks its header, index and footer; pages are checked when they are read. cache may be
// nil. Errors: a CorruptError, an UnreadableError, ErrNewerFormat, or what the file system says.
func Open(fs vfs.FS, name string, cache *Cache) (*File, error) {
	vf, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	f := &File{name: name, cache: cache}
	if f.cache == nil {
		f.cache = noCache
	}
	if err := f.load(vf); err != nil {
		vf.Close()
		return nil, err
	}
	f.id = f.cache.files.Add(1)
	f.resident.init(len(f.index))
	f.prefetch, _ = vf.(Prefetcher)
	return f, nil
}

// load reads and checks all but the pages, and maps the file. It takes no memory that the file's size does not
// vouch for.
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
		return fmt.Errorf("%s: format version %d, this program knows up to %d: %w", f.name, v, version, ErrNewerFormat)
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
	index := make([]byte, 8*f.f.pages)
	if err := readFull(vf, index, f.f.indexOffset); err != nil {
		return err
	}
	if f.index, bad = parseIndex(index, &f.h, &f.f); bad != nil {
		return f.corrupt(bad)
	}
	f.data = mapping{file: vf, size: size}
	return f.data.open()
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
		f.cache.remove(f.id, len(f.index))
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
		IndexBytes: int64(8 * len(f.index)), First: f.f.first, Last: f.f.last,
	}
}

// Checksum is the footer's: it covers the range, the counts and the sums of header and index, and with the name tells one
// file from another.
func (f *File) Checksum() uint32 {
	return checksum(appendFooter(nil, &f.f)[:footerSize-12])
}

// Broken stands for a file that is missing or cannot be opened: every read of its range, and there are items rows in it, answers err.
func Broken(name string, meta Meta, items uint64, err error) *File {
	f := &File{name: name, cache: NewCache(0), broken: err}
	f.h.meta, f.f.items = meta, items
	return f
}

// Release gives back the memory that reads through the mapping have made the kernel count as this process's. The
// pages stay in the kernel's cache. It takes 10 us, and the next reads some page faults.
func (f *File) Release() error {
	if f.broken != nil {
		return f.broken
	}
	return f.data.renew()
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

// page returns the number of the page that holds mid if any does, or -1.
func (f *File) page(mid uint64) int {
	lo, hi := 0, len(f.index) // index[lo-1] <= mid < index[hi]
	for lo < hi {
		if m := int(uint(lo+hi) >> 1); f.index[m] <= mid {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo - 1
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
	if f.broken != nil {
		return false, f.broken
	}
	if err := f.checkArgs(cols, dst); err != nil {
		return false, err
	}
	if f.closed.Load() {
		return false, ErrClosed
	}
	i := f.page(mid)
	if i < 0 || mid > f.f.last {
		return false, nil
	}
	key := pageKey(f.id, i)
	s := f.cache.shard(key)
	s.mu.Lock()
	if p := s.get(key); p != nil {
		s.hits++
		found, err = f.find(p, i, mid, cols, dst)
		s.mu.Unlock()
		return found, err
	}
	s.misses++
	p := s.take(f.h.pageShift)
	s.mu.Unlock()

	if err = f.readPage(&p, i); err == nil {
		found, err = f.find(&p, i, mid, cols, dst)
	}
	s.mu.Lock()
	if err == nil {
		s.insert(key, p)
	} else {
		s.give(p)
	}
	s.mu.Unlock()
	return found, err
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

// find looks mid up in page i, whose checksum held.
func (f *File) find(p *pageBuf, i int, mid uint64, cols []int, dst []uint64) (bool, error) {
	var v pageView
	bad := v.parse(p.b[:p.end], len(f.h.meta.Columns))
	found := false
	if bad == "" {
		if found, bad = v.get(mid, cols, dst); bad == "" {
			return found, nil
		}
	}
	return false, f.badPage(i, bad)
}

// badPage is the error of a page whose checksum holds but whose parts contradict the format.
func (f *File) badPage(i int, part string) error {
	off, _ := f.extent(i)
	return &CorruptError{File: f.name, Offset: off, Part: part}
}

// readPage copies page i out of the mapping and checks it.
func (f *File) readPage(p *pageBuf, i int) error {
	off, n := f.extent(i)
	f.cache.reads.Add(1)
	now := generation.Load()
	var start time.Time
	believed := f.resident.believed(now, i)
	if believed {
		start = time.Now()
	}
	if err := f.data.copyAt(p.b[:n], off); err != nil {
		return err
	}
	if believed && time.Since(start) > slowRead {
		generation.CompareAndSwap(now, now+1)
	}
	f.resident.note(now, i)
	p.end = n
	return f.checkPage(p.b[:n], i)
}

// checkPage checks what a page says of itself against the file: its checksum, which covers its place, and its first
// mid.
func (f *File) checkPage(page []byte, i int) error {
	off, _ := f.extent(i)
	head := pageHead + 2*len(f.h.meta.Columns) // then kind u8, first mid u64
	if len(page) < head+9 {
		return &CorruptError{File: f.name, Offset: off, Part: "page size", Want: uint64(head + 9), Got: uint64(len(page))}
	}
	sum := crc32.Update(pageSeed(f.h.crc, i), castagnoli, page[4:])
	if got := binary.LittleEndian.Uint32(page); got != sum {
		return &CorruptError{File: f.name, Offset: off, Part: partChecksum, Want: uint64(sum), Got: uint64(got)}
	}
	if first := binary.LittleEndian.Uint64(page[head+1:]); first != f.index[i] {
		return &CorruptError{File: f.name, Offset: off, Part: partFirst, Want: f.index[i], Got: first}
	}
	return nil
}
