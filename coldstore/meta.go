package coldstore

import (
	"fmt"

	"github.com/counterd/counterd/coldstore/page"
)

// Limits of the format.
const (
	// MaxColumns is the most columns a file may have.
	MaxColumns = 255

	// MaxMid is the largest mid: Redis's integers end there.
	MaxMid = 1<<63 - 1
)

// Column is a column of a block, as its file has it.
type Column struct {
	ID      uint16 // number of the column in its counter, never reused
	Max     uint8  // most bits of a value, 1..64
	Default uint64 // the value the column had when it was never set; only carried along
}

// Meta describes the block a file holds. The file gives it back as it was.
type Meta struct {
	Counter  uint32 // number of the counter
	Lo, Hi   uint64 // the block's range of mids [Lo, Hi), Hi at most MaxMid+1
	OneGroup bool   // all mids are of one group of hash slots (package slot), and take less for that
	Group    uint8
	Offset   uint64 // log offset the rows stand at, in bytes since the log began
	Columns  []Column
}

// Column returns the position in the rows of the column with the given id.
func (m *Meta) Column(id uint16) (pos int, ok bool) {
	for i := range m.Columns {
		if m.Columns[i].ID == id {
			return i, true
		}
	}
	return 0, false
}

func (m *Meta) validate() error {
	if m.Lo >= m.Hi || m.Hi > MaxMid+1 {
		return inputErrorf("range [%d, %d), want lo < hi <= %d", m.Lo, m.Hi, uint64(MaxMid+1))
	}
	if len(m.Columns) < 1 || len(m.Columns) > MaxColumns {
		return inputErrorf("%d columns, want 1 to %d", len(m.Columns), MaxColumns)
	}
	seen := make(map[uint16]bool, len(m.Columns))
	for _, c := range m.Columns {
		if c.Max < 1 || c.Max > 64 || c.Default&^page.Mask(uint(c.Max)) != 0 || seen[c.ID] {
			return inputErrorf("column id %d, max %d bits, default %d: want ids once, max 1..64, default < 2^max", c.ID, c.Max, c.Default)
		}
		seen[c.ID] = true
	}
	return nil
}

// Stats says what a finished or an open file holds, and where its bytes went.
type Stats struct {
	Items      uint64 // rows
	Pages      int
	PageSize   int   // bytes, 4096..65536
	Bytes      int64 // size of the file
	IndexBytes int64 // memory of the page index of an open file
	First      uint64
	Last       uint64 // smallest and largest mid; 0 in a file without rows

	// Where the bytes of the pages went; known to the writer only. The rest of Bytes is header, index and
	// footer.
	MidBytes, PresenceBytes, ColumnBytes, PageHeadBytes, PaddingBytes int64
	BoundBytes                                                        int64
	Checksum                                                          uint32 // as File.Checksum; known to the writer only
}

// BytesPerItem is the size of the file over the number of rows.
func (s Stats) BytesPerItem() float64 {
	if s.Items == 0 {
		return 0
	}
	return float64(s.Bytes) / float64(s.Items)
}

func (s Stats) String() string {
	return fmt.Sprintf("%d items in %d pages of %d bytes, %d bytes, %.3f bytes/item", s.Items, s.Pages, s.PageSize, s.Bytes, s.BytesPerItem())
}
