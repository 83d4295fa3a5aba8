package bench

import (
	"fmt"
	"strconv"

	"github.com/counterd/counterd/bench/postgen"
	"github.com/counterd/counterd/internal/wire"
)

// bucketSpan is how many mids share a hash: at the mean gap of generated posts, 100 posts. Redis keeps a hash of up to
// 128 fields as a flat listpack. The posts of a span vary by 10, so that one hash in 300 has more and is turned into a
// table; with a span of 113 posts it would be one in twelve.
const bucketSpan = 100 * postgen.MeanGap

// bucketModel is the trick for keeping counters small in Redis: a hash holds the posts of a range of mids, with a field
// a post, and the counters of a post share one integer, so that HINCRBY adds to any of them.
//
//	   63       42         21          0
//	   +--------+----------+-----------+
//	0  | col 2  |  col 1   |   col 0   |      three columns of 21 bits
//	   +--------+----------+-----------+
//
// A counter that outgrows its bits spills into the next one, unseen.
type bucketModel struct {
	columns int
	bits    int // of a column
}

func newBucketModel(schema Schema) (*bucketModel, error) {
	m := &bucketModel{columns: len(schema.Columns), bits: 63 / len(schema.Columns)}
	if m.bits < 8 {
		return nil, fmt.Errorf("%s: %d columns leave %d bits each", RedisBucket, m.columns, m.bits)
	}
	return m, nil
}

func (m *bucketModel) Max(int) uint64 { return 1<<m.bits - 1 }

func (m *bucketModel) AppendRow(dst []byte, mid uint64, row []uint64) []byte {
	packed := uint64(0)
	for i, v := range row {
		packed |= v << (i * m.bits)
	}
	dst = wire.AppendArray(dst, 4)
	dst = wire.AppendArg(dst, "HSET")
	dst = appendBucketField(dst, mid)
	return wire.AppendUint(dst, packed)
}

func (m *bucketModel) ReadRow(r *wire.Reader) error { return r.ReadStatus() }

func (m *bucketModel) AppendIncr(dst []byte, mid uint64, col int) []byte {
	dst = wire.AppendArray(dst, 4)
	dst = wire.AppendArg(dst, "HINCRBY")
	dst = appendBucketField(dst, mid)
	return wire.AppendUint(dst, 1<<(col*m.bits))
}

func (m *bucketModel) ReadIncr(r *wire.Reader) error {
	_, err := r.ReadInt()
	return err
}

func (m *bucketModel) AppendGet(dst []byte, mid uint64, _ int) []byte {
	dst = wire.AppendArray(dst, 3)
	dst = wire.AppendArg(dst, "HGET")
	return appendBucketField(dst, mid)
}

func (m *bucketModel) ReadGet(r *wire.Reader, col int) (int64, error) {
	packed, err := readNumber(r)
	if err != nil || packed == Absent {
		return packed, err
	}
	return packed >> (col * m.bits) & (1<<m.bits - 1), nil
}

func (m *bucketModel) AppendPage(dst []byte, mids []uint64) []byte {
	for _, mid := range mids {
		dst = m.AppendGet(dst, mid, 0)
	}
	return dst
}

func (m *bucketModel) ReadPage(r *wire.Reader, page []int64, posts int) ([]int64, error) {
	var failed error
	for range posts {
		packed, err := readNumber(r)
		if _, ok := err.(*wire.ServerError); ok { // the replies of the other posts still have to be read
			failed, packed, err = err, Absent, nil
		}
		if err != nil {
			return page, err
		}
		if packed == Absent {
			page = appendAbsent(page, m.columns)
			continue
		}
		for col := range m.columns {
			page = append(page, packed>>(col*m.bits)&(1<<m.bits-1))
		}
	}
	return page, failed
}

func appendBucketField(dst []byte, mid uint64) []byte {
	dst = wire.AppendNamed(dst, "b:", mid/bucketSpan)
	return wire.AppendUint(dst, mid%bucketSpan)
}

func appendDecimal(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
