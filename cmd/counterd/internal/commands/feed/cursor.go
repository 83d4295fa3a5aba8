package feed

import (
	"context"
	"errors"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
)

// cursorRows are the subcommands of COUNTER.CURSOR. A cursor keeps log of all posts, so making and removing one needs the right to read
// all of them; names and positions tell nothing of posts.
func cursorRows[C any](on func(C) Conn) []*command.Row[C] {
	row := func(name string, arity int, flags command.Flags, complexity, syntax, summary string, asks func(command.Rights, [][]byte) int, run func(Conn, [][]byte)) *command.Row[C] {
		return &command.Row[C]{Name: "counter.cursor|" + name, Arity: arity, Flags: flags | command.NoMulti | command.NoScript, Group: "counterd", Since: "0.1.0",
			Complexity: complexity, Summary: summary, Syntax: syntax, Asks: asks, Run: func(c C, args [][]byte) { run(on(c), args) }}
	}
	return []*command.Row[C]{
		row("set", 4, command.Write, "O(1)", "name position", "Sets a named cursor of the feed of changes to a position. The server keeps the log behind it, up to feed-retain.",
			command.AskEverything(command.NeedRead), setCursor),
		row("get", 3, command.ReadOnly|command.Fast, "O(1)", "name", "Returns the position of a cursor, or null if there is none of this name.", command.NoData, getCursor),
		row("del", 3, command.Write, "O(1)", "name", "Removes a cursor. Returns the number of cursors that were removed.", command.AskEverything(command.NeedRead), deleteCursor),
		row("list", 2, command.ReadOnly, "O(N)", "", "Returns all cursors and how far each is behind.", command.NoData, listCursors),
	}
}

// setCursor: COUNTER.CURSOR SET name position.
func setCursor(conn Conn, args [][]byte) {
	at, err := counter.ParseFeedPosition(string(args[3]))
	store := conn.Store()
	var cursor counter.FeedCursor
	if err == nil && !counter.ValidCursorName(args[2]) {
		err = &counter.CursorNameError{Got: string(args[2])}
	}
	if err == nil {
		conn.Busy(func(ctx context.Context) {
			err = context.Canceled // as long as it is not its turn
			conn.Turn(ctx, func() {
				if cursor, err = store.Feeds().Cursor(string(args[2]), at); err == nil {
					err = store.Replication().AdmitCursors()
				}
			})
		})
	}
	if err == nil {
		err = conn.WithStore(false, func(b *counter.Batch) error {
			if conn.Store() != store {
				return errChanged
			}
			return counter.CursorsOf(b).Set(cursor)
		})
	}
	if err != nil {
		fail(conn, err)
		return
	}
	conn.Call().Out.Status("OK")
}

// deleteCursor: COUNTER.CURSOR DEL name.
func deleteCursor(conn Conn, args [][]byte) {
	err := conn.WithStore(false, func(b *counter.Batch) error { return counter.CursorsOf(b).Delete(string(args[2])) })
	switch {
	case errors.Is(err, counter.ErrNoCursor):
		conn.Call().Out.Int(0)
	case err != nil:
		fail(conn, err)
	default:
		conn.Call().Out.Int(1)
	}
}

// getCursor: COUNTER.CURSOR GET name.
func getCursor(conn Conn, args [][]byte) {
	var list []counter.FeedCursor
	err := conn.WithStore(false, func(b *counter.Batch) (err error) {
		list, err = counter.CursorsOf(b).List()
		return err
	})
	if err != nil {
		fail(conn, err)
		return
	}
	for _, v := range list {
		if v.Name == string(args[2]) {
			conn.Call().Out.BulkString(v.Position)
			return
		}
	}
	conn.Call().Out.Null()
}

// listCursors: COUNTER.CURSOR LIST.
func listCursors(conn Conn, _ [][]byte) {
	if err := conn.WithStore(false, func(b *counter.Batch) error { // the list must be safe
		_, err := counter.CursorsOf(b).List()
		return err
	}); err != nil {
		fail(conn, err)
		return
	}
	var list []counter.FeedCursorState
	conn.Busy(func(ctx context.Context) {
		conn.Turn(ctx, func() { list = conn.Store().Cursors() })
	})
	out, now := &conn.Call().Out, time.Now()
	out.Array(len(list))
	for i := range list {
		writeCursor(out, &list[i], now)
	}
}

// writeCursor encodes a cursor of a list.
func writeCursor(out *resp.Replies, v *counter.FeedCursorState, now time.Time) {
	out.Map(6)
	out.BulkString("name")
	out.BulkString(v.Name)
	out.BulkString("position")
	out.BulkString(v.Position)
	out.BulkString("set")
	out.Int(v.TimeMS)
	out.BulkString("bytes")
	out.Int(int64(v.Bytes))
	out.BulkString("lag")
	out.Int(v.Lag(now).Milliseconds())
	out.BulkString("lost")
	lost := int64(0)
	if v.Lost {
		lost = 1
	}
	out.Int(lost)
}
