package server

import (
	"context"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/serving"
	"github.com/counterd/counterd/schema"
)

// routing finds out whether a node of a cluster takes a connection's command now. Package serving knows the slots that a
// node serves, and the nodes of all other slots. That the store has a post's slot is the store's to say in any case
// (counter.NotOwnedError), under its lock.
type routing struct {
	member   *serving.Member // nil: the server is not a node of a cluster
	session  *front.Session
	blocking *blocking

	internal     bool // the connection is a link of another node's, or came by the forward port: see serving.Asker
	link         bool // the connection is a link
	replicaReads bool // READONLY: replicas answer the connection's reads
}

// asker is the part of the connection that the routing depends on.
func (r *routing) asker() serving.Asker {
	return serving.Asker{Internal: r.internal, ReplicaReads: r.replicaReads, Link: r.link, Secure: r.session.Secure()}
}

// serves tells whether the node takes a planned command, as far as a few comparisons can tell: see serving.Standing.Serves.
func (r *routing) serves(cmd *command.Access, args [][]byte) bool {
	return r.member.Now().Serves(r.asker(), cmd, args)
}

// add adds a command to the question of a routing. whole is set for a command of a transaction.
func (r *routing) add(to *serving.Routing, names *schema.Schema, cmd *command.Access, args [][]byte, whole bool) {
	to.Add(r.asker(), names, cmd, args, whole)
}

// unwritten refuses a change where the standing has become another one since the change was let in; empty: it may be made.
// REQUIRES the batch open: see Member.SetStanding.
func (r *routing) unwritten(flags command.Flags) string {
	if r.member == nil || flags&command.Write == 0 {
		return ""
	}
	return r.member.Now().Writes
}

// movedError is the reply to a store's refusal of a slot. A slot that came between the refusal and now is asked for here again:
// then the command waits until the store has it, as others do.
func (r *routing) movedError(of uint16) string {
	v := r.member.Now().View(r.session.Secure())
	text := v.Moved(of)
	if self := v.Map.Nodes[v.Self]; text == route.ErrTryAgain && self != nil {
		text = v.MovedTo(of, self)
	}
	return text
}

// waitForSlot is for how long a command waits for a slot that is on its way: writes are held 500 ms at most.
const waitForSlot = 500 * time.Millisecond

// awaitStanding waits until the standing is another one, and at the end returns false.
func (r *routing) awaitStanding(st *serving.Standing, end time.Time) (news bool) {
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	r.blocking.block(ctx, func(ctx context.Context) {
		now, changed := r.member.NowAndNews()
		if news = now != st; news {
			return
		}
		select {
		case <-changed:
			news = true
		case <-ctx.Done():
		}
	})
	return news
}

// serverMode is the server's mode in INFO and HELLO. Clients of the forward port are to know of no cluster.
func (r *routing) serverMode() string {
	if r.member != nil && r.session.Port() != front.Forward {
		return "cluster"
	}
	return "standalone"
}
