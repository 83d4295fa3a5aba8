package feed

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/persist/format"
)

// Cursor is the named cursor of a position, once it is known that a feed can go on from there. The error is one of Open; of a position that
// the log has not come to it is a *MalformedError.
func (l Source) Cursor(name string, at Position) (format.Cursor, error) {
	f, err := l.Open(at, Filter{})
	if err != nil {
		return format.Cursor{}, err
	}
	if err = f.verify(); err == nil {
		err = f.Close()
	} else {
		_ = f.Close() // it was only read
	}
	return format.Cursor{Name: name, Position: at.String(), Offset: at.Frame}, err
}

// verify tells whether the position of a feed that was just opened is a place between two changes of the log.
func (f *Feed) verify() error {
	if err := f.open(); err != nil {
		return err
	}
	if past := f.log.repl.Lineage(); f.reader == nil && f.at.Epoch > past.Current().Epoch {
		return ErrUnsettled // a newer primary has made it, of which this node does not know yet
	}
	if f.reader == nil {
		return &MalformedError{clip(f.at.String()), "the log does not reach up to it"}
	}
	frame, err := f.reader.TryNext()
	switch {
	case err != nil:
		return f.failure(err)
	case frame != nil:
		return f.begin(frame, f.log.data.Schema.Load())
	case f.at.Into > 0:
		return f.malformed()
	}
	return nil
}

// CursorState is a cursor and how far it is behind.
type CursorState struct {
	format.Cursor
	Lost bool // the log behind it is no longer kept, or went on differently: no feed goes on from there
	// Bytes is how much log there is behind it; 0: no change is behind it. Unknown where it is lost.
	Bytes uint64
	// Since is when the first change behind it was logged, by the clock of the primary; the zero time: none is behind it.
	Since time.Time
}

// Lag is how old the first change behind the cursor is; 0: none is behind it.
func (c *CursorState) Lag(now time.Time) time.Duration {
	if c.Since.IsZero() {
		return 0
	}
	return max(0, now.Sub(c.Since))
}

// Cursors knows how far the cursors are behind. It reads the log once for each place of a cursor, up to the first change, as records of
// cursors and of producers behind a cursor are no lag. Safe for concurrent use.
type Cursors struct {
	source Source

	mu     sync.Mutex // guards probes, and is held while the log is read
	probes map[string]*probe
	last   atomic.Pointer[map[string]CursorState]

	quit, done chan struct{} // nil: nothing runs
}

// probe is the knowledge of the log behind a cursor.
type probe struct {
	position string   // of the cursor
	begin    uint64   // log offset of the cursor
	at       Position // up to which the log was read
	lost     bool
	since    time.Time // of the first change; the zero time: there is none before at
}

const (
	// lookEach is how often Start looks. One cursor takes 20 us where it has moved.
	lookEach = time.Second
	// probeBytes is how much log a look reads for one cursor.
	probeBytes = 1 << 20
)

// NewCursors returns the cursors of a store.
func NewCursors(source Source) *Cursors {
	return &Cursors{source: source, probes: make(map[string]*probe)}
}

// Start looks once a second until Stop.
func (c *Cursors) Start() {
	c.quit, c.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(c.done)
		tick := time.NewTicker(lookEach)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.Look()
			case <-c.quit:
				return
			}
		}
	}()
}

// Stop ends Start. It is called once at most.
func (c *Cursors) Stop() {
	if c.quit != nil {
		close(c.quit)
		<-c.done
	}
}

// Last is the result of the last look. It does not wait for the disk.
func (c *Cursors) Last() []CursorState {
	if c.quit == nil {
		return c.Look()
	}
	list := c.source.data.Cursors.List()
	states := make([]CursorState, len(list))
	for i, v := range list {
		if last := c.last.Load(); last != nil {
			states[i] = (*last)[v.Name]
		}
		states[i].Cursor = v
	}
	return states
}

// Look reads the log behind the cursors, and returns all of them by name.
func (c *Cursors) Look() []CursorState {
	list := c.source.data.Cursors.List()
	c.mu.Lock()
	defer c.mu.Unlock()
	states := make([]CursorState, len(list))
	probes, last := make(map[string]*probe, len(list)), make(map[string]CursorState, len(list))
	for i, v := range list {
		p := c.probes[v.Name]
		if p == nil || p.position != v.Position {
			p = newProbe(v.Position)
		}
		probes[v.Name] = p
		states[i] = c.look(v, p)
		last[v.Name] = states[i]
	}
	c.probes = probes
	c.last.Store(&last)
	return states
}

func newProbe(position string) *probe {
	at, err := ParsePosition(position)
	return &probe{position: position, begin: at.Offset(), at: at, lost: err != nil}
}

// look reads what a probe does not know yet. REQUIRES mu.
func (c *Cursors) look(v format.Cursor, p *probe) CursorState {
	end := c.source.repl.Written()
	p.lost = p.lost || v.Offset < c.source.repl.First()
	if !p.lost && p.since.IsZero() && p.at.Offset() < end {
		p.read(c.source, end)
	}
	if p.lost && !c.source.repl.Lineage().Replica { // a replica may not have heard of the history yet
		c.source.data.Cursors.NoteDead(v.Name, v.Position)
	}
	s := CursorState{Cursor: v, Lost: p.lost, Since: p.since}
	switch {
	case p.lost:
		s.Since = time.Time{}
	case !p.since.IsZero():
		s.Bytes = end - min(end, p.begin)
	default:
		s.Bytes = end - min(end, p.at.Offset())
	}
	return s
}

// read looks for the first change.
func (p *probe) read(source Source, end uint64) {
	f, err := source.Open(p.at, Filter{})
	if err != nil {
		p.fail(err)
		return
	}
	defer f.Close() // it was only read
	change, err := f.Next(end, probeBytes)
	p.fail(err)
	if change != nil {
		p.since = time.UnixMilli(change.TimeMS)
		return
	}
	p.at = f.Position()
}

// fail notes that no feed goes on from there. Other errors may go away.
func (p *probe) fail(err error) {
	p.lost = p.lost || errors.Is(err, ErrGone) || errors.Is(err, ErrHistory) || errors.Is(err, ErrMalformed)
}
