package feed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/cmd/counterctl/internal/sinks"
	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/internal/wire"
)

// Options name the nodes and the sink, and select changes.
type Options struct {
	Addrs []string // nodes that have the same log; one at least
	Dial  func(ctx context.Context, addr string) (*wire.Conn, error)
	Place *sinks.Place
	From  string // where a sink begins that has no position: a position, NOW or OLDEST; empty: that is an error

	Counters, Columns []string // nil: all
	Latest            bool
	Safe              int // replicas that have a change before it is shown; 0: as the node's settings say

	UntilCaughtUp bool // end when the node has nothing new
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
	reader   reader
	sink     sinks.Sink // nil: to be opened
	progress Progress
	written  time.Time // when the sink took its last batch
	pause    time.Duration
	told     string              // the error that the last attempts ended with; empty: the last one went well
	refusals map[string]struct{} // nodes that refused the position since another one went on from it
	life     context.Context     // ends some time after that of Run, so that the sink can take the last batch
}

// Run feeds the sink until ctx ends, which is no error, or an error that does not pass.
func Run(ctx context.Context, o Options) (Progress, error) {
	life, end := outlasting(ctx)
	defer end()
	f := &feeder{Options: o, pause: firstPause, refusals: map[string]struct{}{}, life: life}
	f.reader = reader{addrs: o.Addrs, dial: o.Dial, words: o.words(), wait: !o.UntilCaughtUp}
	defer f.reader.drop()
	var err error
	for more := true; more && err == nil && ctx.Err() == nil; {
		if more, err = f.attempt(ctx); err == nil || ctx.Err() != nil {
			continue
		}
		if !f.passes(err) {
			break
		}
		if text := cli.Text(err); text != f.told {
			f.Log("waiting: %s", text)
			f.told = text
		}
		err = nil
		more = sleep.For(ctx, f.pause)
		f.pause = min(2*f.pause, lastPause)
	}
	if ctx.Err() != nil {
		err = f.finish()
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
	return words
}

// passes tells whether an error may pass. One of several nodes may refuse a position that others go on from, as it was the primary
// before a failover, or keeps less log; and a replica does not answer SAFE.
func (f *feeder) passes(err error) bool {
	var node *nodeError
	var position *PositionError
	switch {
	case errors.Is(err, sinks.ErrBroken):
		return true
	case errors.As(err, &position):
		return len(f.refusals) < len(f.Addrs)
	case errors.As(err, &node):
		return patience.Passes(node.err) || len(f.Addrs) > 1 && strings.HasPrefix(node.err.Error(), "server: ERR SAFE is answered by a primary only")
	}
	return false
}

// nodeError is an error of a node.
type nodeError struct {
	addr string
	err  error
}

func (e *nodeError) Error() string { return e.addr + ": " + e.err.Error() }
func (e *nodeError) Unwrap() error { return e.err }

// attempt connects and opens the sink if needed, and feeds one reply. It is false where there is no more to do.
func (f *feeder) attempt(ctx context.Context) (more bool, err error) {
	if f.sink == nil {
		if err := f.open(); err != nil {
			return false, err
		}
	}
	before, addr := f.reader.from, f.reader.addr()
	b, next, err := f.reader.next(ctx)
	if b == nil {
		return false, f.refused(err)
	}
	if err != nil { // the next reply could not be asked for: the next attempt connects again
		f.reader.failed()
	}
	clear(f.refusals)
	if before == now { // a sink that refuses its first batch begins here again, and not at a later NOW
		b.Reset()
		f.From = next
	}
	changes := uint64(len(b.Changes))
	if changes == 0 && next != f.progress.Position && (f.progress.Position == "" || time.Since(f.written) >= f.MarkEvery || f.ends(next, before)) {
		b = f.reader.mark(next)
	}
	if err := f.write(b); err != nil {
		return false, err
	}
	if f.told != "" {
		f.Log("going on, from %s", addr)
	}
	f.told, f.pause = "", firstPause
	f.progress.Changes += changes
	f.progress.CaughtUp = changes == 0
	if f.Progress != nil {
		f.Progress(f.progress)
	}
	return changes > 0 || !f.ends(next, before), nil
}

// ends tells whether a reply without changes is the last one.
func (f *feeder) ends(next, before string) bool { return f.UntilCaughtUp && next == before }

// open opens the sink, and makes the reader go on from its position.
func (f *feeder) open() error {
	sink, err := f.Place.Open(f.life)
	if err != nil {
		return err
	}
	from := sink.Position()
	f.progress.Position = from
	if from == "" {
		from = f.From
	}
	if from == "" {
		return errors.Join(ErrNoStart, sink.Close())
	}
	f.sink = sink
	f.written = time.Now()
	f.reader.seek(from)
	return nil
}

// refused names the node in an error of the reader, and tells a refused position from other errors.
func (f *feeder) refused(err error) error {
	addr := f.reader.addr()
	f.reader.failed()
	var server *wire.ServerError
	if errors.As(err, &server) {
		if e := refusal(server); e != nil {
			f.refusals[addr] = struct{}{}
			e.At = f.reader.from
			return &nodeError{addr, e}
		}
	}
	return &nodeError{addr, err}
}

// write gives a batch to the sink.
func (f *feeder) write(b *sinks.Batch) error {
	if len(b.Changes) == 0 {
		return nil
	}
	if b.After = f.progress.Position; b.After == "" {
		b.After = f.From
	}
	if err := f.sink.Write(f.life, b); err != nil {
		_ = f.sink.Close() // the error to tell is that of the write
		f.sink = nil
		f.reader.drop() // the sink says where to go on
		return fmt.Errorf("%s: %w", f.Place.Name, err)
	}
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

// finish writes the position that the reader has come to, so that the next run need not read the log up to there again.
func (f *feeder) finish() error {
	position := f.reader.from
	if f.sink == nil || f.progress.Position == "" || position == f.progress.Position {
		return nil
	}
	return f.write(f.reader.mark(position))
}
