package role

import (
	"context"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
)

// WAIT and WAITAOF: until when a client knows that what it wrote survives this node. It waits for the changes of all
// clients so far: there is one log.

// ackWaiter runs WAIT and WAITAOF. It sees the store and the replicas, and nothing else of the node.
type ackWaiter struct {
	host  Host
	peers *repl.Peers
}

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
func (w *ackWaiter) await(c Conn, d time.Duration, enough func() bool) bool {
	if enough() || c.Executing() {
		return true
	}
	if c.Await(d, func(ctx context.Context) {
		w.peers.Wait(ctx, func() bool { return enough() || w.host.Store().Replica() })
	}) {
		c.Call().Out.Error("UNBLOCKED client unblocked via CLIENT UNBLOCK")
		return false
	}
	return true
}

// demoted answers a command that waited when the node became a replica: the node no longer knows which replicas
// acknowledge which changes.
func (w *ackWaiter) demoted(c Conn) bool {
	if !w.host.Store().Replica() {
		return false
	}
	c.Call().Out.Error("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")
	c.CloseConnection()
	return true
}

// wait: WAIT numreplicas timeout.
func (w *ackWaiter) wait(c Conn, args [][]byte) {
	out := &c.Call().Out
	if w.host.Store().Replica() {
		out.Error("ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured to be writable " +
			"(which is not the default) writes to replicas are just local and are not propagated.")
		return
	}
	want, ok := resp.Number(args[1])
	if !ok {
		out.Error(items.ErrNotInteger)
		return
	}
	d, text := waitTimeout(args[2])
	if text != "" {
		out.Error(text)
		return
	}
	store := w.host.Store()
	if !store.Durable() {
		out.Int(0)
		return
	}
	log := store.Replication()
	offset, have := log.Position(), 0
	if !c.Executing() { // the changes of EXEC are written after it
		if err := log.CommitHere(offset); err != nil {
			c.Call().StoreError(err)
			return
		}
	}
	if !w.await(c, d, func() bool {
		have, _ = w.peers.Count(offset)
		return int64(have) >= want
	}) {
		return
	}
	if int64(have) < want && w.demoted(c) {
		return
	}
	out.Int(int64(have))
}

// waitAOF: WAITAOF numlocal numreplicas timeout.
func (w *ackWaiter) waitAOF(c Conn, args [][]byte) {
	out := &c.Call().Out
	local, ok := resp.Number(args[1])
	want, ok2 := resp.Number(args[2])
	d, text := waitTimeout(args[3])
	store := w.host.Store()
	log := store.Replication()
	switch {
	case !ok:
		out.Error(items.ErrNotInteger)
		return
	case local < 0 || local > 1:
		out.Error("ERR value is out of range, value must between 0 and 1")
		return
	case !ok2 || want < 0:
		out.Error("ERR value is out of range, must be positive")
		return
	case text != "":
		out.Error(text)
		return
	case store.Replica():
		out.Error("ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and are not propagated.")
		return
	case local > 0 && !store.Durable():
		out.Error("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
		return
	}
	here, there := 0, 0
	if store.Durable() {
		offset := log.Position()
		err := error(nil)
		switch {
		case c.Executing(): // as above
		case local > 0:
			err = log.Sync()
		default:
			err = log.CommitHere(offset)
		}
		if err != nil {
			c.Call().StoreError(err)
			return
		}
		if !w.await(c, d, func() bool {
			here = 0
			if log.Durable() >= offset {
				here = 1
			}
			_, there = w.peers.Count(offset)
			return here >= int(local) && int64(there) >= want
		}) {
			return
		}
		if int64(there) < want && w.demoted(c) {
			return
		}
	}
	out.Array(2)
	out.Int(int64(here))
	out.Int(int64(there))
}
