package feed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/feedjoin"
	"github.com/counterd/counterd/internal/wire"
)

const (
	// block is how long a node waits for a change. So the end of a connection is noticed about as fast.
	block = time.Second
	// answer is how long a node may take for a reply behind that: it reads 256 MiB of log at most.
	answer = time.Minute
	// atOnce is how many changes a reply has at most. 1 MiB has about 8,000 single changes.
	atOnce = 10_000
	// keptText is how much memory is kept for the next reply but one; a usual one has 2 MB.
	keptText = 8 << 20
)

// change is a change as a line of JSON without its beginning, the position.
type change = feedjoin.Change[[]byte]

// reader reads the log of one node.
type reader struct {
	nodes *nodes
	shard uint64
	addr  string
	conn  *wire.Conn
	pages [2]page // the user has the last reply while the next one is read
	turn  int
	asked bool // catchUp was done
	fails bool // the last Read ended with an error
}

// page is the memory of a reply.
type page struct {
	text    []byte
	changes []change
	ends    []int // of the changes, in text
}

func (p *page) reset() {
	if cap(p.text) > keptText {
		p.text = nil
	}
	clear(p.changes)
	p.text, p.changes, p.ends = p.text[:0], p.changes[:0], p.ends[:0]
}

// Read asks for the changes behind a position, and reads the reply.
func (r *reader) Read(_ context.Context, from string) (reply feedjoin.Reply[[]byte], err error) {
	p := &r.pages[r.turn]
	p.reset()
	if !r.nodes.waits && !r.asked && from != feedjoin.Now {
		err = r.catchUp(p)
	}
	if err == nil {
		err = r.ask(from)
	}
	if err == nil {
		reply.Next, err = r.reply(p)
	}
	if r.fails = err != nil; r.fails {
		return reply, &nodeError{r.addr, err}
	}
	at := 0
	for i, end := range p.ends {
		p.changes[i].Value = p.text[at:end:end]
		at = end
	}
	reply.Changes = p.changes
	r.turn = 1 - r.turn
	r.nodes.answered(r.shard, r.addr)
	return reply, nil
}

// Close closes the connection. Behind an error, another node is tried; at the end of a feed, as where the sink fails, the node is as good as before.
func (r *reader) Close() {
	r.conn.Close()
	if r.fails {
		r.nodes.suspect(r.shard, r.addr)
	}
}

// catchUp has the node show all changes that it acknowledged up to now. A node shows changes that it has synced, and syncs its log for NOW. A
// replica may not know its position yet, and shows fewer changes then.
func (r *reader) catchUp(p *page) error {
	err := r.ask(feedjoin.Now)
	if err == nil {
		_, err = r.reply(p)
		p.reset()
	}
	if refused, ok := errors.AsType[*wire.ServerError](err); ok && strings.HasPrefix(refused.Text, "TRYAGAIN") {
		err = nil
	}
	r.asked = err == nil
	return err
}

// ask sends the command.
func (r *reader) ask(from string) error {
	_ = r.conn.SetDeadline(time.Now().Add(answer))
	words := append([]string{"COUNTER.FEED", "FROM", from, "COUNT", strconv.Itoa(atOnce)}, r.nodes.words...)
	if r.nodes.waits && from != feedjoin.Now { // the first position is needed at once
		words = append(words, "BLOCK", strconv.FormatInt(block.Milliseconds(), 10))
	}
	r.conn.Out = wire.AppendCommand(r.conn.Out[:0], words...)
	return r.conn.Flush()
}

// reply reads a reply.
func (r *reader) reply(p *page) (next string, err error) {
	more, err := r.array(2)
	if err != nil {
		return "", err
	}
	text, _, err := r.conn.ReadBulk()
	if err != nil {
		return "", err
	}
	next = string(text)
	n, _, err := r.conn.ReadArray()
	for ; n > 0 && err == nil; n-- {
		err = r.change(p)
	}
	if err == nil {
		err = r.skip(more)
	}
	return next, err
}

// array reads the head of an array, and returns how many elements it has beyond the wanted ones. A newer node may send some.
func (r *reader) array(want int) (more int, err error) {
	n, _, err := r.conn.ReadArray()
	if err == nil && n < want {
		err = fmt.Errorf("%w: an array of %d in a reply of COUNTER.FEED, want %d", wire.ErrProtocol, n, want)
	}
	return n - want, err
}

// skip reads elements that are not looked at.
func (r *reader) skip(n int) error {
	for ; n > 0; n-- {
		if _, err := r.conn.ReadValue(); err != nil {
			return err
		}
	}
	return nil
}

// change reads a change.
func (r *reader) change(p *page) error {
	more, err := r.array(3)
	if err != nil {
		return err
	}
	text, _, err := r.conn.ReadBulk()
	if err != nil {
		return err
	}
	c := change{Position: string(text)}
	ms, err := r.conn.ReadInt()
	if err != nil {
		return err
	}
	n, _, err := r.conn.ReadArray()
	if err != nil {
		return err
	}
	p.text = appendTime(p.text, ms)
	for i := range n {
		if i > 0 {
			p.text = append(p.text, ',')
		}
		if err := r.part(p, &c); err != nil {
			return err
		}
	}
	p.text = append(p.text, ']')
	if more >= 2 {
		if err := r.number(p); err != nil {
			return err
		}
		more -= 2
	}
	p.text = append(p.text, "}\n"...)
	p.changes, p.ends = append(p.changes, c), append(p.ends, len(p.text))
	return r.skip(more)
}

// number reads the producer and the number of a change. The node does not know all of them.
func (r *reader) number(p *page) error {
	producer, err := r.conn.ReadValue()
	if err != nil {
		return err
	}
	seq, err := r.conn.ReadValue()
	if err == nil && !producer.Null {
		p.text = appendField(p.text, "producer", []byte(producer.Text()))
		p.text = appendField(p.text, "seq", []byte(seq.Text()))
	}
	return err
}

// part reads a part of a change.
func (r *reader) part(p *page, c *change) error {
	n, _, err := r.conn.ReadArray()
	if err != nil {
		return err
	}
	text, _, err := r.conn.ReadBulk()
	if err != nil {
		return err
	}
	kind := string(text)
	p.text = append(p.text, `{"kind":"`...)
	p.text = append(p.text, kind...)
	p.text = append(p.text, '"')
	switch {
	case kind == "set" && n >= 3, kind == "del" && (n == 3 || n == 4):
		err = r.post(p, kind == "set", n-3)
	case kind == "flush" && n == 1:
	case kind == "drop" && n == 4:
		err = r.fields(p, "counter", "from", "to")
	case kind == "drop" && n == 5:
		err = r.fields(p, "counter", "from", "to", "groups")
	case kind == "schema" && n == 2:
		err = r.fields(p, "schema")
	case (kind == "gain" || kind == "lose") && n == 3:
		err = r.fields(p, "move", "groups")
	case kind == "gain" && n == 5:
		err = r.gain(p, c)
	default:
		return fmt.Errorf("%w: a part %.20q of %d words, which this version of counterctl does not know", wire.ErrProtocol, kind, n)
	}
	p.text = append(p.text, '}')
	return err
}

// gain reads the part that says from which shard groups came, and where they end in its log.
func (r *reader) gain(p *page, c *change) error {
	if err := r.fields(p, "move", "groups"); err != nil {
		return err
	}
	shard, err := r.conn.ReadInt()
	if err != nil {
		return err
	}
	offset, err := r.conn.ReadInt()
	if err != nil {
		return err
	}
	p.text = appendShard(p.text, uint64(shard))
	p.text = append(p.text, `,"offset":`...)
	p.text = strconv.AppendUint(p.text, uint64(offset), 10)
	c.Gains = append(c.Gains, feedjoin.Gain{From: uint64(shard), Offset: uint64(offset)})
	return nil
}

// fields reads texts, and appends them with names.
func (r *reader) fields(p *page, names ...string) error {
	for _, name := range names {
		text, _, err := r.conn.ReadBulk()
		if err != nil {
			return err
		}
		p.text = appendField(p.text, name, text)
	}
	return nil
}

// post reads the counter and the id of a post, columns with their values, and the values before, which are one more word.
func (r *reader) post(p *page, set bool, words int) error {
	if err := r.fields(p, "counter"); err != nil {
		return err
	}
	mid, err := r.conn.ReadInt()
	if err != nil {
		return err
	}
	p.text = appendMid(p.text, mid)
	if set {
		if err := r.values(p, `,"values":{`, words/2); err != nil {
			return err
		}
	}
	if words%2 == 0 {
		return nil
	}
	n, told, err := r.conn.ReadArray()
	switch {
	case err != nil || !told:
		return err
	case n%2 != 0:
		return fmt.Errorf("%w: old values of %d words", wire.ErrProtocol, n)
	}
	return r.values(p, `,"old":{`, n/2)
}

// values reads n columns with their values.
func (r *reader) values(p *page, begin string, n int) error {
	p.text = append(p.text, begin...)
	for i := range n {
		name, _, err := r.conn.ReadBulk()
		if err != nil {
			return err
		}
		if i > 0 {
			p.text = append(p.text, ',')
		}
		p.text = append(appendString(p.text, name), ':')
		value, err := r.conn.ReadInt()
		if err != nil {
			return err
		}
		p.text = strconv.AppendInt(p.text, value, 10)
	}
	p.text = append(p.text, '}')
	return nil
}
