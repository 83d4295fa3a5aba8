package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/internal/wire"
)

// ImportOptions are the options of an import.
type ImportOptions struct {
	// Open opens the source at its start. It is called once, and once more to compare all.
	Open func(context.Context) (Source, error)
	// Sink is the target's. Its Producer is set where values are added.
	Sink SinkOptions
	// Target is the target's name, Rules select the data: an import goes on from a resume file with the same two.
	Target string
	Rules  []string
	// Add adds the values that are read to those that are there; otherwise they take their place.
	Add bool
	// Resume is the path of the resume file; "": none. An import that adds needs one.
	Resume string
	// Verify selects the comparison at the end.
	Verify Verify
	// Progress is told of each chunk; it may be nil.
	Progress func(what string, done, total, values uint64)
	// Log is told what a person should know while it runs; it may be nil.
	Log func(text string)
}

// saveEvery is how often the resume file is written while values are set: the repeated reading after a crash takes as
// long.
const saveEvery = time.Second

// forgotten is how long after its last number a producer may be forgotten by a server (its idmp-min-idle is 10 minutes).
const forgotten = 9 * time.Minute

// ErrInterrupted is an import that was ended by its context. The resume file, if there is one, says how to go on.
var ErrInterrupted = errors.New("interrupted")

// Result is the result of an import.
type Result struct {
	State
	Source   string // its name
	Resumed  bool
	Verified Verified
}

// importer is one import.
type importer struct {
	ImportOptions
	sink  *Sink
	src   Source
	state *State
	start time.Time
	saved time.Time
	prior time.Duration // before this run
}

// Import moves all that a source has. The result counts the work done, also if there is an error.
func Import(ctx context.Context, o ImportOptions) (*Result, error) {
	result, err := run(ctx, o)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w after %d keys or rows", ErrInterrupted, result.Keys)
	}
	return result, err
}

func run(ctx context.Context, o ImportOptions) (*Result, error) {
	im := &importer{ImportOptions: o, start: time.Now()}
	if im.Log == nil {
		im.Log = func(string) {}
	}
	result := &Result{}
	err := im.open(ctx, result)
	if im.src != nil {
		defer im.src.Close()
	}
	if err != nil {
		return result, err
	}
	defer im.sink.Close()
	if !im.state.Complete {
		err = im.move(ctx)
	}
	im.state.Elapsed = im.prior + time.Since(im.start)
	result.State = *im.state
	if err != nil {
		return result, err
	}
	if result.Verified, err = im.verify(ctx); err == nil {
		im.state.Verified = true
		err = im.state.save(im.Resume)
	}
	return result, err
}

// open opens the source and finds out where to begin.
func (im *importer) open(ctx context.Context, result *Result) (err error) {
	src, err := im.Open(ctx)
	if err != nil {
		return err
	}
	im.src = src
	result.Source = im.src.Name()
	identity, err := im.src.Identity(ctx)
	if err != nil {
		return err
	}
	fresh := &State{Version: stateVersion, Source: identity, Target: im.Target, Rules: im.Rules, Add: im.Add}
	for _, c := range im.Sink.Columns {
		fresh.Columns = append(fresh.Columns, c.Name())
	}
	fresh.Sums = make([]Sum, len(fresh.Columns))
	if im.Resume != "" {
		if im.state, err = loadState(im.Resume); err != nil {
			return err
		}
	}
	if s := im.state; s != nil {
		if text := s.fits(fresh); text != "" {
			return &StateError{im.Resume, text + "; name another file, or remove it"}
		}
		switch {
		case s.Complete && s.Add && !s.Verified: // it ended before it was
		case s.Complete && s.Add:
			return &StateError{im.Resume, "this import is complete; a second one would add all once more. Remove the file if that is meant"}
		case s.Add && s.Keys > 0 && s.Position == nil && s.Pending == nil:
			return &StateError{im.Resume, "the source of this import cannot be read from the middle, and from its start it would be added twice"}
		case s.Source != identity && s.Add:
			return &StateError{im.Resume, fmt.Sprintf("the source is another one than it was, or was restarted (%s, now %s): what was added of it cannot be told from what was not",
				s.Source, identity)}
		case s.Source != identity || s.Complete || s.Position == nil && s.Pending == nil:
			if s.Source != identity {
				im.Log("the source is another one than it was, or was restarted: beginning anew")
			}
			fresh.Before = s.Before // the columns' sums before anything was written
			im.state = nil
		case s.Position != nil:
			if err := im.src.Seek(s.Position); err != nil {
				return &StateError{im.Resume, err.Error()}
			}
		}
	}
	result.Resumed = im.state != nil
	return im.begin(ctx, fresh)
}

// begin makes the state of a new import, or finishes what an earlier run left open.
func (im *importer) begin(ctx context.Context, fresh *State) (err error) {
	if im.state == nil {
		im.state = fresh
		if fresh.Add {
			fresh.Producer = "import-" + rand.Text()[:20]
			if fresh.Mark, err = im.mark(ctx); err != nil {
				return err
			}
		}
		if fresh.Before == nil {
			if fresh.Before, err = im.targetSums(ctx); err != nil {
				return fmt.Errorf("%s: %w", im.Target, err)
			}
		}
		if err := fresh.save(im.Resume); err != nil {
			return err
		}
	}
	im.prior = im.state.Elapsed
	im.Sink.Producer = im.state.Producer
	im.sink = NewSink(im.Sink)
	im.sink.SetSeq(im.state.Seq)
	if !im.state.Add || im.state.Seq == 0 && im.state.Pending == nil {
		return nil
	}
	last, err := im.checkLast(ctx)
	if err == nil && im.state.Pending != nil {
		err = im.finishPending(ctx, last)
	}
	return err
}

// checkLast sees that the target has all that it acknowledged to earlier runs, and returns the last number.
func (im *importer) checkLast(ctx context.Context) (last uint64, err error) {
	last, known, err := im.lastNumber(ctx)
	switch s := im.state; {
	case err != nil:
		return 0, err
	case !known && (s.Seq > 0 || time.Since(s.Saved) > forgotten):
		return 0, &StateError{im.Resume, fmt.Sprintf("the target has forgotten what it added for %s, so it is in doubt what of it it has; begin anew, with a target that is emptied", s.Producer)}
	case last < s.Seq:
		return 0, &StateError{im.Resume, fmt.Sprintf("the target has lost what it added: its last number is %d, and %d was acknowledged; begin anew, with a target that is emptied", last, s.Seq)}
	}
	return last, nil
}

// finishPending writes the chunk that was under way when an earlier run ended. The part of it that was made then is not
// made again.
func (im *importer) finishPending(ctx context.Context, last uint64) error {
	p := im.state.Pending
	items, err := unpackItems(p.Items, len(im.state.Columns))
	if err != nil {
		return &StateError{im.Resume, err.Error()}
	}
	im.Log(fmt.Sprintf("writing the last %d values of the earlier run again, which counts them once (last number %d)", len(items), last))
	c := &Chunk{Items: items, Keys: p.Keys, Skipped: p.Skipped, Position: p.Position}
	if err := im.write(ctx, c); err != nil {
		return err
	}
	im.state.Complete = p.Complete
	if p.Complete {
		return im.state.save(im.Resume)
	}
	return im.src.Seek(p.Position)
}

// lastNumber asks for the last number of the producer.
func (im *importer) lastNumber(ctx context.Context) (n uint64, known bool, err error) {
	a := asker{o: &im.Sink}
	defer a.close()
	err = a.ask(ctx, answerTimeout, func(conn *wire.Conn) error {
		v, err := conn.Do("IDMP", "LAST", im.state.Producer)
		if known = err == nil && !v.Null; known {
			n, err = strconv.ParseUint(v.Text(), 10, 64)
		}
		return err
	})
	return n, known, err
}

// mark asks the source what changes when it is changed; "": it cannot tell.
func (im *importer) mark(ctx context.Context) (string, error) {
	if m, ok := im.src.(Marker); ok {
		return m.Mark(ctx)
	}
	return "", nil
}

// read is a chunk that was read, and how that ended.
type read struct {
	chunk *Chunk
	err   error
}

// move reads and writes chunk after chunk: one is read while another is written.
func (im *importer) move(ctx context.Context) error {
	readCtx, stop := context.WithCancel(ctx)
	defer stop()
	free, chunks := make(chan *Chunk, 2), make(chan read, 2) // room for both chunks: nobody may be left to take one
	free <- &Chunk{Want: im.chunkSize()}
	free <- &Chunk{Want: im.chunkSize()}
	ended := make(chan struct{})
	defer func() { stop(); <-ended }() // the source is the caller's again
	go func() {
		defer close(ended)
		for {
			select {
			case <-readCtx.Done():
				return
			case c := <-free:
				c.reset()
				err := im.src.Next(readCtx, c)
				chunks <- read{c, err}
				if err != nil {
					return
				}
			}
		}
	}()
	im.saved = time.Now()
	for {
		var r read
		select {
		case <-ctx.Done():
			return im.stopped(context.Cause(ctx))
		case r = <-chunks:
		}
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			return im.stopped(r.err)
		}
		im.state.Pending = nil
		if im.Add {
			im.announce(r.chunk, r.err != nil)
			if err := im.state.save(im.Resume); err != nil {
				return err
			}
		}
		if err := im.write(ctx, r.chunk); err != nil {
			return im.stopped(err)
		}
		if r.err != nil {
			im.state.Complete = true
			return im.state.save(im.Resume)
		}
		free <- r.chunk
		if !im.Add && time.Since(im.saved) >= saveEvery {
			if err := im.state.save(im.Resume); err != nil {
				return err
			}
			im.saved = time.Now()
		}
	}
}

// chunkSize is how many items to read at a time: if few a second are written, a quarter of a second's worth, so that
// progress is seen and kept.
func (im *importer) chunkSize() int {
	if im.Sink.Rate <= 0 {
		return ChunkSize
	}
	return int(min(max(im.Sink.Rate/4, pairs), ChunkSize))
}

// announce makes a chunk of additions the pending one.
func (im *importer) announce(c *Chunk, last bool) {
	for i := range c.Items {
		c.Items[i].Op = mapping.Add
	}
	im.state.Seq = im.sink.Seq()
	im.state.Pending = &pending{packItems(nil, c.Items), c.Keys, c.Skipped, c.Position, last}
}

// write writes a chunk and notes it.
func (im *importer) write(ctx context.Context, c *Chunk) error {
	refused := im.sink.Refused()
	if err := im.sink.Write(ctx, c.Items); err != nil {
		return err
	}
	im.state.merge(c)
	im.state.Refused += im.sink.Refused() - refused
	im.state.Seq, im.state.Pending = im.sink.Seq(), nil
	im.state.Elapsed = im.prior + time.Since(im.start)
	if im.Progress != nil {
		im.Progress("importing", im.state.Keys, im.src.Total(), im.state.Values())
	}
	return nil
}

// stopped leaves a resume file of all chunks that are written. A resume file that names a pending chunk stays as it is.
func (im *importer) stopped(err error) error {
	if im.state.Pending != nil {
		return err
	}
	return errors.Join(err, im.state.save(im.Resume))
}
