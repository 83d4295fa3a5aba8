package bench

import "github.com/counterd/counterd/internal/wire"

// hashModel keeps a hash a post, with a field a counter. Redis has no command that reads several hashes, so a page is
// a pipeline of one HMGET a post.
type hashModel struct{ fields []string }

func newHashModel(schema Schema) *hashModel {
	return &hashModel{fields: suffixes(schema)}
}

func (m *hashModel) Max(int) uint64 { return 1<<63 - 1 }

func (m *hashModel) AppendRow(dst []byte, mid uint64, row []uint64) []byte {
	dst = wire.AppendArray(dst, 2+2*len(row))
	dst = wire.AppendArg(dst, "HSET")
	dst = wire.AppendUint(dst, mid)
	for i, v := range row {
		dst = wire.AppendArg(dst, m.fields[i])
		dst = wire.AppendUint(dst, v)
	}
	return dst
}

func (m *hashModel) ReadRow(r *wire.Reader) error { return r.ReadStatus() }

func (m *hashModel) AppendIncr(dst []byte, mid uint64, col int) []byte {
	dst = wire.AppendArray(dst, 4)
	dst = wire.AppendArg(dst, "HINCRBY")
	dst = wire.AppendUint(dst, mid)
	dst = wire.AppendArg(dst, m.fields[col])
	return wire.AppendUint(dst, 1)
}

func (m *hashModel) ReadIncr(r *wire.Reader) error {
	_, err := r.ReadInt()
	return err
}

func (m *hashModel) AppendGet(dst []byte, mid uint64, col int) []byte {
	dst = wire.AppendArray(dst, 3)
	dst = wire.AppendArg(dst, "HGET")
	dst = wire.AppendUint(dst, mid)
	return wire.AppendArg(dst, m.fields[col])
}

func (m *hashModel) ReadGet(r *wire.Reader, _ int) (int64, error) { return readNumber(r) }

func (m *hashModel) AppendPage(dst []byte, mids []uint64) []byte {
	for _, mid := range mids {
		dst = wire.AppendArray(dst, 2+len(m.fields))
		dst = wire.AppendArg(dst, "HMGET")
		dst = wire.AppendUint(dst, mid)
		for _, field := range m.fields {
			dst = wire.AppendArg(dst, field)
		}
	}
	return dst
}

func (m *hashModel) ReadPage(r *wire.Reader, page []int64, posts int) ([]int64, error) {
	var failed error
	for range posts {
		err := readCount(r, len(m.fields))
		if _, ok := err.(*wire.ServerError); ok { // the replies of the other posts still have to be read
			failed = err
			page = appendAbsent(page, len(m.fields))
			continue
		}
		if err != nil {
			return page, err
		}
		if page, err = appendNumbers(r, page, len(m.fields)); err != nil {
			return page, err
		}
	}
	return page, failed
}
