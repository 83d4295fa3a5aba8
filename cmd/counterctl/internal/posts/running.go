package posts

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/export"
	"github.com/counterd/counterd/cmd/counterctl/internal/node"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/schema"
)

// Node is the posts of a running node, read in pages while it goes on.
type Node struct {
	*node.Node
	sch    *schema.Schema
	offset string // of its log, when it was begun
	mark   mark
}

var _ Source = (*Node)(nil)

// OfNode are the posts of a node.
func OfNode(n *node.Node) (*Node, error) {
	sch, err := n.Schema()
	if err != nil {
		return nil, err
	}
	return &Node{Node: n, sch: sch}, nil
}

func (n *Node) Schema() *schema.Schema { return n.sch }

func (n *Node) Begin() (err error) {
	n.offset, err = n.logOffset()
	return err
}

// logOffset returns how far the node's log is: while it stays nothing is changed.
func (n *Node) logOffset() (string, error) { return n.info("master_repl_offset") }

// Number asks for one number.
func (n *Node) Number(words ...string) (string, error) {
	answer, err := n.Do(words...)
	if err == nil && len(answer) != 1 {
		err = fmt.Errorf("%s: %s answered %d values, want one", n.Addr, words[0], len(answer))
	}
	if err != nil {
		return "", err
	}
	return answer[0], nil
}

func (n *Node) Count(t *Wanted) (uint64, error) {
	text, err := n.Number(append([]string{"COUNTER.COUNT", t.Counter.Name}, t.Words...)...)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(text, 10, 64)
}

func (n *Node) Tally(t *Wanted) (*export.Tally, bool, error) {
	posts, err := n.Count(t)
	if err != nil {
		return nil, false, err
	}
	said := export.NewTally(len(t.Columns))
	said.Posts = posts
	for i, c := range t.Columns {
		text, err := n.Number(append([]string{"COUNTER.SUM", t.Counter.Name, t.Counter.Col(c).Name}, t.Words...)...)
		if err != nil {
			return nil, false, err
		}
		if said.Sums[i], err = export.ParseSum(text); err != nil {
			return nil, false, err
		}
	}
	offset, err := n.logOffset()
	return said, offset != n.offset, err
}

// pagePosts is how many posts a page has: as many as a FIND gives. A node takes 9 ms for them.
const pagePosts = 10_000

// rows asks for the next page as soon as the cursor is known, which comes first: so the node looks for one while the one
// before is read.
func (n *Node) Rows(ctx context.Context, t *Wanted, f func(mid uint64, values []uint64) error) error {
	words := append([]string{"COUNTER.FIND", t.Counter.Name}, t.Words...)
	words = append(words, "LIMIT", strconv.Itoa(pagePosts))
	for _, c := range t.Columns { // a column may be called as a clause is
		words = append(words, "COLUMNS", t.Counter.Col(c).Name)
	}
	words = append(words, "CURSOR", "0")
	ask := func() error {
		_ = n.Conn.SetDeadline(time.Now().Add(node.Timeout))
		n.Conn.Out = wire.AppendCommand(n.Conn.Out, words...)
		return n.Conn.Flush()
	}
	if err := ask(); err != nil {
		return n.failed(err)
	}
	values := make([]uint64, len(t.Columns))
	for {
		cursor, err := n.cursor()
		if err != nil {
			return n.failed(err)
		}
		if words[len(words)-1] = cursor; cursor != "0" {
			if err := ask(); err != nil {
				return n.failed(err)
			}
		}
		if err := n.page(values, f); err != nil || cursor == "0" {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (n *Node) failed(err error) error { return fmt.Errorf("%s: COUNTER.FIND: %w", n.Addr, err) }

// cursor reads the beginning of a page.
func (n *Node) cursor() (string, error) {
	parts, ok, err := n.Conn.ReadArray()
	if err == nil && (!ok || parts != 2) {
		err = fmt.Errorf("%w: an array of %d, want a cursor and rows", wire.ErrProtocol, parts)
	}
	if err != nil {
		return "", err
	}
	cursor, _, err := n.Conn.ReadBulk()
	return string(cursor), err
}

// page reads the rows of a page.
func (n *Node) page(values []uint64, f func(mid uint64, values []uint64) error) error {
	rows, _, err := n.Conn.ReadArray()
	if err != nil {
		return n.failed(err)
	}
	for range rows {
		width, _, err := n.Conn.ReadArray()
		if err == nil && width != 1+len(values) {
			err = fmt.Errorf("%w: a row of %d, want %d", wire.ErrProtocol, width, 1+len(values))
		}
		if err != nil {
			return n.failed(err)
		}
		mid, err := n.Conn.ReadInt()
		for i := 0; err == nil && i < len(values); i++ {
			var v int64
			v, err = n.Conn.ReadInt()
			values[i] = uint64(v)
		}
		if err != nil {
			return n.failed(err)
		}
		if err := f(uint64(mid), values); err != nil {
			return err
		}
	}
	return nil
}
