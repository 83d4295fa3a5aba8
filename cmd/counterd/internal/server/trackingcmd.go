package server

import (
	"slices"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/tracking"
	"github.com/counterd/counterd/schema"
)

// CLIENT TRACKING and what belongs to it. Who may hold what is package tracking's.

// self is who made a change, for those that want to hear nothing of their own.
func (c *call) self() *tracking.Client {
	if c.reads == nil {
		return nil
	}
	return c.reads.client
}

// touched tells who watches, or may hold, what the batch changed. REQUIRES it run and not ended.
func (c *call) touched() {
	c.srv.watches.Touch(c.items.Batch)
	c.srv.tracking.Touch(c.items.Batch, c.self())
}

// touchedItems is touched for items that were changed, whatever of them.
func (c *call) touchedItems(def *schema.Counter, mids []uint64) {
	c.srv.watches.TouchItems(def, mids)
	c.srv.tracking.TouchItems(def, mids, c.self())
}

// reads is what a connection that tracks does with what it reads.
type reads struct {
	client  *tracking.Client
	mode    tracking.Mode
	caching bool // CLIENT CACHING was said for the command that comes, or the transaction
}

// remember notes what a command is about to read. REQUIRES the batch open.
func (c *call) remember(cmd *row, args [][]byte) {
	r := c.reads
	caching := r.caching
	if !c.executing { // in a transaction it is for all of it
		r.caching = false
	}
	if cmd.Flags&command.ReadOnly == 0 || r.mode.Broadcast || r.mode.OptIn && !caching || r.mode.OptOut && caching {
		return
	}
	sch := c.items.Batch.Schema()
	if cmd.Is("counter.mget") {
		c.rememberPage(sch, args)
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
			c.srv.tracking.Remember(r.client, k, args[i])
		}
	}
}

// readsBehindOwn runs what was planned before a command that reads behind changes of the connection's own in one pipeline.
// Otherwise those changes would be told behind the read, and drop the key that it has read out of the table. The client is
// told of them before the reply to the read, as in Redis. false: not in a loop.
func (c *client) readsBehindOwn(cmd *row) bool {
	if cmd == nil || cmd.Plan == nil || cmd.Flags&command.Write != 0 || c.multi.active {
		return true
	}
	if slices.ContainsFunc(c.call.runs, func(r run) bool { return r.cmd.Flags&command.Write != 0 }) {
		if c.Flush(); c.session.Leaving() {
			return false
		}
	}
	// With replies owed it is too early, and where replies are left out, notices among them would be too.
	if len(c.call.items.Owed) == 0 && !c.silence.off && !c.silence.skipping {
		c.Notices()
	}
	return true
}

// trackedKey is what a command reads by a key. What is no key reads as nothing until the schema changes, which is told to
// everybody.
func trackedKey(sch *schema.Schema, cmd *row, key []byte) (schema.Key, bool) {
	if cmd.Group == "hash" {
		if def, mid, ok := sch.ParseItem(key); ok {
			return schema.Key{Counter: def, Col: schema.WholeItem, Mid: mid}, true
		}
	}
	return sch.ParseKey(key)
}

// rememberPage is remember for COUNTER.MGET, whose items are told as NAME:MID, both as they were sent.
func (c *call) rememberPage(sch *schema.Schema, args [][]byte) {
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
		c.srv.tracking.Remember(c.reads.client, schema.Key{Counter: def, Col: schema.WholeItem, Mid: mid}, name)
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

// askTracking asks for the keys that CLIENT TRACKING in BCAST mode tells of. Without it only what was read is told of.
func askTracking(r command.Rights, args [][]byte) (refused int) {
	broadcast, some := false, false
	for i := 3; i < len(args); i++ {
		switch more := i+1 < len(args); {
		case resp.EqualFold(args[i], "BCAST"):
			broadcast = true
		case resp.EqualFold(args[i], "REDIRECT") && more:
			i++
		case resp.EqualFold(args[i], "PREFIX") && more:
			i++
			some = true
			if refused == 0 && !r.Prefix(args[i], command.NeedRead) {
				refused = i
			}
		}
	}
	if !broadcast || some && refused == 0 || r.Everything(command.NeedRead) {
		return -1
	}
	return refused
}

// eavesdrops tells whether the connection is told of keys, in BCAST mode, that its user has no right to read. Anybody
// may call it.
func (c *client) eavesdrops() bool {
	state := c.tracker.state()
	if !state.On || !state.Broadcast {
		return false
	}
	args := [][]byte{[]byte("client"), []byte("tracking"), []byte("on"), []byte("bcast")}
	for _, p := range state.Prefixes {
		args = append(args, []byte("prefix"), []byte(p))
	}
	a := c.srv.commands.Lookup([]byte("client|tracking")).Access()
	return c.login.user.Load().Check(a, args, c.srv.store().Schema()).Reason == acl.DeniedKey
}

// runClientTracking: CLIENT TRACKING ON | OFF [REDIRECT id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP].
func runClientTracking(c *client, args [][]byte) {
	var mode tracking.Mode
	var prefixes []string
	var target *client
	redirect := int64(0)
	for i := 3; i < len(args); i++ {
		more := i+1 < len(args)
		switch {
		case resp.EqualFold(args[i], "REDIRECT") && more:
			i++
			if redirect != 0 {
				c.call.items.Out.Error("ERR A client can only redirect to a single other client")
				return
			}
			var ok bool
			if redirect, ok = resp.Number(args[i]); !ok {
				c.call.items.Out.Error(items.ErrNotInteger)
				return
			}
			other := c.srv.front.Session(redirect)
			if other == nil {
				c.call.items.Out.Error("ERR The client ID you want redirect to does not exist")
				return
			}
			target = other.Handler().(*client)
		case resp.EqualFold(args[i], "BCAST"):
			mode.Broadcast = true
		case resp.EqualFold(args[i], "OPTIN"):
			mode.OptIn = true
		case resp.EqualFold(args[i], "OPTOUT"):
			mode.OptOut = true
		case resp.EqualFold(args[i], "NOLOOP"):
			mode.NoLoop = true
		case resp.EqualFold(args[i], "PREFIX") && more:
			i++
			prefixes = append(prefixes, string(args[i]))
		default:
			c.call.items.Out.Error(items.ErrSyntax)
			return
		}
	}
	switch {
	case resp.EqualFold(args[2], "ON"):
		if text := startTracking(c, mode, target, prefixes); text != "" {
			c.call.items.Out.Error(text)
			return
		}
	case resp.EqualFold(args[2], "OFF"):
		c.stopTracking()
	default:
		c.call.items.Out.Error(items.ErrSyntax)
		return
	}
	c.call.items.Out.Status("OK")
}

// startTracking makes the connection track; text is the error.
func startTracking(c *client, mode tracking.Mode, target *client, prefixes []string) (text string) {
	now := c.tracker.state()
	switch {
	case len(prefixes) > 0 && !mode.Broadcast:
		return "ERR PREFIX option requires BCAST mode to be enabled"
	case now.On && now.Broadcast != mode.Broadcast:
		return "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
	case mode.Broadcast && (mode.OptIn || mode.OptOut):
		return "ERR OPTIN and OPTOUT are not compatible with BCAST"
	case mode.OptIn && mode.OptOut:
		return "ERR You can't specify both OPTIN mode and OPTOUT mode"
	case mode.OptIn && now.OptOut || mode.OptOut && now.OptIn:
		return "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."
	}
	if len(now.Prefixes)+len(prefixes) > tracking.MaxPrefixes { // before they are compared
		return "ERR " + tracking.ErrTooManyPrefixes.Error()
	}
	if text := overlap(now.Prefixes, prefixes); text != "" {
		return text
	}
	var to *tracking.Client
	if target != nil {
		to = target.tracker.enter()
	}
	t := c.tracker.enter()
	if err := c.srv.tracking.Enable(t, mode, to, prefixes); err != nil {
		return "ERR " + err.Error()
	}
	c.call.reads = &reads{client: t, mode: mode}
	return ""
}

// overlap refuses prefixes of which one begins with another: a key would be told twice. text is the error. have is in
// order, and without overlaps.
func overlap(have, more []string) (text string) {
	if !overlaps(have, more) {
		return ""
	}
	begin := func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }
	for i, p := range more {
		for _, h := range have {
			if begin(p, h) {
				return "ERR Prefix '" + resp.Printable([]byte(p), 128) + "' overlaps with an existing prefix '" + resp.Printable([]byte(h), 128) +
					"'. Prefixes for a single client must not overlap."
			}
		}
		for _, o := range more[i+1:] {
			if begin(p, o) {
				return "ERR Prefix '" + resp.Printable([]byte(p), 128) + "' overlaps with another provided prefix '" + resp.Printable([]byte(o), 128) +
					"'. Prefixes for a single client must not overlap."
			}
		}
	}
	return ""
}

// overlaps tells whether one of the prefixes begins with another. In order, a prefix stands right before one that begins
// with it, or before another that does.
func overlaps(have, more []string) bool {
	for _, p := range more {
		n, _ := slices.BinarySearch(have, p)
		if n < len(have) && strings.HasPrefix(have[n], p) || n > 0 && strings.HasPrefix(p, have[n-1]) {
			return true
		}
	}
	more = slices.Sorted(slices.Values(more))
	for i := 1; i < len(more); i++ {
		if strings.HasPrefix(more[i], more[i-1]) {
			return true
		}
	}
	return false
}

// stopTracking ends it.
func (c *client) stopTracking() {
	if c.call.reads != nil {
		c.srv.tracking.Disable(c.call.reads.client)
		c.call.reads = nil
	}
}

// runClientCaching: CLIENT CACHING YES | NO.
func runClientCaching(c *client, args [][]byte) {
	switch r := c.call.reads; {
	case r == nil:
		c.call.items.Out.Error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	case resp.EqualFold(args[2], "YES") && !r.mode.OptIn:
		c.call.items.Out.Error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case resp.EqualFold(args[2], "NO") && !r.mode.OptOut:
		c.call.items.Out.Error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	case resp.EqualFold(args[2], "YES"), resp.EqualFold(args[2], "NO"):
		r.caching = true
		c.call.items.Out.Status("OK")
	default:
		c.call.items.Out.Error(items.ErrSyntax)
	}
}

// cached ends CLIENT CACHING with the command behind it, unless that begins a transaction.
func (c *client) cached() {
	if c.call.reads != nil && !c.multi.active && (c.last == nil || !c.last.Is("client")) {
		c.call.reads.caching = false
	}
}

func runClientGetRedir(c *client, _ [][]byte) {
	if s := c.tracker.state(); s.On {
		c.call.items.Out.Int(s.Redirect)
	} else {
		c.call.items.Out.Int(-1)
	}
}

// runClientTrackingInfo: CLIENT TRACKINGINFO.
func runClientTrackingInfo(c *client, _ [][]byte) {
	s := c.tracker.state()
	flags := []string{"off"}
	if s.On {
		flags[0] = "on"
	}
	caching := c.call.reads != nil && c.call.reads.caching
	for _, f := range []struct {
		set  bool
		name string
	}{
		{s.Broadcast, "bcast"}, {s.OptIn, "optin"}, {s.OptIn && caching, "caching-yes"}, {s.OptOut, "optout"}, {s.OptOut && caching, "caching-no"},
		{s.NoLoop, "noloop"}, {s.Broken, "broken_redirect"},
	} {
		if f.set {
			flags = append(flags, f.name)
		}
	}
	c.call.items.Out.Map(3)
	c.call.items.Out.BulkString("flags")
	c.call.items.Out.Set(len(flags))
	for _, f := range flags {
		c.call.items.Out.BulkString(f)
	}
	c.call.items.Out.BulkString("redirect")
	if s.On {
		c.call.items.Out.Int(s.Redirect)
	} else {
		c.call.items.Out.Int(-1)
	}
	c.call.items.Out.BulkString("prefixes")
	c.call.items.Out.BulkStrings(s.Prefixes)
}
