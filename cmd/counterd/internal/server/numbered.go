package server

import (
	"bytes"
	"math"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
)

// Commands with a number, which are made once: package idmp reads their arguments, package items plans them, and
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
	case cmd.PlanEach != nil && len(rest) == 2 && c.items.NumberedEach(cmd.PlanEach, rest[1:], num, cmd.Hash()) == 1:
	default:
		c.items.Numbered(cmd.Plan, rest, num, cmd.Hash().Add(rest[1:]...).Sum())
	}
	num.Producer = nil // it may lie in memory that others share
}

// planEachNumbered is planNumbered for commands that have one key each and take numbers of the connection. It returns how many it has planned, up
// to the first key that names no column.
func planEachNumbered(c *call, cmd *row, keys [][]byte) (planned int) {
	num := c.numbers.Number()
	planned = c.items.NumberedEach(cmd.PlanEach, c.numbers.Room(keys), &num, cmd.Hash())
	c.numbers.Skip(planned)
	return planned
}

// planEachWithNumber is planEachNumbered for commands that have numbers of the producer of last among their arguments. It changes the number in last.
func planEachWithNumber(c *call, cmd *row, keys, numbers [][]byte, last *idmp.Number) (planned int) {
	for planned < len(keys) {
		seq, n := idmp.Run(numbers[planned:])
		last.Seq = seq
		did := c.items.NumberedEach(cmd.PlanEach, keys[planned:planned+n], last, cmd.Hash())
		if planned += did; did == 0 || did < n {
			break
		}
	}
	return planned
}

// refusedNumber uses up the number of a command that was refused before it was executed.
func (c *call) refusedNumber(cmd *row, args [][]byte, queued bool) {
	if c.numbers.Producer != nil && cmd != nil && cmd.Numbered() && (!queued || cmd.Is("exec")) {
		_, _ = c.number(&c.lastNumber, cmd, args)
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
			Syntax: "producer", Summary: summary, Run: onClient(run), Asks: command.NoData}
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

// listedProducers is how many COUNTER.PRODUCERS lists without a limit. A million would take 200 MB.
const listedProducers = 10_000

// runProducers: COUNTER.PRODUCERS [LIMIT count].
func runProducers(c *client, args [][]byte) {
	limit := int64(listedProducers)
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
		c.call.items.Out.Map(7)
		c.call.items.Out.BulkString("producer")
		c.call.items.Out.BulkString(p.ID)
		c.call.items.Out.BulkString("epoch")
		c.call.items.Out.Int(int64(p.Epoch))
		c.call.items.Out.BulkString("seq")
		if p.Numbers > 0 {
			idmp.AppendSeq(&c.call.items.Out, p.Highest)
		} else {
			c.call.items.Out.Null()
		}
		c.call.items.Out.BulkString("entries")
		c.call.items.Out.Int(int64(p.Entries))
		c.call.items.Out.BulkString("numbers")
		c.call.items.Out.Int(int64(p.Numbers))
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
