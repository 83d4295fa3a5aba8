// Scenario: a feed while nodes change roles, groups of hash slots move and history is cut.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestFeedModel has a consumer read now from the primary and now from its replica, at any place, while both are used, restarted,
// killed and cut, change roles and are restored: it sees each change once, in order, and has the posts of the store.
func TestFeedModel(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	playFeeds(t, 21, (*pair).step)
}

// TestFeedRepairModel is TestFeedModel with damaged files, which are repaired. A consumer is told where its position has no past in common with
// the log of a node, and begins again then.
func TestFeedRepairModel(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	playFeeds(t, 22, (*pair).stepOrDamage)
}

// playFeeds plays pairs, each with a seed of its own and the number of a stream of random numbers.
func playFeeds(t *testing.T, stream uint64, step func(*pair, *testing.T)) {
	t.Helper()
	newRand(t)
	runs := 3
	if *long {
		runs = 500
	}
	total := feedPlay{}
	for run := range runs {
		runSeed := *seed + uint64(run)
		t.Run(fmt.Sprintf("seed=%d", runSeed), func(t *testing.T) {
			total.run(t, newPair(t, rand.New(rand.NewPCG(runSeed, stream))), step)
		})
	}
	t.Logf("%d reads, %d compared, %d positions gone", total.reads, total.compared, total.gone)
	if total.compared == 0 {
		t.Error("nothing was compared")
	}
}

// feedPlay counts the looks of the consumers at a feed.
type feedPlay struct{ reads, compared, gone int }

// run has a consumer look at a pair between steps.
func (f *feedPlay) run(t *testing.T, p *pair, step func(*pair, *testing.T)) {
	t.Helper()
	r := newFeedReader()
	lost := func() bool { return p.counts["restored"]+p.counts["damaged"] > 0 }
	look := func(n *pairNode) {
		t.Helper()
		if r.at.IsZero() && n.s.repl.First() > 0 {
			return // A consumer that begins needs a log that has everything: this one's schema is before its first record.
		}
		p.reach(t)
		r.olds.damaged = p.counts["damaged"] > 0
		safe := min(p.common(t), p.nodes[0].s.data.Log.Durable(), p.nodes[1].s.data.Log.Durable())
		err := r.read(t, n.s, safe)
		if lost() && (errors.As(err, new(*FeedGoneError)) || errors.As(err, new(*FeedHistoryError))) {
			// A restored directory has no log before the moment, and all changes behind it are lost if it becomes the primary.
			if f.gone++; n.s.repl.First() == 0 && !n.s.Replica() {
				r = newFeedReader()
			}
			return
		}
		if errors.Is(err, format.ErrCorrupt) && p.counts["damaged"] > 0 {
			return // in a part of the log that no start needs
		}
		if err != nil {
			t.Fatalf("from %s of a log that ends at %d: %v", r.at, n.s.repl.Written(), err)
		}
		f.reads++
		if r.at.Offset() == n.s.data.Log.Position() {
			checkStore(t, n.s, r.posts)
			f.compared++
		}
	}
	look(p.nodes[0])
	for range 250 {
		step(p, t)
		if p.rng.IntN(3) == 0 {
			look(p.nodes[p.rng.IntN(2)])
		}
	}
	p.meet(t)
	var whole [2]*feedReader
	for i, n := range p.nodes {
		if err := n.s.data.Log.Sync(); err != nil {
			t.Fatal(err)
		}
		whole[i] = newFeedReader()
	}
	for i, n := range p.nodes {
		if look(n); n.s.repl.First() > 0 || lost() {
			continue
		}
		if err := whole[i].read(t, n.s, n.s.data.Log.Durable()); err != nil {
			t.Fatal(err)
		}
		for _, at := range whole[i].seen {
			if _, found := slices.BinarySearch(r.seen, at); !found {
				t.Fatalf("the change at %d was not seen", at)
			}
		}
	}
	if !lost() && !slices.Equal(whole[0].shown, whole[1].shown) {
		t.Fatal("the two nodes show different changes")
	}
	p.close(t)
}

// TestFeedGroups: while groups of hash slots move, each change is in the feed of one of the two stores, and positions taken in
// the middle of a move are good.
func TestFeedGroups(t *testing.T) {
	var stores [2]*Store
	var readers [2]*feedReader
	for i := range stores {
		stores[i], _ = openFeed(t, func(o *Options) { o.SlotGroups = true })
		readers[i] = newFeedReader()
	}
	from, to := stores[0], stores[1]
	var set slot.Set
	set.Add(slot.Group(1))
	to.Groups().Own(slot.AllGroups().Minus(set))
	look := func() {
		t.Helper()
		for i, s := range stores {
			if err := s.data.Log.Sync(); err != nil {
				t.Fatal(err)
			}
			if err := readers[i].read(t, s, s.data.Log.Durable()); err != nil {
				t.Fatal(err)
			}
			if now, err := s.Feeds().Now(s.data.Log.Durable()); err != nil || now != readers[i].at {
				t.Fatalf("now is %s, %v, and the feed ends at %s", now, err, readers[i].at)
			}
		}
	}
	feedIncr(t, from, "1.v", 1)
	look()
	in, err := to.Groups().Import("move-1", set)
	if err != nil {
		t.Fatal(err)
	}
	look()
	x, err := from.Groups().Export(set)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var rows []byte
	for at, done := (ExportPlace{}), false; !done; {
		if rows, at, done, err = x.Rows(rows, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := in.Apply(rows); err != nil {
		t.Fatal(err)
	}
	look()
	if readers[1].at.Coming != set {
		t.Errorf("%s does not have the groups on their way", readers[1].at)
	}
	feedIncr(t, from, "1.v", 1)
	records, _, _, err := x.Log(nil, x.From(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := in.Apply(records); err != nil {
		t.Fatal(err)
	}
	look()
	if _, err := to.Groups().Accept("move-1", set); err != nil {
		t.Fatal(err)
	}
	from.Groups().Own(slot.AllGroups().Minus(set))
	to.Groups().Own(slot.AllGroups())
	if _, err := from.Groups().Drop("move-1", set); err != nil {
		t.Fatal(err)
	}
	feedIncr(t, to, "1.v", 1)
	look()
	want := [2][]string{
		{"set a:1 v=1", "set a:1 v=2", fmt.Sprintf("lose \"move-1\" %s", set)},
		{fmt.Sprintf("gain \"move-1\" %s", set), "set a:1 v=3"},
	}
	for i := range stores {
		if got := readers[i].all()[1:]; !slices.Equal(got, want[i]) {
			t.Errorf("store %d: got %q, want %q", i, got, want[i])
		}
		whole := readAll(t, stores[i], FeedFilter{})
		if !slices.Equal(whole.shown, readers[i].shown) {
			t.Errorf("store %d: got %q at once, and %q step by step", i, whole.shown, readers[i].shown)
		}
	}
	// An attempt that is given up brings nothing.
	var other slot.Set
	other.Add(slot.Group(2))
	if _, err := to.Groups().Import("move-2", other); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Groups().Drop("move-2", other); err != nil {
		t.Fatal(err)
	}
	before := len(readers[1].shown)
	look()
	if got := readers[1].shown[before:]; len(got) > 0 {
		t.Errorf("an attempt that was given up shows %q", got)
	}
	// The oldest position is one where the moves are known.
	for range 2 {
		if err := to.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.data.Log.Segments().DropBefore(to.data.Log.Durable()); err != nil {
		t.Fatal(err)
	}
	if at, err := to.Feeds().Oldest(); err != nil || at.Offset() < to.repl.First() {
		t.Errorf("the oldest position is %s, %v, the log begins at %d", at, err, to.repl.First())
	}
}

// TestFeedHistory: a consumer that was shown unsafe changes is told where the histories part, and has the right posts when it
// goes on from there.
func TestFeedHistory(t *testing.T) {
	s, opts := openFeed(t, func(o *Options) { o.AppendFsync = SyncEverySec })
	feedIncr(t, s, "1.v", 1)
	if err := s.data.Log.Sync(); err != nil {
		t.Fatal(err)
	}
	durable := s.data.Log.Durable()
	feedIncr(t, s, "1.v", 1)
	r := newFeedReader()
	if err := r.read(t, s, s.data.Log.Written()); err != nil || r.posts["a"][1]["v"] != 2 {
		t.Fatal(r.posts, err)
	}
	sim := opts.FS.(*vfs.Sim).Crash(1, 0)
	_ = s.Close()
	opts.FS = sim
	again := openDir(t, "data", *opts, "")
	feedIncr(t, again, "1.v", 5)
	if err := again.data.Log.Sync(); err != nil {
		t.Fatal(err)
	}
	var cut *FeedHistoryError
	if err := r.read(t, again, again.data.Log.Durable()); !errors.As(err, &cut) || !cut.Known || cut.Common.Offset() != durable {
		t.Fatalf("got %v, want a common position at %d", err, durable)
	}
	undone := newFeedReader()
	undone.posts, undone.sch, undone.at = model{"a": {1: maps.Clone(r.posts["a"][1])}, "b": {}}, r.sch, cut.Common
	undone.posts["a"][1]["v"] = 1
	if err := undone.read(t, again, again.data.Log.Durable()); err != nil {
		t.Fatal(err)
	}
	checkStore(t, again, undone.posts)
}
