package server

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/watch"
)

// clientInfo is the part of a connection that other connections may read. Its goroutine publishes the state
// once a read, not once a command.
type clientInfo struct {
	session    *front.Session
	login      *login
	subscriber *subscriber
	tracker    *tracker
	watch      *watch.Mark
	peer       atomic.Pointer[repl.Peer] // of a replica, from its first REPLCONF; nil: the connection is none
	readonly   bool                      // the connection came by a listener for reads only; never changes
	calls      atomic.Int64              // commands that were executed before the last flush of replies

	mu    sync.Mutex
	name  string
	lib   string
	ver   string
	state clientState // its goroutine alone changes it
}

// clientState is how a connection was when it had last answered what it had read.
type clientState struct {
	cmd        *row // the last one, nil before the first
	proto      int
	multi      int // commands queued, -1 outside of MULTI
	multiMem   int // bytes of them
	queryBuf   int // bytes of a command that is not complete
	queryGap   int // free bytes behind them
	argsMem    int // bytes of the arguments of the command being executed
	outLen     int // bytes of replies not sent
	outSize    int // room for replies
	scatterMem int // bytes kept for commands of several shards
	noEvict    bool
	noTouch    bool
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

// kind is the client's type in CLIENT LIST and CLIENT KILL.
func (i *clientInfo) kind() string {
	if i.peer.Load() != nil {
		return "replica"
	}
	if i.subscriber.subscribed() {
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
func (i *clientInfo) line() string {
	i.mu.Lock()
	name, lib, ver, s := i.name, i.lib, i.ver, i.state
	i.mu.Unlock()
	if s.proto == 0 { // it has sent nothing yet
		s.proto, s.multi = 2, -1
	}
	cmd := "NULL"
	if s.cmd != nil {
		cmd = s.cmd.Name
	}
	unread := i.subscriber.outbox.Unread() // now, for others make it grow
	s.outLen, s.outSize = s.outLen+unread, s.outSize+unread
	omem := 0
	if s.outLen > 0 {
		omem = s.outSize
	}
	redirect := int64(-1)
	if t := i.tracker.state(); t.On {
		redirect = t.Redirect
	}
	events := "r"
	if i.session.Activity.Writing() {
		events = "rw"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=0 sub=%d psub=%d ssub=%d multi=%d",
		i.session.ID(), i.addr(), i.laddr(), i.session.Descriptor(), name, int64(i.session.Activity.Age()/time.Second), i.session.Activity.Idle(), i.flags(s), i.subscriber.outbox.CountOf(pubsub.Channel), i.subscriber.outbox.CountOf(pubsub.Pattern), i.subscriber.outbox.CountOf(pubsub.Shard), s.multi)
	fmt.Fprintf(&b, " qbuf=%d qbuf-free=%d argv-mem=%d multi-mem=%d rbs=%d rbp=%d obl=%d oll=0 omem=%d tot-mem=%d",
		s.queryBuf, s.queryGap, s.argsMem, s.multiMem, s.outSize, s.outSize, s.outLen, omem, s.memory())
	fmt.Fprintf(&b, " events=%s cmd=%s user=%s redir=%d resp=%d lib-name=%s lib-ver=%s", events, cmd, i.login.user.Load().Name(), redirect, s.proto, lib, ver)
	return b.String()
}

// memory is the memory of the connection's buffers.
func (s *clientState) memory() int {
	return s.queryBuf + s.queryGap + s.argsMem + s.multiMem + s.outSize + s.scatterMem
}

// flags are the letters of CLIENT LIST.
func (i *clientInfo) flags(s clientState) string {
	flags, t := make([]byte, 0, 8), i.tracker.state()
	for _, f := range []struct {
		set    bool
		letter byte
	}{{i.subscriber.monitor.Load(), 'O'}, {i.peer.Load() != nil, 'S'}, {i.subscriber.subscribed(), 'P'}, {s.multi >= 0, 'x'}, {i.session.Activity.Blocked(), 'b'}, {t.On, 't'}, {t.Broken, 'R'}, {t.Broadcast, 'B'}, {i.watch.Dirty(), 'd'}, {i.local(), 'U'}, {i.readonly, 'r'}, {s.noEvict, 'e'}, {s.noTouch, 'T'}} {
		if f.set {
			flags = append(flags, f.letter)
		}
	}
	if len(flags) == 0 {
		return "N"
	}
	return string(flags)
}

// monitored is the connection as MONITOR shows it.
func (i *clientInfo) monitored() string {
	if i.local() {
		return "unix:" + i.session.Conn().LocalAddr().String()
	}
	return i.addr()
}

// publishState publishes the state.
func (i *clientInfo) publishState(s clientState) {
	i.mu.Lock()
	i.state = s
	i.mu.Unlock()
}
