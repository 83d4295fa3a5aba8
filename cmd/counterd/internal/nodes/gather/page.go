package gather

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// Page is COUNTER.MGET being added to an Ask, with packed ids: see package resp. Neighbouring pages of an Ask are one command, so the other node reads,
// decides on and answers one for a pipeline:
//
//	pages of the client    | a b c | d e | f g h |
//	of one shard           | a   c | d   |   g   |
//	sent to the shard      COUNTER.MGET counter PACKED acdg
type Page struct{ ask *Ask }

// joined is the page that an Ask adds ids to.
type joined struct {
	counter []byte
	ids     []byte // packed
	open    bool   // it is the last command of the Ask, which is not in Ask.out yet
}

// maxJoined is how many posts pages of an Ask have together: as many as a node reads at once.
const maxJoined = 256

var (
	wordMGet   = []byte("COUNTER.MGET")
	wordPacked = []byte(resp.Packed)
)

// BeginPage begins a page of n posts of a counter. REQUIRES that n ids and End come next.
func (a *Ask) BeginPage(counter []byte, n int) Page {
	if j := &a.page; !j.open || len(j.ids)/resp.PackedID+n > maxJoined || !bytes.Equal(j.counter, counter) {
		a.endPage()
		j.counter, j.open = append(j.counter[:0], counter...), true
		i := a.added(Read, 1, false)
		a.cmds[i].packed, a.packed = true, true
	}
	return Page{a}
}

// endPage appends the page to the commands. It is called before another command is added, and before the Ask is sent.
func (a *Ask) endPage() {
	j := &a.page
	if !j.open {
		return
	}
	a.out = appendHead(a.out, '*', 4)
	for _, word := range [...][]byte{wordMGet, j.counter, wordPacked, j.ids} {
		a.out = appendWord(a.out, word)
	}
	a.cmds[len(a.cmds)-1].end = int32(len(a.out))
	j.ids, j.open = j.ids[:0], false
}

// IDs appends the ids of posts.
func (p Page) IDs(mids []uint64) {
	ids := slices.Grow(p.ask.page.ids, resp.PackedID*len(mids))
	for _, mid := range mids {
		ids = resp.AppendPackedID(ids, mid)
	}
	p.ask.page.ids = ids
}

// End returns the number of the command. Rows has its rows.
func (p Page) End() int { return len(p.ask.cmds) - 1 }

// Rows are the next n rows of the reply to command i, which pages are joined in. They are packed if the reply is, else elements of an array. There are fewer if the
// reply has no more. REQUIRES that the pages of the command come in their order, each once, and that the reply is no error.
func (a *Ask) Rows(i, n int) []byte {
	reply := a.Answer(i)
	packed := resp.IsPacked(reply)
	if a.rowsOf != i+1 {
		if a.rowsOf = i + 1; packed {
			a.rows = resp.PackedRows(reply)
		} else {
			a.rows = Elements(reply)
		}
	}
	rest := a.rows
	for range n {
		if packed {
			_, behind, err := resp.TakeRow(rest)
			if err != nil {
				break
			}
			rest = behind
		} else {
			rest = rest[Size(rest):]
		}
	}
	rows := a.rows[:len(a.rows)-len(rest)]
	a.rows = rest
	return rows
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
