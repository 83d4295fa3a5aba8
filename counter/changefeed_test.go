package counter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// feedReader is a consumer of a feed: it keeps a position, and the posts that it made of the changes.
type feedReader struct {
	at     FeedPosition
	sch    *schema.Schema
	posts  model
	shown  []string // the changes, as text
	seen   []uint64 // their offsets
	filter FeedFilter
	olds   oldCheck
}

func newFeedReader() *feedReader {
	return &feedReader{sch: schema.Empty(), posts: model{}, filter: FeedFilter{Old: true}}
}

// read reads all changes up to an offset, from a feed that is opened by the text of the position.
func (r *feedReader) read(t testing.TB, s *Store, safe uint64) error {
	t.Helper()
	at := r.at
	if !at.IsZero() {
		var err error
		if at, err = ParseFeedPosition(at.String()); err != nil || at != r.at {
			t.Fatalf("position %s: got %+v, %v, want %+v", r.at, at, err, r.at)
		}
	} else {
		var err error
		if at, err = s.Feeds().Oldest(); err != nil {
			return err
		}
	}
	f, err := s.Feeds().Open(at, r.filter)
	if err != nil {
		return err
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	for {
		c, err := f.Next(safe, 1<<40)
		if err != nil {
			return err
		}
		if r.at = f.Position(); c == nil {
			return nil
		}
		if r.at != c.Position || r.at.Offset() > safe {
			t.Fatalf("a change at %s, the feed is at %s, safe is %d", c.Position, r.at, safe)
		}
		r.take(t, c)
	}
}

// take applies a change.
func (r *feedReader) take(t testing.TB, c *FeedChange) {
	t.Helper()
	if n := len(r.seen); n > 0 && r.seen[n-1] >= c.Position.Offset() {
		t.Fatalf("a change at %d behind one at %d", c.Position.Offset(), r.seen[n-1])
	}
	r.seen = append(r.seen, c.Position.Offset())
	r.shown = append(r.shown, changeText(c))
	for i := range c.Parts {
		p := &c.Parts[i]
		r.olds.check(t, r, c, p)
		switch p.Kind {
		case FeedFlush:
			for name := range r.posts {
				r.posts[name] = map[uint64]map[string]uint64{}
			}
		case FeedSchema:
			next, err := schema.ParseDurable([]byte(p.Text))
			if err != nil {
				t.Fatal(err)
			}
			r.alter(next)
		case FeedDrop:
			maps.DeleteFunc(r.posts[p.Counter.Name], func(mid uint64, _ map[string]uint64) bool {
				return mid >= p.Mid && mid < p.End && (p.Groups == nil || p.Groups.Has(slot.Group(mid)))
			})
		case FeedDel:
			delete(r.posts[p.Counter.Name], p.Mid)
		case FeedSet:
			row := r.posts[p.Counter.Name][p.Mid]
			if row == nil {
				row = map[string]uint64{}
				for _, col := range r.sch.Counter(p.Counter.Name).Columns {
					row[col.Name] = col.Default
				}
				r.posts[p.Counter.Name][p.Mid] = row
			}
			for _, v := range p.Values {
				row[p.Counter.Columns[v.Column].Name] = v.Value
			}
		}
	}
}

// alter makes the posts those of another schema.
func (r *feedReader) alter(next *schema.Schema) {
	posts := model{}
	for _, def := range next.Counters() {
		posts[def.Name] = map[uint64]map[string]uint64{}
		was := r.sch.CounterByID(def.ID)
		if was == nil {
			continue
		}
		for mid, row := range r.posts[was.Name] {
			now := map[string]uint64{}
			for _, col := range def.Columns {
				now[col.Name] = col.Default
				if i := was.Index(col.ID); i >= 0 {
					now[col.Name] = row[was.Columns[i].Name]
				}
			}
			posts[def.Name][mid] = now
		}
	}
	r.sch, r.posts = next, posts
}

// changeText is a change as a test compares it.
func changeText(c *FeedChange) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s @%d", c.Position, c.TimeMS)
	for i := range c.Parts {
		p := &c.Parts[i]
		fmt.Fprintf(&b, " %s", p.Kind)
		if p.Counter != nil {
			fmt.Fprintf(&b, " %s:%d", p.Counter.Name, p.Mid)
		}
		for _, v := range p.Values {
			fmt.Fprintf(&b, " %s=%d", p.Counter.Columns[v.Column].Name, v.Value)
		}
		if p.Old.Told {
			fmt.Fprint(&b, " old")
		}
		for _, v := range p.Old.Values {
			fmt.Fprintf(&b, " %s=%d", p.Counter.Columns[v.Column].Name, v.Value)
		}
		if p.Text != "" {
			fmt.Fprintf(&b, " %q", p.Text)
		}
		if p.Groups != nil {
			fmt.Fprintf(&b, " %s", p.Groups)
		}
	}
	return b.String()
}

// parts is a change without position and time.
func parts(text string) string {
	_, rest, _ := strings.Cut(text, "@")
	_, rest, _ = strings.Cut(rest, " ")
	return rest
}

// all is the list of the changes shown, without positions and times.
func (r *feedReader) all() (list []string) {
	for _, text := range r.shown {
		list = append(list, parts(text))
	}
	return list
}

// openFeed opens a store whose log is kept.
func openFeed(t testing.TB, change ...func(*Options)) (*Store, *Options) {
	t.Helper()
	opts := &Options{FS: vfs.NewSim(), Manual: true, HashSeed: 1, RetainBytes: 1 << 40, SnapshotGrowth: -1, AppendFsync: SyncAlways}
	for _, f := range change {
		f(opts)
	}
	s := openDir(t, "data", *opts, "add counter a\nadd column a v hint=3 max=20 suffix=v top=2\nadd column a w hint=8 max=40 default=2 suffix=w\nadd counter b\nadd column b x hint=4 max=20 suffix=x")
	return s, opts
}

// incr adds n to a column.
func feedIncr(t testing.TB, s *Store, key string, n int64) {
	t.Helper()
	if _, err := s.Incr(key, n); err != nil {
		t.Fatal(err)
	}
}

// readAll reads a feed from the beginning.
func readAll(t testing.TB, s *Store, filter FeedFilter) *feedReader {
	t.Helper()
	r := newFeedReader()
	r.filter = filter
	if err := r.read(t, s, s.data.Log.Durable()); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFeedWhole: one change of several posts is shown as one, and each position within a frame is one to go on from.
func TestFeedWhole(t *testing.T) {
	s, _ := openFeed(t)
	b := s.NewBatch()
	begin := func(exclusive bool) *schema.Counter {
		t.Helper()
		b.Reset()
		f := b.Begin
		if exclusive {
			f = b.BeginExclusive
		}
		if err := f(); err != nil {
			t.Fatal(err)
		}
		return b.Schema().Counter("a")
	}
	commit := func() {
		t.Helper()
		b.Run()
		b.End()
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	a := begin(false) // several changes in one frame
	for mid := range uint64(3) {
		b.Add(Op{Kind: OpAdd, Counter: a, Mid: mid, Arg: 1})
	}
	commit()
	a = begin(false) // one change
	for mid := range uint64(3) {
		b.Add(Op{Kind: OpSet, Counter: a, Mid: mid, Column: int16(mid % 2), Arg: 5})
	}
	b.ChangeSet(0)
	commit()
	a = begin(false) // a numbered one, and one with a result of its own
	b.Add(Op{Kind: OpAdd, Counter: a, Mid: 7, Arg: 9})
	o, _ := b.Once(0)
	o.Producer, o.Seq = []byte("p"), 1
	b.Add(Op{Kind: OpDelete, Counter: a, Mid: 0})
	o, _ = b.Once(1)
	o.Producer, o.Seq, o.Make = []byte("p"), 2, func(*Batch, *Once, int, int) Result { return Result{Kind: ResultOK} }
	commit()
	want := []string{"set a:0 v=1", "set a:1 v=1", "set a:2 v=1", "set a:0 v=5 set a:1 w=5 set a:2 v=5", "set a:7 v=9", "del a:0"}
	r := readAll(t, s, FeedFilter{})
	if got := r.all()[1:]; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	inside := 0
	for i, text := range r.shown { // from each position on
		place, _, _ := strings.Cut(text, " ")
		at, err := ParseFeedPosition(place)
		if err != nil {
			t.Fatal(err)
		}
		rest := newFeedReader()
		rest.at, rest.sch, rest.posts = at, s.Schema(), model{"a": {}, "b": {}}
		if err := rest.read(t, s, s.data.Log.Durable()); err != nil || !slices.Equal(rest.shown, r.shown[i+1:]) {
			t.Fatalf("from %s: got %q, %v, want %q", at, rest.shown, err, r.shown[i+1:])
		}
		if at.Into == 0 {
			continue
		}
		inside++
		at.Into++ // in the middle of a record
		if f, err := s.Feeds().Open(at, FeedFilter{}); err == nil {
			if c, err := f.Next(s.data.Log.Durable(), 1<<20); !errors.Is(err, ErrFeedMalformed) {
				t.Errorf("from %s: got %v, %v", at, c, err)
			}
			f.Close()
		} else {
			t.Error(err)
		}
	}
	if inside < 2 {
		t.Errorf("%d positions within a frame", inside)
	}
	at := r.at
	at.Frame-- // where no frame begins
	if err := (&feedReader{at: at}).read(t, s, s.data.Log.Durable()); !errors.Is(err, ErrFeedMalformed) {
		t.Errorf("from %s: got %v", at, err)
	}
}

// TestFeedSchema: columns and counters come and go, also between a change and its reading.
func TestFeedSchema(t *testing.T) {
	s, _ := openFeed(t)
	alter := func(script string) {
		t.Helper()
		if err := s.AlterScript(script); err != nil {
			t.Fatal(err)
		}
	}
	feedIncr(t, s, "1.v", 3)
	alter("add column a y hint=3 default=4 suffix=y")
	feedIncr(t, s, "1.y", 1)
	feedIncr(t, s, "2.y", 1) // makes the post
	if err := s.Set("b:5.x", 6); err != nil {
		t.Fatal(err)
	}
	soon := readAll(t, s, FeedFilter{})
	checkStore(t, s, soon.posts)
	alter("drop column a y\ndrop counter b\nadd column a y hint=3 default=1 suffix=y\nadd counter b\nadd column b x hint=4 suffix=x")
	feedIncr(t, s, "1.y", 1)
	if err := soon.read(t, s, s.data.Log.Durable()); err != nil {
		t.Fatal(err)
	}
	late := readAll(t, s, FeedFilter{})
	checkStore(t, s, soon.posts)
	checkStore(t, s, late.posts)
	var got []string
	for _, text := range late.all() {
		if !strings.HasPrefix(text, "schema") {
			got = append(got, text)
		}
	}
	if want := []string{"set a:1 v=3", "set a:1", "set a:2", "set a:1 y=2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFeedFilter: a filter shows its counters, columns and mids, and changes of no single post.
func TestFeedFilter(t *testing.T) {
	s, _ := openFeed(t)
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	for mid := range uint64(4) {
		b.Add(Op{Kind: OpSet, Counter: b.Schema().Counter("a"), Mid: mid, Arg: 1})
		b.Add(Op{Kind: OpSet, Counter: b.Schema().Counter("a"), Mid: mid, Column: 1, Arg: 1})
	}
	b.ChangeSet(0)
	b.Run()
	b.End()
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := s.Set("b:2.x", 6); err != nil {
		t.Fatal(err)
	}
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	if err := b.Whole().Clear(); err != nil {
		t.Fatal(err)
	}
	b.End()
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct {
		f    FeedFilter
		want []string
	}{
		{FeedFilter{}, []string{"set a:0 v=1 w=1 set a:1 v=1 w=1 set a:2 v=1 w=1 set a:3 v=1 w=1", "set b:2 x=6", "flush"}},
		{FeedFilter{Counters: []string{"b"}}, []string{"set b:2 x=6", "flush"}},
		{FeedFilter{Columns: []string{"w"}}, []string{"set a:0 w=1 set a:1 w=1 set a:2 w=1 set a:3 w=1", "flush"}},
		{FeedFilter{Columns: []string{"w", "x"}, From: 2, To: 3}, []string{"set a:2 w=1", "set b:2 x=6", "flush"}},
		{FeedFilter{From: 3}, []string{"set a:3 v=1 w=1", "flush"}},
		{FeedFilter{Counters: []string{}}, []string{"flush"}},
	} {
		if got := readAll(t, s, w.f).all()[1:]; !slices.Equal(got, w.want) {
			t.Errorf("%+v: got %q, want %q", w.f, got, w.want)
		}
	}
}

// TestFeedGone: log that is not kept gives an error that names the oldest position.
func TestFeedGone(t *testing.T) {
	s, _ := openFeed(t, func(o *Options) { o.RetainBytes, o.SegmentBytes = 0, 512 })
	begin, err := s.Feeds().Oldest()
	if err != nil || begin.Offset() != 0 {
		t.Fatal(begin, err)
	}
	for i := range 200 {
		feedIncr(t, s, "1.v", 1)
		if i%60 == 59 {
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var gone *FeedGoneError
	if _, err := s.Feeds().Open(begin, FeedFilter{}); !errors.As(err, &gone) || gone.Oldest.Offset() == 0 {
		t.Fatalf("got %v", err)
	}
	if feeds := s.Feeds(); feeds.Kept(begin) || !feeds.Kept(gone.Oldest) {
		t.Errorf("kept: got %v and %v, want only the oldest position", feeds.Kept(begin), feeds.Kept(gone.Oldest))
	}
	r := newFeedReader()
	r.at, r.sch, r.posts = gone.Oldest, s.Schema(), model{"a": {}, "b": {}}
	if err := r.read(t, s, s.data.Log.Durable()); err != nil {
		t.Fatal(err)
	}
	if last := r.all()[len(r.shown)-1]; last != "set a:1 v=200" {
		t.Errorf("the last change is %q", last)
	}
}

// TestFeedDamaged: changes before the damage are shown, the damage is an error, and a position behind it is good.
func TestFeedDamaged(t *testing.T) {
	sim := vfs.NewSim()
	s, _ := openFeed(t, func(o *Options) { o.FS, o.SegmentBytes = sim, 512 })
	for range 50 {
		feedIncr(t, s, "1.v", 1)
	}
	whole := readAll(t, s, FeedFilter{})
	list := s.data.Log.Segments().List()
	hurt := list[len(list)/2]
	if err := sim.Damage(hurt.Path, func(b []byte) []byte { b[len(b)-int(int64(len(b))-int64(64+(hurt.End-hurt.Start)/2))] ^= 1; return b }); err != nil {
		t.Fatal(err)
	}
	r := newFeedReader()
	err := r.read(t, s, s.data.Log.Durable())
	if !errors.Is(err, format.ErrCorrupt) || r.at.Offset() < hurt.Start || r.at.Offset() >= hurt.End {
		t.Fatalf("got %v at %s, want damage in %+v", err, r.at, hurt)
	}
	if !slices.Equal(r.shown, whole.shown[:len(r.shown)]) {
		t.Error("other changes before the damage")
	}
	n, _ := slices.BinarySearch(whole.seen, hurt.End)
	place, _, _ := strings.Cut(whole.shown[n], " ")
	if r.at, err = ParseFeedPosition(place); err != nil {
		t.Fatal(err)
	}
	had := len(r.shown)
	if err := r.read(t, s, s.data.Log.Durable()); err != nil || !slices.Equal(r.shown[had:], whole.shown[n+1:]) {
		t.Errorf("behind the damage: got %q, %v, want %q", r.shown[had:], err, whole.shown[n+1:])
	}
}

// TestFeedUnreadable: a file of the log that is gone, or that the disk does not give, is an error of its own.
func TestFeedUnreadable(t *testing.T) {
	sim := vfs.NewSim()
	faulty := vfs.NewFaulty(sim)
	s, _ := openFeed(t, func(o *Options) { o.FS, o.SegmentBytes = faulty, 512 })
	for range 50 {
		feedIncr(t, s, "1.v", 1)
	}
	read := func(when string) {
		if err := newFeedReader().read(t, s, s.data.Log.Durable()); !errors.Is(err, ErrFeedUnreadable) {
			t.Errorf("%s: got %v", when, err)
		}
	}
	faulty.Inject(vfs.Rule{Ops: vfs.OpRead, Glob: "*.aof", Every: 1, Err: syscall.EIO})
	read("the disk fails")
	faulty.Clear()
	list := s.data.Log.Segments().List()
	if err := sim.Damage(list[len(list)/2].Path, func([]byte) []byte { return nil }); err != nil {
		t.Fatal(err)
	}
	read("a segment is gone")
}

// TestFeedPacked: compressed log is read as it was.
func TestFeedPacked(t *testing.T) {
	s, opts := openFeed(t, func(o *Options) { o.CompressLog = true })
	for round := range 3 {
		b := s.NewBatch()
		for i := range 200 {
			if err := b.Begin(); err != nil {
				t.Fatal(err)
			}
			b.Reset()
			for j := range 20 {
				b.Add(Op{Kind: OpAdd, Counter: b.Schema().Counter("a"), Mid: uint64(round*100 + i + j), Arg: 1})
			}
			b.Run()
			b.End()
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil { // the next start begins a segment
			t.Fatal(err)
		}
		s = openDir(t, "data", *opts, "")
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	before := readAll(t, s, FeedFilter{})
	s.packing.PackAll(nil)
	if st := s.data.Log.Stats(); st.Packed == 0 {
		t.Fatalf("%+v", st)
	}
	after := readAll(t, s, FeedFilter{})
	if !slices.Equal(before.shown, after.shown) {
		t.Error("the compressed log shows other changes")
	}
	checkStore(t, s, after.posts)
	for i := 7; i < len(before.shown); i += 997 {
		place, _, _ := strings.Cut(before.shown[i], " ")
		r := newFeedReader()
		r.at, _ = ParseFeedPosition(place)
		r.sch, r.posts = s.Schema(), model{"a": {}, "b": {}}
		if err := r.read(t, s, s.data.Log.Durable()); err != nil || !slices.Equal(r.shown, before.shown[i+1:]) {
			t.Fatalf("from %s: %d changes, %v, want %d", place, len(r.shown), err, len(before.shown)-i-1)
		}
	}
}
