package server

import (
	"context"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/serving"
)

// One place decides what becomes of a command: decide. It goes on to be planned or executed, it waits, or it is refused.

// decision says how to treat a command that has arrived.
type decision uint8

const (
	toPlan    decision = iota // it joins the batch: its operations run together with those of its neighbours
	toPlanned                 // it has been planned already: package scatter asks other shards for a part of it
	toSlice                   // a read of very many items, which runs in slices
	toRun                     // it is executed at once; everything before it has been answered
	toQueue                   // MULTI keeps it for EXEC
	toSkip                    // CLIENT REPLY SKIP leaves out its reply
	toWait                    // it has to wait, which it must not do in a loop: it is decided again elsewhere
	toRefuse                  // the error has been appended
)

// decide says what becomes of a command, in this order. cmd is nil if there is no such command; the result is the
// subcommand where there is one.
//
//	a plain connection    most commands: a few comparisons, and none of what follows
//	large                 more than 512 arguments, or a store that must give memory back first: not in a loop
//	another store         LOADING has begun or ended: everything before is answered by the old one
//	other shards          the scattered commands of a cluster's node
//	own changes           a client that tracks its keys reads behind changes of its own
//	short                 the terms of a command that is planned, for a connection that is not plain
//	long                  the terms of all others, with the error for each: check
//
// A term is asked once on each of the ways short and long, which differ in what they may do: the short way has the batch
// open and says only yes or no, the long way has answered everything before it, may wait, and says why not.
func (c *client) decide(cmd *row, args [][]byte) (*row, decision) {
	if c.plain && cmd != nil && cmd.Plan != nil && len(args) <= longArgs && c.call.store == c.srv.current.Load() &&
		!(cmd.Flags&command.Write != 0 && c.call.store.Crowded()) && c.allowsPlanned(cmd, args) {
		return cmd, toPlan
	}
	return c.decideOther(cmd, args)
}

// isPlain tells whether nothing sets a connection apart from most others: it is authenticated, it is not in MULTI, its commands are not
// restricted, no other shard is asked, and no command is treated specially. carryOut keeps the answer in client.plain: only commands that
// are not planned change it. A node of a cluster has no plain connections.
func (c *client) isPlain() bool { return c.srv.cluster == nil && isUsual(c) }

// isUsual is isPlain, but for the shards of a cluster.
func isUsual(c *client) bool {
	return c.login.authed && !c.multi.active && c.confined == 0 && c.call.reads == nil && !c.replyMode.SkipsNext() && !c.call.loading
}

// allowsPlanned checks every command that is planned: the number of its arguments, whether the node's role allows it, and whether
// its user may execute it.
func (c *client) allowsPlanned(cmd *row, args [][]byte) bool {
	return cmd.Takes(args) && c.srv.role.Lets(cmd.Flags) && c.call.userMay(cmd, args)
}

// decideOther is decide for a connection that is not plain, and for a command that is not planned.
func (c *client) decideOther(cmd *row, args [][]byte) (*row, decision) {
	if c.replyMode.SkipsNext() {
		return cmd, toSkip
	}
	if len(args) > longArgs && c.session.InLoop() {
		c.catchUp()
		return cmd, toWait
	}
	if c.call.loading || c.call.store != c.srv.current.Load() {
		if !c.catchUp() {
			return cmd, toWait
		}
		c.call.adoptStore()
		c.plain = false // until it is known again
	}
	if cmd != nil && c.multi.changes(cmd) && c.call.store.Crowded() {
		if !c.catchUp() || c.session.InLoop() {
			return cmd, toWait
		}
		c.call.store.AwaitRoom()
	}
	if c.scatter != nil && c.scatters(cmd, args) {
		return cmd, toPlanned
	}
	if c.call.reads != nil && !c.notifyBeforeRead(cmd) {
		return cmd, toWait
	}
	if cmd != nil && cmd.Plan != nil && c.login.authed && !c.multi.active && !c.call.loading &&
		(c.confined == 0 || c.confined == command.ConfinedReader && cmd.Reads()) && c.allowsPlanned(cmd, args) && (c.srv.cluster == nil || c.call.openServed(cmd, args)) {
		if len(args) > longArgs && c.srv.cluster == nil && c.call.sliced(cmd, args) {
			return cmd, toSlice
		}
		c.plain = c.isPlain()
		return cmd, toPlan
	}
	if !c.catchUp() || c.session.InLoop() && c.mayWait(cmd, args) {
		return cmd, toWait
	}
	sub, ok := c.check(cmd, args)
	switch {
	case c.session.LeavingLoop():
		return cmd, toWait
	case !ok:
		return sub, toRefuse
	case c.multi.active && sub.Flags&command.Now == 0:
		return sub, toQueue
	}
	return sub, toRun
}

// scatters tells whether a command on posts was planned by package scatter, as this node has not all of its posts.
func (c *client) scatters(cmd *row, args [][]byte) bool {
	if cmd != nil && cmd.Sub != nil && len(args) > 1 { // OBJECT
		cmd = cmd.Subcommand(args[1])
	}
	return cmd != nil && cmd.Plan != nil && c.scatter.Concerns(cmd.Access()) && cmd.Takes(args) && c.login.authed && !c.multi.active && (!c.call.loading || passesOn(c)) &&
		c.confined == 0 && c.call.userMay(cmd, args) && c.scatter.Plan(cmd.Access(), args)
}

// forAll tells whether a command asks all shards.
func (c *client) forAll(cmd *row) bool {
	return c.scatter != nil && cmd != nil && cmd.Run != nil && !c.call.executing && !c.multi.active && c.scatter.AsksAll(cmd.Access())
}

// carryOut carries out the decision on a command that is not only planned.
func (c *client) carryOut(d decision, cmd *row, args [][]byte) {
	switch d {
	case toPlanned:
		return
	case toSlice:
		if !c.call.runLong(cmd, args) {
			c.Command(args)
		}
		return
	case toSkip:
		c.commandUnanswered(args)
		return
	case toWait:
		c.session.Postpone(args)
		return
	case toRefuse:
		c.call.refusedNumber(c.last, args, c.multi.active)
		c.multi.failed = c.multi.active
	case toQueue:
		if text := c.multi.queue(cmd, args); text != "" {
			c.fail(cmd, text)
		} else {
			c.call.items.Out.Status("QUEUED")
		}
	case toRun:
		c.execute(cmd, args)
	}
	c.plain = c.isPlain()
	if c.call.reads != nil && !c.session.LeavingLoop() && !c.multi.active && (c.last == nil || !c.last.Is("client")) {
		c.call.reads.caching = false // CLIENT CACHING holds for one command, or for a transaction
	}
}

// commandUnanswered executes a command whose reply CLIENT REPLY SKIP leaves out, unless the command is CLIENT REPLY ON. Not in a loop: it commits.
func (c *client) commandUnanswered(args [][]byte) {
	if c.session.InLoop() {
		c.session.Postpone(args)
		return
	}
	c.catchUp()
	c.replyMode.BeginSkipped()
	c.Command(args)
	c.catchUp()
	c.replyMode.EndSkipped()
}

// mayWait tells whether a command that is not planned may take a while or wait for something: all do that Redis does
// not call fast, unless they are only queued.
func (c *client) mayWait(cmd *row, args [][]byte) bool {
	if c.confined&command.ConfinedReplica != 0 && len(args) > 1 && resp.EqualFold(args[1], "ACK") {
		return false // of a replica: it is noted, and others may wait for it
	}
	if cmd != nil && cmd.Flags&command.NoAuth != 0 && c.login.guessesWait() {
		return true
	}
	if c.forAll(cmd) || cmd != nil && cmd.Group == "pubsub" && !c.multi.active && c.manyHear(cmd, args) {
		return true
	}
	return cmd != nil && cmd.Plan == nil && cmd.Flags&command.Fast == 0 && (!c.multi.active || cmd.Flags&command.Now != 0)
}

// check finds the subcommand and refuses what must not be executed; then the error has been appended. In a loop it may
// find that the command has to wait.
func (c *client) check(cmd *row, args [][]byte) (*row, bool) {
	if cmd == nil {
		if resp.EqualFold(args[0], "POST") || resp.EqualFold(args[0], "HOST:") {
			// A web page that makes a browser talk to this port: nothing after its headers must be executed.
			c.srv.log.Warn("HTTP request refused, connection closed", "client", c.session.ID())
			c.session.Closing = true
			return nil, false
		}
		c.fail(nil, unknownCommand(c.srv.commands, args))
		return nil, false
	}
	if cmd.Sub != nil && len(args) > 1 {
		sub := cmd.Subcommand(args[1])
		if sub == nil {
			if !c.login.admitted() {
				c.fail(cmd, errNoAuth)
				return nil, false
			}
			c.fail(nil, "ERR unknown subcommand '"+resp.Printable(args[1], 128)+"'. Try "+strings.ToUpper(cmd.Name)+" HELP."+didYouMean(cmd.Suggest(args[1])))
			return nil, false
		}
		cmd = sub
	}
	if !cmd.Takes(args) || cmd.Run == nil && cmd.Plan == nil {
		c.refuse(cmd, cmd.WrongNumber())
		return nil, false
	}
	if cmd.Flags&command.NoAuth == 0 && !c.login.admitted() {
		c.refuse(cmd, errNoAuth)
		return nil, false
	}
	if cmd.Is("exec") && !c.awaitGuesses() {
		return nil, false
	}
	if d := c.denied(cmd, args); d.Reason != acl.Allowed {
		c.refuse(cmd, d.Text(c.login.user.Load(), cmd.Access()))
		return nil, false
	}
	if c.confined != 0 {
		if text := c.confined.Refusal(cmd.Access()); text != "" {
			c.refuse(cmd, text)
			return nil, false
		}
	}
	if c.scatter != nil {
		if text := c.scatter.Refusal(cmd.Access()); text != "" {
			c.refuse(cmd, text)
			return nil, false
		}
	}
	if c.scatter != nil && c.scatter.Abroad(cmd.Access(), c.multi.active) {
		return c.admitToTransaction(cmd, args)
	}
	if c.srv.cluster != nil && !c.awaitServed(cmd, args) {
		return nil, false
	}
	if c.call.loading && cmd.Flags&command.Loading == 0 && !role.NamesHelper(c.srv.role, cmd.Name) {
		c.refuse(cmd, role.Loading(c.srv.role))
		return nil, false
	}
	f := c.multi.flagsOf(cmd)
	if c.srv.cluster != nil && serving.AltersSchema(cmd.Access()) {
		f &^= command.Write // etcd's to take, not this node's
	}
	text, held := c.srv.role.Judge(f, c.info.peer.Load() != nil)
	if text != "" {
		c.refuse(cmd, text)
		return nil, false
	}
	if !held {
		return c.admitToTransaction(cmd, args)
	}
	if c.session.InLoop() {
		c.session.LeaveLoop()
		return nil, false
	}
	c.awaitPauses(f)
	if c.session.Closing {
		return nil, false
	}
	c.call.refreshStore()
	return c.check(cmd, args) // an earlier permission may have ended
}

// admitToTransaction is the last check: it finds commands that a transaction refuses to queue.
func (c *client) admitToTransaction(cmd *row, args [][]byte) (*row, bool) {
	if text := c.multi.refusal(cmd, args); text != "" {
		c.fail(cmd, text)
		return nil, false
	}
	return cmd, true
}

const errNoAuth = "NOAUTH Authentication required."

// refuse is fail for a command that is there. A refused EXEC ends its transaction.
func (c *client) refuse(cmd *row, text string) {
	if cmd.Is("exec") {
		c.multi = transaction{}
		c.srv.watches.Remove(&c.watch)
		text = items.ExecAborted(text)
	}
	c.fail(cmd, text)
}

// fail appends an error reply for a command that was refused before it ran.
func (c *client) fail(cmd *row, text string) {
	size := c.call.items.Out.Len()
	c.call.items.Out.Error(text)
	if cmd != nil {
		cmd.Rejected.Add(1)
	}
	c.srv.stats.ErrorReply(c.call.items.Out.From(size))
}

// unknownCommand is Redis's text, with at most 128 bytes of the name and of the arguments, and behind it what to use
// instead, or the command that was probably meant.
func unknownCommand(t *commands, args [][]byte) string {
	var b strings.Builder
	b.WriteString("ERR unknown command '" + resp.Printable(args[0], 128) + "', with args beginning with: ")
	n := 0
	for _, a := range args[1:] {
		if n >= 128 {
			break
		}
		part := resp.Printable(a, 128-n)
		n += len(part) + 3
		b.WriteString("'" + part + "' ")
	}
	if text := command.Instead(args[0]); text != "" {
		b.WriteString("(" + text + ")")
	} else {
		b.WriteString(strings.TrimPrefix(didYouMean(t.Suggest(args[0])), " "))
	}
	return b.String()
}

// didYouMean is the hint behind the error for an unknown name. It is empty if there is nothing to suggest.
func didYouMean(suggested string) string {
	if suggested == "" {
		return ""
	}
	return " (did you mean " + suggested + "?)"
}

// awaitPauses waits while a pause holds back commands with such flags. It is a place where commands block: see blocking.
func (c *client) awaitPauses(f command.Flags) {
	c.blocking.block(context.Background(), func(ctx context.Context) {
		if !c.srv.role.Unheld(ctx, f, c.info.peer.Load() != nil) {
			c.session.Closing = true // the command was not executed, and will not be
		}
	})
}

// routed says why the node does not take a command; empty: it does. wait is set where that may change in a moment.
func (c *client) routed(st *serving.Standing, cmd *row, args [][]byte) (text string, wait bool) {
	var r serving.Routing
	if cmd.Is("exec") {
		c.multi.route(&c.routing, &r, c.call.knownNames())
	} else {
		c.routing.add(&r, c.call.knownNames(), cmd.Access(), args, c.multi.active)
	}
	return st.Route(c.routing.asker(), &r)
}

// openAdmitted opens the batch for a planned command that was let in, where that is still so with the batch open. Else it waits as
// long as check does; false: it was refused, or is postponed.
func (c *client) openAdmitted(cmd *row, args [][]byte) bool {
	for !c.call.items.Batch.Opened() {
		c.call.items.Batch.Reset()
		if c.call.items.Batch.Begin() != nil { // plan says why
			return true
		}
		if text, held := c.srv.role.Judge(cmd.Flags, false); text == "" && !held {
			if text, _ := c.routed(c.srv.cluster.Now(), cmd, args); text == "" {
				c.call.opened()
				return true
			}
		}
		c.call.items.Batch.End()
		if _, ok := c.check(cmd, args); !ok {
			if c.session.LeavingLoop() {
				c.session.Postpone(args)
			}
			return false
		}
	}
	return true
}

// awaitServed is the check of a cluster: false, and the error was appended, or in a loop the command has to wait. It blocks: see blocking.
func (c *client) awaitServed(cmd *row, args [][]byte) bool {
	var end time.Time
	for {
		st, _ := c.srv.cluster.NowAndNews()
		text, wait := c.routed(st, cmd, args)
		if text == "" {
			return true
		}
		if wait && end.IsZero() {
			if c.session.InLoop() {
				c.session.LeaveLoop()
				return false
			}
			end = time.Now().Add(waitForSlot)
		}
		if !wait || !c.routing.awaitStanding(st, end) {
			if cmd.Is("exec") { // the transaction ends without a word around the error: clients look for the first one
				c.multi = transaction{}
				c.srv.watches.Remove(&c.watch)
			}
			c.fail(cmd, text)
			return false
		}
		if c.session.Closing {
			return false
		}
		c.call.refreshStore()
	}
}

// awaitGuesses waits for the passwords in the queue of EXEC. false: the connection has ended, and nothing is executed.
func (c *client) awaitGuesses() bool {
	passwords := c.multi.passwords
	c.multi.passwords = 0 // they wait once
	c.login.awaitGuesses(passwords)
	c.call.refreshStore()
	return !c.session.Closing
}

// denied tells whether the connection's user may not execute a whole command, and notes it if so.
func (c *client) denied(cmd *row, args [][]byte) acl.Denial {
	return c.login.denied(cmd.Access(), args, c.call.names(), c.multi.active || c.call.executing)
}

// notifyBeforeRead runs the planned operations before a command that reads after changes of its own connection in one
// pipeline. Otherwise those changes would be told behind the read, and drop the key that it has read out of the table. The
// client is told of them before the reply to the read, as in Redis. false: not in a loop.
func (c *client) notifyBeforeRead(cmd *row) bool {
	if cmd == nil || cmd.Plan == nil || cmd.Flags&command.Write != 0 || c.multi.active {
		return true
	}
	if anyChange(c.call.runs) {
		if c.finish(); c.session.LeavingLoop() {
			return false
		}
	}
	// With replies owed it is too early, and where replies are left out, notices among them would be too.
	if len(c.call.items.Owed) == 0 && !c.replyMode.Off() && !c.replyMode.Skipping() {
		c.Notices()
	}
	return true
}
