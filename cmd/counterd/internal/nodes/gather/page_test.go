package gather

import (
	"bytes"
	"slices"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// TestPlainPage: a packed page becomes the command that a node of an older version knows, whatever bytes its ids have.
func TestPlainPage(t *testing.T) {
	var a Ask
	page := a.BeginPage([]byte("weibo"), 4)
	page.IDs([]uint64{0, 10})
	page.IDs([]uint64{0x0d0a0d0a, 1<<63 - 1})
	if i := page.End(); i != 0 || a.Len() != 1 || !a.packed {
		t.Fatalf("got command %d of %d", i, a.Len())
	}
	a.endPage()
	want := AppendCommand(nil, []byte("COUNTER.MGET"), []byte("weibo"), []byte("0"), []byte("10"), []byte("218762506"), []byte("9223372036854775807"))
	if got := appendPlain(nil, a.out); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestJoinedPages: neighbouring pages of one counter are one command, up to maxJoined posts, and each page has its own rows, also from a node of an
// older version. Other commands, and pages of another counter, stand between.
func TestJoinedPages(t *testing.T) {
	var a Ask
	page := func(counter string, mids ...uint64) (i int) {
		p := a.BeginPage([]byte(counter), len(mids))
		p.IDs(mids)
		return p.End()
	}
	many := make([]uint64, maxJoined-2)
	got := []int{page("a", 1, 2), page("a", 3), page("b", 4), a.Add(Read, []byte("GET"), []byte("5")), page("b", 6), page("b", 7, 8), page("b", many...)}
	if want := []int{0, 0, 1, 2, 3, 3, 4}; !slices.Equal(got, want) {
		t.Fatalf("got commands %d, want %d", got, want)
	}
	if a.Bytes() != len(a.out)+8*len(many) {
		t.Errorf("got %d bytes, of which %d are ids that wait", a.Bytes(), 8*len(many))
	}
	a.endPage()
	ids := func(mids ...uint64) (b []byte) {
		for _, mid := range mids {
			b = resp.AppendPackedID(b, mid)
		}
		return b
	}
	var want []byte
	for _, words := range [][][]byte{{wordMGet, []byte("a"), wordPacked, ids(1, 2, 3)}, {wordMGet, []byte("b"), wordPacked, ids(4)}, {[]byte("GET"), []byte("5")},
		{wordMGet, []byte("b"), wordPacked, ids(6, 7, 8)}, {wordMGet, []byte("b"), wordPacked, ids(many...)}} {
		want = AppendCommand(want, words...)
		if n := len(a.cmds); int(a.cmds[n-1].end) != len(a.out) {
			t.Errorf("command %d ends at %d of %d", n-1, a.cmds[n-1].end, len(a.out))
		}
	}
	if !bytes.Equal(a.out, want) {
		t.Errorf("got %q, want %q", a.out, want)
	}
	for _, packed := range []bool{true, false} {
		a := Ask{cmds: make([]command, 2)}
		var out resp.Replies
		rows := []string{"*1\r\n:1\r\n", "", "*1\r\n:333\r\n"}
		for range 2 {
			start := 0
			if packed {
				start = out.BeginPacked()
			} else {
				out.Array(3)
			}
			for _, row := range rows {
				switch {
				case packed:
					at := out.BeginRow()
					out.Raw([]byte(row))
					out.EndRow(at)
				case row == "":
					out.NullArray()
				default:
					out.Raw([]byte(row))
				}
			}
			if packed {
				out.EndPacked(start)
			}
			a.ends = append(a.ends, int32(out.Len()))
		}
		a.in = out.From(0)
		for i := range 2 {
			want := []string{"\x08*1\r\n:1\r\n\x00", "\x0a*1\r\n:333\r\n", ""}
			if !packed {
				want = []string{"*1\r\n:1\r\n*-1\r\n", "*1\r\n:333\r\n", ""}
			}
			for j, n := range []int{2, 1, 1} {
				if got := a.Rows(i, n); string(got) != want[j] {
					t.Errorf("packed %v, command %d, page %d: got %q, want %q", packed, i, j, got, want[j])
				}
			}
		}
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
