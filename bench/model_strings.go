package bench

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/internal/wire"
)

// stringsModel keeps each counter under a key of its own, MID.suffix, as people do who use plain Redis.
type stringsModel struct{ suffixes []string }

func newStringsModel(schema Schema) *stringsModel {
	return &stringsModel{suffixes: suffixes(schema)}
}

func (m *stringsModel) Max(int) uint64 { return 1<<63 - 1 }

func (m *stringsModel) AppendRow(dst []byte, mid uint64, row []uint64) []byte {
	dst = wire.AppendArray(dst, 1+2*len(row))
	dst = wire.AppendArg(dst, "MSET")
	for i, v := range row {
		dst = wire.AppendKey(dst, mid, m.suffixes[i])
		dst = wire.AppendUint(dst, v)
	}
	return dst
}

func (m *stringsModel) ReadRow(r *wire.Reader) error { return r.ReadStatus() }

func (m *stringsModel) AppendIncr(dst []byte, mid uint64, col int) []byte {
	dst = wire.AppendArray(dst, 2)
	dst = wire.AppendArg(dst, "INCR")
	return wire.AppendKey(dst, mid, m.suffixes[col])
}

func (m *stringsModel) ReadIncr(r *wire.Reader) error {
	_, err := r.ReadInt()
	return err
}

func (m *stringsModel) AppendGet(dst []byte, mid uint64, col int) []byte {
	dst = wire.AppendArray(dst, 2)
	dst = wire.AppendArg(dst, "GET")
	return wire.AppendKey(dst, mid, m.suffixes[col])
}

func (m *stringsModel) ReadGet(r *wire.Reader, _ int) (int64, error) { return readNumber(r) }

func (m *stringsModel) AppendPage(dst []byte, mids []uint64) []byte {
	dst = wire.AppendArray(dst, 1+len(mids)*len(m.suffixes))
	dst = wire.AppendArg(dst, "MGET")
	for _, mid := range mids {
		for _, suffix := range m.suffixes {
			dst = wire.AppendKey(dst, mid, suffix)
		}
	}
	return dst
}

func (m *stringsModel) ReadPage(r *wire.Reader, page []int64, posts int) ([]int64, error) {
	if err := readCount(r, posts*len(m.suffixes)); err != nil {
		return page, err
	}
	return appendNumbers(r, page, posts*len(m.suffixes))
}

// setModel keeps each counter under a key of its own, as stringsModel does, and sets them one by one.
type setModel struct{ *stringsModel }

func (m *setModel) AppendRow(dst []byte, mid uint64, row []uint64) []byte {
	for i, v := range row {
		dst = wire.AppendArray(dst, 3)
		dst = wire.AppendArg(dst, "SET")
		dst = wire.AppendKey(dst, mid, m.suffixes[i])
		dst = wire.AppendUint(dst, v)
	}
	return dst
}

// ReadRow reads the replies to all commands of a row, also those after an error, and returns the first error.
func (m *setModel) ReadRow(r *wire.Reader) (first error) {
	for range m.suffixes {
		err := r.ReadStatus()
		var refused *wire.ServerError
		if err != nil && !errors.As(err, &refused) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// readCount reads the head of an array that must have n elements.
func readCount(r *wire.Reader, n int) error {
	got, ok, err := r.ReadArray()
	if err != nil {
		return err
	}
	if !ok || got != n {
		return fmt.Errorf("%w: an array of %d, want %d", wire.ErrProtocol, got, n)
	}
	return nil
}

// appendNumbers reads the n elements of an array.
func appendNumbers(r *wire.Reader, page []int64, n int) ([]int64, error) {
	for range n {
		v, err := readNumber(r)
		if err != nil {
			return page, inside(err)
		}
		page = append(page, v)
	}
	return page, nil
}
