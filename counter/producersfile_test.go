package counter

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// producersText is all that a store remembers of producers but when they were used, as the table's image has it; empty
// if that is nothing.
func producersText(t testing.TB, s *Store) string {
	t.Helper()
	s.data.Producers.Mu.Lock()
	b := s.data.Producers.Table.AppendImage(nil)
	s.data.Producers.Mu.Unlock()
	version := b[0]
	b = b[2:]
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatalf("the image of the producers ends early: %x", b)
		}
		b = b[n:]
		return v
	}
	cut := func(n uint64) string {
		text := string(b[:n])
		b = b[n:]
		return text
	}
	var lines []string
	for range next() {
		number := next()
		line := fmt.Sprintf("%q number %d", cut(next()), number)
		epoch, base, from := next(), next(), next()
		next() // used
		line += fmt.Sprintf(" epoch %d base %d from %d:", epoch, base, from)
		for n, seq := next(), from; n > 0; n-- {
			seq += next()
			meta := binary.LittleEndian.Uint32([]byte(cut(4)))
			if line += fmt.Sprintf(" %d=%x", seq, meta); meta>>8&7 == uint32(ResultBlob) {
				line += fmt.Sprintf("%q", cut(next()))
			} else {
				line += fmt.Sprintf(",%d", next())
			}
			seq++
		}
		if version > 1 {
			line += " made"
			for n := next(); n > 0; n-- {
				if line += fmt.Sprintf(" +%d", next()); b[0] == 1 {
					line += fmt.Sprintf(" %x", cut(9)[1:])
				} else {
					line += fmt.Sprintf("*%d", next())
				}
			}
		}
		lines = append(lines, line)
	}
	if len(b) > 0 {
		t.Fatalf("%d bytes behind the producers", len(b))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
