package server

import (
	"slices"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/serving"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// transaction is the state of MULTI on one connection.
type transaction struct {
	active bool // between MULTI and EXEC or DISCARD
	failed bool // a command was refused while queueing
	queued []queuedCommand
	bytes  int

	passwords int // that queued commands give: see client.awaitGuesses
}

type queuedCommand struct {
	cmd  *row
	args [][]byte
}

const (
	// maxQueueBytes bounds what a MULTI may hold in memory before EXEC.
	maxQueueBytes = 16 << 20
	// queuedSize is the memory of a queued command besides its arguments.
	queuedSize = 40
	// maxExecReplies bounds the replies of a transaction: 20,000 times COMMAND, 480 KB to send, is answered by 900 MB.
	maxExecReplies = 64 << 20
)

// queue copies a command for EXEC. text is the error.
func (t *transaction) queue(cmd *row, args [][]byte) (text string) {
	t.bytes += queuedSize
	for _, a := range args {
		t.bytes += len(a) + 24
	}
	if t.bytes > maxQueueBytes {
		t.failed = true
		t.queued = nil
		return "ERR transaction is larger than 16 MiB"
	}
	copied := make([][]byte, len(args))
	for i, a := range args {
		copied[i] = slices.Clone(a)
	}
	t.queued = append(t.queued, queuedCommand{cmd, copied})
	if cmd.Is("auth") || cmd.Is("hello") && len(args) > 2 {
		t.passwords++
	}
	return ""
}

// changes tells whether cmd changes posts now: a queued command does so at its EXEC.
func (t *transaction) changes(cmd *row) bool {
	if !t.active {
		return cmd.Flags&command.Write != 0
	}
	return cmd.Is("exec") && t.writes()
}

// writes tells whether a command of the queue changes posts.
func (t *transaction) writes() bool {
	return slices.ContainsFunc(t.queued, func(q queuedCommand) bool { return q.cmd.Flags&command.Write != 0 })
}

// flagsOf are a command's flags; EXEC has those of its commands.
func (t *transaction) flagsOf(cmd *row) command.Flags {
	if !cmd.Is("exec") {
		return cmd.Flags
	}
	f := cmd.Flags
	for i := range t.queued {
		q := t.queued[i].cmd.Flags
		f |= q & command.Write
		f &= q | ^(command.Loading | command.Stale)
	}
	return f
}

// refusal says why a command must not be queued; empty: it may, or there is no transaction.
func (t *transaction) refusal(cmd *row, args [][]byte) string {
	switch {
	case !t.active:
	case cmd.Flags&command.NoMulti != 0:
		return "ERR Command not allowed inside a transaction"
	case cmd.Flags&command.Idmp != 0 && cmd.Flags&command.Now == 0 && idmp.TailLen(args) > 0:
		return "ERR IDMP: in a transaction EXEC takes the number"
	}
	return ""
}

// route adds the queue to the question of a routing.
func (t *transaction) route(r *routing, to *serving.Routing, names *schema.Schema) {
	for i := range t.queued {
		r.add(to, names, t.queued[i].cmd.Access(), t.queued[i].args, true)
	}
}

// eachPost calls f with the posts of a queued command on posts.
func (q *queuedCommand) eachPost(sch *schema.Schema, f func(mid uint64)) {
	switch {
	case q.cmd.Plan == nil:
		return
	case q.cmd.Is("counter.mget"):
		for _, a := range q.args[2:] {
			mid, ok := schema.ParseMid(a)
			if !ok {
				return
			}
			f(mid)
		}
		return
	}
	_, last := q.cmd.Access().Keys(q.args)
	for i := q.cmd.First; i > 0 && i <= last; i += q.cmd.Step {
		if mid, ok := items.Mid(sch, q.args[i]); ok {
			f(mid)
		}
	}
}

// numbered makes the Once of a transaction. text is the error: all its commands must be about items, as only its
// replies are kept, and a repeat executes nothing.
func (t *transaction) numbered(cmd *row, num idmp.Number, sch *schema.Schema) (o *counter.Once, text string) {
	// Any reply may be an error, which quotes what it is about: a bound by the number of arguments would be too low.
	o = &counter.Once{Producer: num.Producer, Seq: num.Seq, Epoch: num.Epoch, Room: counter.MaxResult}
	h, found, changes := cmd.Hash(), false, 0
	for _, q := range t.queued {
		if q.cmd.Plan == nil && q.cmd.Flags&(command.ReadOnly|command.Idmp) == 0 {
			return nil, "ERR IDMP: a numbered transaction accepts commands on posts only, not " + strings.ToUpper(q.cmd.Name)
		}
		h = h.Add([]byte(q.cmd.Name)).Add(q.args[1:]...)
		if !found && q.cmd.First > 0 && q.cmd.First < len(q.args) {
			o.Mid, found = items.Mid(sch, q.args[q.cmd.First])
		}
		changes += q.changes()
	}
	if changes > counter.MaxOnceChanges { // a crash between two frames of the log would leave those of the first to be made again
		return nil, errTooManyChanges
	}
	o.Hash = h.Sum()
	return o, ""
}

var errTooManyChanges = "ERR IDMP: a numbered transaction makes at most " + strconv.Itoa(counter.MaxOnceChanges) + " changes"

// changes is the most items or columns that a queued command changes.
func (q *queuedCommand) changes() int {
	switch {
	case q.cmd.Flags&command.Write == 0:
		return 0
	case q.cmd.Last < 0: // keys, each with its other arguments
		return (len(q.args) - q.cmd.First + q.cmd.Step - 1) / q.cmd.Step
	case q.cmd.Group == "hash":
		return len(q.args) - 2
	}
	return 1
}
