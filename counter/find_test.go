package counter

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/schema"
)

// randomQuery is any query on the schema in force. mid gives mids that items may have.
func randomQuery(rng *rand.Rand, def *schema.Counter, mid func() uint64) query.Query {
	q := query.Query{Counter: def, To: schema.MaxMid, Desc: rng.IntN(2) == 0}
	if rng.IntN(2) == 0 {
		q.From = mid()
	}
	if rng.IntN(2) == 0 {
		q.To = mid()
	}
	if rng.IntN(5) == 0 {
		q.Mids = []uint64{}
		for range rng.IntN(20) {
			q.Mids = append(q.Mids, mid())
		}
	}
	for range max(0, rng.IntN(5)-2) {
		q.NotMids = append(q.NotMids, mid())
	}
	for range rng.IntN(3) {
		q.Where = append(q.Where, randomCondition(rng, def))
	}
	if rng.IntN(3) == 0 {
		q.Limit = 1 + rng.IntN(30)
	}
	if rng.IntN(5) == 0 {
		q.Offset = rng.IntN(30)
	}
	if rng.IntN(2) == 0 {
		q.Columns = []int16{}
		for range rng.IntN(4) {
			q.Columns = append(q.Columns, int16(rng.IntN(len(def.Columns))))
		}
	}
	return q
}

func randomCondition(rng *rand.Rand, def *schema.Counter) query.Condition {
	c := query.Condition{Column: int16(rng.IntN(len(def.Columns))), Op: query.Compare(rng.IntN(6)), Value: rng.Uint64() >> rng.IntN(64)}
	switch rng.IntN(4) {
	case 0:
		c.Value = rng.Uint64N(4)
	case 1:
		c.Value = def.Columns[c.Column].Default
	case 2:
		c.Op = query.Compare(1 + rng.IntN(5)) // hardly anything is equal
	}
	return c
}

// meets is what conditions mean, word for word.
func meets(c query.Condition, v uint64) bool {
	switch c.Op {
	case query.Equal:
		return v == c.Value
	case query.NotEqual:
		return v != c.Value
	case query.Less:
		return v < c.Value
	case query.LessEqual:
		return v <= c.Value
	case query.Greater:
		return v > c.Value
	default:
		return v >= c.Value
	}
}

// modelFind is what a query finds in the items of its counter, in order and without regard to Limit and Offset.
func modelFind(q query.Query, items map[uint64]map[string]uint64) (mids []uint64) {
	for mid, row := range items {
		ok := mid >= q.From && mid <= q.To && (q.Mids == nil || slices.Contains(q.Mids, mid)) && !slices.Contains(q.NotMids, mid)
		for _, c := range q.Where {
			ok = ok && meets(c, row[q.Counter.Columns[c.Column].Name])
		}
		if ok {
			mids = append(mids, mid)
		}
	}
	slices.Sort(mids)
	if q.Desc {
		slices.Reverse(mids)
	}
	return mids
}

// modelRow is a row of a query.
func modelRow(q query.Query, mid uint64, row map[string]uint64) []uint64 {
	out := []uint64{mid}
	if q.Columns == nil {
		for _, c := range q.Counter.Columns {
			out = append(out, row[c.Name])
		}
	}
	for _, c := range q.Columns {
		out = append(out, row[q.Counter.Columns[c].Name])
	}
	return out
}

// stepping runs all steps of a query, each in a batch of its own.
func stepping(t testing.TB, s *Store, step func(*Batch) (bool, error), told func()) {
	t.Helper()
	if err := s.steps(step, func() bool { told(); return true }); err != nil {
		t.Fatal(err)
	}
}

// rowsOf copies rows.
func rowsOf(r *query.Rows) (rows [][]uint64) {
	for i := range r.Len() {
		mid, values := r.At(i)
		rows = append(rows, append([]uint64{mid}, values...))
	}
	return rows
}

func sameRows(a, b [][]uint64) bool { return slices.EqualFunc(a, b, slices.Equal[[]uint64]) }

// playQuery runs a random query of each kind and compares what it finds with the model. Updates change both.
func playQuery(t *testing.T, rng *rand.Rand, s *Store, m model, mid func() uint64) {
	t.Helper()
	defs := s.Schema().Counters()
	def := defs[rng.IntN(len(defs))]
	q := randomQuery(rng, def, mid)
	most := []int{1, 2, 7, query.StepRows}[rng.IntN(4)]
	items := m[def.Name]
	found := modelFind(q, items)
	what := fmt.Sprintf("%s: %+v", def.Name, q)
	playFind(t, s, q, most, found, items, what)
	playAggregate(t, rng, s, q, most, found, items, what)
	playTop(t, rng, s, q, most, found, items, what)
	playUpdate(t, rng, s, q, most, found, items, what)
}

func playFind(t *testing.T, s *Store, q query.Query, most int, found []uint64, items map[uint64]map[string]uint64, what string) {
	t.Helper()
	var want, got [][]uint64
	for _, mid := range found[min(q.Offset, len(found)):] {
		want = append(want, modelRow(q, mid, items[mid]))
	}
	// Page by page, if there is a limit.
	for page := q; ; {
		var rows [][]uint64
		f, err := query.NewFind(page)
		if err != nil {
			t.Fatal(err)
		}
		f.Search.Most = most
		stepping(t, s, viewing(f.Step), func() { rows = append(rows, rowsOf(f.Rows())...) })
		if got = append(got, rows...); q.Limit > 0 && len(rows) > q.Limit {
			t.Fatalf("%s: got %d rows", what, len(rows))
		}
		next, more := f.Next()
		if !more {
			break
		}
		if len(rows) != q.Limit {
			t.Fatalf("%s: done with %d rows and more to come at %d", what, len(rows), next)
		}
		page.GoOn(next)
		page.Offset = 0
	}
	if !sameRows(got, want) {
		t.Fatalf("%s\nFIND: got %v\nwant %v", what, got, want)
	}
}

func playAggregate(t *testing.T, rng *rand.Rand, s *Store, q query.Query, most int, found []uint64, items map[uint64]map[string]uint64, what string) {
	t.Helper()
	column := rng.IntN(len(q.Counter.Columns))
	sum, least, largest := new(big.Int), uint64(math.MaxUint64), uint64(0)
	for _, mid := range found {
		v := items[mid][q.Counter.Columns[column].Name]
		sum.Add(sum, new(big.Int).SetUint64(v))
		least, largest = min(least, v), max(largest, v)
	}
	for kind, want := range []*big.Int{big.NewInt(int64(len(found))), sum, new(big.Int).SetUint64(least), new(big.Int).SetUint64(largest)} {
		a, err := query.NewAggregate(q, query.AggregateKind(kind), int16(column))
		if err != nil {
			t.Fatal(err)
		}
		if a.Search.Most = most; a.Top != nil {
			a.Top.Search.Most = most
		}
		stepping(t, s, viewing(a.Step), func() {})
		hi, lo, some := a.Result()
		got := new(big.Int).Lsh(new(big.Int).SetUint64(hi), 64)
		got.Add(got, new(big.Int).SetUint64(lo))
		if some != (len(found) > 0) || some && got.Cmp(want) != 0 {
			t.Fatalf("%s\naggregate %d of column %d: got %v, %v, want %v of %d items", what, kind, column, got, some, want, len(found))
		}
	}
}

func playTop(t *testing.T, rng *rand.Rand, s *Store, q query.Query, most int, found []uint64, items map[uint64]map[string]uint64, what string) {
	t.Helper()
	column, k := rng.IntN(len(q.Counter.Columns)), 1+rng.IntN(20)
	name := q.Counter.Columns[column].Name
	slices.SortFunc(found, func(a, b uint64) int {
		return cmp.Or(cmp.Compare(items[b][name], items[a][name]), cmp.Compare(b, a))
	})
	var want [][]uint64
	for _, mid := range found[:min(k, len(found))] {
		want = append(want, []uint64{mid, items[mid][name]})
	}
	top, err := query.NewTop(q, int16(column), k)
	if err != nil {
		t.Fatal(err)
	}
	top.Search.Most = most
	stepping(t, s, viewing(top.Step), func() {})
	if got := rowsOf(top.Rows()); !sameRows(got, want) {
		t.Fatalf("%s\nTOP %d of column %d: got %v\nwant %v", what, k, column, got, want)
	}
}

// randomChanges are what an update of a counter may do.
func randomChanges(rng *rand.Rand, def *schema.Counter) []Change {
	if rng.IntN(8) == 0 {
		return []Change{{Kind: OpDelete}}
	}
	var changes []Change
	for _, c := range rng.Perm(len(def.Columns))[:1+rng.IntN(min(3, len(def.Columns)))] {
		change := Change{Kind: []OpKind{OpSet, OpAdd, OpAdd, OpReset}[rng.IntN(4)], Column: int16(c), Arg: rng.Uint64() >> rng.IntN(64)}
		switch change.Kind {
		case OpSet:
			change.Arg &= def.Columns[c].Limit()
		case OpAdd:
			change.Arg = uint64(rng.Int64N(7) - 3)
		}
		changes = append(changes, change)
	}
	return changes
}

// modelChange returns what changes make of a row, nil where a value would leave its column.
func modelChange(def *schema.Counter, row map[string]uint64, changes []Change) map[string]uint64 {
	next := maps.Clone(row)
	for _, c := range changes {
		col := &def.Columns[c.Column]
		switch c.Kind {
		case OpSet:
			next[col.Name] = c.Arg
		case OpReset:
			next[col.Name] = col.Default
		case OpAdd:
			v := new(big.Int).Add(new(big.Int).SetUint64(row[col.Name]), big.NewInt(int64(c.Arg)))
			if v.Sign() < 0 || v.Cmp(new(big.Int).SetUint64(col.Limit())) > 0 {
				return nil
			}
			next[col.Name] = v.Uint64()
		}
	}
	return next
}

func playUpdate(t *testing.T, rng *rand.Rand, s *Store, q query.Query, most int, _ []uint64, items map[uint64]map[string]uint64, what string) {
	t.Helper()
	changes, ret := randomChanges(rng, q.Counter), Returning(rng.IntN(3))
	deletes := changes[0].Kind == OpDelete
	if deletes && ret == ReturnNew {
		ret = ReturnOld
	}
	if len(q.Where) == 0 && rng.IntN(4) > 0 {
		q.Where = append(q.Where, randomCondition(rng, q.Counter)) // or all items become the same
	}
	if q.Limit == 0 {
		q.Limit = 1 + rng.IntN(100)
	}
	what = fmt.Sprintf("%s with %v %+v, returning %d", what, q.Where, changes, ret)
	var want [][]uint64
	changed, unfit := 0, 0
	for _, mid := range modelFind(q, items) {
		if changed == q.Limit {
			break
		}
		row := items[mid]
		next := modelChange(q.Counter, row, changes)
		if next == nil {
			unfit++
			continue
		}
		changed++
		switch {
		case ret == ReturnOld:
			want = append(want, modelRow(q, mid, row))
		case ret == ReturnNew:
			want = append(want, modelRow(q, mid, next))
		}
		if items[mid] = next; deletes {
			delete(items, mid)
		}
	}
	u, err := NewUpdate(q, changes, ret)
	if err != nil {
		t.Fatal(err)
	}
	u.u.Search.Most = most
	var got [][]uint64
	mids := 0
	if rng.IntN(2) == 0 { // as one change
		stepping(t, s, u.Gather, func() {})
		b := s.NewBatch()
		if err := b.BeginExclusive(); err != nil {
			t.Fatal(err)
		}
		err := u.Apply(b)
		b.End()
		if err := errors.Join(err, b.Commit()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got, mids = rowsOf(u.Rows()), len(u.Mids())
	} else {
		stepping(t, s, u.Step, func() { got, mids = append(got, rowsOf(u.Rows())...), mids+len(u.Mids()) })
	}
	if u.Changed() != changed || u.Unfit() != unfit || mids != changed || !sameRows(got, want) {
		t.Fatalf("%s\nUPDATE: got %d changed, %d mids, %d unfit, rows %v\nwant %d, %d unfit, %v", what, u.Changed(), mids, u.Unfit(), got, changed, unfit, want)
	}
}

// TestUpdateWhole makes updates that are one change, or none.
func TestUpdateWhole(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	s, m, mids := playedStore(t, rng, 12_000)
	def := s.Schema().Counter("a")
	b := s.NewBatch()
	whole := func(q query.Query, changes ...Change) (*Update, error) {
		u, err := NewUpdate(q, changes, ReturnOld)
		if err != nil {
			t.Fatal(err)
		}
		u.u.Search.Most = 100
		if err := s.steps(u.Gather, func() bool { return true }); err != nil {
			return u, err
		}
		if err := b.BeginExclusive(); err != nil {
			t.Fatal(err)
		}
		err = u.Apply(b)
		b.End()
		return u, errors.Join(err, b.Commit())
	}
	var many *TooManyError
	q := query.Query{Counter: def, To: schema.MaxMid}
	if u, err := whole(q, Change{Kind: OpSet, Column: 2, Arg: 1}); !errors.As(err, &many) || many.Most != MaxGathered || u.Changed() != 0 {
		t.Errorf("12,000 items: got %v, %d changed", err, u.Changed())
	}
	for _, mid := range mids[100:105] { // chance may have given one of them the value that is left out
		if err := s.Set(fmt.Sprintf("%d.w", mid), 30); err != nil {
			t.Fatal(err)
		}
		m["a"][mid]["w"] = 30
	}
	// What does not meet the query any more when its turn comes stays as it is, and so does what is gone.
	late := query.Query{Counter: def, From: mids[100], To: mids[104], Where: []query.Condition{{Column: 0, Op: query.GreaterEqual, Value: 0}, {Column: 1, Op: query.NotEqual, Value: 31}}}
	u, err := NewUpdate(late, []Change{{Kind: OpSet, Column: 2, Arg: 5}}, ReturnNothing)
	if err != nil {
		t.Fatal(err)
	}
	stepping(t, s, u.Gather, func() {})
	if err := s.Set(fmt.Sprintf("%d.w", mids[101]), 31); err != nil {
		t.Fatal(err)
	}
	if _, err := s.do(fmt.Sprintf("%d.w", mids[103]), Op{Kind: OpDelete}); err != nil {
		t.Fatal(err)
	}
	m["a"][mids[101]]["w"] = 31
	delete(m["a"], mids[103])
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	err = u.Apply(b)
	b.End()
	if want := []uint64{mids[100], mids[102], mids[104]}; err != nil || !slices.Equal(u.Mids(), want) {
		t.Fatalf("got %v, %v, want %v", u.Mids(), err, want)
	}
	for _, mid := range u.Mids() {
		m["a"][mid]["x"] = 5
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		demoteBlocks(t, s)
		q := randomQuery(rng, def, func() uint64 { return mids[rng.IntN(len(mids))] })
		q.Limit, q.Offset, q.Columns = 1+rng.IntN(9000), 0, nil
		change := Change{Kind: OpSet, Column: 2, Arg: rng.Uint64N(100)}
		found := modelFind(q, m["a"])
		found = found[:min(len(found), q.Limit)]
		start := s.data.Log.Position()
		u, err := whole(q, change)
		if err != nil || u.Changed() != len(found) || u.Rows().Len() != len(found) || len(u.Mids()) != len(found) {
			t.Fatalf("%+v: got %v, %d changed, %d rows, want %d", q, err, u.Changed(), u.Rows().Len(), len(found))
		}
		if len(found) == 0 && s.data.Log.Position() != start {
			t.Fatal("nothing was logged as a change")
		}
		for _, mid := range found {
			m["a"][mid]["x"] = change.Arg
		}
	}
	checkStore(t, s, m)
	s.data.Full.Store(true) // no row can go to an overlay
	q.To = mids[0]
	if u, err := whole(q, Change{Kind: OpAdd, Column: 2, Arg: 1}); err == nil && u.Changed() > 0 && s.data.Spaces[def.ID][0].Dir.Load().Find(mids[0]).Cold != nil {
		t.Logf("%d changed in the overlay", u.Changed())
	} else if err != nil && !errors.Is(err, ErrMaxMemory) {
		t.Error(err)
	}
	s.data.Full.Store(false)
}

// TestQueryErrors asks for what cannot be.
func TestQueryErrors(t *testing.T) {
	s := open(t, Options{}, seedScript)
	def := s.Schema().Counters()[0]
	all := query.Query{Counter: def, To: schema.MaxMid}
	with := func(f func(q *query.Query)) query.Query {
		q := all
		f(&q)
		return q
	}
	var bad *query.QueryError
	for what, q := range map[string]query.Query{
		"no counter":    {},
		"limit":         with(func(q *query.Query) { q.Limit = -1 }),
		"offset":        with(func(q *query.Query) { q.Offset = -1 }),
		"column":        with(func(q *query.Query) { q.Columns = []int16{int16(len(def.Columns))} }),
		"column below":  with(func(q *query.Query) { q.Columns = []int16{-1} }),
		"where":         with(func(q *query.Query) { q.Where = []query.Condition{{Column: 99}} }),
		"comparison":    with(func(q *query.Query) { q.Where = []query.Condition{{Op: 6}} }),
		"too many mids": with(func(q *query.Query) { q.Mids = make([]uint64, query.MaxQueryList+1) }),
	} {
		if _, err := query.NewFind(q); !errors.As(err, &bad) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	for _, k := range []int{0, -1, query.MaxTop + 1} {
		if _, err := query.NewTop(all, 0, k); !errors.As(err, &bad) {
			t.Errorf("top %d: got %v", k, err)
		}
	}
	if _, err := query.NewTop(all, 77, 1); !errors.As(err, &bad) {
		t.Errorf("top of column 77: got %v", err)
	}
	if _, err := query.NewAggregate(all, query.Max+1, 0); !errors.As(err, &bad) {
		t.Errorf("aggregate: got %v", err)
	}
	if _, err := query.NewAggregate(all, query.Sum, -1); !errors.As(err, &bad) {
		t.Errorf("sum of column -1: got %v", err)
	}
	for what, changes := range map[string][]Change{
		"none":        nil,
		"read":        {{Kind: OpGet}},
		"column":      {{Kind: OpSet, Column: 9}},
		"twice":       {{Kind: OpSet}, {Kind: OpAdd}},
		"delete more": {{Kind: OpDelete}, {Kind: OpAdd}},
	} {
		if _, err := NewUpdate(all, changes, ReturnNothing); !errors.As(err, &bad) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if _, err := NewUpdate(all, []Change{{Kind: OpDelete}}, ReturnNew); !errors.As(err, &bad) {
		t.Errorf("what a deletion leaves: got %v", err)
	}
	if _, err := NewUpdate(all, []Change{{Kind: OpSet, Arg: math.MaxUint64}}, ReturnNew); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("a value too large: got %v", err)
	}
}

// TestQueryAfterDrop: a column, or the counter, goes between two steps.
func TestQueryAfterDrop(t *testing.T) {
	for _, drop := range []string{"drop column weibo comment", "drop counter weibo"} {
		s := open(t, Options{BlockItems: 16}, seedScript)
		fill(t, s, 100, 1)
		def := s.Schema().Counter("weibo")
		f, err := query.NewFind(query.Query{Counter: def, To: schema.MaxMid})
		if err != nil {
			t.Fatal(err)
		}
		f.Search.Most = 3
		b := s.NewBatch()
		for f.Rows().Len() == 0 { // a step that others keep from the processor may end before the first row
			if err := b.Begin(); err != nil {
				t.Fatal(err)
			}
			done, err := f.Step((*core.View)(b))
			b.End()
			if done || err != nil {
				t.Fatalf("a first step: got %v, %v, %d rows", done, err, f.Rows().Len())
			}
		}
		if err := s.AlterScript(drop); err != nil {
			t.Fatal(err)
		}
		var dropped *query.DroppedError
		if err := s.steps(viewing(f.Step), func() bool { return true }); !errors.Is(err, ErrNoKey) || !errors.As(err, &dropped) || dropped.Counter != "weibo" {
			t.Errorf("%s: got %v, want that it was dropped", drop, err)
		}
	}
}

// viewing is the step of a query as a step of a batch.
func viewing(step func(query.View) (bool, error)) func(*Batch) (bool, error) {
	return func(b *Batch) (bool, error) { return step((*core.View)(b)) }
}
