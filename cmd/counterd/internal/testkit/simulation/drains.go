package simulation

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Column d of counter c is drained: clients add to it, and a collector takes what is there with COUNTER.DRAIN, as a program does that writes counters back
// to a database. Each drain has a number and is sent until it is answered. So all that was added is in the answers and in the column, once.

// drained is what became of column d of one post.
type drained struct {
	mu           sync.Mutex
	added, doubt int64 // additions that were acknowledged, and those whose outcome is not known
	taken        int64 // by the collector
	open         bool  // the answer to a drain is not known
}

// drains tells whether a run of this configuration can have drains: what is lost or counts twice by a promise that is weaker would show.
func (c *Config) drains() bool { return !c.Sentinel && !c.Flushes && c.MinIdle == 0 && !c.Quiet }

// drainedLines are the statements that add column d.
func drainedLines(r *Run) []string {
	if !r.Config.Drains {
		return nil
	}
	return []string{"ADD COLUMN c d hint=4 max=32 suffix=d"}
}

// drainedKey is column d of the post of a key.
func drainedKey(key string) string { return strings.TrimSuffix(key, ".n") + ".d" }

// addToDrained makes one attempt to add to column d of the post of a key; a numbered one goes on until it is answered.
func (c *client) addToDrained(key string) {
	n := 1 + int64(c.forms.N(9))
	_, got := c.insist(key, c.addition(drainedKey(key), n))
	d := c.run.drained[key]
	d.mu.Lock()
	defer d.mu.Unlock()
	switch got {
	case acknowledged:
		d.added += n
	case uncertain:
		d.doubt += n
	}
}

// collect drains one post after another until the clients are to end.
func (c *client) collect(ctx context.Context) {
	defer c.hangUp()
	for ctx.Err() == nil {
		time.Sleep(c.forms.Between(0, 4*c.run.Config.Think))
		key := Pick(c.forms, c.run.keys)
		n, got := c.insist(key, []string{"COUNTER.DRAIN", drainedKey(key)})
		d := c.run.drained[key]
		d.mu.Lock()
		if d.taken += n; got != acknowledged {
			d.open = true
		}
		d.mu.Unlock()
		if n > 0 {
			c.run.Story.meet("simulation: a column was drained")
		}
	}
}

// insist sends a change whose answer is a number or a list that begins with one; a numbered client sends it until it is answered.
func (c *client) insist(key string, words []string) (int64, outcome) {
	a := attempt{from: c.run.now()}
	if c.numbered {
		c.seq++
		words = append(slices.Clone(words), "IDMP", "p-"+c.name, strconv.FormatUint(c.seq, 10))
	}
	for {
		n, got := c.ask(key, words)
		if !c.numbered || got == acknowledged {
			return n, got
		}
		if c.tired(&a) || len(c.run.Faults()) > 0 { // a command that is refused by mistake is refused for ever
			return 0, uncertain
		}
		time.Sleep(c.forms.Between(10*time.Millisecond, 300*time.Millisecond))
	}
}

// addition is a command that adds n to the column of a key: one of those whose answer begins with the new value.
func (c *client) addition(key string, n int64) []string {
	by := strconv.FormatInt(n, 10)
	post, column, _ := strings.Cut(key, ".")
	switch c.forms.N(6) {
	case 0:
		return []string{"HINCRBY", "c:" + post, column, by}
	case 1:
		return []string{"COUNTER.MINCRBY", key, by}
	case 2:
		return []string{"INCREX", key, "BYINT", by}
	case 3:
		if n == 1 {
			return []string{"INCR", key}
		}
	}
	return []string{"INCRBY", key, by}
}

// verifyDrained compares what was added with what was taken and what is left.
func verifyDrained(r *Run) {
	if !r.Config.Drains || r.lossy || r.alone {
		return
	}
	for _, key := range r.keys {
		left, got := int64(0), outcome(refused)
		r.await("the last value of "+drainedKey(key)+" is read", func() string {
			if left, got = r.operator.ask(key, r.reading(drainedKey(key))); got != acknowledged {
				return "it is refused"
			}
			return ""
		})
		d := r.drained[key]
		d.mu.Lock()
		if sum := d.taken + left; sum > d.added+d.doubt || sum < d.added && !d.open {
			r.Fault("%s", fmt.Sprintf("%s: %d were drained and %d are left, want %d to %d: so many were added, and may have been", drainedKey(key), d.taken, left, d.added, d.added+d.doubt))
		}
		d.mu.Unlock()
	}
}
