package server

import (
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// Which commands are executed, and in which words others are refused.

// mayWait tells whether a command that is not planned may take a while or wait for something: all do that Redis does
// not call fast, unless they are only queued.
func (c *client) mayWait(cmd *row, args [][]byte) bool {
	if c.confined&confinedReplica != 0 && len(args) > 1 && resp.EqualFold(args[1], "ACK") {
		return false // of a replica: it is noted, and others may wait for it
	}
	if cmd != nil && cmd.Flags&command.NoAuth != 0 && (c.failures >= freeFailures || c.srv.guesses.Waits(c.info.ip())) {
		return true
	}
	if c.forAll(cmd) {
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
			c.srv.log.Warn("HTTP request refused, connection closed", "client", c.ID())
			c.Closing = true
			return nil, false
		}
		c.fail(nil, unknownCommand(c.srv.commands, args))
		return nil, false
	}
	if cmd.Sub != nil && len(args) > 1 {
		sub := cmd.Subcommand(args[1])
		if sub == nil {
			if !c.admitted() {
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
	if cmd.Flags&command.NoAuth == 0 && !c.admitted() {
		c.refuse(cmd, errNoAuth)
		return nil, false
	}
	if cmd.Is("exec") && c.multi.passwords > 0 && !c.awaitGuesses() {
		return nil, false
	}
	if d := c.denied(cmd, args); d.Reason != acl.Allowed {
		c.refuse(cmd, d.Text(c.user.Load(), cmd.Access()))
		return nil, false
	}
	if c.confined != 0 {
		if text := c.confinedText(cmd); text != "" {
			c.refuse(cmd, text)
			return nil, false
		}
	}
	if c.far != nil && c.far.forward {
		if text := forwardText(cmd); text != "" {
			c.refuse(cmd, text)
			return nil, false
		}
	}
	if c.abroad(cmd) {
		return c.checkMulti(cmd, args)
	}
	if c.srv.cluster != nil && !c.here(cmd, args) {
		return nil, false
	}
	if c.loading && cmd.Flags&command.Loading == 0 {
		c.refuse(cmd, items.ErrLoading)
		return nil, false
	}
	f := c.flagsOf(cmd)
	if c.srv.cluster != nil && altersSchema(cmd) {
		f &^= command.Write // etcd's to take, not this node's
	}
	text, held := c.srv.node.Judge(f, c.peer.Load() != nil)
	if text != "" {
		c.refuse(cmd, text)
		return nil, false
	}
	if !held {
		return c.checkMulti(cmd, args)
	}
	if c.InLoop() {
		c.Leave()
		return nil, false
	}
	c.unheld(f)
	if c.Closing {
		return nil, false
	}
	if c.loading || c.store != c.srv.current.Load() {
		c.begin()
	}
	return c.check(cmd, args) // what was allowed before may not be now
}

// checkMulti is the last check.
func (c *client) checkMulti(cmd *row, args [][]byte) (*row, bool) {
	if c.multi.active && cmd.Flags&command.NoMulti != 0 {
		c.fail(cmd, "ERR Command not allowed inside a transaction")
		return nil, false
	}
	if c.multi.active && cmd.Flags&command.Idmp != 0 && cmd.Flags&command.Now == 0 && idmp.TailLen(args) > 0 {
		c.fail(cmd, "ERR IDMP: in a transaction EXEC takes the number")
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
		text = execAborted(text)
	}
	c.fail(cmd, text)
}

// fail appends an error reply for a command that was refused before it ran.
func (c *client) fail(cmd *row, text string) {
	size := c.Out.Len()
	c.Out.Error(text)
	if cmd != nil {
		cmd.Rejected.Add(1)
	}
	c.srv.stats.ErrorReply(c.Out.From(size))
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
