package server

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
)

// MONITOR: a connection is sent every command that the server executes, as a line:
//
//	+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"\r\n
//
// Lines go through the outbox of a subscriber and have its limits: a monitor that does not read is closed, and nobody
// waits for it. Commands on items are shown when they are planned, all others when they have run, EXEC after the commands
// of its transaction. The order within a connection is exact; between connections of different loops it is nearly right.
// Commands of the flag admin are not shown, as in Redis, nor passwords.

// monitors are the connections that monitor. While there is none, a command costs one atomic load.
type monitors struct {
	n   atomic.Int32
	mu  sync.Mutex // guards all; an outbox's lock is taken inside
	all map[*pubsub.Subscriber]struct{}
}

const (
	// maxMonitorArg and maxMonitorLine cut the line of a command, as each monitor gets a copy.
	maxMonitorArg  = 1 << 10
	maxMonitorLine = 64 << 10
)

func (m *monitors) add(c *pubsub.Subscriber) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = make(map[*pubsub.Subscriber]struct{})
	}
	m.all[c] = struct{}{}
	m.n.Store(int32(len(m.all)))
}

// remove ends a connection's monitoring: nothing is sent to it afterwards.
func (m *monitors) remove(c *pubsub.Subscriber) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, c)
	m.n.Store(int32(len(m.all)))
}

// sendCommand sends a command to all that monitor.
func (m *monitors) sendCommand(from string, cmd *command.Access, args [][]byte) {
	if cmd.Flags&command.Admin != 0 {
		return
	}
	line := monitorLine(time.Now(), from, cmd, args)
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.all {
		_ = c.Push(line) // an error closes it
	}
}

// monitorLine is a command in the form of Redis.
func monitorLine(now time.Time, from string, cmd *command.Access, args [][]byte) []byte {
	b := append(make([]byte, 0, 128), '+')
	b = strconv.AppendInt(b, now.Unix(), 10)
	micros := strconv.Itoa(1e6 + now.Nanosecond()/1e3)
	b = append(append(b, '.'), micros[1:]...)
	b = append(b, " [0 "...)
	b = append(b, from...)
	b = append(b, ']')
	for i, a := range args {
		if len(b) > maxMonitorLine {
			b = append(b, ` "... (`...)
			b = strconv.AppendInt(b, int64(len(args)-i), 10)
			b = append(b, ` more arguments)"`...)
			break
		}
		b = append(b, ` "`...)
		switch {
		case secret(cmd.Name, args, i):
			b = append(b, "(redacted)"...)
		case len(a) > maxMonitorArg:
			b = appendQuoted(b, a[:maxMonitorArg])
			b = append(b, "... ("...)
			b = strconv.AppendInt(b, int64(len(a)-maxMonitorArg), 10)
			b = append(b, " more bytes)"...)
		default:
			b = appendQuoted(b, a)
		}
		b = append(b, '"')
	}
	return append(b, "\r\n"...)
}

// appendQuoted appends the text between quotes: Redis's sdscatrepr.
func appendQuoted(b, text []byte) []byte {
	for _, ch := range text {
		switch ch {
		case '\\', '"':
			b = append(b, '\\', ch)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		case '\a':
			b = append(b, `\a`...)
		case '\b':
			b = append(b, `\b`...)
		default:
			if ch >= ' ' && ch <= '~' {
				b = append(b, ch)
			} else {
				const hex = "0123456789abcdef"
				b = append(b, '\\', 'x', hex[ch>>4], hex[ch&15])
			}
		}
	}
	return b
}

// secret tells whether argument i of a command could be a password.
func secret(name string, args [][]byte, i int) bool {
	switch name {
	case "auth":
		return i > 0
	case "hello":
		return i >= 2 && resp.EqualFold(args[i-1], "AUTH") || i >= 3 && resp.EqualFold(args[i-2], "AUTH")
	case "acl|setuser", "acl|deluser", "acl|getuser":
		return i > 1
	case "acl|dryrun": // an argument after a command's name may be a password
		return i > 3
	case "command|getkeys", "command|getkeysandflags":
		return i > 2
	case "config|set":
		return i >= 3 && i%2 == 1 && config.Secret(string(args[i-1]))
	}
	return false
}
