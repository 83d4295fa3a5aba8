package client

import (
	"context"
	"net"
	"runtime"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/internal/numbered"
)

// NewHook makes a hook for programs that go on using go-redis's own methods: with
//
//	rdb.AddHook(client.NewHook())
//
// Incr, HIncrBy, Set, GetDel, ... also in pipelines, EXEC of transactions, and COUNTER.DRAIN, COUNTER.UPDATE,
// COUNTER.MINCRBY, COUNTER.MSET and INCREX sent with Do, are numbered, so that a command that go-redis repeats (MaxRetries)
// counts once. COUNTER.UPDATE with a number is one change, of 10,000 posts at most. A command that has a number already
// keeps it. A command that fails after the last repeat is in doubt as ever, and go-redis repeats no transaction whose reply
// was lost. One hook may serve many clients of one server. It does not see a MULTI that is sent by Do on a connection of its
// own: use TxPipelined.
func NewHook() redis.Hook { return &hook{newLanes(min(runtime.GOMAXPROCS(0), firstLanes), 64)} }

type hook struct{ lanes *lanes }

// takesNumber reports whether a command accepts a number and has none.
func takesNumber(cmd redis.Cmder) bool {
	return numbered.Accepts(cmd.Name()) && !hasNumber(cmd.Args())
}

// hasNumber reports whether a command ends in IDMP producer seq [EPOCH epoch]. A field or a key may be called IDMP as well,
// so that the place of the word counts, as it does for the server.
func hasNumber(args []any) bool {
	is := func(fromEnd int, word string) bool {
		at := len(args) - fromEnd
		if at < 1 {
			return false
		}
		switch arg := args[at].(type) {
		case string:
			return strings.EqualFold(arg, word)
		case []byte:
			return strings.EqualFold(string(arg), word)
		}
		return false
	}
	return is(3, idmp) || is(5, idmp) && is(2, "EPOCH")
}

// withTail is a command with a number behind its arguments. Its reply is the command's own.
type withTail struct {
	redis.Cmder
	args []any
}

// Args are the arguments to send.
func (n withTail) Args() []any { return n.args }

func withNumber(cmd redis.Cmder, producer any, seq uint64) redis.Cmder {
	args := cmd.Args()
	return withTail{cmd, append(args[:len(args):len(args)], idmp, producer, seq)}
}

// DialHook changes nothing.
func (h *hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook numbers a command.
func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !takesNumber(cmd) {
			return next(ctx, cmd)
		}
		l, seq, err := h.lanes.take(ctx, 1)
		if err != nil {
			return err
		}
		defer h.lanes.known(l, seq, 1)
		return next(ctx, withNumber(cmd, l.producer, seq))
	}
}

// ProcessPipelineHook numbers the commands of a pipeline, which is sent in parts of 32 changes, or the EXEC of a
// transaction.
func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		transaction := len(cmds) > 0 && cmds[0].Name() == "multi"
		var first error
		for len(cmds) > 0 {
			part, changes := h.part(cmds, transaction)
			err := h.send(ctx, next, part, changes)
			if first == nil {
				first = err
			}
			cmds = cmds[len(part):]
			if _, answered := err.(redis.Error); err != nil && !answered { // the connection broke, or the context ended
				for _, cmd := range cmds {
					cmd.SetErr(err)
				}
				break
			}
		}
		return first
	}
}

// part is as much of a pipeline as is sent at once, and which of its commands take a number.
func (h *hook) part(cmds []redis.Cmder, transaction bool) (part []redis.Cmder, changes []int) {
	for i, cmd := range cmds {
		if transaction && i < len(cmds)-1 || !takesNumber(cmd) {
			continue
		}
		if len(changes) == atOnce {
			return cmds[:i], changes
		}
		changes = append(changes, i)
	}
	return cmds, changes
}

// send sends a part of a pipeline.
func (h *hook) send(ctx context.Context, next redis.ProcessPipelineHook, part []redis.Cmder, changes []int) error {
	if len(changes) == 0 {
		return next(ctx, part)
	}
	l, seq, err := h.lanes.take(ctx, len(changes))
	if err != nil {
		for _, cmd := range part {
			cmd.SetErr(err)
		}
		return err
	}
	defer h.lanes.known(l, seq, len(changes))
	part = append([]redis.Cmder(nil), part...)
	for k, i := range changes {
		part[i] = withNumber(part[i], l.producer, seq+uint64(k))
	}
	return next(ctx, part)
}
