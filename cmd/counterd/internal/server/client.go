package server

import (
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/watch"
)

// client is one connection: its session, which moves bytes, its call, which its commands become, and its protocol state.
// It is the handler of its session. Only the goroutine that runs the session uses it, except for the fields that say
// otherwise.
type client struct {
	session front.Session
	call    call
	srv     *shared // what all connections share

	login login // who it is
	multi transaction

	lastName []byte // name of the last command, as sent
	last     *row
	plain    bool // nothing sets it apart from most connections: see isPlain
	executed *row // the last one that was not planned: a subcommand, where last is its container

	readonly bool        // it came by a listener for reads only; never changes
	confined confinement // only some commands are allowed
	// Of a node of a cluster: a link of another node's, or a client of the forward port, whose keys are not looked at as a
	// cluster's client hashes them; READONLY, which has replicas
	// answer.
	internal, replicaReads bool
	disowned               bool // a link's next command is for groups that are not the shard's: see runLink
	subs                   pubsub.Subscriber
	peer                   atomic.Pointer[repl.Peer] // of a replica, from its first REPLCONF; nil: it is none

	scatter *scatter.Scatter // of a node of a cluster; nil: this node answers for its own posts alone

	silence          silence // CLIENT REPLY
	noEvict, noTouch bool    // CLIENT NO-EVICT, NO-TOUCH

	info     clientInfo    // what CLIENT LIST shows; has its own lock
	tracker  tracker       // what package tracking knows of it
	monitors atomic.Bool   // it monitors
	watch    watch.Mark    // a watched key changed; set by others
	waited   time.Duration // that the command being executed was blocked: no work of the server's
	unblock  unblocker     // of WAIT and WAITAOF
}

// execute runs a command that was checked. Everything before it has been answered.
func (c *client) execute(cmd *row, args [][]byte) {
	if cmd.Plan != nil {
		if c.srv.cluster != nil && !c.call.executing && !c.admit(cmd, args) {
			return
		}
		c.call.plan(cmd, args)
		c.Flush()
		return
	}
	if cmd.Flags&command.Blocking != 0 && !c.call.executing && c.session.Send() != nil {
		c.session.Closing = true
		return
	}
	began := time.Now()
	size := c.call.items.Out.Len()
	c.executed, c.waited = cmd, 0
	switch {
	case c.disowned && !cmd.Is("counter.link"):
		c.disowned = false
		c.call.items.Out.Error(scatter.ErrOwning)
	case c.scatter != nil && c.forAll(cmd):
		c.scatter.AskAll(cmd.Access(), args)
	default:
		cmd.Run(c, args)
	}
	took := time.Since(began) - c.waited
	cmd.Account(c.session.Lane(), 1, took)
	c.call.calls++
	if reply := c.call.items.Out.From(size); len(reply) > 0 && reply[0] == '-' {
		c.call.failed(cmd, reply)
	}
	if cmd.Flags&command.SkipSlowlog == 0 {
		c.call.noteSlow(cmd, args, took)
	}
	if c.srv.monitors.n.Load() > 0 {
		c.srv.monitors.show(c.call.info, cmd, args)
	}
}
