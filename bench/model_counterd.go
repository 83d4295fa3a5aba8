package bench

import (
	"fmt"

	"github.com/counterd/counterd/internal/wire"
)

// counterdModel is counterd's own: an item a post, all of whose columns one command reads.
type counterdModel struct {
	schema Schema
	prefix string // of the key of a whole item: "weibo:", empty for the server's first counter
}

func newCounterdModel(schema Schema) *counterdModel {
	m := &counterdModel{schema: schema}
	if !schema.First {
		m.prefix = schema.Counter + ":"
	}
	return m
}

func (m *counterdModel) Max(col int) uint64 { return m.schema.Columns[col].Max() }

func (m *counterdModel) AppendRow(dst []byte, mid uint64, row []uint64) []byte {
	dst = wire.AppendArray(dst, 2+2*len(row))
	dst = wire.AppendArg(dst, "HSET")
	dst = wire.AppendNamed(dst, m.prefix, mid)
	for i, v := range row {
		dst = wire.AppendArg(dst, m.schema.Columns[i].Name)
		dst = wire.AppendUint(dst, v)
	}
	return dst
}

func (m *counterdModel) ReadRow(r *wire.Reader) error { return r.ReadStatus() }

func (m *counterdModel) AppendIncr(dst []byte, mid uint64, col int) []byte {
	dst = wire.AppendArray(dst, 2)
	dst = wire.AppendArg(dst, "INCR")
	return m.appendColumn(dst, mid, col)
}

func (m *counterdModel) ReadIncr(r *wire.Reader) error {
	_, err := r.ReadInt()
	return err
}

func (m *counterdModel) AppendGet(dst []byte, mid uint64, col int) []byte {
	dst = wire.AppendArray(dst, 2)
	dst = wire.AppendArg(dst, "GET")
	return m.appendColumn(dst, mid, col)
}

func (m *counterdModel) ReadGet(r *wire.Reader, _ int) (int64, error) { return readNumber(r) }

// appendColumn appends the key of one column. A suffix names counter and column; the column without one is the
// counter's plain number.
func (m *counterdModel) appendColumn(dst []byte, mid uint64, col int) []byte {
	if suffix := m.schema.Columns[col].Suffix; suffix != "" {
		return wire.AppendKey(dst, mid, suffix)
	}
	return wire.AppendNamed(dst, m.schema.Counter+":", mid)
}

func (m *counterdModel) AppendPage(dst []byte, mids []uint64) []byte {
	dst = wire.AppendArray(dst, 2+len(mids))
	dst = wire.AppendArg(dst, "COUNTER.MGET")
	dst = wire.AppendArg(dst, m.schema.Counter)
	for _, mid := range mids {
		dst = wire.AppendUint(dst, mid)
	}
	return dst
}

func (m *counterdModel) ReadPage(r *wire.Reader, page []int64, posts int) ([]int64, error) {
	n, ok, err := r.ReadArray()
	if err != nil {
		return page, err
	}
	if !ok || n != posts {
		return page, fmt.Errorf("%w: %d posts, want %d", wire.ErrProtocol, n, posts)
	}
	columns := len(m.schema.Columns)
	for range posts {
		n, ok, err := r.ReadArray()
		if err != nil {
			return page, inside(err)
		}
		if !ok {
			page = appendAbsent(page, columns)
			continue
		}
		if n != columns {
			return page, fmt.Errorf("%w: %d columns of counter %q, want %d", wire.ErrProtocol, n, m.schema.Counter, columns)
		}
		for range columns {
			v, err := r.ReadInt()
			if err != nil {
				return page, inside(err)
			}
			page = append(page, v)
		}
	}
	return page, nil
}

// inside turns an error reply inside an array, after which the stream is out of step, into a protocol error.
func inside(err error) error {
	if _, ok := err.(*wire.ServerError); ok {
		return fmt.Errorf("%w: inside an array: %w", wire.ErrProtocol, err)
	}
	return err
}

func appendAbsent(page []int64, columns int) []int64 {
	for range columns {
		page = append(page, Absent)
	}
	return page
}

// readNumber reads a counter, Absent where there is none.
func readNumber(r *wire.Reader) (int64, error) {
	v, ok, err := r.ReadNumber()
	if err == nil && !ok {
		return Absent, nil
	}
	return v, err
}
