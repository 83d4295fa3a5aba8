package vfs

import (
	"maps"
	"slices"
)

// sectorSize is the unit in which a disk writes: a power failure leaves a sector old or new, never mixed.
const sectorSize = 512

// maxSimFile bounds the offset of a written byte: one sector pointer for each 512 bytes before it is allocated.
const maxSimFile = 1 << 30

// sector is the content of one sector. It is immutable once stored, so that files, their older versions and the
// forks of a Sim share it freely. A nil *sector is all zeros.
type sector = [sectorSize]byte

// fileContent is what a file holds and what of it is durable.
//
//	            sector 0   sector 1   sector 2   sector 3
//	sectors       A2         B1         -          D1        what a process reads (- is nil: zeros)
//	dirty         base A0               base C0    base -    what is durable, for unsynced sectors only
//	              A1, A2                cut        D1        what was written since, oldest first
//
// Sector 0 was written twice since the last sync, sector 2 was cut off by a truncate, sector 1 is durable as it is.
//
// Changes of the size are kept in the order of the file system's journal: a crash takes back the last ones. The
// sectors are written in any order, before or after the sizes. Only a cut is bound to its size change, as a
// truncate frees the blocks in the journal.
//
// Invariants: len(sectors) <= ceil(size/512), and the bytes of the last sector behind size are zero. A sector not
// in dirty is durable. durableSize == size if sizes is empty and no sync failed.
type fileContent struct {
	sectors []*sector
	shared  bool // another fileContent has the same slice: clone it before the next change
	size    int64

	durableSize int64
	sizes       []int64 // sizes set since the last sync, oldest first
	dirty       map[int]*unsynced
}

// unsynced is the history of a sector that is not durable.
type unsynced struct {
	base     *sector // the durable content
	versions []version
	lost     bool // a sync failed: the kernel takes the sector for clean, the disk has base
}

// version is one unsynced content of a sector.
type version struct {
	data *sector
	cut  int // the number of the size change, from 1, by which a truncate cut the sector; 0 for a write
}

// readAt copies from off and returns the number of bytes.
func (c *fileContent) readAt(p []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	p = p[:min(int64(len(p)), c.size-off)]
	for done := 0; done < len(p); {
		i, at := int((off+int64(done))/sectorSize), int((off+int64(done))%sectorSize)
		n := min(len(p)-done, sectorSize-at)
		if i < len(c.sectors) && c.sectors[i] != nil {
			copy(p[done:done+n], c.sectors[i][at:])
		} else {
			clear(p[done : done+n])
		}
		done += n
	}
	return len(p)
}

// writeAt copies p to off and extends the file if needed.
func (c *fileContent) writeAt(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	end := off + int64(len(p))
	if end > c.size || end > c.durableSize && len(c.sizes) == 0 {
		// The second case: a failed sync lost the size, and the new bytes need it.
		c.setSize(max(end, c.size))
	}
	for done := 0; done < len(p); {
		i, at := int((off+int64(done))/sectorSize), int((off+int64(done))%sectorSize)
		next := new(sector)
		if old := c.sector(i); old != nil {
			*next = *old
		}
		done += copy(next[at:], p[done:])
		c.setSector(i, version{data: next})
	}
}

// truncate sets the size.
func (c *fileContent) truncate(size int64) {
	old := c.size
	c.setSize(size)
	if size >= old {
		return
	}
	first := int(size / sectorSize)
	for i := first; i < len(c.sectors); i++ {
		if c.sectors[i] == nil && c.dirty[i] == nil {
			continue // a hole
		}
		v := version{cut: len(c.sizes)}
		if i == first {
			v.data = headOf(c.sectors[i], size%sectorSize)
		}
		c.setSector(i, v)
	}
	c.sectors = c.sectors[:min(len(c.sectors), sectorsFor(size))]
}

// preallocate extends the file to size.
func (c *fileContent) preallocate(size int64) {
	if size > c.size {
		c.setSize(size)
	}
}

func (c *fileContent) setSize(size int64) {
	c.size = size
	c.sizes = append(c.sizes, size)
}

func (c *fileContent) sector(i int) *sector {
	if i < len(c.sectors) {
		return c.sectors[i]
	}
	return nil
}

// setSector changes sector i and remembers that it is not durable.
func (c *fileContent) setSector(i int, v version) {
	if c.shared {
		c.sectors = slices.Clone(c.sectors)
		c.shared = false
	}
	u := c.dirty[i]
	if u == nil {
		u = &unsynced{base: c.sector(i)}
		if c.dirty == nil {
			c.dirty = make(map[int]*unsynced)
		}
		c.dirty[i] = u
	}
	u.lost = false
	u.versions = append(u.versions, v)
	if n := i + 1 - len(c.sectors); n > 0 {
		c.sectors = append(c.sectors, make([]*sector, n)...)
	}
	c.sectors[i] = v.data
}

// sync makes everything durable but what an earlier failed sync lost.
func (c *fileContent) sync() {
	if len(c.sizes) > 0 {
		c.durableSize, c.sizes = c.size, nil
	}
	maps.DeleteFunc(c.dirty, func(_ int, u *unsynced) bool { return !u.lost })
}

// failSync is a sync that fails as on Linux: the unsynced bytes stay readable, are not written and count as clean,
// so that only writing them again makes them dirty. It returns the number of sectors lost.
func (c *fileContent) failSync() int {
	c.sizes = nil
	for _, u := range c.dirty {
		u.lost, u.versions = true, nil
	}
	return len(c.dirty)
}

// fork returns the content of the same file in a fork of the Sim.
func (c *fileContent) fork() *fileContent {
	c.shared = true
	f := *c
	f.sizes = slices.Clone(c.sizes)
	f.dirty = maps.Clone(c.dirty)
	for i, u := range f.dirty {
		f.dirty[i] = &unsynced{base: u.base, versions: slices.Clone(u.versions), lost: u.lost}
	}
	return &f
}

// crash returns the content after a power failure, all of it durable.
func (c *fileContent) crash(lot lottery, report func(format string, args ...any)) *fileContent {
	size, applied := c.durableSize, 0
	if len(c.sizes) > 0 {
		if applied = lot.pick(len(c.sizes), 0); applied > 0 {
			size = c.sizes[applied-1]
		}
		if report != nil {
			report("size %d of durable %d, then %v", size, c.durableSize, c.sizes)
		}
	} else if size != c.size && report != nil {
		report("size %d: %d was lost by a failed sync", size, c.size)
	}
	c.shared = true
	f := &fileContent{sectors: c.sectors, shared: true, size: size, durableSize: size}
	if len(c.dirty) == 0 && size == c.size {
		return f
	}
	f.sectors, f.shared = slices.Clone(c.sectors), false
	dirty := slices.Collect(maps.Keys(c.dirty))
	if report != nil {
		slices.Sort(dirty)
	}
	for _, i := range dirty {
		u := c.dirty[i]
		v := u.survivor(applied, lot, i)
		switch {
		case report == nil:
		case u.lost:
			report("sector %d: lost by a failed sync", i)
		default:
			report("sector %d: version %d of %d", i, v, len(u.versions))
		}
		data := u.base
		if v > 0 {
			data = u.versions[v-1].data
		}
		if n := i + 1 - len(f.sectors); n > 0 {
			f.sectors = append(f.sectors, make([]*sector, n)...)
		}
		f.sectors[i] = data
	}
	f.sectors = f.sectors[:min(len(f.sectors), sectorsFor(size))]
	if last := len(f.sectors) - 1; last >= 0 && last == int(size/sectorSize) {
		f.sectors[last] = headOf(f.sectors[last], size%sectorSize)
	}
	return f
}

// sectorsFor returns the number of sectors of a file of size bytes.
func sectorsFor(size int64) int { return int((size + sectorSize - 1) / sectorSize) }

// headOf returns a sector with the first n bytes of s and zeros behind.
func headOf(s *sector, n int64) *sector {
	if s == nil || n == 0 {
		return nil
	}
	h := new(sector)
	copy(h[:n], s[:n])
	return h
}

// survivor returns which content sector i has after a power failure that kept the first applied size changes:
// 0 for the durable one, v for versions[v-1].
func (u *unsynced) survivor(applied int, lot lottery, i int) int {
	v := lot.pick(len(u.versions), uint64(i)+1)
	for j := len(u.versions); j > v; j-- { // what a truncate that is done cut does not come back
		if cut := u.versions[j-1].cut; cut > 0 && cut <= applied {
			v = j
		}
	}
	for v > 0 && u.versions[v-1].cut > applied { // a truncate that is not done cut nothing
		v--
	}
	return v
}
