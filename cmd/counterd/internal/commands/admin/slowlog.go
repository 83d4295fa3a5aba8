package admin

import (
	"math"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

func slowlogRow[C any](on func(C) Conn) *command.Row[C] {
	return container(on, "slowlog", "server", "2.2.12", "A container for commands about the slow log.",
		&command.Row[C]{Name: "slowlog|get", Arity: -2, Flags: command.Admin | command.Loading | command.Stale, Group: "server", Since: "2.2.12", Complexity: "O(N)", Syntax: "[count]",
			Summary: "Returns the newest entries of the slow log, by default 10, with -1 all. Commands of a pipeline that ran together are one entry.", Run: handler(on, runSlowlogGet)},
		&command.Row[C]{Name: "slowlog|len", Arity: 2, Flags: command.Admin | command.Loading | command.Stale, Group: "server", Since: "2.2.12", Complexity: "O(1)",
			Summary: "Returns the number of entries in the slow log.", Run: handler(on, runSlowlogLen)},
		&command.Row[C]{Name: "slowlog|reset", Arity: 2, Flags: command.Admin | command.Loading | command.Stale, Group: "server", Since: "2.2.12", Complexity: "O(N)",
			Summary: "Clears the slow log.", Run: handler(on, runSlowlogReset)},
	)
}

// runSlowlogGet: SLOWLOG GET [count]; an entry is [id, unix time, microseconds, arguments, address, name].
func runSlowlogGet(c Conn, args [][]byte) {
	n := int64(10)
	if len(args) > 3 {
		c.Call().Out.Error(c.WrongNumber())
		return
	}
	if len(args) == 3 {
		var ok bool
		if n, ok = resp.Number(args[2]); !ok || n < -1 {
			c.Call().Out.Error("ERR count should be greater than or equal to -1")
			return
		}
		if n < 0 {
			n = math.MaxInt32
		}
	}
	list := c.Server().Slow.Newest(int(min(n, math.MaxInt32)))
	c.Call().Out.Array(len(list))
	for _, e := range list {
		c.Call().Out.Array(6)
		c.Call().Out.Int(e.ID)
		c.Call().Out.Int(e.At.Unix())
		c.Call().Out.Int(e.Took.Microseconds())
		c.Call().Out.Array(len(e.Args))
		for _, a := range e.Args {
			c.Call().Out.BulkString(a)
		}
		c.Call().Out.BulkString(e.Addr)
		c.Call().Out.BulkString(e.Name)
	}
}

func runSlowlogLen(c Conn, _ [][]byte) { c.Call().Out.Int(int64(c.Server().Slow.Len())) }

func runSlowlogReset(c Conn, _ [][]byte) {
	c.Server().Slow.Reset()
	c.Call().Out.Status("OK")
}
