package feed

import (
	"context"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/counter"
)

// Conn is the part of a connection that the command uses. It is for the goroutine that executes the command.
type Conn interface {
	// Call has its replies.
	Call() *items.Call
	// Store is the one being served.
	Store() *counter.Store
	// WithStore calls f with an open batch. The reply comes behind it.
	WithStore(exclusive bool, f func(b *counter.Batch) error) error
	// Safe is the log offset up to which changes may be shown, and with replicas above 0 that many have acknowledged. The error is
	// for the client.
	Safe(replicas int) (offset uint64, err error)
	// Hurry has Safe grow soon on a replica, to where its log is durable.
	Hurry()
	// Busy runs work that may take its time. Its ctx ends with the client, and then the connection does.
	Busy(work func(ctx context.Context))
	// Turn runs work that reads the log, within Busy or Await, few at once: not if ctx is done before it is this one's turn.
	Turn(ctx context.Context, work func())
	// Await runs wait for a time d at most, or without an end if d is 0. Its ctx ends with the client, too. unblocked: CLIENT
	// UNBLOCK ... ERROR ended it.
	Await(d time.Duration, wait func(ctx context.Context)) (unblocked bool)
	// GiveWay lets others have their turn. A command that works for long calls it between two turns.
	GiveWay()
}
