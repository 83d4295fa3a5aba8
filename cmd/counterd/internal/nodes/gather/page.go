package gather

import (
	"bytes"
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// Page is COUNTER.MGET being added to an Ask, with packed ids: see package resp.
type Page struct{ ask *Ask }

var (
	wordMGet   = []byte("COUNTER.MGET")
	wordPacked = []byte(resp.Packed)
)

// BeginPage begins a page of n posts of a counter. REQUIRES that n ids and End come next.
func (a *Ask) BeginPage(counter []byte, n int) Page {
	a.out = appendHead(a.out, '*', 4)
	for _, word := range [...][]byte{wordMGet, counter, wordPacked} {
		a.out = appendWord(a.out, word)
	}
	a.out = appendHead(a.out, '$', n*resp.PackedID)
	return Page{a}
}

// ID appends the id of a post.
func (p Page) ID(mid uint64) { p.ask.out = resp.AppendPackedID(p.ask.out, mid) }

// End returns the number of the command. Its reply is packed, or plain from a node of an older version.
func (p Page) End() int {
	a := p.ask
	a.out = append(a.out, '\r', '\n')
	i := a.added(Read, 1, false)
	a.cmds[i].packed, a.packed = true, true
	return i
}

// appendPlain appends a packed page as nodes take it that do not know PackedFormat. REQUIRES a page as BeginPage makes it.
func appendPlain(dst, page []byte) []byte {
	var words [4][]byte
	_, page = line(page)
	for i := range words {
		n := 0
		n, page = line(page)
		words[i], page = page[:n], page[n+2:]
	}
	ids := words[3]
	dst = appendHead(dst, '*', 2+len(ids)/resp.PackedID)
	dst = appendWord(appendWord(dst, words[0]), words[1])
	for len(ids) > 0 {
		var mid uint64
		var digits [20]byte
		mid, ids = resp.TakePackedID(ids)
		dst = appendWord(dst, strconv.AppendUint(digits[:0], mid, 10))
	}
	return dst
}

// line is the number in the first line of b, and the bytes behind the line.
func line(b []byte) (n int, rest []byte) {
	end := bytes.IndexByte(b, '\n')
	n, _ = strconv.Atoi(string(b[1 : end-1]))
	return n, b[end+1:]
}
