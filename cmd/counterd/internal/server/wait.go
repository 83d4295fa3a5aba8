package server

import (
	"context"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
)

// WAIT and WAITAOF: until when a client knows that what it wrote survives this node. What anybody wrote so far is
// waited for: it is one log.

// maxTimeout is the longest time in milliseconds that is told from for ever: 146 years.
const maxTimeout = int64(1 << 62 / time.Millisecond)

// waitTimeout reads a time in milliseconds, 0 for ever; text is the error.
func waitTimeout(b []byte) (d time.Duration, text string) {
	n, ok := resp.Number(b)
	switch {
	case !ok:
		return 0, "ERR timeout is not an integer or out of range"
	case n < 0:
		return 0, "ERR timeout is negative"
	}
	return time.Duration(min(n, maxTimeout)) * time.Millisecond, ""
}

// await waits until enough says so, the time is over, the connection or the server ends, or the node is no primary any
// more. In a transaction it does not wait. It returns false when the command was answered: by the error of CLIENT
// UNBLOCK.
func (c *client) await(d time.Duration, enough func() bool) bool {
	if enough() || c.multi.executing {
		return true
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	timed := context.Context(ctx)
	if d > 0 {
		var stop func()
		timed, stop = context.WithTimeout(ctx, d)
		defer stop()
	}
	c.unblock.Store(&cancel)
	defer c.unblock.Store(nil)
	c.block(timed, func(ctx context.Context) {
		c.srv.node.Peers().Wait(ctx, func() bool { return enough() || c.srv.store().Replica() })
	})
	if context.Cause(ctx) == errUnblocked {
		c.Out.Error("UNBLOCKED client unblocked via CLIENT UNBLOCK")
		return false
	}
	return true
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

// demoted answers a command that waited when the node became a replica: who acknowledges what is not known here any
// more.
func (c *client) demoted() bool {
	if !c.srv.store().Replica() {
		return false
	}
	c.Out.Error("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")
	c.closed = true
	return true
}

// runWait: WAIT numreplicas timeout.
func runWait(c *client, args [][]byte) {
	if c.srv.store().Replica() {
		c.Out.Error("ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable " +
			"(which is not the default) writes to replicas are just local and are not propagated.")
		return
	}
	n, ok := resp.Number(args[1])
	if !ok {
		c.Out.Error(items.ErrNotInteger)
		return
	}
	d, text := waitTimeout(args[2])
	if text != "" {
		c.Out.Error(text)
		return
	}
	store := c.srv.store()
	if !store.Durable() {
		c.Out.Int(0)
		return
	}
	log := store.Replication()
	offset, have := log.Position(), 0
	if !c.multi.executing { // what EXEC changes is written behind it
		if err := log.Commit(offset); err != nil {
			c.StoreError(err)
			return
		}
	}
	if !c.await(d, func() bool {
		have, _ = c.srv.node.Peers().Count(offset)
		return int64(have) >= n
	}) {
		return
	}
	if int64(have) < n && c.demoted() {
		return
	}
	c.Out.Int(int64(have))
}

// runWaitAOF: WAITAOF numlocal numreplicas timeout.
func runWaitAOF(c *client, args [][]byte) {
	local, ok := resp.Number(args[1])
	n, ok2 := resp.Number(args[2])
	d, text := waitTimeout(args[3])
	store := c.srv.store()
	log := store.Replication()
	switch {
	case !ok:
		c.Out.Error(items.ErrNotInteger)
		return
	case local < 0 || local > 1:
		c.Out.Error("ERR value is out of range, value must between 0 and 1")
		return
	case !ok2 || n < 0:
		c.Out.Error("ERR value is out of range, must be positive")
		return
	case text != "":
		c.Out.Error(text)
		return
	case store.Replica():
		c.Out.Error("ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated.")
		return
	case local > 0 && !store.Durable():
		c.Out.Error("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
		return
	}
	here, there := 0, 0
	if store.Durable() {
		offset := log.Position()
		err := error(nil)
		switch {
		case c.multi.executing: // as above
		case local > 0:
			err = log.Sync()
		default:
			err = log.Commit(offset)
		}
		if err != nil {
			c.StoreError(err)
			return
		}
		if !c.await(d, func() bool {
			here = 0
			if log.Durable() >= offset {
				here = 1
			}
			_, there = c.srv.node.Peers().Count(offset)
			return here >= int(local) && int64(there) >= n
		}) {
			return
		}
		if int64(there) < n && c.demoted() {
			return
		}
	}
	c.Out.Array(2)
	c.Out.Int(int64(here))
	c.Out.Int(int64(there))
}
