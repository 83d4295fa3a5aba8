package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/popular"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/slowlog"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/tracking"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// account spreads the time of a batch over its commands. One by one they are too short to be timed.
func (c *call) account(took time.Duration) {
	if len(c.runs) == 0 {
		return
	}
	total := int64(0)
	for i := range c.runs {
		total += c.runs[i].n
	}
	c.calls += total
	for i := range c.runs {
		r, part := &c.runs[i], took
		if r.n < total { // a division costs more than the rest
			part = took * time.Duration(r.n) / time.Duration(total)
		}
		r.cmd.Account(c.session.Lane(), r.n, part)
	}
	if c.srv.slow.Slow(took) {
		c.noteSlowBatch(c.runs, total, took)
	}
	c.runs = c.runs[:0] // the commands that it names live as long as the server
}

// failed counts an error reply of a command that ran.
func (c *call) failed(cmd *row, reply []byte) {
	cmd.Failed.Add(1)
	c.srv.stats.ErrorReply(reply)
}

// sample tells popular of operations of the batch that was run, at the distances that it wants. It reads the clock once.
func (c *call) sample() {
	now := time.Now()
	for ; c.unsampled < 0; c.unsampled += 1 + rand.IntN(2*popular.Every) {
		op := c.items.Batch.Op(c.items.Batch.Len() + c.unsampled)
		read := op.Kind == counter.OpGet || op.Kind == counter.OpRead || op.Kind == counter.OpExists || op.Kind == counter.OpGetDerived
		c.srv.popular.Sample(now, popular.Post{Counter: op.Counter.ID, Mid: op.Mid}, !read)
	}
}

// noteSlow keeps a command that was executed by itself, if it took long. EXEC is left to the commands in it.
func (c *call) noteSlow(cmd *row, args [][]byte, took time.Duration) {
	if c.srv.slow.Slow(took) && !cmd.Is("exec") {
		c.addSlow(took, slowlog.Arguments(args, func(i int) bool { return secret(cmd.Name, args, i) }))
	}
}

// addSlow keeps one entry.
func (c *call) addSlow(took time.Duration, args []string) {
	name, _, _ := c.info.names()
	c.srv.slow.Add(slowlog.Entry{Took: took, Args: args, Addr: c.info.addr(), Name: name})
}

// noteSlowBatch keeps a batch that took long: a single command with the keys of its operations, several as the first
// command's name and how many there were of each kind. REQUIRES the batch not reset.
func (c *call) noteSlowBatch(runs []run, total int64, took time.Duration) {
	args := []string{runs[0].cmd.Name}
	if total == 1 {
		sch := c.srv.store().Schema()
		for i := range c.items.Batch.Len() {
			op := c.items.Batch.Op(i)
			if i == slowlog.MaxArgs-2 && c.items.Batch.Len() > i+1 {
				args = append(args, fmt.Sprintf("... (%d more arguments)", c.items.Batch.Len()-i))
				break
			}
			col := int(op.Column)
			if col >= op.Counter.Width() {
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

// self is who made a change, for those that want to hear nothing of their own.
func (c *call) self() *tracking.Client {
	if c.reads == nil {
		return nil
	}
	return c.reads.known
}

// touched tells clients that watch or may hold keys which the batch changed. REQUIRES it run and not ended.
func (c *call) touched() {
	c.srv.watches.Touch(c.items.Batch)
	c.srv.tracking.Touch(c.items.Batch, c.self())
}

// touchedItems is touched for items that were changed, whatever of them.
func (c *call) touchedItems(def *schema.Counter, mids []uint64) {
	c.srv.watches.TouchItems(def, mids)
	c.srv.tracking.TouchItems(def, mids, c.self())
}

// stopTracking ends CLIENT TRACKING.
func (c *call) stopTracking() {
	if c.reads != nil {
		c.srv.tracking.Disable(c.reads.known)
		c.reads = nil
	}
}
