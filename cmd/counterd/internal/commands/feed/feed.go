package feed

import (
	"context"
	"errors"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/persist/format"
)

// Commands are the rows of the commands, for a table whose handlers see a C: on gives the handler its Conn.
func Commands[C any](on func(C) Conn) []*command.Row[C] {
	cursor := command.Container(func(c C) *resp.Replies { return &on(c).Call().Out }, "counter.cursor", "counterd", "0.1.0",
		"A container for commands about named cursors of the feed of changes.", cursorRows(on)...)
	return []*command.Row[C]{cursor, {Name: "counter.feed", Arity: -3, Flags: command.ReadOnly | command.NoMulti | command.Blocking | command.NoScript, Group: "counterd", Since: "0.1.0",
		Complexity: "O(N) in the log that is read", Summary: "Returns the changes behind a position, in the order of the log.",
		Syntax: "FROM position [COUNT count] [BLOCK milliseconds] [SAFE replicas] [COUNTERS counter [counter ...]] [COLUMNS column [column ...]] [MID operator mid [AND MID operator mid ...]] [LATEST] [WITH OLD]",
		Asks:   asks, Run: func(c C, args [][]byte) { run(on(c), args) }}}
}

const (
	maxReply   = 1 << 20   // bytes of a reply, but for its last change
	largeReply = 16 << 10  // bytes of a reply for which connections keep no memory
	maxRead    = 256 << 20 // bytes of log that a call reads
	maxStep    = 1 << 20   // bytes of log between two turns
	perTurn    = 1024      // changes between two turns: 0.2 ms
	lookAt     = 5 * time.Millisecond
	lookLast   = 100 * time.Millisecond // the longest time between two looks: one is 10 us, and thousands of clients may wait for hours
	lookRole   = time.Second            // between two looks of a waiting client whether its node is still a replica
	settle     = 5 * time.Second        // for which NOW, OLDEST and POSGONE wait for a position that is safe
)

// Errors of feeds, whose second word is a position to go on from, or - if there is none.
const (
	errGone    = "POSGONE "
	errHistory = "POSHISTORY "
)

// call is the execution of one command.
type call struct {
	conn  Conn
	req   request
	store *counter.Store
	feed  *counter.Feed

	changes *changes             // of the reply
	behind  counter.FeedPosition // of the reply
	read    uint64               // bytes of log
	over    bool                 // nothing more goes into the reply
}

// run is COUNTER.FEED.
func run(conn Conn, args [][]byte) {
	store := conn.Store()
	req, err := parse(store.Schema(), args[1:])
	if err != nil {
		conn.Call().StoreError(err)
		return
	}
	c := &call{conn: conn, req: req, store: store, changes: newChanges(conn.Call().Out.Protocol(), req.filter.Old)}
	defer c.changes.done()
	defer func() {
		if c.feed != nil {
			_ = c.feed.Close() // it was only read
		}
	}()
	safe := uint64(0)
	if !req.now && !req.oldest && store.Feeds().Kept(req.from) { // else the log is read for the error, which others do not wait for
		if err = c.open(); err == nil {
			safe, err = c.safe()
		}
	}
	if err == nil && (c.feed == nil || safe > c.behind.Offset()) { // a client that follows the feed has read everything: to be busy would cost more than to look
		err = c.busy()
	}
	if err == nil && req.blocks && c.empty() && c.feed != nil {
		unblocked := conn.Await(req.block, func(ctx context.Context) { err = c.wait(ctx) })
		if unblocked {
			conn.Call().Out.Error("UNBLOCKED client unblocked via CLIENT UNBLOCK")
			return
		}
	}
	if gone, ok := errors.AsType[*counter.FeedGoneError](err); ok {
		conn.Busy(func(ctx context.Context) {
			if unsafe := c.safeAt(ctx, &gone.Oldest); unsafe != nil {
				err = unsafe
			}
		})
	}
	if err != nil {
		fail(conn, err)
		return
	}
	c.reply()
}

// busy reads the changes that are there.
func (c *call) busy() (err error) {
	err = context.Canceled // as long as it is not its turn: there is no position to answer
	c.conn.Busy(func(ctx context.Context) {
		if err = nil; c.req.now {
			c.req.from, err = c.now(ctx)
		}
		if err == nil && c.feed == nil {
			err = context.Canceled
			c.conn.Turn(ctx, func() { err = c.open() })
		}
		if err == nil && c.req.oldest {
			err = c.safeAt(ctx, &c.behind)
		}
		if err != nil {
			return
		}
		var safe uint64
		if safe, err = c.safe(); err == nil {
			err = c.collect(ctx, safe)
		}
	})
	return err
}

// errChanged says that another store is served by now, so the safe offset is not this one's.
const errChanged = items.Refusal(items.ErrLoading)

// safe is the offset up to which this store's changes may be shown.
func (c *call) safe() (uint64, error) {
	safe, err := c.conn.Safe(c.req.replicas)
	if err == nil && c.conn.Store() != c.store {
		err = errChanged
	}
	return safe, err
}

// open opens the feed at the position that is asked for.
func (c *call) open() (err error) {
	feeds, from := c.store.Feeds(), c.req.from
	if c.req.oldest {
		from, err = feeds.Oldest()
	}
	if err == nil {
		c.feed, err = feeds.Open(from, c.req.filter)
	}
	c.behind = from
	return err
}

// now is the position of now. A primary's is behind all changes that were acknowledged before: its log is synced up to them.
func (c *call) now(ctx context.Context) (p counter.FeedPosition, err error) {
	if log := c.store.Replication(); log.Written() > log.Durable() && !c.store.Replica() {
		_ = log.Sync() // where the disk fails, the position is the safe one
	}
	err = c.settled(ctx, func(safe uint64) error {
		p, err = c.store.Feeds().Now(safe)
		return err
	})
	return p, err
}

// safeAt waits until a position is safe that a consumer is to go on from without having seen the changes before it. A log may begin behind the
// safe offset, as it is kept from a snapshot on: a failover takes its beginning back, and the consumer would be told that it has seen changes
// which were taken back.
func (c *call) safeAt(ctx context.Context, p *counter.FeedPosition) error {
	return c.settled(ctx, func(safe uint64) error {
		if safe < p.Offset() {
			return counter.ErrFeedUnsettled
		}
		return nil
	})
}

// settled tries again, for some seconds, as long as it is not known how far the log is safe. Then the log is synced: under appendfsync
// everysec that may be due in a second only. It waits without a turn, perhaps for a replica: queries go on meanwhile.
func (c *call) settled(ctx context.Context, try func(safe uint64) error) error {
	ctx, cancel := context.WithTimeout(ctx, settle)
	defer cancel()
	pause := lookAt
	for synced := false; ; synced = true {
		safe, err := c.safe()
		if err != nil {
			return err
		}
		if err = try(safe); !errors.Is(err, counter.ErrFeedUnsettled) || synced && !nap(ctx, &pause) {
			return err
		}
		if !synced {
			if err := c.store.Replication().Sync(); err != nil {
				return err
			}
		}
		c.conn.Hurry()
	}
}

// nap waits for a pause, and doubles the next one up to lookLast. It is false where ctx ends.
func nap(ctx context.Context, pause *time.Duration) bool {
	d := *pause
	*pause = min(2*d, lookLast)
	return sleep.For(ctx, d)
}

// empty tells whether the reply has no changes yet.
func (c *call) empty() bool { return c.changes.n == 0 && c.changes.latest.Len() == 0 }

// collect reads the changes up to the safe offset, in turns.
func (c *call) collect(ctx context.Context, safe uint64) (err error) {
	for more := true; more && err == nil && ctx.Err() == nil; c.conn.GiveWay() {
		c.conn.Turn(ctx, func() { more, err = c.step(safe) })
	}
	return err
}

// step reads for one turn. It tells whether there may be more for this reply.
func (c *call) step(safe uint64) (more bool, err error) {
	for range perTurn {
		if c.full() {
			return false, nil
		}
		from := c.feed.Offset()
		change, err := c.feed.Next(safe, maxStep)
		if err != nil {
			if !c.empty() { // the next call comes here again
				c.over = true
				return false, nil
			}
			return false, err
		}
		read := c.feed.Offset() - from
		c.read += read
		if change == nil {
			c.behind = c.feed.Position()
			return read > 0, nil
		}
		if c.add(change) {
			c.behind = change.Position
		}
	}
	return true, nil
}

// full tells whether nothing more is to be read.
func (c *call) full() bool {
	return c.over || c.changes.n+c.changes.latest.Len() >= c.req.count || c.changes.out.Len() >= maxReply || c.read >= maxRead
}

// add puts a change into the reply. It is false where the change has to wait for the next one.
func (c *call) add(change *counter.FeedChange) bool {
	if !c.req.latest {
		c.changes.add(change)
		return true
	}
	if c.changes.latest.Takes(change) {
		c.changes.latest.Add(change)
		return true
	}
	if c.over = true; c.changes.latest.Len() > 0 {
		return false
	}
	c.changes.add(change)
	return true
}

// wait waits for changes, and reads them in turns.
func (c *call) wait(ctx context.Context) error {
	for pause := lookAt; ctx.Err() == nil; {
		at := c.behind.Offset()
		safe, err := c.safe()
		if err != nil {
			return err
		}
		if safe > at {
			c.read = 0
			if err := c.collect(ctx, safe); err != nil || !c.empty() {
				return err
			}
		}
		if c.behind.Offset() > at { // nothing was wanted: there may be more
			pause = lookAt
			continue
		}
		_ = c.feed.Rest() // it was only read
		log, last := c.store.Replication(), c.feed.Needs()-1
		if log.Durable() > last {
			c.conn.Hurry()
			nap(ctx, &pause)
			continue
		}
		pause = lookAt
		if err := c.awaitDurable(ctx, last); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// awaitDurable waits until the log is durable behind an offset. The wait on a replica has an end, as it may become the primary meanwhile, which
// has its log synced for those that wait. A replica has it synced, too, where nothing else did for so long, as under appendfsync no.
func (c *call) awaitDurable(ctx context.Context, last uint64) error {
	log := c.store.Replication()
	if c.store.Replica() {
		// The primary's word is waited for longer, and a sync here does not bring it.
		wait, stop := context.WithTimeout(ctx, lookRole)
		err := log.AwaitDurable(wait, last)
		stop()
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if log.Written() <= last {
			return nil
		}
	}
	return log.HurryDurable(ctx, last)
}

// reply answers the command.
func (c *call) reply() {
	c.changes.latest.Each(c.changes.add)
	out := &c.conn.Call().Out
	if c.changes.out.Len() >= largeReply && out.Len() == 0 {
		out.TakeLarge()
	}
	out.Array(2)
	out.BulkString(c.behind.String())
	out.Array(c.changes.n)
	out.Raw(c.changes.out.From(0))
}

// fail answers an error.
func fail(conn Conn, err error) {
	out := &conn.Call().Out
	var gone *counter.FeedGoneError
	var history *counter.FeedHistoryError
	switch {
	case errors.As(err, &gone):
		out.Error(errGone + gone.Oldest.String() + " the log behind the position is no longer kept; the second word is the oldest position")
	case errors.As(err, &history) && history.Known:
		out.Error(errHistory + history.Common.String() + " the log went on differently before the position; the second word is the position up to which the two agree")
	case errors.As(err, &history):
		out.Error(errHistory + "- the log went on differently before the position, and no common position is known")
	case errors.Is(err, counter.ErrFeedUnsettled):
		out.Error("TRYAGAIN " + err.Error())
	case errors.Is(err, format.ErrClosed), errors.Is(err, context.Canceled): // the server ends, or opens another store
		out.Error(items.ErrLoading)
	case errors.Is(err, format.ErrCorrupt), errors.Is(err, counter.ErrFeedUnreadable):
		counter.NoteBrokenLog(conn.Store(), err)
		out.Error("IOERR " + err.Error())
	default:
		conn.Call().StoreError(err)
	}
}
