// Package topbuild builds the top lists of columns (package toplist) in the background: after a start, when a column gets a list, when
// posts came or went at once, and when deletions and falling values have used a list up. Queries look at the posts until a list
// is there.
package topbuild

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/pace"
	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/counter/internal/toplist"
	"github.com/counterd/counterd/schema"
)

// Builder builds the lists of a store, one at a time.
type Builder struct {
	s    *core.Data
	quit chan struct{}
	done sync.WaitGroup
	once sync.Once

	builds atomic.Int64
}

// Init prepares a builder.
func (r *Builder) Init(s *core.Data) { r.s, r.quit = s, make(chan struct{}) }

// Start begins to build, whenever Data.Unlisted says that something is short.
func (r *Builder) Start() { r.done.Go(r.run) }

// Stop ends the goroutine that Start began.
func (r *Builder) Stop() {
	r.once.Do(func() { close(r.quit) })
	r.done.Wait()
}

// Stats counts top lists.
type Stats struct {
	Lists  int
	Short  int   // of these, not built yet: queries look at all posts
	Builds int64 // since the start
}

// Stats counts the lists. It takes no lock of the store: INFO may be asked for in a transaction, which has all of them.
func (r *Builder) Stats() Stats {
	st := Stats{Builds: r.builds.Load()}
	if lists := r.s.Listed.Load(); lists != nil {
		st.Lists = len(*lists)
		for _, l := range *lists {
			if l.Short() {
				st.Short++
			}
		}
	}
	return st
}

const (
	// restShare bounds the time of building: it rests ten times as long as it worked, so lists that are used up all the time take a tenth of a
	// processor at most.
	restShare = 10
	maxRest   = time.Minute
	// firstRetry is the pause after a list could not be built, as a file cannot be read. It doubles up to maxRest.
	firstRetry = time.Second
)

func (r *Builder) run() {
	var retry <-chan time.Time
	for failures := 0; ; {
		select {
		case <-r.quit:
			return
		case <-r.s.Unlisted:
		case <-retry:
		}
		retry = nil
		began := time.Now()
		if r.All() {
			failures = 0
		} else {
			retry = time.After(min(firstRetry<<min(failures, 10), maxRest))
			failures++
		}
		select {
		case <-r.quit:
			return
		case <-time.After(min(restShare*time.Since(began), maxRest)):
		}
	}
}

// Kept is a list and the counter that it is of.
type Kept struct {
	Counter *schema.Counter
	List    *toplist.List
	// Of a derived column, whose space Counter is: the column, and the counter that it is a column of.
	Derived *schema.Derived
	Owner   *schema.Counter
}

// Lists are those that there are.
func (r *Builder) Lists() (lists []Kept) {
	r.s.Gate.RLock()
	defer r.s.Gate.RUnlock()
	for _, sp := range r.s.Spaces {
		if sp == nil || sp[0].Tops == nil || r.s.Closed {
			continue
		}
		for _, l := range sp[0].Tops.All {
			w := Kept{Counter: sp[0].Def, List: l}
			if w.Counter.IsSpace() {
				w.Owner, w.Derived = r.s.Schema.Load().SpaceOf(w.Counter.ID)
			}
			lists = append(lists, w)
		}
	}
	return lists
}

// All builds every list that is short of entries. It answers false if one still is.
func (r *Builder) All() bool {
	built := true
	for _, w := range r.Lists() {
		if w.List.Short() && !r.stopped() {
			built = r.build(w) && built
		}
	}
	return built
}

func (r *Builder) stopped() bool {
	select {
	case <-r.quit:
		return true
	default:
		return false
	}
}

// build looks for the best of all posts, and gives them to the list. It answers false if the list is short afterwards.
func (r *Builder) build(w Kept) bool {
	number := w.List.Build()
	want := 2 * w.List.Want
	best, seen, err := r.scan(w, want)
	if err == nil {
		err = r.add(w, best)
	}
	if err != nil {
		w.List.Abandon(number)
		return false
	}
	from := toplist.Entry{} // all posts were found
	if len(best) == want {
		from = best[want-1]
	}
	r.builds.Add(1)
	return w.List.Done(number, from, seen) && !w.List.Short()
}

// look is a search for the best of all posts.
type look interface {
	Step(b query.View) (done bool, err error)
	best() []toplist.Entry
}

// values looks for those with the largest values of a column.
type values struct{ *query.Top }

func (v values) best() []toplist.Entry {
	best := make([]toplist.Entry, v.Rows().Len())
	for i := range best {
		mid, values := v.Rows().At(i)
		best[i] = toplist.Entry{Value: values[0], Mid: mid}
	}
	return best
}

// newLook prepares one for the best k of w.
func newLook(w Kept, k int) (look, error) {
	q := query.Query{Counter: w.Counter, To: schema.MaxMid}
	if w.Counter.IsWindow() {
		find, err := query.NewFind(q)
		return &sums{Find: find, def: w.Counter, k: k}, err
	}
	t, err := query.NewTop(q, int16(w.Counter.Index(w.List.Column)), k)
	if err != nil {
		return nil, err
	}
	t.Scan()
	return values{t}, nil
}

// scan finds the posts with the largest values. seen is the log offset behind all blocks that it has met.
func (r *Builder) scan(w Kept, k int) (best []toplist.Entry, seen uint64, err error) {
	t, err := newLook(w, k)
	if err != nil {
		return nil, 0, err
	}
	b := r.s.NewBatch()
	turns := pace.Pace{}
	for {
		r.rest(&turns)
		if err := b.Begin(); err != nil {
			return nil, 0, err
		}
		done, err := t.Step((*core.View)(b))
		b.End()
		b.Reset()
		if err != nil || done {
			return t.best(), core.SeenBy(b), err
		}
		if r.stopped() {
			return nil, 0, core.ErrClosed
		}
	}
}

// rest is called between two steps, in which nothing is locked.
func (r *Builder) rest(turns *pace.Pace) {
	if wait := r.s.Config.Listing; wait != nil {
		wait()
	}
	turns.Rest()
}

// addTurn is how many posts are looked up between two rests.
const addTurn = 256

// add gives the posts to the list, each with the value that it has now, under the lock of its block.
func (r *Builder) add(w Kept, best []toplist.Entry) error {
	b := r.s.NewBatch()
	turns := pace.Pace{}
	for posts := range slices.Chunk(best, addTurn) {
		r.rest(&turns)
		if err := b.Begin(); err != nil {
			return err
		}
		err := r.addSome(b, w, posts)
		b.End()
		if err != nil {
			return err
		}
	}
	return nil
}

// addSome is add for some posts. REQUIRES b to be open.
func (r *Builder) addSome(b *core.Batch, w Kept, posts []toplist.Entry) error {
	def := b.Schema().CounterByID(w.Counter.ID)
	if def == nil || def.Index(w.List.Column) < 0 {
		return &query.DroppedError{Counter: w.Counter.Name}
	}
	column, sp, now := def.Index(w.List.Column), r.s.Spaces[def.ID], r.s.Time.Seconds()
	for i := range posts {
		mid := posts[i].Mid
		if r.s.Own.Hides(mid) {
			continue
		}
		ks := sp.Of(mid)
		blk := ks.Lock(mid)
		p, err := ks.Find(blk, mid)
		if err == nil && p.Found() {
			var value uint64
			if def.IsWindow() {
				value, err = core.SumOf(ks, blk, mid, now)
			} else {
				value, err = ks.Value(blk, mid, p, column)
			}
			if err == nil && (value > 0 || !def.IsWindow()) {
				w.List.Add(toplist.Entry{Value: value, Mid: mid}, blk.Logged)
			}
		}
		blk.Mu.Unlock()
		if err != nil {
			return err
		}
	}
	if def.IsWindow() && r.s.Time.Seconds() != now { // a replica's time moves on beside batches
		r.s.RefreshSums(sp, w.List)
	}
	return nil
}
