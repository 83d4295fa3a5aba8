package bench

import (
	"encoding/binary"
	"fmt"

	"github.com/counterd/counterd/internal/wire"
)

// packedModel keeps a string a post, of 4 bytes a counter, big-endian as BITFIELD has them. Reading a page is one MGET
// that the client unpacks; other clients of the same data must know how.
type packedModel struct{ columns int }

const packedWidth = 4 // bytes a counter

func (m *packedModel) Max(int) uint64 { return 1<<32 - 1 }

func (m *packedModel) AppendRow(dst []byte, mid uint64, row []uint64) []byte {
	dst = wire.AppendArray(dst, 3)
	dst = wire.AppendArg(dst, "SET")
	dst = wire.AppendUint(dst, mid)
	dst = append(dst, '$')
	dst = appendDecimal(dst, packedWidth*len(row))
	dst = append(dst, '\r', '\n')
	for _, v := range row {
		dst = binary.BigEndian.AppendUint32(dst, uint32(v))
	}
	return append(dst, '\r', '\n')
}

func (m *packedModel) ReadRow(r *wire.Reader) error { return r.ReadStatus() }

func (m *packedModel) AppendIncr(dst []byte, mid uint64, col int) []byte {
	dst = wire.AppendArray(dst, 6)
	dst = wire.AppendArg(dst, "BITFIELD")
	dst = wire.AppendUint(dst, mid)
	dst = wire.AppendArg(dst, "INCRBY")
	dst = wire.AppendArg(dst, "u32")
	dst = wire.AppendNamed(dst, "#", uint64(col))
	return wire.AppendUint(dst, 1)
}

func (m *packedModel) ReadIncr(r *wire.Reader) error {
	if err := readCount(r, 1); err != nil {
		return err
	}
	_, err := r.ReadInt()
	return inside(err)
}

func (m *packedModel) AppendGet(dst []byte, mid uint64, col int) []byte {
	dst = wire.AppendArray(dst, 4)
	dst = wire.AppendArg(dst, "GETRANGE")
	dst = wire.AppendUint(dst, mid)
	dst = wire.AppendUint(dst, uint64(col*packedWidth))
	return wire.AppendUint(dst, uint64(col*packedWidth+packedWidth-1))
}

func (m *packedModel) ReadGet(r *wire.Reader, _ int) (int64, error) {
	b, _, err := r.ReadBulk()
	switch {
	case err != nil:
		return 0, err
	case len(b) == 0:
		return Absent, nil
	case len(b) != packedWidth:
		return 0, fmt.Errorf("%w: a counter of %d bytes, want %d", wire.ErrProtocol, len(b), packedWidth)
	}
	return int64(binary.BigEndian.Uint32(b)), nil
}

func (m *packedModel) AppendPage(dst []byte, mids []uint64) []byte {
	dst = wire.AppendArray(dst, 1+len(mids))
	dst = wire.AppendArg(dst, "MGET")
	for _, mid := range mids {
		dst = wire.AppendUint(dst, mid)
	}
	return dst
}

func (m *packedModel) ReadPage(r *wire.Reader, page []int64, posts int) ([]int64, error) {
	if err := readCount(r, posts); err != nil {
		return page, err
	}
	for range posts {
		b, ok, err := r.ReadBulk()
		if err != nil {
			return page, inside(err)
		}
		if !ok {
			page = appendAbsent(page, m.columns)
			continue
		}
		if len(b) > m.columns*packedWidth {
			return page, fmt.Errorf("%w: a post of %d bytes, want at most %d", wire.ErrProtocol, len(b), m.columns*packedWidth)
		}
		for range m.columns { // a post that BITFIELD made ends with the counter it touched
			var v uint32
			if len(b) >= packedWidth {
				v, b = binary.BigEndian.Uint32(b), b[packedWidth:]
			}
			page = append(page, int64(v))
		}
	}
	return page, nil
}
