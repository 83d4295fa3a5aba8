package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"runtime"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/admin"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/dataset"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/feed"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/serving"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// newClient makes the client of a connection that came by a port.
func newClient(srv *shared, trusted bool, port front.Port) *front.Session {
	c := &client{srv: srv}
	s := &c.session
	c.blocking.session, c.replyMode = s, front.NewReplyMode(s)
	c.login = login{authed: trusted, users: srv.users, guesses: srv.guesses, denials: &srv.denials, session: s, blocking: &c.blocking}
	c.login.describe = func() string {
		c.publish(0) // the command that the connection is at
		return c.info.line()
	}
	c.login.user.Store(srv.users.Default())
	c.routing = routing{member: srv.cluster, session: s, blocking: &c.blocking, internal: port == front.Forward}
	c.call = call{srv: srv, session: s, info: &c.info, login: &c.login, routing: &c.routing}
	c.subscriber = subscriber{registry: &srv.pubsub, monitors: &srv.monitors, stats: &srv.stats, log: srv.log, session: s, out: &c.call.items.Out, confined: &c.confined}
	c.tracker.keys, c.tracker.session = &srv.tracking, s
	c.info.session, c.info.login, c.info.subscriber, c.info.tracker, c.info.watch = s, &c.login, &c.subscriber, &c.tracker, &c.watch
	if port == front.Readonly {
		c.info.readonly, c.confined = true, command.ConfinedReader
	} else if srv.shards != nil {
		c.scatter = scatter.New(scatterConn{c}, &c.call.items, srv.shards, port == front.Forward)
	}
	if srv.cluster != nil {
		c.call.items.Elsewhere = c.routing.movedError
	}
	s.Bind(c, &c.call.items.Out)
	c.call.adoptStore()
	c.subscriber.setProtocol(2)
	return s
}

// datasetConn is a call as package dataset sees it.
type datasetConn struct {
	c        *call
	internal bool // it does not look for keys itself
}

var _ dataset.Conn = datasetConn{}

// onDataset gives the commands on all data what they work on.
func onDataset(h front.Handler) dataset.Conn {
	c := h.(*client)
	return datasetConn{&c.call, c.routing.internal}
}

func (c datasetConn) Call() *items.Call     { return &c.c.items }
func (c datasetConn) Store() *counter.Store { return c.c.srv.store() }
func (c datasetConn) Executing() bool       { return c.c.executing }
func (c datasetConn) TouchRange(def *schema.Counter, from, to uint64) {
	c.c.srv.touchedRange(def, from, to)
}
func (c datasetConn) TouchAll()         { c.c.srv.touchedAll() }
func (c datasetConn) Log() *slog.Logger { return c.c.srv.log.With("client", c.c.session.ID()) }

func (c datasetConn) WithStore(exclusive bool, f func(b *counter.Batch) error) error {
	return c.c.withStore(exclusive, f)
}

// AppendKey has the mid in braces on a node of a cluster, so that clients look for it where it is.
func (c datasetConn) AppendKey(dst []byte, sch *schema.Schema, def *schema.Counter, col int, mid uint64) []byte {
	if c.c.srv.cluster != nil && !c.internal {
		return sch.AppendTagged(dst, def, col, mid)
	}
	return sch.AppendKey(dst, def, col, mid)
}

// AlterCluster waits for etcd, and for the primaries of all shards. On a replica too: the schema is the cluster's.
func (c datasetConn) AlterCluster(statement string) (done bool, err error) {
	if c.c.srv.cluster == nil {
		return false, nil
	}
	if c.c.srv.cluster.Hooks().Alter == nil {
		return true, items.Refusal(route.ErrDown)
	}
	err = context.Canceled
	c.c.session.Block(context.Background(), func(ctx context.Context) { err = c.c.srv.cluster.Hooks().Alter(ctx, statement) })
	if err == nil {
		c.Log().Info("schema of the cluster changed", "statement", statement)
	}
	return true, err
}

func (c datasetConn) GiveWay() { c.c.srv.front.GiveWay() }

// Busy has as many at work at once as there are turns for queries: each may hold 100,000 keys.
func (c datasetConn) Busy(work func(ctx context.Context)) {
	done := false
	c.c.session.Busy(func(ctx context.Context) {
		select {
		case c.c.srv.walks <- struct{}{}:
			defer func() { <-c.c.srv.walks }()
			work(ctx)
			done = ctx.Err() == nil
		case <-ctx.Done():
		}
	})
	if !done {
		c.c.session.Closing = true
	}
}

// adminConn is a connection as package admin sees it.
type adminConn struct{ c *client }

func onAdmin(h front.Handler) admin.Conn { return adminConn{h.(*client)} }

func (a adminConn) Call() *items.Call     { return &a.c.call.items }
func (a adminConn) ID() int64             { return a.c.session.ID() }
func (a adminConn) WrongNumber() string   { return a.c.executed.WrongNumber() }
func (a adminConn) CloseConnection()      { a.c.session.Closing = true }
func (a adminConn) Server() *admin.Server { return &a.c.srv.admin }

func (a adminConn) WithStore(exclusive bool, f func(b *counter.Batch) error) error {
	return a.c.call.withStore(exclusive, f)
}

// nodeConn is a connection as package role sees it.
type nodeConn struct{ c *client }

var _ role.PeerConn = nodeConn{}

// onNode gives the commands of replication what they work on.
func onNode(h front.Handler) (*role.Role, role.PeerConn) {
	c := h.(*client)
	return c.srv.role, nodeConn{c}
}

func (c nodeConn) Call() *items.Call   { return &c.c.call.items }
func (c nodeConn) LocalAddr() net.Addr { return c.c.session.Conn().LocalAddr() }
func (c nodeConn) Executing() bool     { return c.c.call.executing }
func (c nodeConn) CloseConnection()    { c.c.session.Closing = true }
func (c nodeConn) Peer() *repl.Peer    { return c.c.info.peer.Load() }
func (c nodeConn) Shared() bool        { return c.c.subscriber.outbox.Started() || c.c.replyMode.Off() }
func (c nodeConn) Confine()            { c.c.confined |= command.ConfinedReplica }
func (c nodeConn) Raw() io.Writer      { return &c.c.session }
func (c nodeConn) Send() error         { return c.c.session.Send() }
func (c nodeConn) Socket() net.Conn    { return c.c.session.Conn() }

func (c nodeConn) SetPeer(p *repl.Peer) {
	c.c.info.peer.Store(p)
	c.c.session.Share()
}

func (c nodeConn) Name() string {
	name, _, _ := c.c.info.names()
	return name
}

// Await lets CLIENT UNBLOCK end the wait.
func (c nodeConn) Await(d time.Duration, wait func(ctx context.Context)) (unblocked bool) {
	return c.c.blocking.blockFor(d, wait)
}

// SendAway closes connections as CLIENT KILL does by TYPE normal and pubsub.
func (c nodeConn) SendAway(named func(name string) bool) (n int) {
	for _, k := range c.c.srv.connected() {
		if kind := k.info.kind(); k != c.c && (kind == "normal" || kind == "pubsub") && named(nodeConn{k}.Name()) {
			k.session.Conn().Close()
			n++
		}
	}
	return n
}

// scatterConn is a connection as package scatter sees it.
type scatterConn struct{ c *client }

var _ scatter.Conn = scatterConn{}

func (s scatterConn) ID() int64                    { return s.c.session.ID() }
func (s scatterConn) Lane() int                    { return s.c.session.Lane() }
func (s scatterConn) MayHold() bool                { return s.c.session.MayHoldReplies() }
func (s scatterConn) Hold()                        { s.c.session.HoldReplies() }
func (s scatterConn) Resume()                      { s.c.session.Resume() }
func (s scatterConn) Settle() bool                 { return settle(&s.c.call) }
func (s scatterConn) InLoop() bool                 { return s.c.session.InLoop() }
func (s scatterConn) LeaveLoop()                   { s.c.session.LeaveLoop() }
func (s scatterConn) Schema() *schema.Schema       { return s.c.call.names() }
func (s scatterConn) Lets(f command.Flags) bool    { return !s.c.call.loading && s.c.srv.role.Lets(f) }
func (s scatterConn) Owned() slot.Set              { return s.c.call.store.Groups().Owned() }
func (s scatterConn) Tracks() bool                 { return s.c.call.reads != nil }
func (s scatterConn) Run()                         { s.c.call.flush() }
func (s scatterConn) Numbers() *idmp.Sequence      { return &s.c.call.numbers }
func (s scatterConn) ErrorReply(reply []byte)      { s.c.srv.stats.ErrorReply(reply) }
func (s scatterConn) row(cmd *command.Access) *row { return s.c.srv.commands.Row(cmd) }

func (s scatterConn) Command(name string) *command.Access {
	return s.c.srv.commands.Find([]byte(name)).Access()
}

func (s scatterConn) Serves(cmd *command.Access) bool {
	return s.Lets(cmd.Flags) && s.c.call.openServed(s.row(cmd), nil)
}

func (s scatterConn) Refusal(cmd *command.Access, args [][]byte) string {
	text, _ := s.c.routed(s.c.srv.cluster.Now(), s.row(cmd), args)
	return text
}

func (s scatterConn) Plan(cmd *command.Access, args [][]byte) { s.c.call.plan(s.row(cmd), args) }
func (s scatterConn) PlanEach(cmd *command.Access, keys [][]byte) {
	planEach(&s.c.call, s.row(cmd), keys)
}

func (s scatterConn) Observed() bool {
	return s.c.call.reads != nil || s.c.srv.monitors.n.Load() > 0
}

func (s scatterConn) PlanRows(cmd *command.Access, counter []byte, mids []uint64, groups []uint8, packed bool) {
	c := &s.c.call
	countRun(c, s.row(cmd), 1)
	if c.items.PlanRows(counter, mids, groups, packed); full(&c.items) {
		c.flush()
	}
}

func (s scatterConn) Execute(cmd *command.Access, args [][]byte) { s.row(cmd).Run(s.c, args) }

func (s scatterConn) Number(num *idmp.Number, cmd *command.Access, args [][]byte) (rest [][]byte, text string) {
	return s.c.call.number(num, s.row(cmd), args)
}

func (s scatterConn) Uncommitted() (from int, pending bool) {
	return s.c.call.unsure, s.c.call.ack.Pending()
}

func (s scatterConn) Commit() error { return s.c.call.commitDeferred() }

func (s scatterConn) Account(cmd *command.Access, n int, took time.Duration) {
	s.row(cmd).Account(s.c.session.Lane(), int64(n), took)
}

func (s scatterConn) Failed(cmd *command.Access, reply []byte) { s.c.call.failed(s.row(cmd), reply) }

// settle does the part of a commit that a loop can do. false: the rest is waited for, in the loop or out of it. Behind it the session may be out of its
// loop, where commitDeferred may wait.
func settle(c *call) bool {
	if !c.ack.Pending() {
		return true
	}
	if c.session.InLoop() && c.ack.WaitsHere() {
		c.session.LeaveLoop()
		return false
	}
	c.session.BeginDiskWait()
	c.ack.Write()
	c.session.EndDiskWait()
	if c.session.InLoop() {
		if c.session.MayHoldReplies() && c.ack.Await(c.session) {
			c.session.HoldReplies()
			return false
		}
		if c.ack.Waits() {
			c.session.LeaveLoop()
			return false
		}
	}
	return true
}

// memberConn is a connection as package serving sees it.
type memberConn struct{ c *client }

func onMember(h front.Handler) serving.Conn { return memberConn{h.(*client)} }

func (m memberConn) Call() *items.Call        { return &m.c.call.items }
func (m memberConn) Member() *serving.Member  { return m.c.srv.cluster }
func (m memberConn) Secure() bool             { return m.c.session.Secure() }
func (m memberConn) SetReplicaReads(yes bool) { m.c.routing.replicaReads = yes }
func (m memberConn) CloseConnection()         { m.c.session.Closing = true }

func (m memberConn) Block(wait func(ctx context.Context)) {
	m.c.blocking.block(context.Background(), wait)
}

// errGone says that the client has gone: nobody reads the answer.
var errGone = errors.New("the connection has ended")

// EachKey calls f with the keys of posts in a slot, most of them at most. It takes turns with other walks, in steps.
func (m memberConn) EachKey(of uint16, most int, f func(key []byte)) error {
	if most == 0 {
		return nil
	}
	c := m.c
	conn := datasetConn{&c.call, c.routing.internal}
	step := func(cursor uint64) (next uint64, err error) {
		err = c.call.withStore(false, func(b *counter.Batch) error {
			var list []counter.ScanItem
			list, next, err = counter.NewReader(b).Scan(nil, cursor, slotStep)
			for _, it := range list {
				if slot.Of(it.Mid) == of && most > 0 {
					f(conn.AppendKey(nil, b.Schema(), it.Counter, schema.WholeItem, it.Mid))
					most--
				}
			}
			return err
		})
		return next, err
	}
	if c.call.executing {
		return errSlotHeld
	}
	err := errGone
	conn.Busy(func(ctx context.Context) {
		cursor, ends := uint64(0), func(uint64) bool { return false }
		if group := slot.GroupOf(of); c.call.store.SlotGroups() { // its posts stand together
			cursor = slot.Least(group, 0)
			ends = func(cursor uint64) bool { return slot.Group(cursor) != group }
		}
		for {
			if cursor, err = step(cursor); err != nil || cursor == 0 || ends(cursor&math.MaxInt64) || most == 0 || ctx.Err() != nil {
				return
			}
			runtime.Gosched() // or it would keep a processor for 10 ms at a time
		}
	})
	return err
}

// slotStep is how many posts are looked at before others have their turn.
const slotStep = 1000

var errSlotHeld = items.Refusal("ERR posts of a hash slot are not looked for in a transaction, which keeps others waiting")

// feedConn is a client as COUNTER.FEED sees it, for one command.
type feedConn struct{ c *client }

var _ feed.Conn = feedConn{}

// onFeed is the connection that COUNTER.FEED works on.
func onFeed(h front.Handler) feed.Conn { return feedConn{h.(*client)} }

func (f feedConn) Call() *items.Call     { return &f.c.call.items }
func (f feedConn) Store() *counter.Store { return f.c.srv.store() }
func (f feedConn) GiveWay()              { f.c.srv.front.GiveWay() }
func (f feedConn) Hurry()                { f.c.srv.role.Peers().Hurry() }

func (f feedConn) WithStore(exclusive bool, do func(b *counter.Batch) error) error {
	return f.c.call.withStore(exclusive, do)
}

// errSafeReplica answers SAFE on a replica, which does not know what others have.
const errSafeReplica = items.Refusal("ERR SAFE is answered by a primary only: a replica does not know what other replicas have acknowledged")

func (f feedConn) Safe(replicas int) (offset uint64, err error) {
	peers := f.c.srv.role.Peers()
	offset = peers.Safe()
	if replicas == 0 {
		return offset, nil
	}
	if f.c.srv.store().Replica() {
		return 0, errSafeReplica
	}
	return min(offset, peers.Have(replicas)), nil
}

// Busy ends the connection if the client has gone.
func (f feedConn) Busy(work func(ctx context.Context)) {
	done := false
	f.c.session.Busy(func(ctx context.Context) {
		work(ctx)
		done = ctx.Err() == nil
	})
	if !done {
		f.c.session.Closing = true
	}
}

// Turn takes one of the places of queries, so that a loop always finds a processor, and rests as they do.
func (f feedConn) Turn(ctx context.Context, work func()) {
	select {
	case f.c.srv.queries <- struct{}{}:
		defer func() { <-f.c.srv.queries }()
		began := time.Now()
		work()
		now := time.Now()
		time.Sleep(f.c.rests.next(f.c.srv.pace.rest(now, f.c.srv.stats.InBytes.Load(), now.Sub(began))))
	case <-ctx.Done():
	}
}

// Await lets CLIENT UNBLOCK end the wait.
func (f feedConn) Await(d time.Duration, wait func(ctx context.Context)) (unblocked bool) {
	f.c.rests.wait() // to wait is to rest
	return f.c.blocking.blockFor(d, wait)
}
