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
	cs, i, err := c.columns.find(ctx, column)
	if err != nil {
		return 0, false, err
	}
	key := cs.key(mid, i)
	value, err = ask(ctx, c, 1, func(ctx context.Context) (int64, error) { return c.rdb.Get(ctx, key).Int64() }, "get", key)
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

// Page reads columns of many posts, all columns if none is named. Timelines are read with it. Rows come in the order of
// mids. A page of more than PageMids is asked in parts, side by side; by a go-redis cluster client each owner is asked for
// its own posts.
func (c *Client) Page(ctx context.Context, mids []uint64, columns ...string) ([]Row, error) {
	for again := false; ; again = true {
		cs, list, err := c.columns.choose(ctx, columns, again)
		if err != nil {
			return nil, err
		}
		rows, names := make([]Row, len(mids)), cs.some(list)
		for i := range rows {
			rows[i].Columns = names
		}
		values := make([]int64, len(mids)*len(list))
		parts := partsOf(len(mids), c.options.PageMids)
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

// partsOf cuts a page that is too long for one command. By owner go-redis cuts it, in readPosts.
func partsOf(n, most int) (parts []part) {
	for lo := 0; lo < n; lo += most {
		parts = append(parts, part{lo, min(lo+most, n)})
	}
	return parts
}

// Columns are the names of the counter's columns, in the order that rows have them in. They are read anew where they
// are older than SchemaFor.
func (c *Client) Columns(ctx context.Context) ([]string, error) {
	cs, err := c.columns.current(ctx)
	if err != nil {
		return nil, err
	}
	return append([]string(nil), cs.names...), nil
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

// readPage asks one server for all posts in one command. It names the columns, so that a column dropped meanwhile is not
// confused with a column added meanwhile.
func (c *Client) readPage(ctx context.Context, cs *columns, list []int, mids []uint64) ([]any, error) {
	args := pageArgs(cs, list, mids)
	rows, err := ask(ctx, c, len(mids), func(ctx context.Context) ([]any, error) { return pageOf(ctx, c.rdb, args) }, args...)
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
// replica where the options say so, gets its part at the same time as the others. The keys are made first: mids are the
// caller's, and an attempt may outlive the call.
func (c *Client) readPosts(ctx context.Context, cs *columns, list []int, mids []uint64) ([]any, error) {
	names, keys := cs.some(list), make([]string, len(mids))
	for i, mid := range mids {
		keys[i] = cs.post(mid)
	}
	return ask(ctx, c, len(mids), func(ctx context.Context) ([]any, error) {
		pipe := c.rdb.Pipeline()
		cmds := make([]*redis.SliceCmd, len(keys))
		for i, key := range keys {
			cmds[i] = pipe.HMGet(ctx, key, names...)
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

// ask sends a read of some posts, and again by the rules for all requests, in addition to the repeats of go-redis by its
// own options: a replica that went down is left for another one there. args are the command, for an error and a span.
func ask[T any](ctx context.Context, c *Client, posts int, once func(context.Context) (T, error), args ...any) (reply T, err error) {
	ctx, span := c.tracer.begin(ctx, c, posts, args)
	err = c.send(ctx, func() (err error) {
		reply, err = attend(ctx, c, func() (T, error) { return once(ctx) })
		return err
	}, func(e *Error) {
		e.Request = text(args)
		if e.Class == InDoubt { // there was nothing to be made
			e.Class = Transient
		}
	})
	span.end(err)
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
