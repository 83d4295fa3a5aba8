package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/export"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/schema"
)

// openStore opens what a directory or an archive shows, as a server would.
func openStore(d *dataDir) (*counter.Store, error) {
	return counter.Open(d.path, counter.Options{FS: d.fs, Manual: true, SnapshotGrowth: -1, Logger: slog.New(slog.DiscardHandler)})
}

// storePosts are those of a directory: nothing changes them.
type storePosts struct{ store *counter.Store }

var _ posts = (*storePosts)(nil)

func (s *storePosts) schema() *schema.Schema { return s.store.Schema() }
func (s *storePosts) begin() error           { return nil }

func (s *storePosts) query(t *wanted) (counter.Query, error) {
	q, err := conditions(t.Counter, t.words)
	q.Columns = make([]int16, len(t.Columns))
	for i, c := range t.Columns {
		q.Columns[i] = int16(c)
	}
	return q, err
}

func (s *storePosts) count(t *wanted) (uint64, error) {
	q, err := s.query(t)
	if err != nil {
		return 0, err
	}
	_, n, _, err := s.store.Aggregate(q, counter.Count, 0)
	return n, unreadable(err)
}

func (s *storePosts) rows(ctx context.Context, t *wanted, f func(mid uint64, values []uint64) error) error {
	q, err := s.query(t)
	if err != nil {
		return err
	}
	var stopped error
	n := 0
	err = s.store.Find(q, func(mid uint64, values []uint64) bool {
		if n++; n%1024 == 0 {
			stopped = ctx.Err()
		}
		if stopped == nil {
			stopped = f(mid, values)
		}
		return stopped == nil
	})
	if stopped != nil {
		return stopped
	}
	return unreadable(err)
}

func (s *storePosts) tally(t *wanted) (*export.Tally, bool, error) {
	posts, err := s.count(t)
	if err != nil {
		return nil, false, err
	}
	q, err := s.query(t)
	if err != nil {
		return nil, false, err
	}
	said := export.NewTally(len(t.Columns))
	said.Posts = posts
	for i, c := range q.Columns {
		if said.Sums[i].Hi, said.Sums[i].Lo, _, err = s.store.Aggregate(q, counter.Sum, c); err != nil {
			return nil, false, err
		}
	}
	return said, false, nil
}

// unreadable says what can be done about a range that cannot be read.
func unreadable(err error) error {
	var lost *counter.RangeError
	if errors.As(err, &lost) {
		return fmt.Errorf("%w; nothing was written: posts below %d and from %s on can be exported by conditions (MID '<' ...)", err, lost.Lo, midText(lost.Hi))
	}
	return err
}

// nodePosts are those of a running node, read in pages while it goes on.
type nodePosts struct {
	*node
	sch    *schema.Schema
	offset string // of its log, when it was begun
}

var _ posts = (*nodePosts)(nil)

func newNodePosts(n *node) (*nodePosts, error) {
	lines, err := n.do("SCHEMA")
	if err != nil {
		return nil, err
	}
	sch, err := schema.ParseScript(strings.NewReader(strings.Join(lines, "\n")+"\n"), schema.Empty())
	if err != nil {
		return nil, fmt.Errorf("%s: SCHEMA: %w", n.addr, err)
	}
	return &nodePosts{node: n, sch: sch}, nil
}

func (n *nodePosts) schema() *schema.Schema { return n.sch }

func (n *nodePosts) begin() (err error) {
	n.offset, err = n.logOffset()
	return err
}

// logOffset returns how far the node's log is: while it stays nothing is changed.
func (n *nodePosts) logOffset() (string, error) {
	text, err := n.do("INFO", "replication")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(strings.Join(text, "\n")) {
		if offset, ok := strings.CutPrefix(strings.TrimSpace(line), "master_repl_offset:"); ok {
			return offset, nil
		}
	}
	return "", fmt.Errorf("%s: INFO replication has no master_repl_offset", n.addr)
}

// number asks for one number.
func (n *nodePosts) number(words ...string) (string, error) {
	answer, err := n.do(words...)
	if err == nil && len(answer) != 1 {
		err = fmt.Errorf("%s: %s answered %d values, want one", n.addr, words[0], len(answer))
	}
	if err != nil {
		return "", err
	}
	return answer[0], nil
}

func (n *nodePosts) count(t *wanted) (uint64, error) {
	text, err := n.number(append([]string{"COUNTER.COUNT", t.Counter.Name}, t.words...)...)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(text, 10, 64)
}

func (n *nodePosts) tally(t *wanted) (*export.Tally, bool, error) {
	posts, err := n.count(t)
	if err != nil {
		return nil, false, err
	}
	said := export.NewTally(len(t.Columns))
	said.Posts = posts
	for i, c := range t.Columns {
		text, err := n.number(append([]string{"COUNTER.SUM", t.Counter.Name, t.Counter.Columns[c].Name}, t.words...)...)
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
func (n *nodePosts) rows(ctx context.Context, t *wanted, f func(mid uint64, values []uint64) error) error {
	words := append([]string{"COUNTER.FIND", t.Counter.Name}, t.words...)
	words = append(words, "LIMIT", strconv.Itoa(pagePosts))
	for _, c := range t.Columns { // a column may be called as a clause is
		words = append(words, "COLUMNS", t.Counter.Columns[c].Name)
	}
	words = append(words, "CURSOR", "0")
	ask := func() error {
		_ = n.conn.SetDeadline(time.Now().Add(nodeTimeout))
		n.conn.Out = wire.AppendCommand(n.conn.Out, words...)
		return n.conn.Flush()
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

func (n *nodePosts) failed(err error) error { return fmt.Errorf("%s: COUNTER.FIND: %w", n.addr, err) }

// cursor reads the beginning of a page.
func (n *nodePosts) cursor() (string, error) {
	parts, ok, err := n.conn.ReadArray()
	if err == nil && (!ok || parts != 2) {
		err = fmt.Errorf("%w: an array of %d, want a cursor and rows", wire.ErrProtocol, parts)
	}
	if err != nil {
		return "", err
	}
	cursor, _, err := n.conn.ReadBulk()
	return string(cursor), err
}

// page reads the rows of a page.
func (n *nodePosts) page(values []uint64, f func(mid uint64, values []uint64) error) error {
	rows, _, err := n.conn.ReadArray()
	if err != nil {
		return n.failed(err)
	}
	for range rows {
		width, _, err := n.conn.ReadArray()
		if err == nil && width != 1+len(values) {
			err = fmt.Errorf("%w: a row of %d, want %d", wire.ErrProtocol, width, 1+len(values))
		}
		if err != nil {
			return n.failed(err)
		}
		mid, err := n.conn.ReadInt()
		for i := 0; err == nil && i < len(values); i++ {
			var v int64
			v, err = n.conn.ReadInt()
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
