package feed

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/sinks"
	"github.com/counterd/counterd/internal/wire"
)

const (
	// block is how long a node waits for a change. So an end of the context, or of the connection, is noticed about as fast.
	block = time.Second
	// answer is how long a node may take for a reply behind that: it reads 256 MiB of log at most.
	answer = time.Minute
	// atOnce is how many changes a reply has at most. 1 MiB has about 8,000 single changes.
	atOnce = 10_000
	// now is where a feed begins that wants no older changes.
	now = "NOW"
)

// reader reads a feed from one of several nodes that have the same log.
//
// Invariant: while asked, the reply to the changes behind from is on its way on conn.
type reader struct {
	addrs []string
	dial  func(ctx context.Context, addr string) (*wire.Conn, error)
	words []string // of the command, behind its name and position
	wait  bool     // for a change

	at    int // in addrs
	conn  *wire.Conn
	asked bool
	from  string
	batch sinks.Batch
}

// seek makes the reader go on from a position.
func (r *reader) seek(from string) {
	if r.from != from {
		r.drop()
	}
	r.from = from
}

// drop closes the connection.
func (r *reader) drop() {
	if r.conn != nil {
		r.conn.Close()
	}
	r.conn, r.asked = nil, false
}

// failed closes the connection, so that another node is tried.
func (r *reader) failed() {
	r.drop()
	r.at = (r.at + 1) % len(r.addrs)
}

// addr is the node that is asked.
func (r *reader) addr() string { return r.addrs[r.at] }

// next returns the next reply: the changes behind the position, and the position behind these and those that were not wanted. The
// batch may be empty, and is valid until the next call. After an error the position is the same as before.
func (r *reader) next(ctx context.Context) (b *sinks.Batch, next string, err error) {
	if r.conn == nil {
		if r.conn, err = r.dial(ctx, r.addr()); err != nil {
			return nil, "", err
		}
	}
	if !r.asked {
		if err := r.ask(); err != nil {
			return nil, "", err
		}
	}
	r.asked = false
	if next, err = r.reply(); err != nil {
		return nil, "", err
	}
	r.from = next
	if len(r.batch.Changes) > 0 {
		err = r.ask() // the node looks for the next changes while these are written
	}
	return &r.batch, next, err
}

// ask sends the command.
func (r *reader) ask() error {
	_ = r.conn.SetDeadline(time.Now().Add(answer))
	words := append([]string{"COUNTER.FEED", "FROM", r.from, "COUNT", strconv.Itoa(atOnce)}, r.words...)
	if r.wait && r.from != now { // the first position is needed at once
		words = append(words, "BLOCK", strconv.FormatInt(block.Milliseconds(), 10))
	}
	r.conn.Out = wire.AppendCommand(r.conn.Out[:0], words...)
	if err := r.conn.Flush(); err != nil {
		return err
	}
	r.asked = true
	return nil
}

// reply reads a reply into the batch.
func (r *reader) reply() (next string, err error) {
	r.batch.Reset()
	_ = r.conn.SetDeadline(time.Now().Add(answer))
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
		err = r.change()
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

// change reads a change, and appends its line.
func (r *reader) change() error {
	more, err := r.array(3)
	if err != nil {
		return err
	}
	text, _, err := r.conn.ReadBulk()
	if err != nil {
		return err
	}
	position := string(text)
	ms, err := r.conn.ReadInt()
	if err != nil {
		return err
	}
	n, _, err := r.conn.ReadArray()
	if err != nil {
		return err
	}
	b := &r.batch
	b.Text = appendLineStart(b.Text, []byte(position), ms)
	for i := range n {
		if i > 0 {
			b.Text = append(b.Text, ',')
		}
		if err := r.part(); err != nil {
			return err
		}
	}
	b.Text = appendLineEnd(b.Text)
	b.Changes = append(b.Changes, sinks.Change{Position: position, End: len(b.Text)})
	return r.skip(more)
}

// part reads a part of a change.
func (r *reader) part() error {
	n, _, err := r.conn.ReadArray()
	if err != nil {
		return err
	}
	text, _, err := r.conn.ReadBulk()
	if err != nil {
		return err
	}
	b := &r.batch
	kind := string(text)
	b.Text = append(b.Text, `{"kind":"`...)
	b.Text = append(b.Text, kind...)
	b.Text = append(b.Text, '"')
	switch {
	case kind == "set" && n >= 3 && n%2 == 1, kind == "del" && n == 3:
		err = r.post(kind == "set", n-3)
	case kind == "flush" && n == 1:
	case kind == "schema" && n == 2:
		err = r.fields("schema")
	case (kind == "gain" || kind == "lose") && n == 3:
		err = r.fields("move", "groups")
	default:
		return fmt.Errorf("%w: a part %.20q of %d words, which this version of counterctl does not know", wire.ErrProtocol, kind, n)
	}
	b.Text = append(b.Text, '}')
	return err
}

// fields reads texts, and appends them with names.
func (r *reader) fields(names ...string) error {
	for _, name := range names {
		text, _, err := r.conn.ReadBulk()
		if err != nil {
			return err
		}
		r.batch.Text = appendField(r.batch.Text, name, text)
	}
	return nil
}

// post reads the counter and the id of a post, and columns with their values.
func (r *reader) post(set bool, words int) error {
	if err := r.fields("counter"); err != nil {
		return err
	}
	mid, err := r.conn.ReadInt()
	if err != nil {
		return err
	}
	b := &r.batch
	b.Text = appendMid(b.Text, mid)
	if !set {
		return nil
	}
	b.Text = append(b.Text, `,"values":{`...)
	for i := range words / 2 {
		name, _, err := r.conn.ReadBulk()
		if err != nil {
			return err
		}
		if i > 0 {
			b.Text = append(b.Text, ',')
		}
		b.Text = append(appendString(b.Text, name), ':')
		value, err := r.conn.ReadInt()
		if err != nil {
			return err
		}
		b.Text = strconv.AppendInt(b.Text, value, 10)
	}
	b.Text = append(b.Text, '}')
	return nil
}

// mark makes a batch of the position alone.
func (r *reader) mark(position string) *sinks.Batch {
	b := &r.batch
	b.Reset()
	b.Text = appendLineEnd(appendLineStart(b.Text, []byte(position), time.Now().UnixMilli()))
	b.Changes = append(b.Changes, sinks.Change{Position: position, End: len(b.Text)})
	return b
}

// refusal is the error of a node that cannot go on from a position; nil: the error is another one.
func refusal(err *wire.ServerError) *PositionError {
	word, rest, _ := strings.Cut(err.Text, " ")
	if word != "POSGONE" && word != "POSHISTORY" {
		return nil
	}
	next, _, _ := strings.Cut(rest, " ")
	if next == "-" {
		next = ""
	}
	return &PositionError{History: word == "POSHISTORY", Next: next, Err: err}
}
