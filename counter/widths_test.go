// Scenario: blocks are sealed, widened and tightened.

package counter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/internal/tier"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/vfs"
)

// playWidths chooses the widths of a random block again: as for one that has come to rest, or as for a young one.
func playWidths(t testing.TB, rng *rand.Rand, s *Store, mid uint64) {
	t.Helper()
	ks := s.data.Spaces[s.Schema().Counters()[rng.IntN(2)].ID].Of(mid)
	var err error
	switch rng.IntN(3) {
	case 0:
		err = s.tiers.ReshapeBeside(ks, mid, ks.TightenPlans)
	case 1:
		err = s.tiers.ReshapeBeside(ks, mid, tier.RepackPlans)
	default:
		b := ks.Lock(mid)
		b, err = ks.Repack(b, mid)
		b.Mu.Unlock()
	}
	if err != nil && !errors.Is(err, tier.ErrReshaped) {
		t.Fatal(err)
	}
}

// sealedWidths returns the widths of the first counter's hot sealed blocks, and fails where one has more values in its
// overflow table than it has room for.
func sealedWidths(t testing.TB, s *Store) (all [][]uint8) {
	t.Helper()
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	first := b.Schema().Counters()[0]
	ks := s.data.Spaces[first.ID][0]
	NewReader(b).Blocks(func(i BlockInfo) bool {
		if i.Counter != first || i.Open || i.Tier != TierHot {
			return true
		}
		var widths []uint8
		for _, f := range i.Layout.Fields {
			widths = append(widths, f.Width)
		}
		all = append(all, widths)
		blk := ks.Lock(i.Lo)
		defer blk.Mu.Unlock()
		if blk.Tab.Crowded() {
			t.Errorf("block [%d,%d): %d of %d items overflow: got no re-packing", i.Lo, i.Hi, i.Overflows, i.Items)
		}
		return true
	})
	return all
}

// TestWidths follows blocks through their life: sealed with counters at 0, growing, each column at its own pace, then
// at rest.
func TestWidths(t *testing.T) {
	s := open(t, Options{BlockItems: 256}, seedScript)
	const items = 2000
	values := map[string]uint64{}
	set := func(key string, v uint64) {
		t.Helper()
		if err := s.Set(key, v); err != nil {
			t.Fatal(err)
		}
		values[key] = v
	}
	check := func(when string, low, high []uint8) {
		t.Helper()
		for key, want := range values {
			if got, found, err := s.Get(key); got != want || !found || err != nil {
				t.Fatalf("%s: %s: got %d, %v, %v, want %d", when, key, got, found, err, want)
			}
		}
		all := sealedWidths(t, s)
		if len(all) < items/512 {
			t.Fatalf("%s: got %d sealed blocks", when, len(all))
		}
		for _, w := range all {
			for c := range w {
				if w[c] < low[c] || w[c] > high[c] {
					t.Fatalf("%s: got widths %v, want %v to %v", when, w, low, high)
				}
			}
		}
	}
	key := func(i int, suffix string) string { return fmt.Sprintf("%d.%s", 1000+7*i, suffix) }
	for i := range items {
		set(key(i, "cntcm"), 0)
	}
	check("sealed", []uint8{block.YoungBits, block.YoungBits, block.YoungBits}, []uint8{block.YoungBits, block.YoungBits, block.YoungBits})
	young := s.Admin().Memory()

	for range 40 { // every post gets 40 comments, one in 8 a repost of many
		for i := range items {
			k := key(i, "cntcm")
			got, err := s.Incr(k, 1)
			if values[k]++; got != values[k] || err != nil {
				t.Fatalf("Incr %s: got %d, %v, want %d", k, got, err, values[k])
			}
		}
	}
	for i := 0; i < items; i += 8 {
		set(key(i, "cntrn"), 1<<32-1)
	}
	check("grown", []uint8{6, block.YoungBits, block.YoungBits}, []uint8{7, 16, block.YoungBits})
	grown := s.Admin().Memory()
	if grown <= young {
		t.Errorf("memory: got %d bytes with values of up to 40, %d with zeros", grown, young)
	}

	for i := range items {
		if i%300 != 0 {
			set(key(i, "cntcm"), 1)
			set(key(i, "cntrn"), 0)
		}
	}
	ks := s.data.Spaces[s.Schema().Counter("weibo").ID][0]
	for _, b := range ks.Dir.Load().Blocks {
		b = ks.LockFor(b, b.Lo)
		if b.TightenDue(b.Packed.Add(block.TightenAfter-1)) || !b.Open() && !b.TightenDue(b.Packed.Add(block.TightenAfter)) {
			t.Errorf("not due after %v", block.TightenAfter)
		}
		edits, open := b.Edits, b.Open()
		b.Mu.Unlock()
		if err := s.tiers.ReshapeBeside(ks, b.Lo, ks.TightenPlans); err != nil && !open {
			t.Fatal(err)
		}
		if b = ks.Lock(b.Lo); b.TightenDue(time.Now().Add(2 * block.TightenAfter)) {
			t.Error("a tightened block is due again")
		}
		if !b.Open() && b.Edits == edits {
			t.Error("a copy that a scan sorted would be taken for one of the new block")
		}
		b.Mu.Unlock()
	}
	check("settled", []uint8{block.TightBits, block.TightBits, block.TightBits}, []uint8{block.TightBits, 2, block.TightBits})
	if m := s.Admin().Memory(); m >= young {
		t.Errorf("memory: got %d bytes tightened, want below %d", m, young)
	}
}

// TestWidthsDurable: images carry the widths, and the log behind them is replayed into such blocks, exactly.
func TestWidthsDurable(t *testing.T) {
	fs := vfs.NewSim()
	s := openDir(t, "data", Options{BlockItems: 128, FS: fs, Manual: true}, seedScript)
	m := model{"weibo": {}}
	rng := newRand(t)
	for i := range 1000 {
		mid := uint64(5000 + 3*i)
		m["weibo"][mid] = map[string]uint64{"comment": 0, "repost": uint64(rng.IntN(9)), "attitude": 0}
		if err := s.Set(fmt.Sprintf("%d.cntrn", mid), m["weibo"][mid]["repost"]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	want := sealedWidths(t, s)
	reopen := func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openDir(t, "data", Options{BlockItems: 128, FS: fs, Manual: true}, seedScript)
		checkStore(t, s, m)
	}
	reopen()
	if got := sealedWidths(t, s); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("widths after recovery: got %v, want %v", got, want)
	}
	for mid, row := range m["weibo"] { // most blocks are widened
		row["attitude"] = rng.Uint64N(1 << (1 + rng.IntN(32)))
		if err := s.Set(fmt.Sprintf("%d.cntan", mid), row["attitude"]); err != nil {
			t.Fatal(err)
		}
	}
	want = sealedWidths(t, s)
	reopen()
	if got := sealedWidths(t, s); len(got) == 0 || got[0][2] < 8 {
		t.Errorf("widths after replay: got %v, were %v", got, want)
	}
	if err := s.AlterScript("add column weibo views hint=16 max=40 default=300 suffix=cntvw\ndrop column weibo repost"); err != nil {
		t.Fatal(err)
	}
	for _, row := range m["weibo"] {
		row["views"] = 300
		delete(row, "repost")
	}
	checkStore(t, s, m)
}

// TestWidenTolerated: a block that could not be re-packed goes on serving, exactly, with its overflow table on the
// heap, until the time comes to try again.
func TestWidenTolerated(t *testing.T) {
	s := open(t, Options{BlockItems: 4096}, seedScript)
	key := func(i int) string { return fmt.Sprintf("%d.cntcm", 1000+7*i) }
	for i := range 9000 {
		if err := s.Set(key(i), 0); err != nil {
			t.Fatal(err)
		}
	}
	ks := s.data.Spaces[s.Schema().Counter("weibo").ID][0]
	b := ks.Dir.Load().Blocks[0]
	items := b.Tab.Len()
	b.Tolerated = int32(items / 2) // as after a failure
	for i := range items {
		if v, err := s.Incr(key(i), 100); v != 100 || err != nil {
			t.Fatalf("Incr: got %d, %v", v, err)
		}
		if dead := ks.Dir.Load().Blocks[0] != b; dead != (i+1 > items/2) {
			t.Fatalf("after %d of %d values outgrew their width: got re-packed %v, want it above %d", i+1, items, dead, items/2)
		}
	}
	for i := range items {
		if v, err := s.Incr(key(i), -5); v != 95 || err != nil {
			t.Fatalf("Incr: got %d, %v", v, err)
		}
	}
	if all := sealedWidths(t, s); all[0][0] != 7 {
		t.Errorf("got widths %v, want 7 bits for values of 100", all[0])
	}
}

// TestWidenBeside: many values of a large block outgrow their widths. A writer leaves it to the background to choose others, and does it itself where four
// times as many overflow meanwhile.
func TestWidenBeside(t *testing.T) {
	for _, background := range []bool{true, false} {
		s := openDir(t, "", Options{BlockItems: 4 * block.AheadLeast}, seedScript)
		if !background {
			s.repacker.Stop() // it does not keep up
		}
		rng := newRand(t)
		const posts = 9 * block.AheadLeast
		model := map[string]uint64{}
		key := func(i int) string { return fmt.Sprintf("%d.cntcm", 1000+7*i) }
		for i := range posts {
			if err := s.Set(key(i), 0); err != nil {
				t.Fatal(err)
			}
			model[key(i)] = 0
		}
		ks := s.data.Spaces[s.Schema().Counter("weibo").ID][0]
		first := func() *block.Block {
			b := ks.Lock(1000)
			b.Mu.Unlock()
			return b
		}
		b := first()
		overflows := func() (n int, asked bool) {
			b.Mu.Lock()
			defer b.Mu.Unlock()
			return b.Tab.Overflows(), b.Tolerated > 0
		}
		if b.Open() || b.Tab.Len() < 2*block.AheadLeast {
			t.Fatalf("the first block has %d posts", b.Tab.Len())
		}
		most, n := 0, 0
		for ; n < b.Tab.Len() && first() == b; n++ {
			k := key(n)
			by := uint64(16 + rng.IntN(200))
			if v, err := s.Incr(k, int64(by)); v != by || err != nil {
				t.Fatalf("Incr %s: got %d, %v, want %d", k, v, err, by)
			}
			model[k] = by
			now, asked := overflows()
			if most = max(most, now); background && asked {
				for end := time.Now().Add(3 * time.Minute); first() == b; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("the background chooses no widths")
					}
				}
				break
			}
		}
		asked := hot.OverflowRoom(0, b.Tab.Slots()/hot.BucketItems) + 1
		switch {
		case first() == b:
			t.Fatalf("background %v: %d of %d posts overflow, and widths stay", background, most, b.Tab.Len())
		case background && most > asked:
			t.Errorf("the background is asked when %d values overflow, want %d", most, asked)
		case !background && most != 4*asked+1: // which makes it choose them
			t.Errorf("a writer chooses widths when %d values overflow, want %d", most, 4*asked+1)
		}
		for k, want := range model {
			if got, found, err := s.Get(k); got != want || !found || err != nil {
				t.Fatalf("%s: got %d, %v, %v, want %d", k, got, found, err, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWidenBesideWriters: additions of all kinds go on while widths are chosen beside them, and none is lost.
func TestWidenBesideWriters(t *testing.T) {
	s := openDir(t, "", Options{BlockItems: 2 * block.AheadLeast}, seedScript)
	rng := newRand(t)
	const posts = 5 * block.AheadLeast
	def := s.Schema().Counter("weibo")
	model := make([][2]uint64, posts)
	b := s.NewBatch()
	run := func(ops []Op, set bool) {
		b.Reset()
		for _, op := range ops {
			b.Add(op)
		}
		if set {
			b.ChangeSet(0)
		}
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		b.Run()
		b.End()
		for i := range ops {
			if err := b.Op(i).Err; err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	mid := func(i int) uint64 { return uint64(1000 + 3*i) }
	for i := 0; i < posts; i += 64 {
		var ops []Op
		for j := i; j < i+64; j++ {
			ops = append(ops, Op{Kind: OpSet, Counter: def, Mid: mid(j)})
		}
		run(ops, false)
	}
	before, _ := s.Admin().Repacks()
	for end := time.Now().Add(3 * time.Minute); ; {
		for range 200 {
			var ops []Op
			kind, set := []OpKind{OpAdd, OpSet}[rng.IntN(2)], rng.IntN(3) == 0
			for range 1 + rng.IntN(100) {
				i, column := rng.IntN(posts), rng.IntN(2)
				arg := uint64(rng.IntN(60))
				if kind == OpAdd {
					model[i][column] += arg
				} else {
					model[i][column] = arg
				}
				ops = append(ops, Op{Kind: kind, Counter: def, Mid: mid(i), Column: int16(column), Arg: arg})
			}
			run(ops, set)
		}
		if after, _ := s.Admin().Repacks(); after >= before+3 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%d blocks were given other widths", after-before)
		}
	}
	for i, want := range model {
		for c, v := range want {
			if got, _, err := s.Get(fmt.Sprintf("%d.%s", mid(i), []string{"cntcm", "cntrn"}[c])); got != v || err != nil {
				t.Fatalf("post %d, column %d: got %d, %v, want %d", i, c, got, err, v)
			}
		}
	}
}
