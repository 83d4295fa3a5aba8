package server

import (
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

func latencyCommand() *row {
	return container("latency", "server", "2.8.13", "Answers questions about how long commands take.",
		&row{Name: "latency|histogram", Arity: -2, Flags: command.Admin | command.NoScript | command.Loading | command.Stale, Group: "server", Since: "7.0.0",
			Complexity: "O(number of commands)", Syntax: "[command [command ...]]",
			Summary: "Returns for each command how many executions took at most 1, 2, 4, ... microseconds. In a pipeline each is counted with its share of the time.",
			Run:     ofTable((*commands).ReplyHistogram)},
		&row{Name: "latency|latest", Arity: 2, Flags: command.Admin | command.NoScript | command.Loading | command.Stale, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns an empty list: spikes are not sampled by event. See LATENCY HISTOGRAM and SLOWLOG.", Run: on(runEmptyList)},
		&row{Name: "latency|history", Arity: 3, Flags: command.Admin | command.NoScript | command.Loading | command.Stale, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns an empty list, as LATENCY LATEST.", Syntax: "event", Run: on(runEmptyList)},
		&row{Name: "latency|graph", Arity: 3, Flags: command.Admin | command.NoScript | command.Loading | command.Stale, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Answers that there are no samples, as LATENCY LATEST.", Syntax: "event", Run: on(runLatencyGraph)},
		&row{Name: "latency|reset", Arity: -2, Flags: command.Admin | command.NoScript | command.Loading | command.Stale, Group: "server", Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns 0, the number of events forgotten.", Syntax: "[event [event ...]]", Run: on(runZero)},
		&row{Name: "latency|doctor", Arity: 2, Flags: command.Admin | command.NoScript | command.Loading | command.Stale, Group: "server", Since: "2.8.13", Complexity: "O(number of commands)",
			Summary: "Names the commands that take longest.", Run: ofTable((*commands).ReplyDoctor)},
	)
}

func runLatencyGraph(c *call, args [][]byte) {
	c.Out.Error("ERR No samples available for event '" + resp.Printable(args[2], 128) + "'")
}
