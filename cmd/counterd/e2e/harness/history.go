package harness

import (
	"context"
	"fmt"

	"github.com/anishathalye/porcupine"
	"github.com/counterd/counterd/counter/client"
)

// What a history's operation is, and what it answered.
type (
	HistoryInput struct {
		Kind rune // + add, = set, ? get, - take
		Post uint64
		N    int64
	}
	HistoryOutput struct {
		N    int64
		Ok   bool // there was something
		Lost bool // nobody knows
	}
	historyState struct {
		n      int64
		exists bool
	}
)

// CounterModel is one counter. A Take leaves the default, so the post stays.
var CounterModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		by := map[uint64][]porcupine.Operation{}
		for _, op := range history {
			post := op.Input.(HistoryInput).Post
			by[post] = append(by[post], op)
		}
		for _, part := range by {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return historyState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(historyState), input.(HistoryInput), output.(HistoryOutput)
		switch in.Kind {
		case '+':
			s = historyState{s.n + in.N, true}
			return out.Lost || out.N == s.n, s
		case '=':
			return true, historyState{in.N, true}
		case '?':
			return out.Lost || out.Ok == s.exists && out.N == s.n, s
		}
		return out.Lost || out.Ok == s.exists && out.N == s.n, historyState{0, s.exists}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// Operate does one operation of a history.
func Operate(ctx context.Context, c *client.Client, in HistoryInput) (out HistoryOutput) {
	var err error
	switch in.Kind {
	case '+':
		out.N, err = c.Add(ctx, in.Post, "repost", in.N)
	case '=':
		err = c.Set(ctx, in.Post, "repost", in.N)
	case '?':
		out.N, out.Ok, err = c.Get(ctx, in.Post, "repost")
	default:
		out.N, out.Ok, err = c.Take(ctx, in.Post, "repost")
	}
	out.Lost = err != nil
	return out
}
