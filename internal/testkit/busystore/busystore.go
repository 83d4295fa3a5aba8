// Package busystore makes random changes of every kind that a log can hold, for tests that copy, back up or move a store at work. Only
// tests import it.
package busystore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// Mids bounds the ids of posts.
const Mids = 300

// Limits let fewer producers in than Work has. A producer that was idle for a second gives its place up.
var Limits = counter.ProducerLimits{Producers: 5, MinIdle: 1}

// Schema is the schema of a store before Work begins. Two columns count the additions to m: nothing leaves the window of
// the first one within a test, and all additions leave that of the second one soon. A third one has the additions to both, which fade in some
// minutes.
const Schema = "add counter w\nadd column w n hint=8 max=30 suffix=n\nadd column w m hint=4 max=32 suffix=m top=3\nadd column w long window=1h/5m of=m\nadd column w short window=10s/1s of=m\nadd column w heat decay=1m of=m*3+n top=4"

// Work makes changes. It sleeps now and then, so that producers become idle: run it in a bubble of synctest.
type Work struct {
	Rng    *rand.Rand
	Counts map[string]int // how often each kind of change was made

	added int
	seqs  map[string]uint64
}

// NewWork makes changes that rng draws.
func NewWork(rng *rand.Rand) *Work {
	return &Work{Rng: rng, Counts: map[string]int{}, seqs: map[string]uint64{}}
}

// Forget lets producers begin to count anew, as behind a failover that lost numbers.
func (w *Work) Forget() { w.seqs = map[string]uint64{} }

// Change makes one change of any kind, or two.
func (w *Work) Change(s *counter.Store) error {
	rng := w.Rng
	mid := rng.Uint64N(Mids)
	switch k := rng.IntN(100); {
	case k < 45:
		_, err := s.Incr(fmt.Sprintf("%d.m", mid), rng.Int64N(9))
		return err
	case k < 70:
		id := fmt.Sprint("producer", rng.IntN(9))
		seq := w.seqs[id]
		if seq == 0 || rng.IntN(4) > 0 {
			seq++
		}
		_, _, err := w.Numbered(s, id, seq, fmt.Sprintf("%d.m", mid))
		return err
	case k < 80:
		w.Counts["update"]++
		return w.update(s, mid)
	case k < 90:
		return w.alter(s)
	case k < 92:
		w.Counts["flush"]++
		return exclusive(s, func(b *counter.Batch) error { return b.Whole().Clear() })
	case k < 95:
		return w.drop(s, mid)
	default:
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		return w.tick(s)
	}
}

// tick moves the time of windows on. Now and then it removes counts that have left them.
func (w *Work) tick(s *counter.Store) error {
	if err := s.Replication().AdmitCursors(); err != nil {
		return err
	}
	was := s.Windows().Time()
	if err := s.Windows().Tick(s.Admin().Now(), nil); err != nil {
		return err
	}
	if s.Windows().Time() > was {
		w.Counts["tick"]++
	}
	for i := range s.Schema().Counter("w").Derived {
		if w.Rng.IntN(3) > 0 {
			continue
		}
		n, err := s.Windows().Sweep(&s.Schema().Counter("w").Derived[i], nil)
		if err != nil {
			return err
		}
		if n > 0 {
			w.Counts["sweep"]++
		}
	}
	return nil
}

// drop drops the posts of a range of mids, now and then of all mids below an end.
func (w *Work) drop(s *counter.Store, mid uint64) error {
	if err := s.Replication().AdmitCursors(); err != nil {
		return err
	}
	from := mid
	if w.Rng.IntN(2) == 0 {
		from = 0
	}
	return exclusive(s, func(b *counter.Batch) error {
		drop, err := b.Whole().DropRange(b.Schema().Counter("w"), from, mid+1+w.Rng.Uint64N(40), slot.AllGroups())
		if err == nil && drop.Posts > 0 {
			w.Counts["drop"]++
		}
		return err
	})
}

func exclusive(s *counter.Store, do func(b *counter.Batch) error) error {
	b := s.NewBatch()
	err := b.BeginExclusive()
	if err == nil {
		err = do(b)
		b.End()
	}
	return errors.Join(err, b.Commit())
}

// update changes the posts of a range as one change.
func (w *Work) update(s *counter.Store, mid uint64) error {
	change := counter.Change{Kind: []counter.OpKind{counter.OpAdd, counter.OpSet, counter.OpDelete}[w.Rng.IntN(3)], Column: int16(w.Rng.IntN(2)), Arg: w.Rng.Uint64N(20)}
	return exclusive(s, func(b *counter.Batch) error {
		u, err := counter.NewUpdate(counter.Query{Counter: b.Schema().Counter("w"), From: mid, To: mid + w.Rng.Uint64N(100)}, []counter.Change{change}, counter.ReturnNothing)
		for done := false; err == nil && !done; {
			done, err = u.Gather(b)
		}
		if err != nil {
			return err
		}
		return u.Apply(b)
	})
}

// alter adds or drops a column or a counter.
func (w *Work) alter(s *counter.Store) error {
	w.added++
	def := s.Schema().Counter("w")
	switch n := len(def.Columns); {
	case n > 2 && w.Rng.IntN(2) == 0:
		return s.AlterScript("drop column w " + def.Columns[2+w.Rng.IntN(n-2)].Name)
	case s.Schema().Counter("v") != nil:
		return s.AlterScript("drop counter v")
	case w.Rng.IntN(3) == 0:
		return errors.Join(s.AlterScript("add counter v\nadd column v z hint=8 max=30 suffix=z"), s.Set("7.z", 1))
	default:
		return s.AlterScript(fmt.Sprintf("add column w c%d hint=2 max=30 default=%d suffix=c%d", w.added, w.Rng.IntN(3), w.added))
	}
}

// Numbered makes a numbered change, or repeats one. It is not done where its producer found no place.
func (w *Work) Numbered(s *counter.Store, id string, seq uint64, key string) (done, repeat bool, err error) {
	before := s.Admin().ProducerStats().Producers
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return false, false, err
	}
	k, _ := b.Schema().ParseKey([]byte(key))
	b.Add(counter.Op{Kind: counter.OpAdd, Counter: k.Counter, Column: int16(k.Col), Mid: k.Mid, Arg: 1})
	o, _ := b.Once(0)
	o.Producer, o.Seq = []byte(id), seq
	b.Run()
	b.End()
	var full *counter.ProducersFullError
	var expired *counter.ExpiredError
	switch err := errors.Join(o.Err, b.Op(0).Err, b.Commit()); {
	case errors.As(err, &full):
		w.Counts["full"]++
	case errors.As(err, &expired): // behind Forget
	case err != nil:
		return false, false, err
	default:
		done, w.seqs[id] = true, seq
		if before == Limits.Producers && !o.Repeat {
			w.Counts["with all places taken"]++
		}
	}
	return done, o.Repeat, nil
}

// Digest returns a text that two stores share if they hold the same schema, posts, counts of windows, top lists and state of producers.
func Digest(s *counter.Store) (string, error) {
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return "", err
	}
	defer b.End()
	text := b.Schema().String()
	for _, def := range b.Schema().Counters() {
		d, err := counter.NewReader(b).Digest(def.Name, 0, 1<<63)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintf("%s %v;", def.Name, d)
		counts, err := windows(b, def)
		if err != nil {
			return "", err
		}
		text += counts
		best, err := tops(b, def)
		if err != nil {
			return "", err
		}
		text += best
	}
	producers, err := b.Producers().List(100)
	if err != nil {
		return "", err
	}
	slices.SortFunc(producers, func(a, b counter.ProducerInfo) int { return strings.Compare(a.ID, b.ID) })
	for _, p := range producers {
		p.LastUsed = 0
		text += fmt.Sprintf("%+v;", p)
	}
	return text, nil
}

// windows is the derived columns of a counter's posts.
func windows(b *counter.Batch, def *schema.Counter) (text string, err error) {
	if len(def.Derived) == 0 {
		return "", nil
	}
	q := counter.Query{Counter: def, To: schema.MaxMid}
	for i := range def.Derived {
		q.Columns = append(q.Columns, int16(len(def.Columns)+i))
	}
	f, err := counter.NewFind(q)
	for done := false; err == nil && !done; {
		if done, err = f.Step(b); err != nil {
			break
		}
		for i := range f.Rows().Len() {
			if mid, values := f.Rows().At(i); slices.ContainsFunc(values, func(n uint64) bool { return n > 0 }) {
				text += fmt.Sprintf("%d %v;", mid, values)
			}
		}
	}
	return text, err
}

// tops is the best posts of each column that has a list.
func tops(b *counter.Batch, def *schema.Counter) (text string, err error) {
	for i := range def.Width() {
		k := int(def.Col(i).Top)
		if k == 0 {
			continue
		}
		t, err := counter.NewTop(counter.Query{Counter: def, To: schema.MaxMid}, int16(i), k)
		for done := false; err == nil && !done; {
			done, err = t.Step(b)
		}
		if err != nil {
			return "", err
		}
		for n := range t.Rows().Len() {
			mid, values := t.Rows().At(n)
			text += fmt.Sprintf("%s %d %d;", def.Col(i).Name, mid, values[0])
		}
	}
	return text, nil
}

// DropPools empties every sync.Pool. Call it behind a bubble of synctest in which a log was compressed: the decoders that package format
// keeps have channels of that bubble, and a later test that is given such a decoder ends the process.
func DropPools() {
	runtime.GC()
	runtime.GC() // the first collection keeps them for one more
}
