package server

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Commands with a number, which are made once: package idmp has what they say, package items how they are planned, and
// counter.Once makes them once. Here is where their numbers come from.

// number parts a command from its number, which num becomes: its own, or the connection's, which is used up. Without
// one num.Producer is nil. text is the error.
func (c *call) number(num *idmp.Number, cmd *row, args [][]byte) (rest [][]byte, text string) {
	if cmd.Flags&command.Idmp != 0 {
		if tail := idmp.TailLen(args); tail > 0 {
			return num.Split(args, tail)
		}
	}
	if c.numbers.Producer != nil && cmd.Numbered() {
		return args, c.numbers.Take(num)
	}
	num.Producer = nil
	return args, ""
}

// planNumbered is plan for a command that may have a number.
func (c *call) planNumbered(cmd *row, args [][]byte) {
	num := &c.lastNumber
	rest, text := c.number(num, cmd, args)
	switch {
	case text != "":
		c.items.Refuse(text)
	case num.Producer == nil:
		cmd.Plan(&c.items, args)
	default:
		c.items.Numbered(cmd.Plan, rest, num, cmd.Hash().Add(rest[1:]...).Sum())
	}
	num.Producer = nil // it may lie in memory that others share
}

// refusedNumber uses up the number of a command that was refused before it was executed.
func (c *client) refusedNumber(cmd *row, args [][]byte, queued bool) {
	if c.call.numbers.Producer != nil && cmd != nil && cmd.Numbered() && (!queued || cmd.Is("exec")) {
		_, _ = c.call.number(&c.call.lastNumber, cmd, args)
	}
}

// runClientIdmp: CLIENT IDMP producer nextseq [EPOCH epoch] | OFF.
func runClientIdmp(c *client, args [][]byte) {
	if len(args) == 3 && resp.EqualFold(args[2], "OFF") {
		c.call.numbers = idmp.Sequence{}
		c.call.items.Out.Status("OK")
		return
	}
	var num idmp.Number
	if text := num.Parse(args[2:]); text != "" {
		c.call.items.Out.Error(text)
		return
	}
	c.call.numbers = idmp.Sequence{Producer: bytes.Clone(num.Producer), Next: num.Seq, Epoch: num.Epoch}
	c.call.items.Out.Status("OK")
}

func idmpCommand() *row {
	sub := func(name string, flags command.Flags, summary string, run func(*client, [][]byte)) *row {
		return &row{Name: "idmp|" + name, Arity: 3, Flags: flags | command.Fast | command.NoMulti, Group: "counterd", Since: "0.1.0", Complexity: "O(1)",
			Syntax: "producer", Summary: summary, Run: run, Asks: command.NoData}
	}
	return container("idmp", "counterd", "0.1.0", "A container for commands about producers of numbered commands.",
		sub("last", command.ReadOnly, "Returns the highest sequence number of a producer that was applied.", runIdmpLast),
		sub("fence", command.Write, "Increments the epoch of a producer and returns it. Changes with a lower epoch are refused from then on.", runIdmpFence))
}

// runIdmpLast: IDMP LAST producer.
func runIdmpLast(c *client, args [][]byte) {
	if text := checkProducer(args[2]); text != "" {
		c.call.items.Out.Error(text)
		return
	}
	var seq uint64
	var known bool
	err := c.call.withStore(false, func(b *counter.Batch) (err error) {
		seq, known, err = b.Producers().Last(args[2])
		return err
	})
	switch {
	case err != nil:
		c.call.items.StoreError(err)
	case known:
		idmp.AppendSeq(&c.call.items.Out, seq)
	default:
		c.call.items.Out.Null()
	}
}

// runIdmpFence: IDMP FENCE producer.
func runIdmpFence(c *client, args [][]byte) {
	if text := checkProducer(args[2]); text != "" {
		c.call.items.Out.Error(text)
		return
	}
	var epoch uint64
	err := c.call.withStore(false, func(b *counter.Batch) (err error) {
		epoch, err = b.Producers().Fence(args[2])
		return err
	})
	if err != nil {
		c.call.items.StoreError(err)
		return
	}
	c.call.items.Out.Int(int64(epoch))
}

// runProducers: COUNTER.PRODUCERS [LIMIT count].
func runProducers(c *client, args [][]byte) {
	limit := int64(math.MaxInt32)
	switch ok := false; {
	case len(args) == 1:
	case len(args) == 3 && resp.EqualFold(args[1], "LIMIT"):
		if limit, ok = resp.Number(args[2]); !ok || limit < 0 {
			c.call.items.Out.Error(items.ErrNotInteger)
			return
		}
	default:
		c.call.items.Out.Error(items.ErrSyntax)
		return
	}
	var list []counter.ProducerInfo
	if err := c.call.withStore(false, func(b *counter.Batch) (err error) {
		list, err = b.Producers().List(int(min(limit, math.MaxInt32)))
		return err
	}); err != nil {
		c.call.items.StoreError(err)
		return
	}
	now := time.Now().Unix()
	c.call.items.Out.Array(len(list))
	for _, p := range list {
		c.call.items.Out.Map(6)
		c.call.items.Out.BulkString("producer")
		c.call.items.Out.BulkString(p.ID)
		c.call.items.Out.BulkString("epoch")
		c.call.items.Out.Int(int64(p.Epoch))
		c.call.items.Out.BulkString("seq")
		if p.Entries > 0 {
			idmp.AppendSeq(&c.call.items.Out, p.Highest)
		} else {
			c.call.items.Out.Null()
		}
		c.call.items.Out.BulkString("entries")
		c.call.items.Out.Int(int64(p.Entries))
		c.call.items.Out.BulkString("bytes")
		c.call.items.Out.Int(p.Bytes)
		c.call.items.Out.BulkString("idle")
		c.call.items.Out.Int(max(0, now-p.LastUsed))
	}
}

func checkProducer(id []byte) string {
	if len(id) < 1 || len(id) > idmp.MaxProducer {
		return idmp.ErrProducer
	}
	return ""
}

// numbered makes the Once of a transaction. text is the error: all that it executes must be about items, as what is
// kept are its replies, and a repeat does nothing else again.
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
	case q.cmd.Last < 0: // keys, each with what else belongs to it
		return (len(q.args) - q.cmd.First + q.cmd.Step - 1) / q.cmd.Step
	case q.cmd.Group == "hash":
		return len(q.args) - 2
	}
	return 1
}
