package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
)

// Why a wait ended early: causes of its context.
var (
	errUnblocked = errors.New("unblocked by CLIENT UNBLOCK")
	errTimeUp    = errors.New("unblocked by CLIENT UNBLOCK as if its time were over")
)

// blocking is how commands of a connection block: for WAIT, for a pause, for a hash slot that is on its way. A connection
// that waits is away from its loop. Only unblock may be called by other goroutines.
type blocking struct {
	session *front.Session
	waited  time.Duration                           // for how long the command being executed was blocked: the server did not work for it then
	cancel  atomic.Pointer[context.CancelCauseFunc] // ends the wait of WAIT or WAITAOF; nil: the connection is in neither
}

// block runs wait, which may take its time: see front.Session.Block.
func (b *blocking) block(ctx context.Context, wait func(ctx context.Context)) {
	b.waited += b.session.Block(ctx, wait)
}

// blockFor is block for WAIT and WAITAOF, for a time d, or without an end if d is 0. Others may end the wait: unblock.
func (b *blocking) blockFor(d time.Duration, wait func(ctx context.Context)) (unblocked bool) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	timed := context.Context(ctx)
	if d > 0 {
		var stop func()
		timed, stop = context.WithTimeout(ctx, d)
		defer stop()
	}
	b.cancel.Store(&cancel)
	defer b.cancel.Store(nil)
	b.block(timed, wait)
	return context.Cause(ctx) == errUnblocked
}

// unblock ends the wait as CLIENT UNBLOCK does. It returns false if the connection does not wait, or if another call has
// ended the wait.
func (b *blocking) unblock(cause error) bool {
	cancel := b.cancel.Load()
	if cancel == nil || !b.cancel.CompareAndSwap(cancel, nil) {
		return false
	}
	(*cancel)(cause)
	return true
}
