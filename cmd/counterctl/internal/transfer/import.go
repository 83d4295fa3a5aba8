package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/internal/slot"
)

// ImportOptions are the options of an import.
type ImportOptions struct {
	// Open opens the source at its start. It is called once, again where the target has lost something, and once more to compare all.
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
	for lost := (*LostError)(nil); errors.As(err, &lost) && !o.Add; {
		if o.Log != nil {
			o.Log(fmt.Sprintf("%v: beginning anew", lost))
		}
		result, err = run(ctx, o)
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w after %d keys or rows", ErrInterrupted, result.Keys)
	}
	return result, err
}

func run(ctx context.Context, o ImportOptions) (*Result, error) {
	im := &importer{ImportOptions: o, start: time.Now()}
	if im.Sink.Shards != nil {
		im.Sink.Dial = im.Sink.Shards.Dial
	}
	if im.Log == nil {
		im.Log = func(string) {}
	}
	result := &Result{}
	err := im.open(ctx, result)
	if im.src != nil {
		defer im.src.Close()
	}
	if err != nil {
		return result, im.lost(err)
	}
	defer im.sink.Close()
	if !im.state.Complete {
		err = im.move(ctx)
	}
	if err != nil {
		err = im.lost(err)
	}
	im.state.Elapsed = im.prior + time.Since(im.start)
	result.State = *im.state
	if err != nil {
		return result, err
	}
	if result.Verified, err = im.verify(ctx); err == nil {
		_, err = im.sink.stands(ctx, im.state.Seq)
	}
	if err != nil {
		return result, im.lost(err)
	}
	im.state.Verified = true
	return result, im.state.save(im.Resume)
}

const beginAnew = "; begin anew, with a target that is emptied"

// lost notes in the resume file that the target has lost acknowledged changes. Values that are set are set again from
// the start. Additions are in doubt: the numbers of all but the last chunk are forgotten.
func (im *importer) lost(err error) error {
	lost := (*LostError)(nil)
	if !errors.As(err, &lost) {
		return err
	}
	s := im.state
	if s.Add {
		s.Lost = lost.Error()
		err = &StateError{im.Resume, s.Lost + beginAnew}
	} else {
		s.Position, s.At = nil, nil
	}
	return errors.Join(err, s.save(im.Resume))
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
	fresh := &State{Version: stateVersion, Source: identity, Target: im.Target, Rules: im.Rules, Add: im.Add, Sharded: im.Sink.Shards != nil}
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
		case s.Lost != "":
			return &StateError{im.Resume, s.Lost + beginAnew}
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
	im.sink.SetSeqs(im.state.Seqs)
	if im.sink.at = im.state.At; im.sink.at != nil {
		if _, err := im.sink.stands(ctx, im.state.Seq); err != nil {
			return err
		}
	}
	if !im.state.Add || !im.state.numbered() {
		return nil
	}
	check := im.checkLast
	if im.Sink.Shards != nil {
		check = im.checkLasts
	}
	last, err := check(ctx)
	if err == nil && im.state.Pending != nil {
		err = im.finishPending(ctx, last)
	}
	return err
}

// checkLast sees that the target has all that it acknowledged to earlier runs, and returns the last number.
func (im *importer) checkLast(ctx context.Context) (last uint64, err error) {
	last, known, err := lastNumber(ctx, &im.Sink)
	switch s := im.state; {
	case err != nil:
		return 0, err
	case !known && (s.Seq > 0 || s.old()):
		return 0, &StateError{im.Resume, fmt.Sprintf("the target has forgotten what it added for %s, so it is in doubt what of it it has; begin anew, with a target that is emptied", s.Producer)}
	case last < s.Seq:
		return 0, &StateError{im.Resume, fmt.Sprintf("the target has lost what it added: its last number is %d, and %d was acknowledged; begin anew, with a target that is emptied", last, s.Seq)}
	}
	return last, nil
}

// lastsAsked is how often the nodes of a cluster are asked for numbers that they should know: their groups may move, and their
// roles be handed over, between the questions.
const lastsAsked = 10

// checkLasts is checkLast of a cluster, where the last number is the sum of all groups'.
func (im *importer) checkLasts(ctx context.Context) (last uint64, err error) {
	var lasts [slot.Groups]uint64
	for try := range lastsAsked {
		if try > 0 {
			select {
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			case <-time.After(longestWait / 4):
			}
			im.Sink.Shards.refresh(ctx)
		}
		a := asker{o: &im.Sink}
		err := a.wait(ctx, func() error {
			err := im.Sink.Shards.lasts(ctx, im.state.Producer, &lasts)
			if err != nil {
				im.Sink.Shards.refresh(ctx)
			}
			return err
		})
		if err != nil {
			return 0, err
		}
		if last, err = im.compareLasts(&lasts); err == nil {
			return last, nil
		} else if try == lastsAsked-1 {
			return 0, err
		}
	}
	return 0, err
}

// compareLasts compares the last numbers that a cluster knows with the numbers that it acknowledged.
func (im *importer) compareLasts(lasts *[slot.Groups]uint64) (last uint64, err error) {
	s := im.state
	for group, n := range lasts {
		last += n
		if group < len(s.Seqs) && n < s.Seqs[group] {
			return 0, &StateError{im.Resume, fmt.Sprintf("the target has lost or forgotten what it added to group %d of hash slots: its last number is %d, and %d was acknowledged; begin anew, with a target that is emptied",
				group, n, s.Seqs[group])}
		}
	}
	if s.Pending == nil || !s.old() {
		return last, nil
	}
	items, err := unpackItems(s.Pending.Items, len(s.Columns))
	if err != nil {
		return 0, &StateError{im.Resume, err.Error()}
	}
	for _, i := range items {
		if lasts[slot.Group(i.Mid)] == 0 {
			return 0, &StateError{im.Resume, fmt.Sprintf("the target knows nothing of %s in group %d of hash slots, and may have forgotten it, so it is in doubt what of it it has; begin anew, with a target that is emptied",
				s.Producer, slot.Group(i.Mid))}
		}
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
	im.state.Seq, im.state.Seqs = im.sink.Seq(), im.sink.Seqs()
	im.state.Pending = &pending{packItems(nil, c.Items), c.Keys, c.Skipped, c.Position, last}
}

// write writes a chunk and notes it.
func (im *importer) write(ctx context.Context, c *Chunk) error {
	refused := im.sink.Refused()
	if err := im.sink.Write(ctx, c.Items); err != nil {
		return err
	}
	im.state.merge(c)
	im.state.At = im.sink.at
	im.state.Refused += im.sink.Refused() - refused
	im.state.Seq, im.state.Seqs, im.state.Pending = im.sink.Seq(), im.sink.Seqs(), nil
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
