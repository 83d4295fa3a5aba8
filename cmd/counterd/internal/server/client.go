package server

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/tracking"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/watch"
)

// client is one connection: its protocol state, and its call, which its commands become. It is the handler of its
// session. Only who runs the session touches it, but for the fields said otherwise.
type client struct {
	front.Session
	call

	authed   bool                     // user may execute commands
	user     atomic.Pointer[acl.User] // never nil; others read it
	failures int                      // of AUTH, one after the other
	multi    transaction

	lastName []byte // name of the last command, as sent
	last     *row
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

	far *far // of a node of a cluster; nil: this node answers for its own posts alone

	silence          silence // CLIENT REPLY
	noEvict, noTouch bool    // CLIENT NO-EVICT, NO-TOUCH

	info     clientInfo                              // what CLIENT LIST shows; has its own lock
	track    atomic.Pointer[tracking.Client]         // nil: it never tracked, nor was it told of what others do
	ended    atomic.Bool                             // End was called
	monitors atomic.Bool                             // it monitors
	watch    watch.Mark                              // a watched key changed; set by others
	waited   time.Duration                           // that the command being executed was blocked: no work of the server's
	unblock  atomic.Pointer[context.CancelCauseFunc] // ends the wait of WAIT and WAITAOF; nil: it is in neither
}

// Command plans, queues or executes one command: see front.Handler.
func (c *client) Command(args [][]byte) {
	if c.silence.skip {
		c.skipped(args)
		return
	}
	cmd := c.last
	if cmd == nil || !bytes.Equal(args[0], c.lastName) {
		cmd = c.srv.commands.Find(args[0])
		c.last = cmd
		if cmd != nil { // or the name of none, up to 1 MiB, would stay
			c.lastName = append(c.lastName[:0], args[0]...)
		}
	}
	if len(args) > longArgs && c.InLoop() {
		c.catchUp()
		c.Postpone(args)
		return
	}
	if c.loading || c.store != c.srv.current.Load() {
		if !c.catchUp() {
			c.Postpone(args)
			return
		}
		c.begin()
	}
	if cmd != nil && c.multi.changes(cmd) && c.store.Crowded() {
		if !c.catchUp() || c.InLoop() {
			c.Postpone(args)
			return
		}
		c.store.AwaitRoom()
	}
	if c.far != nil && c.elsewhere(cmd, args) {
		return
	}
	if c.reads != nil && !c.readsBehindOwn(cmd, args) {
		return
	}
	if cmd != nil && cmd.Plan != nil && cmd.Takes(args) && c.authed && !c.multi.active && !c.loading &&
		(c.confined == 0 || c.confined == confinedReader && cmd.Reads()) && c.srv.node.Lets(cmd.Flags) && c.may(cmd, args) &&
		(c.srv.cluster == nil || c.local(cmd, args)) {
		if len(args) > longArgs && c.srv.cluster == nil && cmd.Reads() {
			c.readLong(cmd, args)
		} else {
			c.plan(cmd, args)
		}
		return
	}
	if !c.catchUp() || c.InLoop() && c.mayWait(cmd, args) {
		c.Postpone(args)
		return
	}
	queued := c.multi.active
	cmd, ok := c.check(cmd, args)
	switch {
	case c.Leaving():
		c.Postpone(args)
	case !ok:
		c.multi.failed = c.multi.active
		c.refusedNumber(c.last, args, queued)
	case c.multi.active && cmd.Flags&command.Now == 0:
		c.multi.queue(c, cmd, args)
	default:
		c.execute(cmd, args)
	}
	if !c.Leaving() {
		c.cached()
	}
}

// execute runs a command that was checked. Everything before it has been answered.
func (c *client) execute(cmd *row, args [][]byte) {
	if cmd.Plan != nil {
		if c.srv.cluster != nil && !c.executing && !c.admit(cmd, args) {
			return
		}
		c.plan(cmd, args)
		c.Flush()
		return
	}
	if cmd.Flags&command.Blocking != 0 && !c.executing && c.Send() != nil {
		c.Closing = true
		return
	}
	began := time.Now()
	size := c.Out.Len()
	c.executed, c.waited = cmd, 0
	switch {
	case c.disowned && !cmd.Is("counter.link"):
		c.disowned = false
		c.Out.Error(errOwning)
	case c.far != nil && c.forAll(cmd):
		c.runAll(cmd, args)
	default:
		cmd.Run(c, args)
	}
	took := time.Since(began) - c.waited
	cmd.Account(c.Lane(), 1, took)
	c.calls++
	if reply := c.Out.From(size); len(reply) > 0 && reply[0] == '-' {
		c.failed(cmd, reply)
	}
	if cmd.Flags&command.SkipSlowlog == 0 {
		c.noteSlow(cmd, args, took)
	}
	if c.srv.monitors.n.Load() > 0 {
		c.srv.monitors.show(c.call.info, cmd, args)
	}
}
