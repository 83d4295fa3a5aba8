package server

import (
	"context"
	"errors"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
)

// Where commands block: what WAIT waits for, and pauses, which hold commands back. A connection that waits is away from
// its loop.

// flagsOf are a command's flags; EXEC has those of what it executes.
func (c *client) flagsOf(cmd *row) command.Flags {
	if !cmd.Is("exec") {
		return cmd.Flags
	}
	f := cmd.Flags
	for i := range c.multi.queued {
		q := c.multi.queued[i].cmd.Flags
		f |= q & command.Write
		f &= q | ^(command.Loading | command.Stale)
	}
	return f
}

// unheld waits while a pause holds back commands with such flags. It is a place where commands block: see block.
func (c *client) unheld(f command.Flags) {
	c.block(context.Background(), func(ctx context.Context) {
		if !c.srv.node.Unheld(ctx, f, c.peer.Load() != nil) {
			c.session.Closing = true // the command was not executed, and will not be
		}
	})
}

// Why a wait ended early: causes of its context.
var (
	errUnblocked = errors.New("unblocked by CLIENT UNBLOCK")
	errTimeUp    = errors.New("unblocked by CLIENT UNBLOCK as if its time were over")
)

// block runs wait, which may take its time: see front.Session.Block.
func (c *client) block(ctx context.Context, wait func(ctx context.Context)) {
	c.waited += c.session.Block(ctx, wait)
}

// interrupt ends the wait of c as CLIENT UNBLOCK does; false if it does not wait, or another one has ended it.
func (c *client) interrupt(cause error) bool {
	cancel := c.unblock.Load()
	if cancel == nil || !c.unblock.CompareAndSwap(cancel, nil) {
		return false
	}
	(*cancel)(cause)
	return true
}
