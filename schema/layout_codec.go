package schema

import (
	"encoding/binary"
	"fmt"
)

// The binary form of a layout stands in every block image and block file, since
// a block keeps the layout it was built with. Integers are little endian:
//
//	 0         1         2
//	+---------+---------+----------------------+-- --+----------------------+
//	| version | columns | column 0             | ... | column n-1           |
//	| u8 = 1  | u8 <=65 | 12 bytes             |     | 12 bytes             |
//	+---------+---------+----------------------+-- --+----------------------+
//
//	 0         2         3         4                                      12
//	+---------+---------+---------+----------------------------------------+
//	| id      | width   | max     | default                                |
//	| u16     | u8      | u8      | u64                                    |
//	+---------+---------+---------+----------------------------------------+
//
// Ids rise. Offsets are not stored, they follow from the widths. There is one
// encoding of a layout, and it carries no checksum: the file around it does.
// These numbers are part of the format and must not change.
const (
	layoutVersion    = 1
	layoutHeaderSize = 2
	layoutColumnSize = 12

	// MaxLayoutSize is the size in bytes of the largest binary layout.
	MaxLayoutSize = layoutHeaderSize + MaxFields*layoutColumnSize
)

// AppendBinary appends the binary form of l: 2 bytes and 12 a column.
func (l *Layout) AppendBinary(dst []byte) []byte {
	dst = append(dst, layoutVersion, byte(len(l.Fields)))
	for i := range l.Fields {
		f := &l.Fields[i]
		dst = binary.LittleEndian.AppendUint16(dst, f.ID)
		dst = append(dst, f.Width, f.Max)
		dst = binary.LittleEndian.AppendUint64(dst, f.Default)
	}
	return dst
}

// DecodeLayout reads the layout that b starts with and answers what follows it.
// The errors are ErrTruncated if b ends too soon, ErrVersion, and ErrCorrupt for
// a layout that cannot be. It keeps nothing of b, and takes at most 2 KiB
// and a byte for each id between the first and the last.
func DecodeLayout(b []byte) (l *Layout, rest []byte, err error) {
	if len(b) < layoutHeaderSize {
		return nil, nil, fmt.Errorf("%w: a layout of %d bytes: want at least %d", ErrTruncated, len(b), layoutHeaderSize)
	}
	if b[0] != layoutVersion {
		return nil, nil, fmt.Errorf("%w: a layout of version %d: want %d", ErrVersion, b[0], layoutVersion)
	}
	n := int(b[1])
	if n > MaxFields {
		return nil, nil, fmt.Errorf("%w: a layout of %d columns: want at most %d", ErrCorrupt, n, MaxFields)
	}
	size := layoutHeaderSize + n*layoutColumnSize
	if len(b) < size {
		return nil, nil, fmt.Errorf("%w: a layout of %d columns has %d bytes: want %d", ErrTruncated, n, len(b), size)
	}
	fields := make([]Field, n)
	for i := range fields {
		c := b[layoutHeaderSize+i*layoutColumnSize:]
		fields[i] = Field{
			ID:      binary.LittleEndian.Uint16(c),
			Width:   c[2],
			Max:     c[3],
			Default: binary.LittleEndian.Uint64(c[4:]),
		}
	}
	if l, err = newLayout(fields); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return l, b[size:], nil
}
