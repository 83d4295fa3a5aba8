// Scenario: random batches, changes of the schema and moves between the tiers, compared with a model in maps.

package counter

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// model is what a store should hold: counter name, mid, column name.
type model map[string]map[uint64]map[string]uint64

// checkStore compares everything in s with m, by SCAN and by reading rows, and verifies the blocks.
func checkStore(t *testing.T, s *Store, m model) {
	t.Helper()
	checkTops(t, s)
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	type key struct {
		counter string
		mid     uint64
	}
	var want, got []key
	for name, items := range m {
		for mid := range items {
			want = append(want, key{name, mid})
		}
	}
	order := map[string]int{}
	for i, c := range b.Schema().Counters() {
		order[c.Name] = i
	}
	first := slot.Group(0)
	slices.SortFunc(want, func(a, b key) int {
		if x, y := slot.Group(a.mid)-first, slot.Group(b.mid)-first; s.SlotGroups() && x != y {
			return int(x) - int(y)
		}
		if a.mid != b.mid {
			if a.mid < b.mid {
				return -1
			}
			return 1
		}
		return order[a.counter] - order[b.counter]
	})
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		var items []ScanItem
		items, cursor, _ = NewReader(b).Scan(nil, cursor, 7)
		for _, it := range items {
			got = append(got, key{it.Counter.Name, it.Mid})
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("Scan: got %d items, want %d: %v, %v", len(got), len(want), got[:min(len(got), 20)], want[:min(len(want), 20)])
	}
	if n := b.Items(); n != len(want) {
		t.Fatalf("Items: got %d, want %d", n, len(want))
	}
	b.Reset()
	for _, k := range want {
		b.Add(Op{Kind: OpRead, Counter: b.Schema().Counter(k.counter), Mid: k.mid})
	}
	b.Run()
	for i, k := range want {
		row := b.Row(b.Op(i))
		for c, col := range b.Schema().Counter(k.counter).Columns {
			if row == nil || row[c] != m[k.counter][k.mid][col.Name] {
				t.Fatalf("%s:%d: got %v, want %v", k.counter, k.mid, row, m[k.counter][k.mid])
			}
		}
	}
	for ks := range s.data.Keyspaces {
		end := uint64(0)
		for end != hot.EndMid {
			blk := ks.Lock(end) // the repacker may be at work
			err := blk.Tab.Check()
			lo, hi := blk.Lo, blk.Hi
			blk.Mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			if lo != end || hi <= lo {
				t.Fatalf("got a block [%d,%d), want it to start at %d", lo, hi, end)
			}
			end = hi
		}
		d := ks.Dir.Load()
		for i, blk := range d.Blocks {
			for _, mid := range []uint64{blk.Lo, blk.Hi - 1} {
				if got := d.Find(mid); got != blk || d.Index(mid) != i {
					t.Fatalf("mid %d: got the block from %d on and entry %d, want that from %d on, entry %d", mid, got.Lo, d.Index(mid), blk.Lo, i)
				}
			}
		}
	}
}

// TestModel plays random operations on a store of tiny blocks against a map, with mids in every order, among them 0 and
// 2^63-1, and the schema changing all the time.
func TestModel(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	orders := map[string]func(i int) uint64{
		"rising":  func(i int) uint64 { return uint64(i) * 3 },
		"nearly":  func(i int) uint64 { return uint64(max(0, i*3-rng.IntN(40))) },
		"falling": func(i int) uint64 { return uint64(1<<20 - i*3) },
		"random":  func(int) uint64 { return rng.Uint64() >> 1 },
		"few":     func(int) uint64 { return rng.Uint64N(50) },
		"ends":    func(int) uint64 { return []uint64{0, 1, hot.EndMid - 1, hot.EndMid - 2, 1 << 40}[rng.IntN(5)] },
	}
	steps := 600
	if *long {
		steps = 1500
	}
	for name, next := range orders {
		for _, blockItems := range []int{16, 17, 50, 300, -16, -100} {
			tiers := blockItems < 0 // also on disk, with blocks demoted, merged and promoted all the time
			blockItems := max(blockItems, -blockItems)
			t.Run(fmt.Sprintf("order=%s/block=%d/tiers=%v", name, blockItems, tiers), func(t *testing.T) {
				dir, opts := "", Options{BlockItems: blockItems, HashSeed: rng.Uint64()}
				if rng.IntN(3) == 0 { // tables are full long before their last slot is taken
					opts.probes = 2 + 2*uint(min(1, blockItems/20))
				}
				next := next
				if opts.SlotGroups = rng.IntN(2) == 0; opts.SlotGroups {
					all := next
					next = func(i int) uint64 { return fewGroups(all(i)) }
				}
				if tiers {
					dir, opts.FS, opts.Manual = "data", vfs.NewSim(), true
				}
				s := openDir(t, dir, opts, `add counter a
add column a v hint=3 max=20 suffix=v top=2
add column a w hint=64 max=64 default=9 suffix=w top=3
add counter b
add column b x hint=1 max=1 suffix=x`)
				m := model{"a": {}, "b": {}}
				var mids []uint64
				added := 0
				for i := range steps {
					if i%100 == 99 {
						playSchema(t, rng, s, m, &added)
					}
					if tiers && i%5 == 0 && len(mids) > 0 {
						playTiers(t, rng, s, mids[rng.IntN(len(mids))])
					}
					if i%7 == 0 && len(mids) > 0 {
						playWidths(t, rng, s, mids[rng.IntN(len(mids))])
					}
					playBatch(t, rng, s, m, func() uint64 {
						if len(mids) > 0 && rng.IntN(2) == 0 {
							return mids[rng.IntN(len(mids))]
						}
						mids = append(mids, next(i))
						return mids[len(mids)-1]
					})
					if i%10 == 0 {
						playQuery(t, rng, s, m, func() uint64 {
							if len(mids) > 0 && rng.IntN(8) > 0 {
								return mids[rng.IntN(len(mids))]
							}
							return next(rng.IntN(i + 1))
						})
					}
					if i%200 == 0 {
						checkStore(t, s, m)
					}
				}
				checkStore(t, s, m)
			})
		}
	}
}

// playTiers demotes (or merges) or promotes the block of a mid.
func playTiers(t *testing.T, rng *rand.Rand, s *Store, mid uint64) {
	t.Helper()
	change := s.Admin().Demote
	if rng.IntN(4) == 0 {
		change = s.Admin().Promote
	}
	if err := change([]string{"a", "b"}[rng.IntN(2)], mid); err != nil && !errors.Is(err, ErrNoBlock) {
		t.Fatal(err)
	}
}

// playBatch runs some random operations in one batch and compares every result.
func playBatch(t *testing.T, rng *rand.Rand, s *Store, m model, mid func() uint64) {
	t.Helper()
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	givenRows = givenRows[:0]
	full := rng.IntN(12) == 0
	if full { // no rows are made
		s.data.Full.Store(true)
		defer s.data.Full.Store(false)
	} else {
		for range 1 + rng.IntN(8) {
			b.Add(randomOp(rng, b, mid))
		}
	}
	var groups []span
	for range rng.IntN(3) {
		groups = append(groups, addGroup(rng, b, mid))
		if full {
			break
		}
		b.Add(randomOp(rng, b, mid))
	}
	b.Run()
	at := 0
	for _, g := range groups {
		for ; at < g.from; at++ {
			checkOp(t, b, b.Op(at), m)
		}
		checkGroup(t, b, g, full, m)
		at = g.to
	}
	for ; at < b.Len(); at++ {
		checkOp(t, b, b.Op(at), m)
	}
}

// randomOp is any operation on the schema in force.
func randomOp(rng *rand.Rand, b *Batch, mid func() uint64) Op {
	def := b.Schema().Counters()[rng.IntN(len(b.Schema().Counters()))]
	op := Op{Kind: OpKind(rng.IntN(9)), Counter: def, Mid: mid(), Column: int16(rng.IntN(len(def.Columns)))}
	switch op.Kind {
	case OpSet:
		op.Cond = Cond(rng.IntN(3))
		op.Arg = rng.Uint64() >> rng.IntN(64)
	case OpAdd:
		op.Arg = uint64(int64(rng.Uint64()) >> rng.IntN(64))
		if rng.IntN(2) == 0 {
			op.Arg = 1
		}
	case OpAddWithin:
		if op.Arg = uint64(rng.IntN(80) - 40); rng.IntN(4) == 0 {
			op.Arg = rng.Uint64()
		}
		b.AddWithin(op, boundsOf(&op))
		op = *b.Op(b.Len() - 1)
		b.Truncate(b.Len() - 1) // the caller adds it
	case OpSetRow:
		op = randomRow(rng, b, def, op.Mid)
	}
	return op
}

// boundsOf are the bounds of an OpAddWithin of the model: they follow from what is added, and to which post.
func boundsOf(op *Op) Bounds {
	rng := rand.New(rand.NewPCG(op.Mid, op.Arg))
	bounds := Bounds{Lo: int64(rng.IntN(40) - 10), Hi: int64(rng.IntN(100)), Saturate: rng.IntN(2) == 0}
	if rng.IntN(4) == 0 {
		bounds.Lo, bounds.Hi = -int64(rng.Uint64()>>1), int64(rng.Uint64()>>1>>rng.IntN(63))
	}
	return bounds
}

// givenRow is what an OpSetRow of the model gives.
type givenRow struct {
	columns []int16
	values  []uint64
}

// givenRows are those of the batch at hand, by their shapes.
var givenRows []givenRow

func rowOf(op *Op) givenRow { return givenRows[op.Arg] }

// fits tells whether the columns can hold the values.
func (r givenRow) fits(def *schema.Counter) bool {
	for i, c := range r.columns {
		if r.values[i] > def.Columns[c].Limit() {
			return false
		}
	}
	return true
}

// randomRow is an OpSetRow of some columns, in any order. One value in sixteen is out of its range.
func randomRow(rng *rand.Rand, b *Batch, def *schema.Counter, mid uint64) Op {
	var columns []int16
	for _, c := range rng.Perm(len(def.Columns))[:1+rng.IntN(len(def.Columns))] {
		columns = append(columns, int16(c))
	}
	values := b.SetRow(def, mid, b.Shape(columns, 2)) // for two, so that no other row has the number of its shape
	for i, c := range columns {
		limit := def.Columns[c].Limit()
		if values[i] = rng.Uint64() >> rng.IntN(64) & limit; rng.IntN(16) == 0 {
			values[i] = limit + 1
		}
	}
	op := *b.Op(b.Len() - 1)
	givenRows = append(givenRows[:op.Arg], givenRow{columns, slices.Clone(values)})
	b.Truncate(b.Len() - 1) // the caller adds it
	return op
}

// boundedSum is what an OpAddWithin makes of a value, by whole numbers of any size.
func boundedSum(op *Op, old uint64) (value uint64, ok bool) {
	w := boundsOf(op)
	sum := new(big.Int).Add(new(big.Int).SetUint64(old), big.NewInt(int64(op.Arg)))
	lo, hi := big.NewInt(max(w.Lo, 0)), new(big.Int).SetUint64(min(uint64(max(w.Hi, 0)), op.Counter.Columns[op.Column].Limit()))
	switch {
	case w.Hi < 0 || lo.Cmp(hi) > 0:
		return old, false
	case sum.Cmp(lo) >= 0 && sum.Cmp(hi) <= 0:
		return sum.Uint64(), true
	case !w.Saturate:
		return old, false
	case sum.Cmp(hi) > 0:
		return hi.Uint64(), true
	}
	return lo.Uint64(), true
}

// checkRow is checkOp for an OpSetRow.
func checkRow(t *testing.T, b *Batch, op *Op, items map[uint64]map[string]uint64) {
	t.Helper()
	columns, values := rowOf(op).columns, rowOf(op).values
	for i, c := range columns {
		if values[i] > op.Counter.Columns[c].Limit() {
			if op.Err != ErrOutOfRange || op.Done {
				t.Fatalf("%+v: got error %v, done %v, want %v", op, op.Err, op.Done, ErrOutOfRange)
			}
			return
		}
	}
	if op.Err != nil || !op.Done {
		t.Fatalf("%+v: got error %v, done %v", op, op.Err, op.Done)
	}
	row := items[op.Mid]
	if row == nil {
		row = map[string]uint64{}
		for _, c := range op.Counter.Columns {
			row[c.Name] = c.Default
		}
		items[op.Mid] = row
	}
	for i, c := range columns {
		row[op.Counter.Columns[c].Name] = values[i]
	}
}

// checkOp applies op to the model and compares the result.
func checkOp(t *testing.T, b *Batch, op *Op, m model) {
	t.Helper()
	items := m[op.Counter.Name]
	row, found := items[op.Mid]
	if op.Found != found {
		t.Fatalf("%+v: got found %v, want %v", op, op.Found, found)
	}
	if op.Kind == OpSetRow {
		checkRow(t, b, op, items)
		return
	}
	col := &op.Counter.Columns[op.Column]
	old := col.Default
	if found {
		old = row[col.Name]
	}
	put := func(v uint64) {
		if !found {
			row = map[string]uint64{}
			for _, c := range op.Counter.Columns {
				row[c.Name] = c.Default
			}
			items[op.Mid] = row
		}
		row[col.Name] = v
	}
	var value uint64
	var err error
	done := false
	switch op.Kind {
	case OpGet:
		if found {
			value = old
		}
	case OpSet:
		if found {
			value = old
		}
		switch {
		case op.Cond == IfAbsent && found, op.Cond == IfPresent && !found:
		case op.Arg > col.Limit():
			err = ErrOutOfRange
		default:
			put(op.Arg)
			done = true
		}
	case OpAdd:
		n := int64(op.Arg)
		sum := old + uint64(n)
		if n >= 0 && (sum < old || sum > col.Limit()) || n < 0 && sum > old {
			value, err = old, ErrOutOfRange
		} else {
			value, done = sum, true
			put(sum)
		}
	case OpAddWithin:
		if value, done = boundedSum(op, old); done {
			put(value)
		}
		if got := b.Applied(op); got != int64(value-old) {
			t.Fatalf("%+v: got %d applied, want %d", op, got, int64(value-old))
		}
	case OpReset:
		if found {
			value, done = old, true
			row[col.Name] = col.Default
		}
	case OpRead:
		got := b.Row(op)
		for i, c := range op.Counter.Columns {
			// Later operations of the batch may have changed the model's row already, so rows are compared in
			// checkStore; here only that there is one.
			if found && (got == nil || got[i] > c.Limit()) || !found && got != nil {
				t.Fatalf("%+v: got row %v", op, got)
			}
		}
	case OpDelete:
		done = found
		delete(items, op.Mid)
	}
	if op.Value != value || !errors.Is(op.Err, err) || op.Done != done {
		t.Fatalf("%+v of %s.%s: got %d, %v, done %v, want %d, %v, %v", op, op.Counter.Name, col.Name, op.Value, op.Err, op.Done, value, err, done)
	}
}

// playSchema adds or drops a column or clears everything.
func playSchema(t *testing.T, rng *rand.Rand, s *Store, m model, added *int) {
	t.Helper()
	def := s.Schema().Counters()[rng.IntN(2)]
	script := ""
	switch {
	case rng.IntN(8) == 0:
		b := s.NewBatch()
		if err := b.BeginExclusive(); err != nil {
			t.Fatal(err)
		}
		if err := b.Whole().Clear(); err != nil {
			t.Fatal(err)
		}
		b.End()
		for name := range m {
			m[name] = map[uint64]map[string]uint64{}
		}
		return
	case len(def.Columns) > 1 && rng.IntN(3) == 0:
		at := rng.IntN(len(def.Columns))
		if slices.ContainsFunc(def.Derived, func(d schema.Derived) bool { return d.Counts(at, 1) > 0 }) {
			return // its additions are counted
		}
		col := def.Columns[at].Name
		script = fmt.Sprintf("drop column %s %s", def.Name, col)
		for _, row := range m[def.Name] {
			delete(row, col)
		}
	case rng.IntN(3) == 0:
		col := &def.Columns[rng.IntN(len(def.Columns))]
		err := s.AlterScript(fmt.Sprintf("alter column %s %s top=%s", def.Name, col.Name, []string{"off", "1", "2", "5"}[rng.IntN(4)]))
		if err != nil && !errors.Is(err, schema.ErrLimit) {
			t.Fatal(err)
		}
	case rng.IntN(4) == 0:
		script = fmt.Sprintf("alter counter %s old=%s", def.Name, []string{"on", "off"}[rng.IntN(2)])
	case len(def.Columns) < 60:
		*added++
		width := 1 + rng.IntN(64)
		preset := rng.Uint64N(min(uint64(1)<<min(width, 62), 100))
		col := fmt.Sprintf("c%d", *added)
		script = fmt.Sprintf("add column %s %s hint=%d max=%d default=%d suffix=%s", def.Name, col, 1+rng.IntN(width), width, preset, col)
		for _, row := range m[def.Name] {
			row[col] = preset
		}
	}
	if err := s.AlterScript(script); err != nil {
		t.Fatal(err)
	}
}
