package serving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/move"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// COUNTER.MOVE is the command by which the primary of a move's destination asks the primary of its source (see package
// move), and by which tools ask for the progress, and restore the counts of derived columns and the memory of numbered changes.

// moveRow is COUNTER.MOVE.
func moveRow[C any](on func(C) Conn) *command.Row[C] {
	sub := func(name string, arity int, syntax, summary string, run func(c Conn, m *move.Mover, args [][]byte) error) *command.Row[C] {
		return &command.Row[C]{Name: "counter.move|" + name, Arity: arity, Flags: command.Admin | command.NoMulti | command.NoScript, Group: "cluster", Since: "0.1.0",
			Complexity: "O(N) in the posts of a block", Syntax: syntax, Summary: summary,
			Run: func(of C, args [][]byte) {
				c := on(of)
				if !c.Member().Joined() {
					c.Call().Out.Error(route.ErrNoCluster)
					return
				}
				var refused *move.RefusedError
				switch err := run(c, c.Member().Mover(), args); {
				case errors.As(err, &refused):
					c.Call().Out.Error(refused.Error())
				case err != nil:
					c.Call().Out.Error(items.ErrorText(err))
				}
			}}
	}
	return command.Container(func(c C) *resp.Replies { return &on(c).Call().Out }, "counter.move", "cluster", "0.1.0", "A container for commands about moves of hash slot groups. All but PROGRESS are internal to nodes.",
		sub("open", 4, "move epoch", "Internal: starts to export the groups of a move. Returns the log offset from which the log is kept.",
			func(c Conn, m *move.Mover, args [][]byte) error {
				n, err := moveNumbers(args[3:])
				if err != nil {
					return err
				}
				from, err := m.Open(string(args[2]), n[0])
				return moveNumbersReply(c, err, []uint64{from}, 0)
			}),
		sub("producers", 4, "move place", "Internal: returns a part of the remembered producers of a move's groups.",
			func(c Conn, m *move.Mover, args [][]byte) error {
				n, err := moveNumbers(args[3:])
				if err != nil {
					return err
				}
				records, next, err := m.Producers(string(args[2]), int(n[0]))
				return moveReply(c, err, records, uint64(next))
			}),
		sub("rows", 5, "move space mid", "Internal: returns the posts of a move's groups in the next block.",
			func(c Conn, m *move.Mover, args [][]byte) error {
				n, err := moveNumbers(args[3:])
				if err != nil {
					return err
				}
				records, next, done, err := m.Rows(string(args[2]), counter.ExportPlace{Space: uint32(n[0]), Mid: n[1]})
				last := uint64(0)
				if done {
					last = 1
				}
				return moveReply(c, err, records, uint64(next.Space), next.Mid, last)
			}),
		sub("log", 4, "move offset", "Internal: returns the log records of a move's groups from an offset on.",
			func(c Conn, m *move.Mover, args [][]byte) error {
				n, err := moveNumbers(args[3:])
				if err != nil {
					return err
				}
				records, next, end, err := m.Log(string(args[2]), n[0])
				return moveReply(c, err, records, next, end)
			}),
		sub("hold", 3, "move", "Internal: stops serving a move's groups until etcd has recorded their owner.",
			func(c Conn, m *move.Mover, args [][]byte) error {
				end, revision, err := m.Hold(string(args[2]))
				return moveNumbersReply(c, err, []uint64{end, uint64(revision)}, 0)
			}),
		sub("remember", 4, "groups records", "Internal: adds remembered producers of a restored backup to a primary that owns the groups.",
			func(c Conn, m *move.Mover, args [][]byte) (err error) {
				groups, err := slot.ParseSet(string(args[2]))
				if err != nil {
					return items.Refusal("ERR " + err.Error())
				}
				c.Block(func(ctx context.Context) { err = m.Remember(ctx, groups, args[3]) })
				if err == nil {
					c.Call().Out.Status("OK")
				}
				return err
			}),
		sub("derived", 7, "groups counter column time rows", "Internal: sets what a derived column of a restored backup has counted, at a primary that owns the groups. Returns how many posts still count.",
			func(c Conn, m *move.Mover, args [][]byte) error {
				groups, err := slot.ParseSet(string(args[2]))
				if err != nil {
					return items.Refusal("ERR " + err.Error())
				}
				n, err := moveNumbers(args[5:6])
				if err != nil {
					return err
				}
				p := counter.DerivedPiece{Counter: string(args[3]), Column: string(args[4]), Time: int64(n[0]), Rows: args[6]}
				taken := 0
				c.Block(func(ctx context.Context) { taken, err = m.SetDerived(ctx, groups, &p) })
				if err == nil {
					c.Call().Out.Int(int64(taken))
				}
				return err
			}),
		sub("progress", 2, "", "Returns the progress of the moves to this shard, one per line.",
			func(c Conn, m *move.Mover, _ [][]byte) error {
				list := m.Progress()
				c.Call().Out.Array(len(list))
				for i := range list {
					c.Call().Out.BulkString(moveLine(&list[i]))
				}
				return nil
			}),
	)
}

const errMoveNumber = items.Refusal("ERR a place or an offset of a move is a number that is not negative")

func moveNumbers(args [][]byte) (list []uint64, err error) {
	for _, a := range args {
		n, ok := resp.Number(a)
		if !ok || n < 0 {
			return nil, errMoveNumber
		}
		list = append(list, uint64(n))
	}
	return list, nil
}

// moveReply answers numbers, and records behind them.
func moveReply(c Conn, err error, records []byte, numbers ...uint64) error {
	if err != nil {
		return err
	}
	moveNumbersReply(c, nil, numbers, 1)
	c.Call().Out.Bulk(records)
	return nil
}

// moveNumbersReply answers numbers, of an array that has so many elements more.
func moveNumbersReply(c Conn, err error, numbers []uint64, more int) error {
	if err != nil {
		return err
	}
	c.Call().Out.Array(len(numbers) + more)
	for _, n := range numbers {
		c.Call().Out.BulkUint(n)
	}
	return nil
}

// moveLine is a move's progress as name=value.
func moveLine(p *move.Progress) string {
	return fmt.Sprintf("move=%s groups=%s from=%d phase=%s posts=%d bytes=%d behind=%d seconds=%d holds=%d held_ms=%d error=%q",
		p.ID, p.Groups, p.From, p.Phase, p.Posts, p.Bytes, p.Behind, int(time.Since(p.Began).Seconds()), p.Holds, p.Held.Milliseconds(), p.Err)
}
