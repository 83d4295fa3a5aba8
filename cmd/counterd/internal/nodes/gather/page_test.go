package gather

import (
	"bytes"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// TestPlainPage: a packed page becomes the command that a node of an older version knows, whatever bytes its ids have.
func TestPlainPage(t *testing.T) {
	var a Ask
	page := a.BeginPage([]byte("weibo"), 4)
	for _, mid := range []uint64{0, 10, 0x0d0a0d0a, 1<<63 - 1} {
		page.ID(mid)
	}
	if i := page.End(); i != 0 || a.Len() != 1 || !a.packed {
		t.Fatalf("got command %d of %d", i, a.Len())
	}
	want := AppendCommand(nil, []byte("COUNTER.MGET"), []byte("weibo"), []byte("0"), []byte("10"), []byte("218762506"), []byte("9223372036854775807"))
	if got := appendPlain(nil, a.out); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPackedReply: a packed reply that comes in pieces is found when it is whole, whatever bytes it has. The length of one that would be too
// long is refused before its bytes have come.
func TestPackedReply(t *testing.T) {
	var out resp.Replies
	start := out.BeginPacked()
	for _, text := range []string{"", ":1\r\n", "\r\n*2\r\n&"} {
		row := out.BeginRow()
		out.Raw([]byte(text))
		out.EndRow(row)
	}
	out.EndPacked(start)
	reply := bytes.Clone(out.From(0))
	all := append(bytes.Clone(reply), ":5\r\n"...)
	var s scanner
	for n := range reply {
		if size, err := s.next(all[:n]); size != 0 || err != nil {
			t.Fatalf("of %d bytes: got %d, error %v", n, size, err)
		}
	}
	if size, err := s.next(all); size != len(reply) || err != nil {
		t.Fatalf("got %d, error %v, want %d", size, err, len(reply))
	}
	if size, err := s.next(all[len(reply):]); size != 4 || err != nil {
		t.Fatalf("behind it: got %d, error %v, want 4", size, err)
	}
	if _, err := s.next([]byte("&\xff\xff\xff\xff")); err == nil {
		t.Error("a reply of 4 GiB is waited for")
	}
}
