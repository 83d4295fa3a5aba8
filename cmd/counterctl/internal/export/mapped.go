package export

import (
	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/internal/wire"
)

// mapped is the commands that write numbers into a Redis, where the rules of an import say that they are.
type mapped struct {
	writer  *mapping.Writer
	columns []mapping.Column
	at      []int // by column of the rules: its place in a row, or -1
	values  []uint64
	has     []bool
}

// NewMapped returns the encoder that rules make. With skipZeros values all of whose numbers are 0 are not written.
func NewMapped(rules *mapping.Rules, skipZeros bool) (Encoder, error) {
	w, err := rules.Writer()
	if err != nil {
		return nil, err
	}
	w.SkipZeros = skipZeros
	n := len(rules.Columns())
	return &mapped{writer: w, columns: rules.Columns(), at: make([]int, n), values: make([]uint64, n), has: make([]bool, n)}, nil
}

func (m *mapped) Start(dst []byte) []byte { return dst }

func (m *mapped) Table(dst []byte, t *Table) []byte {
	for i, c := range m.columns {
		m.at[i] = -1
		for place, column := range t.Columns {
			if c.Counter.Name == t.Counter.Name && c.Counter.Columns[c.Index].Name == t.Counter.Col(column).Name {
				m.at[i] = place
			}
		}
	}
	return dst
}

func (m *mapped) Row(dst []byte, mid uint64, values []uint64) []byte {
	for i, place := range m.at {
		if m.has[i] = place >= 0; m.has[i] {
			m.values[i] = values[place]
		}
	}
	m.writer.Commands(mid, m.values, m.has, func(words [][]byte) {
		dst = wire.AppendArray(dst, len(words))
		for _, w := range words {
			dst = wire.AppendBytes(dst, w)
		}
	})
	return dst
}

func (m *mapped) End(dst []byte) []byte    { return dst }
func (m *mapped) Finish(dst []byte) []byte { return dst }
