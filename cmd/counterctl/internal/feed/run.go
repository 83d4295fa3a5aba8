package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/sinks"
	"github.com/counterd/counterd/internal/feedjoin"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/internal/wire"
)

// Options name the nodes and the sink, and select changes.
type Options struct {
	Addrs  []string // nodes that have the same log, or nodes of a cluster; one at least
	TLS    bool     // Dial makes connections by TLS
	Dial   func(ctx context.Context, addr string) (*wire.Conn, error)
	Place  *sinks.Place
	Cursor string // a named cursor: where a sink begins that has no position, if the cursor is there. It is moved behind the sink; empty: none
	From   string // where a sink begins that has none either: a position, NOW or OLDEST; empty: that is an error

	Counters, Columns []string // nil: all
	Latest            bool
	Old               bool // the values before each change, too
	Safe              int  // replicas that have a change before it is shown; 0: as the node's settings say

	UntilCaughtUp bool // end behind the changes that were acknowledged before
	MarkEvery     time.Duration
	Log           func(format string, args ...any)
	Progress      func(p Progress) // called behind each reply; may be nil
}

// Progress is how far a feed is.
type Progress struct {
	Changes  uint64 // that the sink has taken since Run began
	Bytes    uint64 // of JSON
	Position string // of the sink
	CaughtUp bool   // the node had nothing new
}

// PositionError says that a node cannot go on from the sink's position.
type PositionError struct {
	History bool   // the log went on differently: the sink may have changes that were taken back
	At      string // the position
	Next    string // a position to go on from; empty: none is known
	Err     error
}

// Error says how the position was lost, and how to go on.
func (e *PositionError) Error() string {
	switch {
	case !e.History:
		return fmt.Sprintf(`the node no longer has the log behind the position %s.
Changes are missing between it and %s, the oldest position that the node has. Take a new sink, and begin it with all posts:
counterctl export with --position FILE, then counterctl feed --from FILE. A larger aof-retain keeps more of the log`, e.At, e.Next)
	case e.Next != "":
		return fmt.Sprintf(`the log went on differently before the position %s: the sink has changes that were taken back.
The two agree up to %s. Undo in the sink what came behind that, or take a new sink and begin it with all posts:
counterctl export with --position FILE, then counterctl feed --from FILE. --safe N shows only what N replicas have`, e.At, e.Next)
	}
	return fmt.Sprintf(`the position %s is of another log, or of changes that were taken back.
If the node is the right one, take a new sink and begin it with all posts: counterctl export with --position FILE, then
counterctl feed --from FILE`, e.At)
}

// Unwrap returns the node's error.
func (e *PositionError) Unwrap() error { return e.Err }

// ShardLeftError says that the sink lacks changes of a shard that has left the cluster.
type ShardLeftError struct {
	Cursor string // that the feed moves; empty: none
	Err    error
}

// Error says how to go on. The feed from OLDEST meets the same move.
func (e *ShardLeftError) Error() string {
	text := fmt.Sprintf(`%v.
No node has these changes any more. Neither a position or cursor in front of them nor OLDEST goes on. Begin a new sink with --from NOW,
and export all posts afterwards (counterctl export): the posts, and then the changes of the new sink, are complete`, e.Err)
	if e.Cursor != "" {
		text += ". Before that, delete the cursor:\ncounterctl cursors --delete " + e.Cursor
	}
	return text
}

// Unwrap returns the error of the feed.
func (e *ShardLeftError) Unwrap() error { return e.Err }

// ErrNoStart: a sink has no position, and Options.From is empty.
var ErrNoStart = errors.New("the sink is empty: want --from, a position, a file with one, NOW or OLDEST")

const (
	firstPause, lastPause = 20 * time.Millisecond, 2 * time.Second
	// grace is how long the sink may take for the last batch behind the end of the context.
	grace = 10 * time.Second
)

// feeder is the state of Run.
type feeder struct {
	Options
	nodes    *nodes
	feed     *feedjoin.Feed[[]byte] // nil: to be opened
	sink     sinks.Sink             // nil: to be opened
	batch    sinks.Batch
	keeper   *keeper // nil: no cursor
	progress Progress
	began    bool      // a position of the feed is known
	written  time.Time // when the sink took its last batch
	pause    time.Duration
	life     context.Context // ends some time after that of Run, so that the sink can take the last batch
}

// Run feeds the sink until ctx ends, which is no error, or an error that does not pass.
func Run(ctx context.Context, o Options) (Progress, error) {
	life, end := outlasting(ctx)
	defer end()
	f := &feeder{Options: o, pause: firstPause, life: life}
	f.nodes = newNodes(&o)
	keeping, stop := context.WithCancel(ctx)
	defer stop()
	if o.Cursor != "" {
		f.keeper = keep(keeping, f.nodes, o.Cursor)
	}
	var err error
	for more := true; more && err == nil && ctx.Err() == nil; {
		if more, err = f.attempt(ctx); err == nil || ctx.Err() != nil {
			continue
		}
		if !errors.Is(err, sinks.ErrBroken) {
			break
		}
		f.nodes.waiting(ofSink, err)
		err = nil
		more = sleep.For(ctx, f.pause)
		f.pause = min(2*f.pause, lastPause)
	}
	if ctx.Err() != nil {
		err = f.finish()
	}
	f.drop()
	if f.keeper != nil {
		stop()
		f.keeper.finish(life, f.progress.Position)
	}
	if f.sink != nil {
		if failed := f.sink.Close(); err == nil {
			err = failed
		}
	}
	return f.progress, err
}

// words are the command's options.
func (o *Options) words() (words []string) {
	if o.Safe > 0 {
		words = append(words, "SAFE", fmt.Sprint(o.Safe))
	}
	if len(o.Counters) > 0 {
		words = append(append(words, "COUNTERS"), o.Counters...)
	}
	if len(o.Columns) > 0 {
		words = append(append(words, "COLUMNS"), o.Columns...)
	}
	if o.Latest {
		words = append(words, "LATEST")
	}
	if o.Old {
		words = append(words, "WITH", "OLD")
	}
	return words
}

// attempt opens the sink and the feed if needed, and gives the sink the next batch. It is false where there is no more to do.
func (f *feeder) attempt(ctx context.Context) (more bool, err error) {
	if f.sink == nil {
		if f.sink, err = f.Place.Open(f.life); err != nil {
			return false, err
		}
		f.progress.Position, f.written = f.sink.Position(), time.Now()
	}
	if f.feed == nil {
		if err := f.begin(ctx); err != nil {
			return false, f.refused(err)
		}
	}
	b, err := f.feed.Next()
	if err != nil {
		return false, f.refused(err)
	}
	if !f.began && f.feed.Settled() {
		if f.began = true; f.From == feedjoin.Now { // a sink that refuses its first batch begins here again, and not at a later NOW
			f.From = f.feed.Position()
		}
	}
	changes, ends := uint64(len(b.Changes)), f.UntilCaughtUp && f.feed.CaughtUp()
	f.lines(&b)
	position := f.feed.Position()
	if changes == 0 && f.feed.Settled() && position != f.progress.Position && (f.progress.Position == "" || time.Since(f.written) >= f.MarkEvery || ends) {
		f.mark(position)
	}
	if err := f.write(); err != nil {
		return false, err
	}
	f.pause = firstPause
	f.progress.Changes += changes
	f.progress.CaughtUp = f.feed.CaughtUp()
	if f.keeper != nil && f.progress.Position != "" {
		f.keeper.move(f.progress.Position, changes > 0)
	}
	if f.Progress != nil {
		f.Progress(f.progress)
	}
	return !ends, nil
}

// begin opens the feed behind the position of the sink. Where it has none, at the cursor or at From.
func (f *feeder) begin(ctx context.Context) error {
	from := f.progress.Position
	if from == "" && f.Cursor != "" && !f.began {
		at, err := f.cursor(ctx)
		if err != nil {
			return err
		}
		if at != "" {
			f.From = at
		}
	}
	if from == "" {
		from = f.From
	}
	if from == "" {
		return ErrNoStart
	}
	feed, err := feedjoin.Open(ctx, f.nodes, feedjoin.Options{From: from, Polls: f.UntilCaughtUp})
	if err != nil {
		return err
	}
	f.feed = feed
	return nil
}

// cursor asks for the named cursor until the nodes answer.
func (f *feeder) cursor(ctx context.Context) (string, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		at, err := feedjoin.Cursor(ctx, f.nodes, f.Cursor)
		if err == nil || ctx.Err() != nil {
			return at, err
		}
		if err = f.nodes.Ends(0, "", err); err != nil {
			return "", err
		}
		if !sleep.For(ctx, pause) {
			return "", ctx.Err()
		}
	}
}

// drop closes the feed.
func (f *feeder) drop() {
	if f.feed != nil {
		f.feed.Close()
	}
	f.feed = nil
}

// refused makes the error of a refused position, or of a shard that has left, one for people.
func (f *feeder) refused(err error) error {
	if errors.Is(err, feedjoin.ErrShardLeft) {
		return &ShardLeftError{Cursor: f.Cursor, Err: err}
	}
	gone, ok := errors.AsType[*feedjoin.PositionError](err)
	if !ok {
		return err
	}
	e := &PositionError{History: gone.History, At: gone.At, Next: gone.Next, Err: gone.Err}
	if node, ok := errors.AsType[*nodeError](gone.Err); ok {
		e.Err = node.err
		return &nodeError{node.addr, e}
	}
	return e
}

// lines makes the batch of changes of the feed. The old values of a merged change are those in front of all changes of the reply: a sink that went on behind one of them would
// miss earlier changes of the posts that come later. So the changes of the reply belong together.
func (f *feeder) lines(b *feedjoin.Batch[[]byte]) {
	to := &f.batch
	to.Reset()
	to.Whole = f.Latest && f.Old
	for i := range b.Changes {
		c := &b.Changes[i]
		to.Text = appendLineStart(to.Text, b.Head, c.Position, b.Tail, b.Shard)
		to.Text = append(to.Text, c.Value...)
		if to.Whole && i < len(b.Changes)-1 {
			to.Text = append(bytes.TrimSuffix(to.Text, []byte("}\n")), sinks.LineMore...)
		}
		to.Changes = append(to.Changes, sinks.Change{Position: b.Position(i), End: len(to.Text)})
	}
}

// mark makes a batch of the position alone.
func (f *feeder) mark(position string) {
	b := &f.batch
	b.Reset()
	b.Text = appendLineEnd(appendTime(appendLineStart(b.Text, "", position, "", 0), time.Now().UnixMilli()))
	b.Changes = append(b.Changes, sinks.Change{Position: position, End: len(b.Text)})
}

// write gives the batch to the sink.
func (f *feeder) write() error {
	b := &f.batch
	if len(b.Changes) == 0 {
		return nil
	}
	if b.After = f.progress.Position; b.After == "" {
		b.After = f.From
	}
	if err := f.sink.Write(f.life, b); err != nil {
		_ = f.sink.Close() // the error to tell is that of the write
		f.sink = nil
		f.drop() // the sink says where to go on
		return fmt.Errorf("%s: %w", f.Place.Name, err)
	}
	f.nodes.answered(ofSink, f.Place.Name)
	f.written = time.Now()
	f.progress.Position = b.Position()
	f.progress.Bytes += uint64(len(b.Text))
	return nil
}

// outlasting is a context that ends some time after ctx.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		sleep.For(longer, grace)
		cancel()
	})
	return longer, func() { stop(); cancel() }
}

// finish writes the position that the feed has come to, so that the next run need not read the log up to there again. The sink has all changes without it: so a
// sink that does not work now, or that another process writes to, is no error.
func (f *feeder) finish() error {
	if f.sink == nil || f.feed == nil || f.progress.Position == "" || !f.feed.Settled() || f.feed.Position() == f.progress.Position {
		return nil
	}
	f.mark(f.feed.Position())
	if err := f.write(); !errors.Is(err, sinks.ErrBroken) {
		return err
	}
	return nil
}
