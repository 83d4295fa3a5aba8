package resp

import (
	"bytes"
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
