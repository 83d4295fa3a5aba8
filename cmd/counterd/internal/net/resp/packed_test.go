package resp

import (
	"bytes"
	"strings"
	"testing"
)

// TestPacked: rows of all lengths come back as they were, and the reply says where it ends.
func TestPacked(t *testing.T) {
	var out Replies
	out.Int(7)
	start := out.BeginPacked()
	lengths := []int{0, 1, 30, 254, 255, 256, 70_000, 0}
	for _, n := range lengths {
		row := out.BeginRow()
		out.Raw(bytes.Repeat([]byte{'x'}, n))
		out.EndRow(row)
	}
	out.EndPacked(start)
	end := out.Len()
	out.Int(8)
	reply := out.From(start)
	if size := PackedSize(reply); !IsPacked(reply) || size != end-start || Size(reply) != size {
		t.Fatalf("the reply has %d bytes, or %d, want %d", size, Size(reply), end-start)
	}
	rows := PackedRows(reply[:end-start])
	for _, n := range lengths {
		row, rest, err := TakeRow(rows)
		if err != nil || len(row) != n || bytes.Count(row, []byte{'x'}) != n {
			t.Fatalf("got a row of %d bytes, error %v, want %d", len(row), err, n)
		}
		rows = rest
	}
	if _, _, err := TakeRow(rows); err != ErrPacked {
		t.Errorf("behind the last row: got error %v, want ErrPacked", err)
	}
}

// TestPackedInts: packed rows of integers are those that BeginRow, Ints and EndRow make.
func TestPackedInts(t *testing.T) {
	for columns := 1; columns <= 12; columns++ {
		var values []uint64
		for i := range 3 * columns {
			values = append(values, []uint64{0, 9, 10, 12345, 1<<63 - 1}[(i*i+columns)%5])
		}
		var got, want Replies
		got.PackedInts(values, 3)
		for i := range 3 {
			row := want.BeginRow()
			want.Ints(values[i*columns : (i+1)*columns])
			want.EndRow(row)
		}
		if !bytes.Equal(got.From(0), want.From(0)) {
			t.Errorf("%d columns: got %q, want %q", columns, got.From(0), want.From(0))
		}
	}
}

// FuzzMergeRows: MergeRows takes the rows that TakeRow takes, one after the other, and says which list has too few.
func FuzzMergeRows(f *testing.F) {
	row := "\x08*1\r\n:7\r\n"
	f.Add([]byte(strings.Repeat(row, 5)), []byte("\x00\x28"+strings.Repeat("y", 40)+row), []byte{0, 1, 0, 1, 0, 0, 1})
	f.Add([]byte("\x05"), []byte("\xff\x00\x00"), []byte{1, 0})
	f.Add([]byte("\xff\x28\x00\x00\x00"+strings.Repeat("z", 80)), []byte(row), []byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, first, second, of []byte) {
		for _, proto := range []int{2, 3} {
			var got, want Replies
			got.SetProtocol(proto)
			want.SetProtocol(proto)
			want.Array(len(of))
			lists, rest := [][]byte{bytes.Clone(first), bytes.Clone(second)}, [][]byte{first, second}
			from := make([]uint16, len(of))
			missing := -1
			for i, n := range of {
				if from[i] = uint16(n % 2); missing >= 0 {
					continue
				}
				row, behind, err := TakeRow(rest[from[i]])
				switch {
				case err != nil:
					missing = int(from[i])
					continue
				case len(row) == 0:
					want.NullArray()
				default:
					want.Raw(row)
				}
				rest[from[i]] = behind
			}
			at, err := MergeRows(&got, lists, from)
			if (err != nil) != (missing >= 0) || err != nil && at != missing {
				t.Fatalf("got list %d, error %v, want list %d", at, err, missing)
			}
			if !bytes.Equal(got.From(0), want.From(0)) || !bytes.Equal(lists[0], rest[0]) || !bytes.Equal(lists[1], rest[1]) {
				t.Fatalf("got %q and %q, want %q and %q", got.From(0), lists, want.From(0), rest)
			}
		}
	})
}

// FuzzPacked: TakeRow returns bytes that it was given, and no others, and each row is shorter than the rows it is taken from.
func FuzzPacked(f *testing.F) {
	f.Add([]byte("\x00\x04:12\r"))
	f.Add([]byte("\xff\xff\xff\xff\xffx"))
	f.Add([]byte("\xff\x00\x00"))
	f.Fuzz(func(t *testing.T, rows []byte) {
		for {
			row, rest, err := TakeRow(rows)
			if err != nil {
				return
			}
			if len(row)+len(rest) >= len(rows) || !bytes.HasSuffix(rows, rest) || !bytes.HasSuffix(rows[:len(rows)-len(rest)], row) {
				t.Fatalf("a row of %d bytes, and %d behind it, of %d", len(row), len(rest), len(rows))
			}
			rows = rest
		}
	})
}
