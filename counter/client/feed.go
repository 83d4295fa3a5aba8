package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/feedjoin"
)

// Positions for Feed that stand for no change.
const (
	FeedNow    = feedjoin.Now    // the changes from now on
	FeedOldest = feedjoin.Oldest // all changes that the log still has
)

// FeedChange is one change of a node's log: all that one command or transaction did.
type FeedChange struct {
	Position string    // behind the change. Feed goes on from it, on every node that has this log
	Shard    uint64    // of a cluster: a flush is one of this shard's posts alone; else 0
	Time     time.Time // when the primary logged it
	Parts    []FeedPart

	Numbered bool   // a producer numbered the change
	Producer string // empty: the server does not know it
	Seq      uint64 // the number of the change
}

// FeedPart is the part of a change that concerns one post, or all of them.
type FeedPart struct {
	// Kind is set, del, drop, flush, schema, gain or lose: see the page about the feed in the documentation.
	Kind    string
	Counter string   // of set, del and drop
	Mid     uint64   // of set and del; of drop, the first id of the range
	End     uint64   // of drop, the id behind the last, up to 2^63
	Columns []string // of set
	Values  []int64  // of Columns, after the change
	Old     *FeedOld // of set and del, with FeedWithOld; nil: the log does not tell
	Text    string   // of schema, the schema; of gain and lose, the move
	Groups  string   // of gain and lose; of drop, the groups of hash slots whose posts are gone. Empty: all
	From    uint64   // of gain, the shard that had the groups; 0: not known
	Offset  uint64   // of gain, the offset of that shard's log from which on it has nothing of the groups
}

// FeedOld has the values before a part of a change. Without columns the post was not there.
type FeedOld struct {
	Columns []string // those that the part sets; of del all
	Values  []int64  // of Columns, before the change
}

// PositionError says that a node cannot go on from a position. The changes behind it are gone, or some that were seen were taken
// back (History). Go on from Next, once the posts were read anew or the changes behind Next were undone.
type PositionError struct {
	History bool   // the log went on differently
	Next    string // a position to go on from; empty: none is known
	Err     error
}

// Error gives the server's text.
func (e *PositionError) Error() string { return "client: COUNTER.FEED: " + e.Err.Error() }

// Unwrap returns the server's error.
func (e *PositionError) Unwrap() error { return e.Err }

// ErrShardLeft: a shard has left the cluster before the consumer has read all of its changes. No node has them any more. Delete the cursor, begin with
// FeedNow, read all posts behind that, and apply the changes to them.
var ErrShardLeft = feedjoin.ErrShardLeft

// feedBlock is how long the server waits for a change. It is below the time that go-redis waits for a reply.
const feedBlock = time.Second

// FeedOption is an option of Feed.
type FeedOption func(*feedOptions)

// feedOptions are the options of a feed.
type feedOptions struct {
	safe int
	old  bool
}

// FeedSafe has Feed give only changes that a number of replicas have acknowledged, as WAIT counts them. With Sentinel, no failover to one of
// these replicas takes back a change that was given. In a cluster no failover does, without this option.
func FeedSafe(replicas int) FeedOption { return func(o *feedOptions) { o.safe = replicas } }

// FeedWithOld has the parts of a Feed tell the values before them, as far as the log has these: of counters with old=on. The server refuses if there is
// no such counter.
func FeedWithOld() FeedOption { return func(o *feedOptions) { o.old = true } }

// words are the options as COUNTER.FEED takes them.
func (o *feedOptions) words() (words []any) {
	if o.safe > 0 {
		words = append(words, "SAFE", o.safe)
	}
	if o.old {
		words = append(words, "WITH", "OLD")
	}
	return words
}

// errFeedCluster: a client says that it is one of a cluster, and does not know the nodes.
var errFeedCluster = errors.New("client: the feed of a cluster needs a *redis.ClusterClient")

// Feed returns every change of a node behind a position, FeedNow or FeedOldest, in the order of its log, and waits for further ones. It
// connects again when the connection breaks or another node takes over, and goes on behind the last change. So each change comes
// once as long as ctx lasts; a consumer that starts again with the position of the last change that it has kept misses none.
//
// Of a cluster it joins the feeds of all shards, of those that come later too. The changes of a post come in order, also where the post moves
// from one shard to another; changes of other posts may come in another order than they were made in. FLUSHALL and changes of the schema come once for each shard.
//
// It ends when ctx ends (the error of ctx), the loop is left, or the server refuses for good: a *PositionError if the position
// cannot be continued, ErrShardLeft if changes of a shard are gone. The error is the last element. Until the first reply FeedNow is the moment of the last attempt.
//
// It reads the next reply of each shard, 1,000 changes or 1 MiB, while the loop works on the last.
func (c *Client) Feed(ctx context.Context, from string, options ...FeedOption) iter.Seq2[FeedChange, error] {
	return func(yield func(FeedChange, error) bool) {
		source, err := newFeedSource(c)
		if err != nil {
			yield(FeedChange{}, err)
			return
		}
		var o feedOptions
		for _, option := range options {
			option(&o)
		}
		source.words = o.words()
		ctx, cancel := context.WithCancel(ctx)
		defer source.close() // ends reads of nodes that are this feed's own
		defer cancel()       // a read of the caller's client ends within feedBlock
		if err := giveFeed(ctx, source, from, yield); err != nil {
			yield(FeedChange{}, feedEnd(err))
		}
	}
}

// giveFeed gives changes until it has to end. nil: the consumer has left.
func giveFeed(ctx context.Context, source *feedSource, from string, yield func(FeedChange, error) bool) error {
	f, err := feedjoin.Open(ctx, source, feedjoin.Options{From: from})
	if err != nil {
		return err
	}
	for {
		b, err := f.Next()
		if err != nil {
			return err
		}
		for i := range b.Changes {
			change := b.Changes[i].Value
			change.Shard, change.Position = b.Shard, b.Position(i)
			if !yield(change, nil) {
				return nil
			}
		}
	}
}

// FeedCursor returns the position of a named cursor, for Feed; empty: there is none. In a cluster each shard has its own.
func (c *Client) FeedCursor(ctx context.Context, name string) (position string, err error) {
	source, err := newFeedSource(c)
	if err != nil {
		return "", err
	}
	defer source.close()
	return feedjoin.Cursor(ctx, source, name)
}

// SetFeedCursor makes or moves a named cursor: the server keeps the log behind it. Call it with a position of Feed when the changes up to it
// are stored, for example once a second: each call is a record in the log of each shard. It may be repeated after any error.
func (c *Client) SetFeedCursor(ctx context.Context, name, position string) error {
	source, err := newFeedSource(c)
	if err != nil {
		return err
	}
	defer source.close()
	return feedjoin.SetCursor(ctx, source, name, position)
}

// feedEnd is the error of a feed as its consumer sees it.
func feedEnd(err error) error {
	if gone, ok := errors.AsType[*feedjoin.PositionError](err); ok {
		return &PositionError{History: gone.History, Next: gone.Next, Err: gone.Err}
	}
	return err
}

// feedError is the error that ends a feed; nil: the same may go well later, as reading changes nothing.
func feedError(err error) error {
	if gone := feedjoin.Refusal(err.Error(), err); gone != nil {
		return gone
	}
	if strings.HasPrefix(err.Error(), errSafeReplica) { // behind a failover the client may still have the old primary
		return nil
	}
	if errors.Is(err, errFeedReply) || errors.Is(err, errFeedPosition) || ClassOf(err) == Permanent {
		return err
	}
	return nil
}

// errSafeReplica is the beginning of what a replica answers to SAFE.
const errSafeReplica = "ERR SAFE is answered by a primary only"

// errFeedReply: a reply is none of COUNTER.FEED.
var errFeedReply = errors.New("client: a reply that is none of COUNTER.FEED")

// parseFeed reads the reply of COUNTER.FEED.
func parseFeed(reply []any) (next string, changes []feedjoin.Change[FeedChange], err error) {
	defer func() {
		if recover() != nil { // a type or a length that the reply must not have
			err = fmt.Errorf("%w: %.200v", errFeedReply, reply)
		}
	}()
	next = reply[0].(string)
	for _, v := range reply[1].([]any) {
		fields := v.([]any)
		position := fields[0].(string)
		c := FeedChange{Position: position, Time: time.UnixMilli(fields[1].(int64))}
		var gains []feedjoin.Gain
		for _, v := range fields[2].([]any) {
			p := parsePart(v.([]any))
			c.Parts = append(c.Parts, p)
			if p.Kind == "gain" {
				gains = append(gains, feedjoin.Gain{Groups: p.Groups, From: p.From, Offset: p.Offset})
			}
		}
		if c.Numbered = len(fields) > 3; c.Numbered && fields[3] != nil {
			c.Producer, c.Seq = fields[3].(string), parseSeq(fields[4])
		}
		changes = append(changes, feedjoin.Change[FeedChange]{Position: position, Gains: gains, Value: c})
	}
	return next, changes, nil
}

// parseSeq reads a sequence number: an integer, or a string above 2^63-1.
func parseSeq(v any) uint64 {
	if n, ok := v.(int64); ok {
		return uint64(n)
	}
	n, err := strconv.ParseUint(v.(string), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// parseID reads an id of a range, which may be 2^63 and is a string therefore.
func parseID(v any) uint64 {
	n, err := strconv.ParseUint(v.(string), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// parseValues reads columns with their values.
func parseValues(fields []any) (columns []string, values []int64) {
	for at := 0; at < len(fields); at += 2 {
		columns, values = append(columns, fields[at].(string)), append(values, fields[at+1].(int64))
	}
	return columns, values
}

func parsePart(fields []any) FeedPart {
	p := FeedPart{Kind: fields[0].(string)}
	switch p.Kind {
	case "set", "del":
		p.Counter, p.Mid = fields[1].(string), uint64(fields[2].(int64))
		if rest := fields[3:]; len(rest)%2 == 1 {
			p.Columns, p.Values = parseValues(rest[:len(rest)-1])
			if old, told := rest[len(rest)-1].([]any); told {
				p.Old = new(FeedOld)
				p.Old.Columns, p.Old.Values = parseValues(old)
			}
		} else {
			p.Columns, p.Values = parseValues(rest)
		}
	case "drop":
		p.Counter, p.Mid, p.End = fields[1].(string), parseID(fields[2]), parseID(fields[3])
		if len(fields) > 4 {
			p.Groups = fields[4].(string)
		}
	case "schema":
		p.Text = fields[1].(string)
	case "gain", "lose":
		p.Text, p.Groups = fields[1].(string), fields[2].(string)
		if len(fields) > 4 {
			p.From, p.Offset = uint64(fields[3].(int64)), uint64(fields[4].(int64))
		}
	}
	return p
}
