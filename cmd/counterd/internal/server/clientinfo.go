package server

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
)

// clientInfo is what others may know of a connection. Its goroutine publishes the state once a read, not once a
// command.
type clientInfo struct {
	session *front.Session

	mu    sync.Mutex
	name  string
	lib   string
	ver   string
	state clientState
}

// clientState is how a connection was when it had last answered what it had read.
type clientState struct {
	cmd      *row // the last one, nil before the first
	proto    int
	multi    int // commands queued, -1 outside of MULTI
	multiMem int // bytes of them
	queryBuf int // bytes of a command that is not complete
	queryGap int // free bytes behind them
	argsMem  int // bytes of the arguments of the command being executed
	outLen   int // bytes of replies not sent
	outSize  int // room for replies
	noEvict  bool
	noTouch  bool
	calls    int64 // commands executed so far
}

// maxAttribute bounds the names that a client gives itself, in bytes: each connection keeps three.
const maxAttribute = 1024

// printableWord tells whether b has neither spaces nor special characters, and is not too long.
func printableWord(b []byte) bool {
	for _, ch := range b {
		if ch < '!' || ch > '~' {
			return false
		}
	}
	return len(b) <= maxAttribute
}

// setName sets the name; false when it has spaces or special characters, or is too long.
func (i *clientInfo) setName(name []byte) bool {
	if !printableWord(name) {
		return false
	}
	i.mu.Lock()
	i.name = string(name)
	i.mu.Unlock()
	return true
}

// ofSentinel tells whether the connection has a name as redis-sentinel gives to its own: sentinel-<id>-cmd.
func (i *clientInfo) ofSentinel() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return strings.HasPrefix(i.name, "sentinel-")
}

// names returns what CLIENT SETNAME and SETINFO set.
func (i *clientInfo) names() (name, lib, ver string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.name, i.lib, i.ver
}

func (i *clientInfo) reset() {
	i.mu.Lock()
	i.name = ""
	i.mu.Unlock()
}

// publish tells others how the connection is. Only its goroutine may call it. argsMem is the size of the arguments of
// the command that is being executed.
func (c *client) publish(argsMem int) {
	cmd := c.last
	if cmd != nil && cmd.Sub != nil && c.executed != nil && strings.HasPrefix(c.executed.Name, cmd.Name+"|") {
		cmd = c.executed
	}
	buffered, gap := c.session.Buffered()
	s := clientState{
		cmd: cmd, proto: c.call.items.Out.Protocol(), multi: -1, queryBuf: buffered, queryGap: gap, argsMem: argsMem, outLen: c.call.items.Out.Len(), outSize: c.call.items.Out.Cap(),
		noEvict: c.noEvict, noTouch: c.noTouch, calls: c.call.calls,
	}
	if c.multi.active {
		s.multi, s.multiMem = len(c.multi.queued), c.multi.bytes
	}
	c.info.mu.Lock()
	c.info.state = s
	c.info.mu.Unlock()
	beside := c.multi.bytes + c.subs.Bytes()
	if c.call.reads != nil && c.call.reads.mode.Broadcast {
		beside += c.call.reads.client.PrefixBytes()
	}
	c.session.Charge(beside)
}

// connected returns all connections by id.
func (s *shared) connected() []*client {
	sessions := s.front.Sessions()
	list := make([]*client, len(sessions))
	for i, s := range sessions {
		list[i] = s.Handler().(*client)
	}
	return list
}

// kind is the client's type in CLIENT LIST and CLIENT KILL.
func (c *client) kind() string {
	if c.peer.Load() != nil {
		return "replica"
	}
	if c.subs.Count() > 0 {
		return "pubsub"
	}
	return "normal"
}

// addr is the address of the client, as CLIENT LIST shows it and CLIENT KILL takes it.
func (i *clientInfo) addr() string {
	if i.local() {
		return i.laddr()
	}
	return i.session.Conn().RemoteAddr().String()
}

// ip is the address of the client without its port, or the zero Addr if it came over a unix socket.
func (i *clientInfo) ip() netip.Addr {
	if addr, ok := i.session.Conn().RemoteAddr().(*net.TCPAddr); ok {
		return addr.AddrPort().Addr()
	}
	return netip.Addr{}
}

// laddr is the address that the client connected to.
func (i *clientInfo) laddr() string {
	if i.local() {
		return i.session.Conn().LocalAddr().String() + ":0"
	}
	return i.session.Conn().LocalAddr().String()
}

// local tells whether the client came over a unix socket.
func (i *clientInfo) local() bool {
	_, ok := i.session.Conn().LocalAddr().(*net.UnixAddr)
	return ok
}

// line describes a connection as CLIENT LIST does. Anybody may call it.
func (c *client) line() string {
	c.info.mu.Lock()
	name, lib, ver, s := c.info.name, c.info.lib, c.info.ver, c.info.state
	c.info.mu.Unlock()
	if s.proto == 0 { // it has sent nothing yet
		s.proto, s.multi = 2, -1
	}
	cmd := "NULL"
	if s.cmd != nil {
		cmd = s.cmd.Name
	}
	unread := c.subs.Unread() // now, for others make it grow
	s.outLen, s.outSize = s.outLen+unread, s.outSize+unread
	omem := 0
	if s.outLen > 0 {
		omem = s.outSize
	}
	redirect := int64(-1)
	if t := c.tracker.state(); t.On {
		redirect = t.Redirect
	}
	events := "r"
	if c.session.Activity.Writing() {
		events = "rw"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=0 sub=%d psub=%d ssub=%d multi=%d",
		c.session.ID(), c.info.addr(), c.info.laddr(), c.session.Descriptor(), name, int64(c.session.Activity.Age()/time.Second), c.session.Activity.Idle(), c.flags(s), c.subs.CountOf(pubsub.Channel), c.subs.CountOf(pubsub.Pattern), c.subs.CountOf(pubsub.Shard), s.multi)
	fmt.Fprintf(&b, " qbuf=%d qbuf-free=%d argv-mem=%d multi-mem=%d rbs=%d rbp=%d obl=%d oll=0 omem=%d tot-mem=%d",
		s.queryBuf, s.queryGap, s.argsMem, s.multiMem, s.outSize, s.outSize, s.outLen, omem, s.memory())
	fmt.Fprintf(&b, " events=%s cmd=%s user=%s redir=%d resp=%d lib-name=%s lib-ver=%s", events, cmd, c.login.user.Load().Name(), redirect, s.proto, lib, ver)
	return b.String()
}

// memory is what the connection's buffers hold.
func (s *clientState) memory() int {
	return s.queryBuf + s.queryGap + s.argsMem + s.multiMem + s.outSize
}

// flags are the letters of CLIENT LIST.
func (c *client) flags(s clientState) string {
	flags, t := make([]byte, 0, 8), c.tracker.state()
	for _, f := range []struct {
		set    bool
		letter byte
	}{{c.monitors.Load(), 'O'}, {c.peer.Load() != nil, 'S'}, {c.subs.Count() > 0, 'P'}, {s.multi >= 0, 'x'}, {c.session.Activity.Blocked(), 'b'}, {t.On, 't'}, {t.Broken, 'R'}, {t.Broadcast, 'B'}, {c.watch.Dirty(), 'd'}, {c.info.local(), 'U'}, {c.readonly, 'r'}, {s.noEvict, 'e'}, {s.noTouch, 'T'}} {
		if f.set {
			flags = append(flags, f.letter)
		}
	}
	if len(flags) == 0 {
		return "N"
	}
	return string(flags)
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
		f.kind != "" && f.kind != c.kind(), f.user != nil && f.user != c.login.user.Load(), f.maxAge > 0 && int64(c.session.Activity.Age()/time.Second) < f.maxAge:
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

// kill closes the connections that f selects and returns how many. The one that asks is closed after its answer.
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
