package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestRaw reads a reply and other data after it, in pieces smaller and larger than the buffer.
func TestRaw(t *testing.T) {
	file := strings.Repeat("0123456789", 20000)
	for _, r := range readers("\n\r\n+CONTINUE 5\r\nFabc" + file + "\r\n:7\r\n") {
		if line, err := r.ReadLine(); line != "+CONTINUE 5" || err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		if kind, err := r.ReadByte(); kind != 'F' || err != nil {
			t.Fatalf("%q, %v", kind, err)
		}
		if b, err := r.Peek(3); string(b) != "abc" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
		got := make([]byte, 3+len(file)+2)
		for _, part := range [][]byte{got[:5], got[5:100], got[100:]} {
			if _, err := io.ReadFull(r, part); err != nil {
				t.Fatal(err)
			}
		}
		if want := "abc" + file + "\r\n"; !bytes.Equal(got, []byte(want)) {
			t.Error("the bytes behind the reply are others")
		}
		if v, err := r.ReadInt(); v != 7 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("at the end: %v", err)
		}
	}
	for _, r := range readers("-ERR no\r\nab") {
		var failed *ServerError
		if _, err := r.ReadLine(); !errors.As(err, &failed) || failed.Text != "ERR no" {
			t.Error(err)
		}
		if _, err := r.Peek(3); err != io.ErrUnexpectedEOF {
			t.Errorf("cut short: %v", err)
		}
	}
}
