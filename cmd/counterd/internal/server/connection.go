package server

import (
	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/internal/slot"
)

// Commands about the connection itself.

func connectionCommands() []*row {
	return []*row{
		{Name: "ping", Arity: -1, Flags: command.Fast, Group: "connection", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns PONG, or the given message.", Syntax: "[message]", Run: onClient(runPing)},
		{Name: "echo", Arity: 2, Flags: command.Fast | command.Loading | command.Stale, Group: "connection", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Returns the given message.", Syntax: "message", Run: onClient(runEcho)},
		{Name: "quit", Arity: -1, Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth | command.Now | command.AllowBusy, Group: "connection", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Closes the connection.", Run: onClient(runQuit)},
		{Name: "reset", Arity: 1, Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth | command.Now | command.AllowBusy, Group: "connection", Since: "6.2.0", Complexity: "O(1)",
			Summary: "Resets the connection to the state of a new one.", Run: onClient(runReset)},
		{Name: "select", Arity: 2, Flags: command.Loading | command.Stale | command.Fast, Group: "connection", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Selects database 0, the only one.", Syntax: "index", Run: onClient(runSelect)},
		{Name: "hello", Arity: -1, Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth | command.AllowBusy, Group: "connection", Since: "6.0.0", Complexity: "O(1)",
			Summary: "Selects the protocol version and optionally authenticates the connection.", Syntax: "[protover [AUTH username password] [SETNAME clientname]]", Run: onClient(runHello)},
		{Name: "auth", Arity: -2, Flags: command.NoScript | command.Loading | command.Stale | command.Fast | command.NoAuth | command.AllowBusy, Group: "connection", Since: "1.0.0", Complexity: "O(1)",
			Summary: "Authenticates the connection.", Syntax: "[username] password", Run: onClient(runAuth)},
	}
}

func runPing(c *client, args [][]byte) {
	if c.confined&command.ConfinedSubscriber != 0 && len(args) <= 2 {
		c.call.items.Out.Array(2) // as a message, because a subscriber reads messages
		c.call.items.Out.BulkString("pong")
		if len(args) == 2 {
			c.call.items.Out.Bulk(args[1])
		} else {
			c.call.items.Out.BulkString("")
		}
		return
	}
	if store := c.srv.store(); store.DiskHangs() && c.info.ofSentinel() {
		if err := store.Ready(); err != nil { // no valid reply to Sentinel, which has a replica take over
			c.call.items.StoreError(err)
			return
		}
	}
	switch len(args) {
	case 1:
		c.call.items.Out.Status("PONG")
	case 2:
		c.call.items.Out.Bulk(args[1])
	default:
		c.call.items.Out.Error(c.executed.WrongNumber())
	}
}

func runEcho(c *client, args [][]byte) { c.call.items.Out.Bulk(args[1]) }

func runQuit(c *client, _ [][]byte) {
	c.call.items.Out.Status("OK")
	c.session.Closing = true
}

func runReset(c *client, _ [][]byte) {
	c.multi = transaction{}
	c.srv.watches.Remove(&c.watch)
	c.subscriber.stopMonitor()
	c.call.stopTracking()
	c.subscriber.unsubscribeAll()
	c.call.items.Out.SetProtocol(2)
	c.subscriber.setProtocol(2)
	c.info.reset()
	if !c.replyMode.Skipping() {
		c.replyMode.TurnOn()
	}
	c.noEvict, c.noTouch, c.routing.replicaReads = false, false, false
	c.call.numbers = idmp.Sequence{}
	c.login.reset()
	c.call.items.Out.Status("RESET")
}

func runSelect(c *client, args [][]byte) {
	n, ok := resp.Number(args[1])
	switch {
	case !ok:
		c.call.items.Out.Error(items.ErrNotInteger)
	case n != 0:
		c.call.items.Out.Error("ERR DB index is out of range")
	default:
		c.call.items.Out.Status("OK")
	}
}

// runHello: HELLO [protover [AUTH username password] [SETNAME clientname]].
func runHello(c *client, args [][]byte) {
	proto := c.call.items.Out.Protocol()
	if len(args) > 1 {
		n, ok := resp.Number(args[1])
		if !ok {
			c.call.items.Out.Error("ERR Protocol version is not an integer or out of range")
			return
		}
		if n != 2 && n != 3 {
			c.call.items.Out.Error("NOPROTO unsupported protocol version")
			return
		}
		proto = int(n)
	}
	var user, pass, name []byte
	for i := 2; i < len(args); i++ {
		switch left := len(args) - i - 1; {
		case resp.EqualFold(args[i], "AUTH") && left >= 2:
			user, pass = args[i+1], args[i+2]
			i += 2
		case resp.EqualFold(args[i], "SETNAME") && left >= 1:
			name = args[i+1]
			i++
		default:
			c.call.items.Out.Error("ERR Syntax error in HELLO option '" + resp.Printable(args[i], 128) + "'")
			return
		}
	}
	if name != nil && !printableWord(name) { // before anything is changed
		c.call.items.Out.Error(errBadName)
		return
	}
	if user != nil && !c.login.authenticate("HELLO", user, pass, c.call.executing, c.multi.active || c.call.executing) {
		c.call.items.Out.Error(errWrongPass)
		return
	}
	if !c.login.admitted() {
		c.call.items.Out.Error("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option " +
			"can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	if name != nil {
		c.info.setName(name)
	}
	c.call.items.Out.SetProtocol(proto)
	c.subscriber.setProtocol(proto)
	c.subscriber.confine()
	c.call.items.Out.Map(7)
	c.call.items.Out.BulkString("server")
	c.call.items.Out.BulkString("redis")
	c.call.items.Out.BulkString("version")
	c.call.items.Out.BulkString(Version)
	c.call.items.Out.BulkString("proto")
	c.call.items.Out.Int(int64(proto))
	c.call.items.Out.BulkString("id")
	c.call.items.Out.Int(c.session.ID())
	c.call.items.Out.BulkString("mode")
	c.call.items.Out.BulkString(c.routing.serverMode())
	c.call.items.Out.BulkString("role")
	if c.srv.role.Replica() {
		c.call.items.Out.BulkString("replica")
	} else {
		c.call.items.Out.BulkString("master")
	}
	c.call.items.Out.BulkString("modules")
	c.call.items.Out.Array(0)
}

const (
	errWrongPass = "WRONGPASS invalid username-password pair or user is disabled."
	errBadName   = "ERR Client names cannot contain spaces, newlines or special characters."
)

// runAuth: AUTH [username] password.
func runAuth(c *client, args [][]byte) {
	user, pass := []byte(acl.Default), args[len(args)-1]
	switch {
	case len(args) > 3:
		c.call.items.Out.Error(items.ErrSyntax)
		return
	case len(args) == 3:
		user = args[1]
	case !c.srv.users.Default().Password():
		c.call.items.Out.Error("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
		return
	}
	if !c.login.authenticate("AUTH", user, pass, c.call.executing, c.multi.active || c.call.executing) {
		c.call.items.Out.Error(errWrongPass)
		return
	}
	c.call.items.Out.Status("OK")
}

func gatherCommands() []*row {
	return []*row{
		{Name: "counter.link", Arity: 3, Flags: command.Admin | command.NoScript | command.NoMulti | command.Fast | command.Loading | command.Stale, Group: "counterd", Since: "0.1.0", Complexity: "O(1)",
			Summary: "Internal: marks the connection as a link of another cluster node.", Syntax: "format node-id | OWNING groups | STILL groups", Run: onClient(runLink), Asks: command.NoData},
	}
}

// runLink: COUNTER.LINK format node-id | OWNING groups | STILL groups. This node alone answers a link's commands, or refuses
// them (MOVED), in the neutral version of the protocol. With gather.PackedFormat it takes packed pages. OWNING answers OK if the
// node's shard owns just these groups, else the next command is refused too, as an update is that finds other groups when it begins. STILL says behind a change whether that is so yet.
func runLink(c *client, args [][]byte) {
	owning, still := resp.EqualFold(args[1], "OWNING"), resp.EqualFold(args[1], "STILL")
	if c.routing.internal && c.scatter == nil && (owning || still) {
		set, err := slot.ParseSet(string(args[2]))
		c.call.items.For = nil
		switch c.disowned = err != nil || c.call.store.Groups().Owned() != set; {
		case !c.disowned:
			if owning {
				c.call.items.For = &set
			}
			c.call.items.Out.Status("OK")
		case owning:
			c.call.items.Out.Error(items.ErrOwning)
		default:
			c.disowned = false
			c.call.items.Out.Error(scatter.ErrStill)
		}
		return
	}
	format, ok := resp.Number(args[1])
	switch {
	case c.srv.shards == nil:
		c.call.items.Out.Error(route.ErrNoCluster)
		return
	case !ok || format != gather.PlainFormat && (format != gather.PackedFormat || !c.login.user.Load().Unlimited()): // whose rights are for ids as text
		c.call.items.Out.Error("ERR COUNTER.LINK: got format " + resp.Printable(args[1], 20) + ", want 1: the node is of another version")
		return
	}
	c.routing.internal, c.routing.link, c.scatter = true, true, nil
	c.call.items.Packed = format == gather.PackedFormat
	c.info.setName(append([]byte("link:"), args[2]...))
	c.call.items.Out.SetProtocol(resp.Neutral)
	c.call.items.Out.Status("OK")
}
