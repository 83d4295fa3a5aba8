package export

import "strconv"

// delimited is a line with the columns' names, and a line a post. There is nothing to quote: names are letters, digits
// and _, values digits. CSV ends its lines as RFC 4180 says.
//
//	mid	repost	comment
//	888888	1	0
type delimited struct {
	by  byte
	end string
}

func (d *delimited) Start(dst []byte) []byte { return dst }

func (d *delimited) Table(dst []byte, t *Table) []byte {
	dst = append(dst, t.Counter.Key...)
	t.names(func(_ int, name string) { dst = append(append(dst, d.by), name...) })
	return append(dst, d.end...)
}

func (d *delimited) Row(dst []byte, mid uint64, values []uint64) []byte {
	dst = strconv.AppendUint(dst, mid, 10)
	for _, v := range values {
		dst = strconv.AppendUint(append(dst, d.by), v, 10)
	}
	return append(dst, d.end...)
}

func (d *delimited) End(dst []byte) []byte    { return dst }
func (d *delimited) Finish(dst []byte) []byte { return dst }
