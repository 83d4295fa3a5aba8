package server

import (
	"sync/atomic"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/tracking"
	"github.com/counterd/counterd/schema"
)

// tracker is a connection as package tracking knows it. Anybody may call its methods.
type tracker struct {
	keys    *tracking.Table
	session *front.Session

	known atomic.Pointer[tracking.Client] // nil: it never tracked, nor did it get invalidations of others
	ended atomic.Bool                     // forget was called
}

// enter returns what package tracking knows the connection by. It is made by the first CLIENT TRACKING, or when another
// connection names this one by REDIRECT.
func (t *tracker) enter() *tracking.Client {
	if c := t.known.Load(); c != nil {
		return c
	}
	t.known.CompareAndSwap(nil, tracking.NewClient(t.session.ID(), t.session.Wake))
	c := t.known.Load()
	if t.ended.Load() { // forget saw none, and what others are told there would be lost
		t.keys.End(c)
	}
	return c
}

// state is how the connection tracks.
func (t *tracker) state() (s tracking.State) {
	if c := t.known.Load(); c != nil {
		s = c.State()
	}
	return s
}

// forget forgets the connection.
func (t *tracker) forget() {
	t.ended.Store(true) // before: see enter
	if c := t.known.Load(); c != nil {
		t.keys.End(c)
	}
}

// reads notes the keys that a tracking connection reads.
type reads struct {
	keys    *tracking.Table
	known   *tracking.Client
	mode    tracking.Mode
	caching bool // CLIENT CACHING was said for the command that comes, or the transaction
}

// remember notes what a command is about to read, of keys that mean what sch says. REQUIRES the batch open.
func (r *reads) remember(sch *schema.Schema, cmd *row, args [][]byte, executing bool) {
	caching := r.caching
	if !executing { // in a transaction it is for all of it
		r.caching = false
	}
	if cmd.Flags&command.ReadOnly == 0 || r.mode.Broadcast || r.mode.OptIn && !caching || r.mode.OptOut && caching {
		return
	}
	if cmd.Is("counter.mget") {
		r.rememberPage(sch, args)
		return
	}
	if !cmd.HasKeys() {
		return
	}
	last := cmd.Last
	if last < 0 {
		last += len(args)
	}
	for i := cmd.First; i <= last; i += cmd.Step {
		if k, ok := trackedKey(sch, cmd, args[i]); ok {
			r.keys.Remember(r.known, k, args[i])
		}
	}
}

// trackedKey is the data that a command reads by a key. An invalid key reads as nothing until the schema changes, which
// is told to all clients.
func trackedKey(sch *schema.Schema, cmd *row, key []byte) (schema.Key, bool) {
	if cmd.Group == "hash" {
		if def, mid, ok := sch.ParseItem(key); ok {
			return schema.Key{Counter: def, Col: schema.WholeItem, Mid: mid}, true
		}
	}
	return sch.ParseKey(key)
}

// rememberPage is remember for COUNTER.MGET, whose items are told as NAME:MID, both as they were sent.
func (r *reads) rememberPage(sch *schema.Schema, args [][]byte) {
	def := sch.CounterNamed(args[1])
	if def == nil {
		return
	}
	var name []byte
	for _, a := range args[2:] {
		mid, ok := schema.ParseMid(a)
		if !ok {
			return
		}
		name = append(append(append(name[:0], args[1]...), ':'), a...)
		r.keys.Remember(r.known, schema.Key{Counter: def, Col: schema.WholeItem, Mid: mid}, name)
	}
}

// appendNotices appends the invalidations that wait for t. RESP2 has no pushes: there they are sent only if another
// connection redirects them (REDIRECT) to this one and this one is subscribed to something.
func appendNotices(out *resp.Replies, t *tracking.Client, subscribed bool) {
	told, redirected := t.Take()
	old := out.Protocol() < 3
	if old && !(redirected && subscribed) {
		return
	}
	head := func() {
		if old {
			out.Array(3)
			out.BulkString("message")
			out.BulkString("__redis__:invalidate")
		} else {
			out.Push(2)
			out.BulkString("invalidate")
		}
	}
	if told.All {
		head()
		out.Null()
	}
	for _, key := range told.Keys {
		head()
		out.Array(1)
		out.BulkString(key)
	}
	for _, keys := range told.Groups {
		head()
		out.BulkStrings(keys)
	}
	if told.Broken != 0 && !old {
		out.Push(2)
		out.BulkString("tracking-redir-broken")
		out.Int(told.Broken)
	}
}
