package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Row is a post as a read found it.
type Row struct {
	Mid    uint64
	Exists bool    // false: no column of it was ever set
	Values []int64 // of the columns that were asked for, in that order; nil where the post is not there
	// Columns are the names of Values. All rows of a result share them: they must not be changed. SetRows
	// does not look at them.
	Columns []string
}

// Value is the value of a column by its name. ok is false where the post is not there, or the column was not asked for.
func (r *Row) Value(column string) (value int64, ok bool) {
	if i := slices.Index(r.Columns, column); i >= 0 && i < len(r.Values) {
		return r.Values[i], true
	}
	return 0, false
}

// Get reads a column of a post, by name or suffix; ok is false where there is no such post.
func (c *Client) Get(ctx context.Context, mid uint64, column string) (value int64, ok bool, err error) {
	cs, i, err := c.column(ctx, column)
	if err != nil {
		return 0, false, err
	}
	key := cs.key(mid, i)
	value, err = ask(ctx, c, func() (int64, error) { return c.rdb.Get(ctx, key).Int64() }, "get", key)
	if err == redis.Nil {
		return 0, false, nil
	}
	return value, err == nil, err
}

// Row reads columns of a post, all of them where none is named, as of one moment.
func (c *Client) Row(ctx context.Context, mid uint64, columns ...string) (Row, error) {
	rows, err := c.Page(ctx, []uint64{mid}, columns...)
	if err != nil {
		return Row{Mid: mid}, err
	}
	return rows[0], nil
}

// Page reads columns of many posts, all columns where none is named: what a timeline shows. Rows come in the order of
// mids. A page of more than PageMids is asked in parts, side by side; by a go-redis cluster client each owner is asked
// for its own posts.
func (c *Client) Page(ctx context.Context, mids []uint64, columns ...string) ([]Row, error) {
	for again := false; ; again = true {
		cs, list, err := c.choose(ctx, columns, again)
		if err != nil {
			return nil, err
		}
		rows, names := make([]Row, len(mids)), cs.some(list)
		for i := range rows {
			rows[i].Columns = names
		}
		values := make([]int64, len(mids)*len(list))
		parts := c.parts(len(mids))
		errs := make([]error, len(parts))
		var others sync.WaitGroup
		for i, part := range parts {
			read := func() {
				errs[i] = c.readPart(ctx, cs, list, mids[part.lo:part.hi], rows[part.lo:part.hi], values[part.lo*len(list):])
			}
			if i == len(parts)-1 {
				read() // the last part, most often the only one, on this goroutine
			} else {
				others.Go(read)
			}
		}
		others.Wait()
		if err := errors.Join(errs...); err != nil {
			if errors.Is(err, errDropped) && !again {
				continue
			}
			return nil, err
		}
		return rows, nil
	}
}

// part is a range of a page's mids.
type part struct{ lo, hi int }

// parts cuts a page that is too long for one command. By owner go-redis cuts it, in readPosts.
func (c *Client) parts(n int) (parts []part) {
	for lo := 0; lo < n; lo += c.options.PageMids {
		parts = append(parts, part{lo, min(lo+c.options.PageMids, n)})
	}
	return parts
}

// Columns are the names of the counter's columns, in the order that rows have them in. They are read anew where they
// are older than SchemaFor.
func (c *Client) Columns(ctx context.Context) ([]string, error) {
	cs, err := c.schema(ctx, c.options.SchemaFor)
	if err != nil {
		return nil, err
	}
	return append([]string(nil), cs.names...), nil
}

// choose finds the columns of a read. anew reads the schema first, as something in it was found to be gone.
func (c *Client) choose(ctx context.Context, names []string, anew bool) (*columns, []int, error) {
	age := c.options.SchemaFor
	if anew {
		age = 0
	}
	cs, err := c.schema(ctx, age)
	if err != nil {
		if cs = c.columns.Load(); cs == nil || anew {
			return nil, nil, err
		} // the reads may be answered all the same, by columns that were there a moment ago
	}
	if len(names) == 0 {
		list := make([]int, len(cs.names))
		for i := range list {
			list[i] = i
		}
		return cs, list, nil
	}
	list := make([]int, len(names))
	for i := 0; i < len(names); i++ {
		if list[i] = cs.find(names[i]); list[i] < 0 {
			if cs, _, err = c.column(ctx, names[i]); err != nil {
				return nil, nil, err
			}
			i = -1 // places are those of the newer list
		}
	}
	return cs, list, nil
}

// errDropped says that a column is not there any more.
var errDropped = errors.New("client: a column was dropped meanwhile")

// readPart reads posts into rows, whose values are the beginning of values.
func (c *Client) readPart(ctx context.Context, cs *columns, list []int, mids []uint64, rows []Row, values []int64) error {
	read := c.readPage
	if c.cluster {
		read = c.readPosts
	}
	found, err := read(ctx, cs, list, mids)
	if err != nil {
		return err
	}
	if len(found) != len(mids) {
		return fmt.Errorf("client: %d rows in answer to %d posts", len(found), len(mids))
	}
	for i, mid := range mids {
		rows[i].Mid = mid
		fields, ok := found[i].([]any)
		if !ok && found[i] == nil {
			continue
		}
		if !ok || len(fields) != len(list) {
			return fmt.Errorf("client: got %.100v for post %d, want %d values", found[i], mid, len(list))
		}
		absent := 0
		its := values[i*len(list) : (i+1)*len(list) : (i+1)*len(list)]
		for k, field := range fields {
			if field == nil {
				absent++
			} else if its[k], err = number(field); err != nil {
				return err
			}
		}
		switch {
		case absent == 0:
			rows[i].Exists, rows[i].Values = true, its
		case absent < len(list): // the post is there, and a column is not
			return errDropped
		}
	}
	return nil
}

// readPage asks one server for all posts in one command. It names the columns, so that one that is dropped and another
// one that is added meanwhile are not taken for each other.
func (c *Client) readPage(ctx context.Context, cs *columns, list []int, mids []uint64) ([]any, error) {
	args := pageArgs(cs, list, mids)
	rows, err := ask(ctx, c, func() ([]any, error) { return pageOf(ctx, c.rdb, args) }, args...)
	if redis.HasErrorPrefix(err, "no column '") {
		return nil, errDropped
	}
	return rows, err
}

// pageArgs is the command for a page.
func pageArgs(cs *columns, list []int, mids []uint64) []any {
	args := make([]any, 0, 3+len(mids)+len(list))
	args = append(args, "COUNTER.MGET", cs.counter)
	for _, mid := range mids {
		args = append(args, mid)
	}
	args = append(args, "COLUMNS")
	for _, column := range list {
		args = append(args, cs.names[column])
	}
	return args
}

// pageOf sends it once.
func pageOf(ctx context.Context, rdb processor, args []any) ([]any, error) {
	cmd := redis.NewSliceCmd(ctx, args...)
	_ = rdb.Process(ctx, cmd)
	return cmd.Result()
}

// readPosts asks for each post by a command of its own, in one pipeline, which go-redis takes apart: each owner, or
// replica where the options say so, gets its part at the same time as the others.
func (c *Client) readPosts(ctx context.Context, cs *columns, list []int, mids []uint64) ([]any, error) {
	names := make([]string, len(list))
	for i, column := range list {
		names[i] = cs.names[column]
	}
	return ask(ctx, c, func() ([]any, error) {
		pipe := c.rdb.Pipeline()
		cmds := make([]*redis.SliceCmd, len(mids))
		for i, mid := range mids {
			cmds[i] = pipe.HMGet(ctx, cs.post(mid), names...)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, err
		}
		rows := make([]any, len(cmds))
		for i, cmd := range cmds {
			rows[i] = cmd.Val()
		}
		return rows, nil
	}, "hmget", len(mids), "posts")
}

// ask sends a read, and again by the rules for all requests, beside what go-redis repeats by its own options: a replica
// that went down is left for another one there. args name it for an error.
func ask[T any](ctx context.Context, c *Client, once func() (T, error), args ...any) (reply T, err error) {
	err = c.send(ctx, func() (err error) {
		reply, err = attend(ctx, c, once)
		return err
	}, func(e *Error) {
		e.Request = text(args)
		if e.Class == InDoubt { // there was nothing to be made
			e.Class = Transient
		}
	})
	return reply, err
}

// number is a value as the server writes it, as a number or as text.
func number(v any) (int64, error) {
	switch v := v.(type) {
	case int64:
		return v, nil
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("client: %#v is no value of a counter", v)
}
