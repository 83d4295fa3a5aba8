package feed

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// changes are encoded changes, one behind the other. Texts that they share are encoded once: the beginning and the end of positions, and
// the names of counters and columns.
type changes struct {
	out    resp.Replies
	n      int  // how many
	old    bool // with the values before
	texts  counter.FeedPositions
	text   []byte
	timeMS int64              // of the last change
	time   []byte             // the same, as a reply
	names  []*names           // of the counters met, the last one first
	latest counter.FeedLatest // merged, and not encoded yet
}

// names are the names of a counter in parts.
type names struct {
	counter  *schema.Counter
	set, del []byte   // kind and name
	columns  [][]byte // nil: not met yet
}

// spare has changes of replies that were given to their connections. A reply of 1 MiB that grows from nothing takes 4 MiB and copies each
// byte twice.
var spare = sync.Pool{New: func() any { return new(changes) }}

// newChanges returns no changes, for a version of the protocol, with old values or without.
func newChanges(proto int, old bool) *changes {
	w := spare.Get().(*changes)
	w.old = old
	w.out.SetProtocol(proto)
	return w
}

// done gives the memory to later replies. That of a change that is much larger than a reply is not kept.
func (w *changes) done() {
	if w.out.Cap() > 4*maxReply {
		w.out.Drop()
	}
	if w.latest.Len() > MaxCount {
		w.latest = counter.FeedLatest{}
	}
	w.latest.Reset()
	w.out.Cut(0)
	clear(w.names) // schemas that were replaced
	w.n, w.names = 0, w.names[:0]
	spare.Put(w)
}

// add encodes a change.
func (w *changes) add(change *counter.FeedChange) {
	out := &w.out
	w.n++
	if change.Numbered {
		out.Array(5)
	} else {
		out.Array(3)
	}
	w.text = w.texts.Append(w.text[:0], &change.Position)
	out.Bulk(w.text)
	if w.time == nil || w.timeMS != change.TimeMS {
		w.timeMS, w.time = change.TimeMS, fmt.Appendf(w.time[:0], ":%d\r\n", change.TimeMS)
	}
	out.Raw(w.time)
	out.Array(len(change.Parts))
	for i := range change.Parts {
		p := &change.Parts[i]
		switch p.Kind {
		case counter.FeedSet:
			w.set(p)
		case counter.FeedDel:
			w.del(p)
		default:
			w.marker(p)
		}
	}
	switch {
	case change.Producer != "":
		out.BulkString(change.Producer)
		idmp.AppendSeq(out, change.Seq)
	case change.Numbered:
		out.Null()
		out.Null()
	}
}

// set encodes columns of a post.
func (w *changes) set(p *counter.FeedPart) {
	out, names := &w.out, w.of(p.Counter)
	n := 3 + 2*len(p.Values)
	if w.old {
		n++
	}
	out.Array(n)
	out.Raw(names.set)
	out.Uint(p.Mid)
	for _, v := range p.Values {
		out.Raw(names.column(v.Column))
		out.Uint(v.Value)
	}
	if w.old {
		w.before(p, names)
	}
}

// del encodes a post that is gone.
func (w *changes) del(p *counter.FeedPart) {
	out, names := &w.out, w.of(p.Counter)
	if w.old {
		out.Array(4)
	} else {
		out.Array(3)
	}
	out.Raw(names.del)
	out.Uint(p.Mid)
	if w.old {
		w.before(p, names)
	}
}

// before encodes the values before a part, its last element.
func (w *changes) before(p *counter.FeedPart, names *names) {
	out := &w.out
	if !p.Old.Told || p.Old.There && len(p.Old.Values) == 0 { // an empty array says that the post was not there
		out.NullArray()
		return
	}
	out.Array(2 * len(p.Old.Values))
	for _, v := range p.Old.Values {
		out.Raw(names.column(v.Column))
		out.Uint(v.Value)
	}
}

// marker encodes a part that is of no single post.
func (w *changes) marker(p *counter.FeedPart) {
	out := &w.out
	switch p.Kind {
	case counter.FeedDrop: // the end may be 2^63, which is no integer of the protocol
		words := []string{p.Kind.String(), p.Counter.Name, strconv.FormatUint(p.Mid, 10), strconv.FormatUint(p.End, 10)}
		if p.Groups != nil {
			words = append(words, p.Groups.String())
		}
		out.BulkStrings(words)
	case counter.FeedSchema:
		out.BulkStrings([]string{p.Kind.String(), p.Text})
	case counter.FeedGain, counter.FeedLose:
		n := 3
		if p.Offset > 0 {
			n = 5
		}
		out.Array(n)
		out.BulkString(p.Kind.String())
		out.BulkString(p.Text)
		out.BulkString(p.Groups.String())
		if p.Offset > 0 {
			out.Int(int64(p.Shard))
			out.Int(int64(p.Offset))
		}
	default:
		out.BulkStrings([]string{p.Kind.String()})
	}
}

// of returns the names of a counter.
func (w *changes) of(c *schema.Counter) *names {
	for i, n := range w.names {
		if n.counter == c {
			w.names[0], w.names[i] = n, w.names[0]
			return n
		}
	}
	n := &names{counter: c, columns: make([][]byte, len(c.Columns))}
	n.set, n.del = bulks(counter.FeedSet.String(), c.Name), bulks(counter.FeedDel.String(), c.Name)
	w.names = append(w.names, n)
	return n
}

// column returns the name of a column.
func (n *names) column(i int) []byte {
	if n.columns[i] == nil {
		n.columns[i] = bulks(n.counter.Columns[i].Name)
	}
	return n.columns[i]
}

// bulks are bulk strings.
func bulks(list ...string) []byte {
	var out resp.Replies
	for _, w := range list {
		out.BulkString(w)
	}
	return out.From(0)
}
