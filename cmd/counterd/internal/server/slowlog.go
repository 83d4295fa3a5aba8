package server

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
	"github.com/counterd/counterd/schema"
)

// slowlog keeps the commands that took longest to execute, the newest last. Commands that ran in one batch are timed
// together and make one entry, as they are too short to be timed one by one.
type slowlog struct {
	slower atomic.Int64 // nanoseconds from which a command is kept; all the others cost one load of this

	mu     sync.Mutex
	maxLen int
	last   int64 // number of the last entry
	ring   []slowEntry
	oldest int // in ring, once it is full
}

type slowEntry struct {
	id   int64
	at   time.Time
	took time.Duration
	args []string
	addr string
	name string // CLIENT SETNAME's
}

const (
	// maxSlowArgs and maxSlowArg bound an entry: 32 arguments of 128 bytes, as in Redis.
	maxSlowArgs = 32
	maxSlowArg  = 128
)

// configure sets the time in microseconds, -1 for never, and the number of entries kept.
func (s *slowlog) configure(slower int64, maxLen int) {
	switch {
	case slower < 0 || slower > math.MaxInt64/1000:
		slower = math.MaxInt64
	default:
		slower *= 1000
	}
	s.slower.Store(slower)
	s.mu.Lock()
	defer s.mu.Unlock()
	if maxLen != s.maxLen {
		s.ring = s.newest(maxLen)
		slices.Reverse(s.ring)
		s.oldest, s.maxLen = 0, maxLen
	}
}

// newest returns up to n entries, the newest first. REQUIRES s.mu held.
func (s *slowlog) newest(n int) []slowEntry {
	var list []slowEntry
	for i := len(s.ring) - 1; i >= 0 && len(list) < n; i-- {
		list = append(list, s.ring[(s.oldest+i)%len(s.ring)])
	}
	return list
}

// add keeps one entry, and drops the oldest when there are too many.
func (s *slowlog) add(c *client, took time.Duration, args []string) {
	name, _, _ := c.info.names()
	e := slowEntry{at: time.Now(), took: took, args: args, addr: c.addr(), name: name}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	e.id = s.last
	switch {
	case s.maxLen == 0:
	case len(s.ring) < s.maxLen:
		s.ring = append(s.ring, e)
	default:
		s.ring[s.oldest] = e
		s.oldest = (s.oldest + 1) % len(s.ring)
	}
}

// note keeps a command that was executed by itself, if it took long. EXEC is left to the commands in it.
func (s *slowlog) note(c *client, cmd *row, args [][]byte, took time.Duration) {
	if int64(took) < s.slower.Load() || cmd.Is("exec") {
		return
	}
	kept := make([]string, 0, min(len(args), maxSlowArgs))
	for i, a := range args {
		if i == maxSlowArgs-1 && len(args) > maxSlowArgs {
			kept = append(kept, fmt.Sprintf("... (%d more arguments)", len(args)-i))
			break
		}
		text := string(a[:min(len(a), maxSlowArg)])
		if len(a) > maxSlowArg {
			text += fmt.Sprintf("... (%d more bytes)", len(a)-maxSlowArg)
		}
		if secret(cmd, args, i) {
			text = "(redacted)"
		}
		kept = append(kept, text)
	}
	s.add(c, took, kept)
}

// secret tells whether argument i could be a password.
func secret(cmd *row, args [][]byte, i int) bool {
	switch cmd.Name {
	case "auth":
		return i > 0
	case "hello":
		return i >= 2 && resp.EqualFold(args[i-1], "AUTH") || i >= 3 && resp.EqualFold(args[i-2], "AUTH")
	case "config|set":
		return i >= 3 && i%2 == 1 && config.Secret(string(args[i-1]))
	}
	return false
}

// noteBatch keeps a batch that took long: a single command with the keys of its operations, several as the first
// command's name and how many there were of each kind. REQUIRES the batch not reset.
func (s *slowlog) noteBatch(c *client, runs []run, total int64, took time.Duration) {
	if int64(took) < s.slower.Load() {
		return
	}
	args := []string{runs[0].cmd.Name}
	if total == 1 {
		sch := c.srv.store().Schema()
		for i := range c.Batch.Len() {
			op := c.Batch.Op(i)
			if i == maxSlowArgs-2 && c.Batch.Len() > i+1 {
				args = append(args, fmt.Sprintf("... (%d more arguments)", c.Batch.Len()-i))
				break
			}
			col := int(op.Column)
			if col >= len(op.Counter.Columns) {
				col = schema.WholeItem
			}
			args = append(args, string(sch.AppendKey(nil, op.Counter, max(col, schema.WholeItem), op.Mid)))
		}
		s.add(c, took, args)
		return
	}
	s.add(c, took, append(args, batchText(runs, total)))
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
	return container("slowlog", "server", "2.2.12", "Shows which commands took long.",
		&row{Name: "slowlog|get", Arity: -2, Flags: command.Admin | command.Loading | command.Stale, Group: "server", Since: "2.2.12", Complexity: "O(N)", Syntax: "[count]",
			Summary: "Returns the newest entries, 10 unless told, -1 for all. Commands that ran together in a pipeline are one entry.", Run: runSlowlogGet},
		&row{Name: "slowlog|len", Arity: 2, Flags: command.Admin | command.Loading | command.Stale, Group: "server", Since: "2.2.12", Complexity: "O(1)",
			Summary: "Returns the number of entries.", Run: runSlowlogLen},
		&row{Name: "slowlog|reset", Arity: 2, Flags: command.Admin | command.Loading | command.Stale, Group: "server", Since: "2.2.12", Complexity: "O(N)",
			Summary: "Forgets all entries.", Run: runSlowlogReset},
	)
}

// runSlowlogGet: SLOWLOG GET [count]; an entry is [id, unix time, microseconds, arguments, address, name].
func runSlowlogGet(c *client, args [][]byte) {
	n := int64(10)
	if len(args) > 3 {
		c.Out.Error("ERR wrong number of arguments for 'slowlog|get' command")
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
	s := &c.srv.slow
	s.mu.Lock()
	list := s.newest(int(min(n, math.MaxInt32)))
	s.mu.Unlock()
	c.Out.Array(len(list))
	for _, e := range list {
		c.Out.Array(6)
		c.Out.Int(e.id)
		c.Out.Int(e.at.Unix())
		c.Out.Int(e.took.Microseconds())
		c.Out.Array(len(e.args))
		for _, a := range e.args {
			c.Out.BulkString(a)
		}
		c.Out.BulkString(e.addr)
		c.Out.BulkString(e.name)
	}
}

func runSlowlogLen(c *client, _ [][]byte) {
	s := &c.srv.slow
	s.mu.Lock()
	n := len(s.ring)
	s.mu.Unlock()
	c.Out.Int(int64(n))
}

func runSlowlogReset(c *client, _ [][]byte) {
	s := &c.srv.slow
	s.mu.Lock()
	s.ring, s.oldest = nil, 0
	s.mu.Unlock()
	c.Out.Status("OK")
}
