package sinks

import (
	"context"
	"errors"
	"fmt"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/feedjoin"
)

// Sink takes changes in order. It belongs to one goroutine and must be closed.
//
// Invariant: after Open, and after each Write that returned nil, the sink durably has all changes up to Position, and none
// behind it. After an error of Write it is only good for Close.
type Sink interface {
	// Position is behind the last change that the sink has; empty: it has none.
	Position() string
	// Write adds a batch behind the changes that are there. It returns when the sink has all of it. An error that matches
	// ErrBroken may pass: open the sink again and go on behind its position.
	Write(ctx context.Context, b *Batch) error
	// Close releases the sink. Nothing is lost if it is not called.
	Close() error
}

// Batch is some changes in the order of the log. It is valid until the next one is asked for.
type Batch struct {
	After   string // the sink's position before; where it has none, the feed's start: a position, NOW or OLDEST
	Text    []byte // a line of JSON for each change, with its line feed
	Changes []Change
	// Whole says that the changes belong together, as merged changes with old values do: a sink has all of them, or goes on in front of them. All lines but the last end with LineMore.
	Whole bool
}

// LineMore is the end of a line whose change belongs together with that of the next line.
const LineMore = `,"more":true}` + "\n"

// Change is one change of a batch.
type Change struct {
	Position string // behind it
	End      int    // of its line in Batch.Text
}

// Reset makes b an empty batch.
func (b *Batch) Reset() {
	const most = 8 << 20 // kept for the next batch; a usual one has 2 MB
	if cap(b.Text) > most {
		b.Text = nil
	}
	b.After, b.Text, b.Changes, b.Whole = "", b.Text[:0], b.Changes[:0], false
}

// Position is behind the last change. REQUIRES one change.
func (b *Batch) Position() string { return b.Changes[len(b.Changes)-1].Position }

// Line is the line of a change, without its line feed.
func (b *Batch) Line(i int) []byte {
	from := 0
	if i > 0 {
		from = b.Changes[i-1].End
	}
	return b.Text[from : b.Changes[i].End-1]
}

// Offset is where a position is in the log: of a cluster, the sum of the offsets of all shards. It grows with each change of a feed. The
// error says that a text is no position.
func Offset(position string) (uint64, error) {
	if !feedjoin.IsCluster(position) {
		p, err := counter.ParseFeedPosition(position)
		return p.Offset(), err
	}
	p, err := feedjoin.ParsePosition(position)
	if err != nil {
		return 0, err
	}
	for _, at := range p {
		if _, err := counter.ParseFeedPosition(at); err != nil {
			return 0, err
		}
	}
	sum, _ := p.Sum()
	return sum, nil
}

// ErrBroken: a sink does not work now, and may work when it is opened again. Matches every *BrokenError.
var ErrBroken = errors.New("the sink does not work now")

// BrokenError is an error that may pass.
type BrokenError struct{ Err error }

func (e *BrokenError) Error() string        { return e.Err.Error() }
func (e *BrokenError) Unwrap() error        { return e.Err }
func (e *BrokenError) Is(target error) bool { return target == ErrBroken }

// ForeignError says that something is there which is no feed. Nothing of it was changed.
type ForeignError struct{ Name, Why string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s is there, and no feed: %s", e.Name, e.Why)
}

// Place is a sink that can be opened again and again.
type Place struct {
	Name  string // for people; without a password
	Keeps bool   // it keeps its position, so the same command goes on there
	open  func(ctx context.Context) (Sink, error)
}

// NewPlace makes a place of a function that opens its sink.
func NewPlace(name string, open func(ctx context.Context) (Sink, error)) *Place {
	return &Place{Name: name, Keeps: true, open: open}
}

// Open opens the sink. Errors are as Write's, or a *ForeignError.
func (p *Place) Open(ctx context.Context) (Sink, error) {
	s, err := p.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return s, nil
}
