package server

import (
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

func latencyCommand() *row {
	return container("latency", "server", "2.8.13", "A container for commands about latency.",
		&row{Name: "latency|histogram", Arity: -2, Flags: command.Admin | command.NoScript | command.Loading | command.Stale, Group: "server", Since: "7.0.0",
			Complexity: "O(N) in the number of commands", Syntax: "[command [command ...]]",
			Summary: "Returns a histogram of execution times for each command, in powers of two microseconds. A command in a pipeline counts with its share of the time.",
			Run:     ofTable((*commands).ReplyHistogram)},
		&row{Name: "latency|latest", Arity: 2, Flags: command.Admin | command.NoScript | command.Loading | command.Stale, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns an empty list. The server does not record latency events; use LATENCY HISTOGRAM and SLOWLOG.", Run: on(runEmptyList)},
		&row{Name: "latency|history", Arity: 3, Flags: command.Admin | command.NoScript | command.Loading | command.Stale, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns an empty list. The server does not record latency events.", Syntax: "event", Run: on(runEmptyList)},
		&row{Name: "latency|graph", Arity: 3, Flags: command.Admin | command.NoScript | command.Loading | command.Stale, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns an error. The server does not record latency events.", Syntax: "event", Run: on(runLatencyGraph)},
		&row{Name: "latency|reset", Arity: -2, Flags: command.Admin | command.NoScript | command.Loading | command.Stale, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns 0. The server does not record latency events.", Syntax: "[event [event ...]]", Run: on(runZero)},
		&row{Name: "latency|doctor", Arity: 2, Flags: command.Admin | command.NoScript | command.Loading | command.Stale, Group: "server", Since: "2.8.13", Complexity: "O(N) in the number of commands",
			Summary: "Returns a report of the slowest commands.", Run: ofTable((*commands).ReplyDoctor)},
	)
}

func runLatencyGraph(c *call, args [][]byte) {
	c.Out.Error("ERR No samples available for event '" + resp.Printable(args[2], 128) + "'")
}
