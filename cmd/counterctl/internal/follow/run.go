package follow

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/schema"
)

// Options select the source.
type Options struct {
	// Source connects to the Redis as a client that may replicate; Target to the counterd. Connections must outlive the end
	// of the context that Run has: work in progress is finished then.
	Source, Target func(context.Context) (*wire.Conn, error)
	// Name is the source's and the rules', to tell a directory that belongs to another job.
	Name   string
	Schema *schema.Schema // the target's
	Rules  *mapping.Rules
	DB     int    // of the source
	Dir    string // holds the journal, the spool, and the snapshot while it is loaded
	// Overwrite lets the first copy replace numbers that the target has.
	Overwrite bool
	// UntilCaughtUp ends Run when everything is applied that the source had when the copy was loaded.
	UntilCaughtUp bool
	Log           func(format string, args ...any)
	Progress      func(p Progress) // called each second
	Rate          float64          // of the copy, numbers a second; 0: as many as go
}

// Progress is how far following is.
type Progress struct {
	Phase    string        // "copying", "loading" or "following"
	Done     uint64        // bytes of the snapshot
	Total    uint64        // 0: unknown
	Offset   uint64        // of the source, applied
	Behind   int64         // bytes that came and are not applied
	Lag      time.Duration // since everything that had come was applied
	Commands uint64        // of the source, since Run
	Changes  uint64        // of numbers, after folding
	Stale    int           // keys whose number the target does not hold
}

// Result is how following ended.
type Result struct {
	Progress
	Skipped  mapping.Tally     // values that did not map, last read
	Unknown  map[string]uint64 // commands after which keys were read from the source
	Expiring uint64            // keys and commands with a time to live, which the target does not know
	Copies   int
}

// Times of the loop.
const (
	windowAge   = 5 * time.Millisecond // a window ends when nothing more is there, or after so long
	reconnect   = 250 * time.Millisecond
	reconnectAt = 5 * time.Second // at most
	rereadEvery = 20 * time.Millisecond
	rereadKeys  = 1000
	askEvery    = 100 * time.Millisecond
	idleEvery   = time.Second // how often a journal is told that nothing was to be applied
)

// follower is the state of Run. All but the atomic fields is the loop's.
type follower struct {
	Options
	journal  *journal
	spool    *spool
	target   *target
	reader   *reader
	in       *interpreter
	parser   parser
	offset   uint64 // behind the last command that was interpreted
	end      uint64 // of the last window that was committed, or of an idle stretch
	began    time.Time
	rewound  uint64 // up to where commands were applied before Run
	lastRead time.Time
	noted    time.Time
	caughtUp time.Time
	goal     uint64 // UntilCaughtUp: an offset; 0: not known yet
	goalID   string
	result   Result
	buf      []byte

	applied atomic.Uint64 // for ACK
	done    atomic.Uint64 // of a snapshot
	total   atomic.Uint64
}

// Run follows until its context ends, or the source's changes were caught up with. Both are no errors.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := check(&o); err != nil {
		return nil, err
	}
	j, err := openJournal(o.Dir, o.Name)
	if err != nil {
		return nil, err
	}
	defer j.close()
	spool, err := newSpool(filepath.Join(o.Dir, "spool"))
	if err != nil {
		return nil, err
	}
	defer spool.file.Close()
	f := &follower{Options: o, journal: j, spool: spool, buf: make([]byte, 256<<10)}
	f.target = &target{dial: o.Target, schema: o.Schema, columns: o.Rules.Columns(), log: o.Log}
	f.reader = &reader{dial: o.Source, db: o.DB}
	f.in = &interpreter{rules: o.Rules, db: o.DB, window: newWindow(o.Rules.Columns()), log: o.Log, unknown: map[string]uint64{}, stale: staleKeys{keys: map[ref]*staleKey{}}}
	defer f.target.close()
	defer f.reader.close()
	for err == nil {
		err = f.session(ctx)
		if errors.Is(err, errRecopy) || errors.Is(err, errLost) {
			o.Log("copying everything again: %v", err)
			err = j.write(note{Copying: true}, true)
		}
	}
	f.report()
	if errors.Is(err, errEnd) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = nil
	}
	return &f.result, err
}

// errEnd ends following as it should.
var errEnd = errors.New("the end")

func check(o *Options) error {
	if err := o.Rules.Repeated(); err != nil {
		return fmt.Errorf("following adds up what is added at the source: %w", err)
	}
	for _, c := range o.Rules.Columns() {
		if column := c.Counter.Columns[c.Index]; column.Default != 0 {
			return fmt.Errorf("column %s begins at %d, and the source's numbers at 0: following needs a column with default=0", c.Name(), column.Default)
		}
	}
	return nil
}

// session goes on from the journal, or copies everything first, and follows until there is a reason to copy again.
func (f *follower) session(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errEnd)
	s := &f.journal.state
	f.in.window, f.parser = newWindow(f.Rules.Columns()), parser{}
	f.in.stale, f.in.multi = staleKeys{keys: map[ref]*staleKey{}}, false
	f.target.some = false
	if s.copied {
		f.target.producer = s.producer
		last, known, err := f.target.last(ctx)
		if err != nil {
			return err
		}
		if f.offset, f.rewound, f.in.selected, err = s.resume(last/perOffset, known); err != nil {
			return err
		}
		f.end, f.target.committed, f.target.some = f.rewound, last, known
		for r := range s.stale {
			if err := f.in.stale.add(r, true); err != nil {
				return err
			}
		}
		f.in.stale.added = nil
	}
	f.applied.Store(f.end)
	if err := f.spool.reset(); err != nil {
		return err
	}
	links := &links{follower: f, replid: s.replid, offset: f.offset, full: make(chan fullCopy), ended: make(chan struct{})}
	if !s.copied {
		links.replid = ""
	}
	go links.run(ctx)
	defer func() {
		cancel(errEnd)
		<-links.ended
	}()
	return f.loop(ctx, links)
}

// loop applies the stream.
func (f *follower) loop(ctx context.Context, links *links) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var ask <-chan time.Time
	if f.UntilCaughtUp {
		often := time.NewTicker(askEvery)
		defer often.Stop()
		ask = often.C
	}
	f.caughtUp = time.Now()
	for {
		more, err := f.take()
		if err != nil {
			return err
		}
		if err := f.learn(links); err != nil {
			return err
		}
		if err := f.step(ctx, more); err != nil {
			return err
		}
		var pause <-chan time.Time
		switch {
		case more:
			select {
			case <-tick.C:
				f.report()
			case <-ctx.Done():
				return f.finish(ctx)
			default:
			}
			continue
		case f.in.stale.wants > 0:
			pause = time.After(rereadEvery)
		}
		select {
		case <-f.spool.arrived:
		case <-pause:
		case full := <-links.full:
			if err := f.copy(ctx, full); err != nil {
				close(full.loaded)
				return err
			}
			close(full.loaded)
		case <-tick.C:
			f.report()
		case <-ask:
			if done, err := f.isCaughtUp(ctx); err != nil {
				return err
			} else if done {
				return errEnd
			}
		case <-ctx.Done():
			return f.finish(ctx)
		}
	}
}

// learn notes the name of the source's history, which changes when another server takes its place and goes on with it.
func (f *follower) learn(l *links) error {
	replid := l.history.Load()
	if replid == nil || *replid == f.journal.state.replid || !f.journal.state.copied {
		return nil
	}
	return f.journal.write(note{Replid: *replid}, true)
}

// finish makes the changes in the window, at the end of ctx.
func (f *follower) finish(ctx context.Context) error {
	cause := context.Cause(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if !f.in.multi && !f.in.rewinding {
		if err := f.commit(last); err != nil {
			f.Log("the last changes were not applied, the next run goes on with them: %v", err)
		}
	}
	return cause
}

// take gives the received bytes to the parser, and tells whether there were any.
func (f *follower) take() (more bool, err error) {
	n, closed, err := f.spool.take(f.buf)
	if err != nil {
		return false, err
	}
	if closed != nil {
		return false, closed
	}
	if n > 0 {
		f.parser.feed(f.buf[:n])
	}
	return n > 0, nil
}

// step interprets the commands that are there and makes windows of them. more is whether there may be more.
func (f *follower) step(ctx context.Context, more bool) error {
	for {
		args, size, ok, err := f.parser.next()
		if err != nil {
			return fmt.Errorf("%w: %w", errRecopy, err)
		}
		if !ok {
			break
		}
		end := f.offset + size
		f.in.stale.settle(f.offset, f.in.window.put)
		f.in.rewinding = end <= f.rewound
		if len(f.in.window.changes) == 0 {
			f.began = time.Now()
		}
		f.result.Commands++
		flush, err := f.in.command(args)
		if err != nil {
			return err
		}
		if bool(flush) && !f.in.rewinding {
			if err := f.flush(ctx); err != nil {
				return err
			}
		}
		f.offset = end
		if n := len(f.in.window.changes); n >= windowMax || n >= windowNumbers && !f.in.multi {
			if err := f.commit(ctx); err != nil {
				return err
			}
		}
	}
	if f.in.multi || f.offset < f.rewound {
		return nil
	}
	f.in.rewinding = false
	f.in.stale.settle(f.offset, f.in.window.put)
	if len(f.in.window.changes) > 0 && (!more || time.Since(f.began) >= windowAge) {
		if err := f.commit(ctx); err != nil {
			return err
		}
	}
	if !more && f.spool.waiting() == 0 {
		f.caughtUp = time.Now()
	}
	if err := f.idle(); err != nil {
		return err
	}
	return f.reread(ctx)
}

// reread reads stale keys from the source.
func (f *follower) reread(ctx context.Context) error {
	if f.in.stale.wants == 0 || len(f.in.stale.read) > 0 || time.Since(f.lastRead) < rereadEvery {
		return nil
	}
	f.lastRead = time.Now()
	if err := f.note(); err != nil {
		return err
	}
	list, replid, offset, err := f.reader.read(ctx, f.Rules, f.in.stale.wanted(rereadKeys), &f.in.skipped)
	if err != nil {
		if ctx.Err() == nil {
			f.lastRead = time.Now().Add(time.Second)
			f.Log("reading keys from the source: %v", err)
		}
		return nil // it is tried again
	}
	if replid != f.journal.state.replid || offset < f.offset {
		return nil // of a source that is another by now: its link will tell
	}
	for _, k := range list {
		f.in.stale.found(k.ref, offset, k.items, k.fits)
	}
	return nil
}

// isCaughtUp tells whether everything is applied that the source had when it was asked first.
func (f *follower) isCaughtUp(ctx context.Context) (bool, error) {
	if !f.UntilCaughtUp || !f.journal.state.copied {
		return false, nil
	}
	if f.goal == 0 || f.goalID != f.journal.state.replid {
		replid, offset, err := f.reader.position(ctx)
		if err != nil || replid != f.journal.state.replid {
			return false, nil
		}
		f.goal, f.goalID = offset, replid
	}
	if f.offset < f.goal || f.in.stale.wants > 0 || len(f.in.stale.read) > 0 || f.in.multi {
		return false, nil
	}
	return true, f.commit(ctx)
}

// report tells how far it is.
func (f *follower) report() {
	p := &f.result.Progress
	if f.journal.state.copied {
		p.Phase = "following"
	} else if p.Phase == "" {
		p.Phase = "copying"
	}
	p.Done, p.Total = f.done.Load(), f.total.Load()
	p.Offset, p.Behind, p.Lag = f.end, f.spool.waiting()+int64(f.offset)-int64(f.end), 0
	if p.Behind = max(p.Behind, 0); p.Behind > 0 {
		p.Lag = time.Since(f.caughtUp)
	}
	p.Stale = len(f.in.stale.keys)
	f.result.Skipped, f.result.Unknown, f.result.Expiring = f.in.skipped, f.in.unknown, max(f.result.Expiring, f.in.expiring)
	if f.Progress != nil {
		f.Progress(*p)
	}
}
