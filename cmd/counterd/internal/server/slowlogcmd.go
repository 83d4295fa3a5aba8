package server

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/slowlog"
	"github.com/counterd/counterd/schema"
)

// noteSlow keeps a command that was executed by itself, if it took long. EXEC is left to the commands in it.
func (c *call) noteSlow(cmd *row, args [][]byte, took time.Duration) {
	if c.srv.slow.Slow(took) && !cmd.Is("exec") {
		c.addSlow(took, slowlog.Arguments(args, func(i int) bool { return secret(cmd, args, i) }))
	}
}

// addSlow keeps one entry.
func (c *call) addSlow(took time.Duration, args []string) {
	name, _, _ := c.info.names()
	c.srv.slow.Add(slowlog.Entry{Took: took, Args: args, Addr: c.info.addr(), Name: name})
}

// secret tells whether argument i could be a password.
func secret(cmd *row, args [][]byte, i int) bool {
	switch cmd.Name {
	case "auth":
		return i > 0
	case "hello":
		return i >= 2 && resp.EqualFold(args[i-1], "AUTH") || i >= 3 && resp.EqualFold(args[i-2], "AUTH")
	case "acl|setuser", "acl|deluser", "acl|getuser":
		return i > 1
	case "acl|dryrun": // what stands behind a command's name may be a password
		return i > 3
	case "command|getkeys", "command|getkeysandflags":
		return i > 2
	case "config|set":
		return i >= 3 && i%2 == 1 && config.Secret(string(args[i-1]))
	}
	return false
}

// noteSlowBatch keeps a batch that took long: a single command with the keys of its operations, several as the first
// command's name and how many there were of each kind. REQUIRES the batch not reset.
func (c *call) noteSlowBatch(runs []run, total int64, took time.Duration) {
	if !c.srv.slow.Slow(took) {
		return
	}
	args := []string{runs[0].cmd.Name}
	if total == 1 {
		sch := c.srv.store().Schema()
		for i := range c.Batch.Len() {
			op := c.Batch.Op(i)
			if i == slowlog.MaxArgs-2 && c.Batch.Len() > i+1 {
				args = append(args, fmt.Sprintf("... (%d more arguments)", c.Batch.Len()-i))
				break
			}
			col := int(op.Column)
			if col >= len(op.Counter.Columns) {
				col = schema.WholeItem
			}
			args = append(args, string(sch.AppendKey(nil, op.Counter, max(col, schema.WholeItem), op.Mid)))
		}
		c.addSlow(took, args)
		return
	}
	c.addSlow(took, append(args, batchText(runs, total)))
}

// batchText is like "(batch of 256: incr x250, get x6)", most frequent first.
func batchText(runs []run, total int64) string {
	var kinds []run
	for _, r := range runs {
		if i := slices.IndexFunc(kinds, func(k run) bool { return k.cmd == r.cmd }); i >= 0 {
			kinds[i].n += r.n
		} else {
			kinds = append(kinds, r)
		}
	}
	slices.SortStableFunc(kinds, func(a, b run) int { return int(b.n - a.n) })
	parts := make([]string, len(kinds))
	for i, k := range kinds {
		parts[i] = k.cmd.Name + " x" + strconv.FormatInt(k.n, 10)
	}
	return fmt.Sprintf("(batch of %d: %s)", total, strings.Join(parts, ", "))
}

func slowlogCommand() *row {
	return container("slowlog", "server", "2.2.12", "A container for commands about the slow log.",
		&row{Name: "slowlog|get", Arity: -2, Flags: command.Admin | command.Loading | command.Stale, Group: "server", Since: "2.2.12", Complexity: "O(N)", Syntax: "[count]",
			Summary: "Returns the newest entries of the slow log, by default 10, with -1 all. Commands of a pipeline that ran together are one entry.", Run: on(runSlowlogGet)},
		&row{Name: "slowlog|len", Arity: 2, Flags: command.Admin | command.Loading | command.Stale, Group: "server", Since: "2.2.12", Complexity: "O(1)",
			Summary: "Returns the number of entries in the slow log.", Run: on(runSlowlogLen)},
		&row{Name: "slowlog|reset", Arity: 2, Flags: command.Admin | command.Loading | command.Stale, Group: "server", Since: "2.2.12", Complexity: "O(N)",
			Summary: "Clears the slow log.", Run: on(runSlowlogReset)},
	)
}

// runSlowlogGet: SLOWLOG GET [count]; an entry is [id, unix time, microseconds, arguments, address, name].
func runSlowlogGet(c *call, args [][]byte) {
	n := int64(10)
	if len(args) > 3 {
		c.Out.Error(c.srv.commands.Lookup(args[0]).Subcommand(args[1]).WrongNumber())
		return
	}
	if len(args) == 3 {
		var ok bool
		if n, ok = resp.Number(args[2]); !ok || n < -1 {
			c.Out.Error("ERR count should be greater than or equal to -1")
			return
		}
		if n < 0 {
			n = math.MaxInt32
		}
	}
	list := c.srv.slow.Newest(int(min(n, math.MaxInt32)))
	c.Out.Array(len(list))
	for _, e := range list {
		c.Out.Array(6)
		c.Out.Int(e.ID)
		c.Out.Int(e.At.Unix())
		c.Out.Int(e.Took.Microseconds())
		c.Out.Array(len(e.Args))
		for _, a := range e.Args {
			c.Out.BulkString(a)
		}
		c.Out.BulkString(e.Addr)
		c.Out.BulkString(e.Name)
	}
}

func runSlowlogLen(c *call, _ [][]byte) { c.Out.Int(int64(c.srv.slow.Len())) }

func runSlowlogReset(c *call, _ [][]byte) {
	c.srv.slow.Reset()
	c.Out.Status("OK")
}
