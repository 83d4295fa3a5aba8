package server

import (
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// CLIENT. A feature that counterd lacks (announcements of maintenance) is an unknown subcommand, as in a Redis without
// it: clients then go on without it. Client side caching is in trackingcmd.go.

func clientCommand() *row {
	const flags = command.NoScript | command.Loading | command.Stale
	sub := func(name string, arity int, extra command.Flags, since, syntax, summary string, run func(*client, [][]byte)) *row {
		return &row{Name: "client|" + name, Arity: arity, Flags: flags | extra, Group: "connection", Since: since, Complexity: "O(1)",
			Syntax: syntax, Summary: summary, Run: onClient(run)}
	}
	list := sub("list", -2, command.Admin, "2.4.0", "[TYPE type] [ID client-id [client-id ...]]", "Returns all client connections, one per line.", runClientList)
	kill := sub("kill", -3, command.Admin, "2.4.0", "old-address | [ID client-id] [TYPE type] [ADDR address] [LADDR address] [USER username] [SKIPME yes-or-no] [MAXAGE maxage]",
		"Closes client connections.", runClientKill)
	list.Complexity, kill.Complexity = "O(N)", "O(N)"
	return container("client", "connection", "2.4.0", "A container for commands about client connections.", list, kill,
		sub("info", 2, 0, "6.2.0", "", "Returns this connection in the format of CLIENT LIST.", runClientInfo),
		sub("id", 2, 0, "5.0.0", "", "Returns the id of this connection.", runClientID),
		sub("getname", 2, 0, "2.6.9", "", "Returns the name of this connection.", runClientGetName),
		sub("setname", 3, 0, "2.6.9", "connection-name", "Sets the name of this connection.", runClientSetName),
		sub("setinfo", 4, 0, "7.2.0", "LIB-NAME libname | LIB-VER libver", "Sets the name or version of the client library.", runClientSetInfo),
		command.Asking(sub("tracking", -3, 0, "6.0.0", "ON | OFF [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
			"Turns server-assisted client-side caching on or off.", runClientTracking), askTracking),
		sub("caching", 3, 0, "6.0.0", "YES | NO", "Sets whether the keys of the next command are tracked, in mode OPTIN or OPTOUT.", runClientCaching),
		sub("trackinginfo", 2, 0, "6.2.0", "", "Returns the state of client-side caching for this connection.", runClientTrackingInfo),
		sub("getredir", 2, 0, "6.0.0", "", "Returns the id of the connection that receives this connection's invalidations: 0 for none, -1 if tracking is off.", runClientGetRedir),
		sub("no-evict", 3, command.Admin, "7.0.0", "ON | OFF", "Exempts this connection from being closed when all connections exceed maxmemory-clients.", runClientNoEvict),
		sub("no-touch", 3, 0, "7.2.0", "ON | OFF", "Accepted for compatibility. The server does not record accesses.", runClientNoTouch),
		sub("reply", 3, command.NoMulti, "3.2.0", "ON | OFF | SKIP", "Turns replies off or on, or skips the next reply.", runClientReply),
		sub("unblock", -3, command.Admin, "5.0.0", "client-id [TIMEOUT | ERROR]", "Ends WAIT or WAITAOF of another connection, as a timeout or with an error.", runClientUnblock),
		sub("pause", -3, command.Admin, "3.0.0", "timeout [WRITE | ALL]", "Suspends commands of all clients, or only changes, for a number of milliseconds.", func(c *client, args [][]byte) { c.srv.role.ClientPause(nodeConn{c}, args) }),
		sub("idmp", -3, command.NoMulti, "0.1.0", "producer nextseq [EPOCH epoch] | OFF", "Numbers the following changes of this connection, so that a repeated change is applied once.", runClientIdmp),
		sub("unpause", 2, command.Admin, "6.2.0", "", "Resumes the clients that CLIENT PAUSE suspended.", func(c *client, args [][]byte) { c.srv.role.ClientUnpause(nodeConn{c}, args) }),
	)
}

// linesAtOnce is how many lines CLIENT LIST makes until others have their turn: 0.1 ms.
const linesAtOnce = 32

// runClientList: CLIENT LIST [TYPE type | ID client-id [client-id ...]].
func runClientList(c *client, args [][]byte) {
	var f clientFilter
	switch options := args[2:]; {
	case len(options) == 0:
	case resp.EqualFold(options[0], "TYPE") && len(options) == 2:
		if text := f.setKind(options[1]); text != "" {
			c.call.items.Out.Error(text)
			return
		}
	case resp.EqualFold(options[0], "ID") && len(options) > 1:
		f.ids = make(map[int64]bool)
		for _, a := range options[1:] {
			id, ok := resp.Number(a)
			if !ok {
				c.call.items.Out.Error("ERR Invalid client ID")
				return
			}
			f.ids[id] = true
		}
	default:
		c.call.items.Out.Error(items.ErrSyntax)
		return
	}
	c.publish(sizeOf(args))
	var b strings.Builder
	for i, other := range c.srv.connected() {
		if i%linesAtOnce == linesAtOnce-1 && !c.call.executing {
			c.srv.front.GiveWay()
		}
		if f.match(other) {
			b.WriteString(other.info.line())
			b.WriteByte('\n')
		}
	}
	c.call.items.Out.Text(b.String())
}

func runClientInfo(c *client, args [][]byte) {
	c.publish(sizeOf(args))
	c.call.items.Out.Text(c.info.line() + "\n")
}

func sizeOf(args [][]byte) (n int) {
	for _, a := range args {
		n += len(a)
	}
	return n
}

func runClientID(c *client, _ [][]byte) { c.call.items.Out.Int(c.session.ID()) }

func runClientGetName(c *client, _ [][]byte) {
	if name, _, _ := c.info.names(); name != "" {
		c.call.items.Out.BulkString(name)
	} else {
		c.call.items.Out.Null()
	}
}

func runClientSetName(c *client, args [][]byte) {
	if !c.info.setName(args[2]) {
		c.call.items.Out.Error(errBadName)
		return
	}
	c.call.items.Out.Status("OK")
}

func runClientSetInfo(c *client, args [][]byte) {
	i := &c.info
	field := &i.lib
	switch {
	case resp.EqualFold(args[2], "LIB-NAME"):
	case resp.EqualFold(args[2], "LIB-VER"):
		field = &i.ver
	default:
		c.call.items.Out.Error("ERR Unrecognized option '" + resp.Printable(args[2], 128) + "'")
		return
	}
	if !printableWord(args[3]) {
		c.call.items.Out.Error("ERR " + resp.Printable(args[2], 128) + " cannot contain spaces, newlines or special characters.")
		return
	}
	i.mu.Lock()
	*field = string(args[3])
	i.mu.Unlock()
	c.call.items.Out.Status("OK")
}

// runClientKill: CLIENT KILL addr answers OK or an error; with filters it answers the number of connections.
func runClientKill(c *client, args [][]byte) {
	if len(args) == 3 {
		f := clientFilter{addr: string(args[2])}
		if f.addr == "" || kill(c, &f) == 0 {
			c.call.items.Out.Error("ERR No such client")
			return
		}
		c.call.items.Out.Status("OK")
		return
	}
	f, text := parseKill(c, args[2:])
	if text != "" {
		c.call.items.Out.Error(text)
		return
	}
	c.call.items.Out.Int(int64(kill(c, &f)))
}

// onOff reads ON or OFF into v.
func onOff(c *client, arg []byte, v *bool) {
	switch {
	case resp.EqualFold(arg, "ON"):
		*v = true
	case resp.EqualFold(arg, "OFF"):
		*v = false
	default:
		c.call.items.Out.Error(items.ErrSyntax)
		return
	}
	c.call.items.Out.Status("OK")
}

func runClientNoEvict(c *client, args [][]byte) { onOff(c, args[2], &c.noEvict) }

func runClientNoTouch(c *client, args [][]byte) { onOff(c, args[2], &c.noTouch) }

func runClientUnblock(c *client, args [][]byte) {
	switch {
	case len(args) > 4:
		c.call.items.Out.Error(c.executed.WrongNumber())
		return
	case len(args) == 4 && !resp.EqualFold(args[3], "TIMEOUT") && !resp.EqualFold(args[3], "ERROR"):
		c.call.items.Out.Error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
		return
	}
	id, ok := resp.Number(args[2])
	if !ok {
		c.call.items.Out.Error(items.ErrNotInteger)
		return
	}
	cause := errTimeUp
	if len(args) == 4 && resp.EqualFold(args[3], "ERROR") {
		cause = errUnblocked
	}
	other := c.srv.front.Session(id)
	if other == nil || !other.Handler().(*client).blocking.unblock(cause) {
		c.call.items.Out.Int(0)
		return
	}
	c.call.items.Out.Int(1)
}

// runClientReply: CLIENT REPLY ON | OFF | SKIP. Only ON is answered.
func runClientReply(c *client, args [][]byte) {
	switch m := &c.replyMode; {
	case resp.EqualFold(args[2], "ON"):
		m.TurnOn()
		c.call.items.Out.Status("OK")
	case resp.EqualFold(args[2], "OFF"):
		m.TurnOff()
	case resp.EqualFold(args[2], "SKIP"):
		m.SkipNext()
	default:
		c.call.items.Out.Error(items.ErrSyntax)
	}
}

// clientFilter selects connections for CLIENT LIST and CLIENT KILL. Empty fields select all.
type clientFilter struct {
	ids         map[int64]bool
	addr, laddr string
	kind        string
	user        *acl.User
	maxAge      int64 // seconds; 0 = any
	except      *client
}

func (f *clientFilter) match(c *client) bool {
	switch {
	case f.ids != nil && !f.ids[c.session.ID()], f.addr != "" && f.addr != c.info.addr(), f.laddr != "" && f.laddr != c.info.laddr(),
		f.kind != "" && f.kind != c.info.kind(), f.user != nil && f.user != c.login.user.Load(), f.maxAge > 0 && int64(c.session.Activity.Age()/time.Second) < f.maxAge:
		return false
	}
	return c != f.except
}

// setKind reads a type of clients; text is the error.
func (f *clientFilter) setKind(b []byte) (text string) {
	switch kind := strings.ToLower(string(b)); kind {
	case "normal", "pubsub", "master", "replica":
		f.kind = kind
	case "slave":
		f.kind = "replica"
	default:
		return "ERR Unknown client type '" + resp.Printable(b, 128) + "'"
	}
	return ""
}

// parseKill reads the filter of CLIENT KILL: pairs of name and value. text is the error.
func parseKill(c *client, args [][]byte) (f clientFilter, text string) {
	f.except = c
	if len(args)%2 != 0 {
		return f, items.ErrSyntax
	}
	for i := 0; i < len(args) && text == ""; i += 2 {
		v := args[i+1]
		switch {
		case resp.EqualFold(args[i], "ID"):
			id, ok := resp.Number(v)
			if !ok || id < 1 {
				return f, "ERR client-id should be greater than 0"
			}
			f.ids = map[int64]bool{id: true}
		case resp.EqualFold(args[i], "TYPE"):
			text = f.setKind(v)
		case resp.EqualFold(args[i], "ADDR"):
			f.addr = string(v)
		case resp.EqualFold(args[i], "LADDR"):
			f.laddr = string(v)
		case resp.EqualFold(args[i], "USER"):
			if f.user = c.srv.users.Find(string(v)); f.user == nil {
				return f, "ERR No such user '" + resp.Printable(v, 128) + "'"
			}
		case resp.EqualFold(args[i], "SKIPME") && resp.EqualFold(v, "YES"):
			f.except = c
		case resp.EqualFold(args[i], "SKIPME") && resp.EqualFold(v, "NO"):
			f.except = nil
		case resp.EqualFold(args[i], "MAXAGE"):
			age, err := strconv.ParseInt(string(v), 10, 64)
			if err != nil {
				return f, "ERR maxage is not an integer or out of range"
			}
			if age < 1 {
				return f, "ERR maxage should be greater than 0"
			}
			f.maxAge = age
		default:
			return f, items.ErrSyntax
		}
	}
	return f, text
}

// kill closes the connections that f selects and returns how many. The connection that sent the command is closed after
// its reply.
func kill(c *client, f *clientFilter) int {
	n := 0
	for _, k := range c.srv.connected() {
		if !f.match(k) {
			continue
		}
		n++
		if k == c {
			c.session.Closing = true
		} else {
			k.session.Conn().Close()
		}
	}
	if n > 0 {
		c.srv.log.Info("connections killed", "number", n, "client", c.session.ID())
	}
	return n
}
