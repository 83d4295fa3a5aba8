package query

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/schema"
)

// seeded returns a source of random numbers whose seed a failure prints.
func seeded(t *testing.T) *rand.Rand {
	return rand.New(rand.NewPCG(seed.Of(t), 1))
}

// testSchema has columns called like keywords.
func testSchema(t testing.TB) *schema.Schema {
	t.Helper()
	s, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.AlterScript("add counter weibo\nadd column weibo mid hint=64 max=64 primarykey\nadd column weibo comment hint=16 max=32 suffix=cntcm\n" +
		"add column weibo repost hint=16 max=32 suffix=cntrn\nadd column weibo limit hint=8 max=64 suffix=lim\nadd column weibo set hint=8 max=8 suffix=st\n" +
		"add counter other\nadd column other x hint=8 max=32 suffix=xx\n"); err != nil {
		t.Fatal(err)
	}
	return s.Schema()
}

func words(text string) (args [][]byte) {
	for w := range strings.FieldsSeq(text) {
		args = append(args, []byte(w))
	}
	return args
}

// written is a query in the words that it is read from, its range by >= and <=.
func written(rng *rand.Rand, q *counter.Query) (clauses [][]string) {
	key := func(word string) string {
		if rng.IntN(2) == 0 {
			return strings.ToLower(word)
		}
		return word
	}
	num := func(n uint64) string { return strconv.FormatUint(n, 10) }
	column := func(c int16) string {
		if col := q.Counter.Columns[c]; rng.IntN(2) == 0 {
			return col.Suffix
		} else {
			return col.Name
		}
	}
	if q.Mids != nil {
		list := []string{key("MID"), key("IN")}
		for _, m := range q.Mids {
			list = append(list, []string{num(m), "{" + num(m) + "}", "00" + num(m)}[rng.IntN(3)])
		}
		clauses = append(clauses, list)
	} else {
		list := []string{key("MID"), ">=", num(q.From), key("AND"), key("MID"), "<=", num(q.To)}
		for _, m := range q.NotMids {
			list = append(list, key("AND"), key("MID"), "!=", num(m))
		}
		clauses = append(clauses, list)
	}
	for i, c := range q.Where {
		word := key("AND")
		if i == 0 {
			clauses = append(clauses, nil)
			word = key("WHERE")
		}
		last := &clauses[len(clauses)-1]
		*last = append(*last, word, column(c.Column), compares[c.Op].text, num(c.Value))
	}
	if q.Limit > 0 {
		clauses = append(clauses, []string{key("LIMIT"), strconv.Itoa(q.Limit)})
	}
	if q.Offset > 0 {
		clauses = append(clauses, []string{key("OFFSET"), strconv.Itoa(q.Offset)})
	}
	if q.Desc {
		clauses = append(clauses, []string{key("DESC")})
	}
	if q.Columns != nil {
		var list []string
		for i, c := range q.Columns {
			name := column(c)
			if i == 0 || slices.Contains([]string{"limit", "set"}, name) || rng.IntN(4) == 0 {
				list = append(list, key("COLUMNS"))
			}
			list = append(list, name)
		}
		clauses = append(clauses, list)
	}
	return clauses
}

// randomQuery is any that can be written.
func randomQuery(rng *rand.Rand, def *schema.Counter) counter.Query {
	number := func() uint64 { return rng.Uint64N(schema.MaxValue+1) >> rng.IntN(64) }
	q := counter.Query{Counter: def, To: schema.MaxMid}
	if rng.IntN(3) == 0 {
		for range 1 + rng.IntN(20) {
			q.Mids = append(q.Mids, number())
		}
	} else {
		q.From, q.To = number(), number()
		if q.From > q.To {
			q.From, q.To = 1, 0
		}
		for range rng.IntN(4) {
			q.NotMids = append(q.NotMids, number())
		}
	}
	for range rng.IntN(4) {
		q.Where = append(q.Where, counter.Condition{Column: int16(rng.IntN(len(def.Columns))), Op: counter.Compare(rng.IntN(6)), Value: number()})
	}
	return q
}

// TestRoundTrip: a query written in the grammar, clauses in any order, is read as it was meant.
func TestRoundTrip(t *testing.T) {
	sch, rng := testSchema(t), seeded(t)
	def := sch.CounterNamed([]byte("weibo"))
	shuffled := func(head []string, clauses ...[]string) (args [][]byte) {
		rng.Shuffle(len(clauses), func(i, j int) { clauses[i], clauses[j] = clauses[j], clauses[i] })
		for _, w := range append(head, slices.Concat(clauses...)...) {
			args = append(args, []byte(w))
		}
		return args
	}
	for range 3000 {
		want := randomQuery(rng, def)
		plain := want
		want.Limit, want.Desc = 1+rng.IntN(MaxRows), rng.IntN(2) == 0
		for range rng.IntN(4) {
			want.Columns = append(want.Columns, int16(rng.IntN(len(def.Columns))))
		}
		if rng.IntN(2) == 0 {
			want.Offset = rng.IntN(MaxOffset + 1)
		}
		args := shuffled([]string{"weibo"}, written(rng, &want)...)
		f, err := ParseFind(sch, args)
		if err != nil || !reflect.DeepEqual(f.Query, want) || f.Paged {
			t.Fatalf("%q:\ngot  %+v, %v\nwant %+v", args, f.Query, err, want)
		}

		args = shuffled([]string{"weibo", "limit", "7"}, written(rng, &plain)...)
		if top, err := ParseTop(sch, args); err != nil || !reflect.DeepEqual(top, Top{plain, 2, 7}) {
			t.Fatalf("%q: got %+v, %v, want %+v", args, top, err, plain)
		}
		kind := counter.AggregateKind(rng.IntN(4))
		head := []string{"weibo", "cntrn"}
		a := Aggregate{plain, kind, 1}
		if kind == counter.Count {
			head, a.Column = head[:1], 0
		}
		args = shuffled(head, written(rng, &plain)...)
		if got, err := ParseAggregate(sch, kind, args); err != nil || !reflect.DeepEqual(got, a) {
			t.Fatalf("%q: got %+v, %v, want %+v", args, got, err, a)
		}

		u := Update{Query: plain, Returning: counter.Returning(rng.IntN(2))}
		u.Limit = 1 + rng.IntN(MaxRows)
		u.Changes = []counter.Change{{Kind: counter.OpSet, Column: 3, Arg: 200}, {Kind: counter.OpAdd, Column: 1, Arg: ^uint64(8)}, {Kind: counter.OpReset, Column: 2}, {Kind: counter.OpAdd, Arg: 5}}
		clauses := written(rng, &u.Query)
		clauses = append(clauses, strings.Fields("SET set 200 decr repost 9 RESET limit INCR cntcm 5"))
		if u.Returning == counter.ReturnOld {
			clauses = append(clauses, []string{"returning", "OLD"})
		}
		args = shuffled([]string{"weibo"}, clauses...)
		if got, err := ParseUpdate(sch, args); err != nil || !reflect.DeepEqual(got, u) {
			t.Fatalf("%q:\ngot  %+v, %v\nwant %+v", args, got, err, u)
		}
	}
}

// TestErrors: an error names the wrong word and the words that could stand there.
func TestErrors(t *testing.T) {
	sch := testSchema(t)
	many := strings.Repeat("1 ", MaxMids+1)
	find := func(args [][]byte) error { _, err := ParseFind(sch, args); return err }
	top := func(args [][]byte) error { _, err := ParseTop(sch, args); return err }
	sum := func(args [][]byte) error { _, err := ParseAggregate(sch, counter.Sum, args); return err }
	update := func(args [][]byte) error { _, err := ParseUpdate(sch, args); return err }
	for _, w := range []struct {
		parse      func([][]byte) error
		text, want string
	}{
		{find, "", "syntax error: got the end, want a counter"},
		{find, "nosuch", "no counter 'nosuch' (see SCHEMA)"},
		{find, "weibo comment", "syntax error: got 'comment' behind 'weibo', want MID, WHERE, LIMIT, OFFSET, DESC, COLUMNS, CURSOR or the end"},
		{find, "weibo MID", "syntax error: got the end behind MID, want = != < <= > >= or IN"},
		{find, "weibo MID => 5", "syntax error: got '=>' behind MID, want = != < <= > >= or IN"},
		{find, "weibo MID > -5", "syntax error: got '-5' behind MID, want a mid 0..9223372036854775807"},
		{find, "weibo MID > 9223372036854775808", "syntax error: got '9223372036854775808' behind MID, want a mid 0..9223372036854775807"},
		{find, "weibo MID > 5 AND comment > 3", "syntax error: got 'comment' behind AND, want MID: conditions on columns come behind WHERE"},
		{find, "weibo MID > 5 MID < 9", "syntax error: got 'MID' behind MID, want MID once: further conditions come behind AND"},
		{find, "weibo MID IN", "syntax error: got the end behind IN, want a mid 0..9223372036854775807"},
		{find, "weibo MID IN 1 2x", "syntax error: got '2x' behind IN, want a mid 0..9223372036854775807"},
		{find, "weibo MID IN " + many, "mids behind IN: got 10001, want at most 10000"},
		{find, "weibo WHERE nosuch > 5", "no column 'nosuch' in counter 'weibo' (see SCHEMA)"},
		{find, "weibo WHERE mid > 5", "syntax error: got 'mid' behind WHERE, want a column: conditions on mids are a clause of their own, MID > 5 AND MID < 9"},
		{find, "weibo WHERE comment > x", "syntax error: got 'x' behind 'comment', want a number 0..9223372036854775807"},
		{find, "weibo WHERE comment", "syntax error: got the end behind 'comment', want = != < <= > >="},
		{find, "weibo WHERE comment > 5 AND", "syntax error: got the end behind AND, want a column"},
		{find, "weibo WHERE comment > 5" + strings.Repeat(" AND comment > 5", MaxConditions), "conditions on columns: got more than 32, want at most 32"},
		{find, "weibo MID > 5" + strings.Repeat(" AND MID != 5", MaxConditions), "conditions on mids: got more than 32, want at most 32"},
		{find, "weibo LIMIT 0", "syntax error: got '0' behind LIMIT, want a number 1..9223372036854775807"},
		{find, "weibo LIMIT 10001", "LIMIT: got 10001, want at most 10000"},
		{find, "weibo LIMIT 9223372036854775807", "LIMIT: got 9223372036854775807, want at most 10000"},
		{find, "weibo OFFSET 1000001", "OFFSET: got 1000001, want at most 1000000"},
		{find, "weibo OFFSET 1 CURSOR 0", "syntax error: got 'CURSOR', want either OFFSET or CURSOR: a cursor says where to go on"},
		{find, "weibo COLUMNS", "syntax error: got the end behind COLUMNS, want a column"},
		{find, "weibo COLUMNS comment nosuch", "no column 'nosuch' in counter 'weibo' (see SCHEMA)"},
		{find, "weibo COLUMNS" + strings.Repeat(" comment", 65), "columns behind COLUMNS: got more than 64, want at most 64"},
		{find, "weibo CURSOR", "syntax error: got the end behind CURSOR, want a cursor"},
		{find, "weibo CURSOR 17", "CURSOR: got '17', want 0, or what a call with the same conditions returned"},
		{top, "weibo", "syntax error: got the end behind 'weibo', want a column"},
		{top, "weibo comment", "syntax error: got the end behind 'comment', want a number 1..9223372036854775807"},
		{top, "weibo comment 10001", "rows of TOP: got 10001, want at most 10000"},
		{top, "weibo comment 5 LIMIT 3", "syntax error: got 'LIMIT' behind 'comment', want MID, WHERE or the end"},
		{sum, "weibo MID > 5", "no column 'MID' in counter 'weibo' (see SCHEMA)"},
		{sum, "weibo comment DESC", "syntax error: got 'DESC' behind 'comment', want MID, WHERE or the end"},
		{update, "weibo WHERE comment > 5", "syntax error: got the end behind 'comment', want SET, INCR, DECR, RESET or DEL"},
		{update, "weibo SET comment", "syntax error: got the end behind 'comment', want a number 0..9223372036854775807"},
		{update, "weibo INCR comment -1", "syntax error: got '-1' behind 'comment', want a number 0..9223372036854775807"},
		{update, "weibo INCR comment 1 SET cntcm 2", "syntax error: got 'SET 'cntcm'', want each column once"},
		{update, "weibo DEL SET comment 1", "syntax error: got 'SET', want DEL alone: nothing else can be done to an item that goes"},
		{update, "weibo SET comment 1 DEL", "syntax error: got 'DEL', want DEL alone: nothing else can be done to an item that goes"},
		{update, "weibo DEL RETURNING NEW LIMIT 1", "syntax error: got 'RETURNING NEW', want RETURNING OLD: DEL leaves nothing"},
		{update, "weibo RESET comment LIMIT 10001 RETURNING NEW", "LIMIT with RETURNING: got 10001, want at most 10000"},
		{update, "weibo RESET comment RETURNING ALL", "syntax error: got 'ALL' behind RETURNING, want OLD or NEW"},
	} {
		err := w.parse(words(w.text))
		if err == nil || err.Error() != w.want {
			t.Errorf("%.60s:\ngot  %v\nwant %s", w.text, err, w.want)
		}
		var syntax *SyntaxError
		var limit *LimitError
		var unknown *UnknownError
		var cursor *CursorError
		if err != nil && !errors.As(err, &syntax) && !errors.As(err, &limit) && !errors.As(err, &unknown) && !errors.As(err, &cursor) {
			t.Errorf("%.60s: %T is no error of the package", w.text, err)
		}
	}
}

// TestRanges: conditions on mids become one range, also where nothing is left of it.
func TestRanges(t *testing.T) {
	sch := testSchema(t)
	for text, want := range map[string][2]uint64{
		"":                                {0, schema.MaxMid},
		"MID > 5":                         {6, schema.MaxMid},
		"MID >= 5 AND MID < 5":            {1, 0},
		"MID < 0":                         {1, 0},
		"MID < 0 AND MID >= 0":            {1, 0},
		"MID > 9223372036854775807":       {1, 0},
		"MID = 5":                         {5, 5},
		"MID = 5 AND MID = 6":             {1, 0},
		"MID = 5 AND MID = 6 AND MID = 1": {1, 0},
		"MID <= 9 AND MID > 3 AND MID<=8": {}, // not parted by spaces: an error
		"MID > 3 AND MID <= 9":            {4, 9},
		"MID <= 9223372036854775807":      {0, schema.MaxMid},
	} {
		f, err := ParseFind(sch, words("weibo "+text))
		if want == ([2]uint64{}) {
			if err == nil {
				t.Errorf("%s: got %+v, want an error", text, f)
			}
			continue
		}
		if err != nil || f.From != want[0] || f.To != want[1] {
			t.Errorf("%s: got %d to %d, %v, want %d to %d", text, f.From, f.To, err, want[0], want[1])
		}
	}
}

// TestCursor goes on where it was told, for the same query alone.
func TestCursor(t *testing.T) {
	sch := testSchema(t)
	const text = "weibo MID >= 5 AND MID < 1000 WHERE cntcm > 3 DESC"
	first, err := ParseFind(sch, words(text+" CURSOR 0 LIMIT 10"))
	if err != nil || !first.Paged || first.From != 5 || first.To != 999 {
		t.Fatalf("got %+v, %v", first, err)
	}
	cursor := first.Next(77)
	next, err := ParseFind(sch, words(text+" COLUMNS repost LIMIT 3 CURSOR "+cursor))
	if err != nil || next.From != 5 || next.To != 77 || next.Next(77) != cursor {
		t.Errorf("got %+v, %v, want to go on at 77", next, err)
	}
	for _, other := range []string{
		"weibo MID >= 5 AND MID < 1000 WHERE cntcm > 3", "weibo MID >= 5 AND MID < 1001 WHERE cntcm > 3 DESC", "weibo MID >= 5 AND MID < 1000 WHERE cntcm > 4 DESC",
		"weibo MID >= 5 AND MID < 1000 WHERE cntrn > 3 DESC", "weibo MID >= 5 AND MID < 1000 WHERE cntcm >= 3 DESC", "weibo MID >= 5 AND MID < 1000 DESC",
		"weibo MID >= 5 AND MID < 1000 AND MID != 7 WHERE cntcm > 3 DESC", "weibo MID IN 5 999 WHERE cntcm > 3 DESC", "other DESC",
	} {
		var wrong *CursorError
		if f, err := ParseFind(sch, words(other+" CURSOR "+cursor)); !errors.As(err, &wrong) {
			t.Errorf("%s took a cursor of %s: %+v, %v", other, text, f, err)
		}
	}
	for i := range cursor { // no digit can be another
		b := []byte(cursor)
		b[i] ^= 1
		if f, err := ParseFind(sch, words(text+" CURSOR "+string(b))); err == nil {
			t.Errorf("cursor %s was taken for %s: %+v", b, cursor, f)
		}
	}
	for _, bad := range []string{"00", "1", "-1", cursor + "0", cursor[1:], strings.ToUpper(cursor), first.Next(4), first.Next(1000), first.Next(schema.MaxMid + 1)} {
		if bad == cursor {
			continue
		}
		if f, err := ParseFind(sch, words(text+" CURSOR "+bad)); err == nil {
			t.Errorf("cursor %q was taken: %+v", bad, f)
		}
	}
}

// FuzzParse: any input is read or refused with an error of the package, within the limits. A query that was read is
// the same after it is written and read again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"weibo MID > 5 AND MID <= 9 WHERE comment > 5 AND repost != 0 LIMIT 3 OFFSET 2 DESC COLUMNS comment lim", "weibo MID IN 1 2 {3} COLUMNS limit LIMIT 3 CURSOR 0",
		"weibo comment 5 WHERE repost < 9", "weibo SET comment 1 DECR repost 2 RESET set LIMIT 3 RETURNING OLD", "weibo DEL MID = 5",
	} {
		f.Add(text)
	}
	sch := testSchema(f)
	f.Fuzz(func(t *testing.T, text string) {
		args := words(text)
		rng := rand.New(rand.NewPCG(1, uint64(len(text))))
		within := func(q *counter.Query, err error) bool {
			if err != nil {
				if err.Error() == "" {
					t.Errorf("error %q", err)
				}
				return false
			}
			if len(q.Where) > MaxConditions || len(q.NotMids) > MaxConditions || len(q.Mids) > MaxMids || q.Limit < 0 || q.Offset < 0 || q.Offset > MaxOffset ||
				len(q.Columns) > schema.MaxColumns || q.To > schema.MaxMid || q.From > q.To && (q.From != 1 || q.To != 0) {
				t.Errorf("%q: %+v is past the limits", text, q)
			}
			return true
		}
		if found, err := ParseFind(sch, args); within(&found.Query, err) && !found.Paged {
			if found.Limit < 1 || found.Limit > MaxRows {
				t.Errorf("%q: limit %d", text, found.Limit)
			}
			var again [][]byte
			again = append(again, []byte(found.Counter.Name))
			for _, w := range slices.Concat(written(rng, &found.Query)...) {
				again = append(again, []byte(w))
			}
			got, err := ParseFind(sch, again)
			if err != nil || !reflect.DeepEqual(got.Query, found.Query) {
				t.Errorf("%q, written %q:\ngot  %+v, %v\nwant %+v", text, again, got.Query, err, found.Query)
			}
		}
		if top, err := ParseTop(sch, args); within(&top.Query, err) && (top.K < 1 || top.K > MaxRows) {
			t.Errorf("%q: %+v", text, top)
		}
		for kind := counter.Count; kind <= counter.Max; kind++ {
			a, err := ParseAggregate(sch, kind, args)
			within(&a.Query, err)
		}
		u, err := ParseUpdate(sch, args)
		if within(&u.Query, err) {
			if _, err := counter.NewUpdate(u.Query, u.Changes, u.Returning); err != nil && !errors.Is(err, counter.ErrOutOfRange) {
				t.Errorf("%q was read as %+v, which the store refuses: %v", text, u, err)
			}
		}
	})
}

// TestMemory: a command of the largest size takes no more than it has arguments.
func TestMemory(t *testing.T) {
	sch := testSchema(t)
	args := words("weibo MID IN" + strings.Repeat(" 7", 65_000))
	if n := testing.AllocsPerRun(10, func() { _, _ = ParseFind(sch, args) }); n > 20 {
		t.Errorf("%v allocations for a list that is refused", n)
	}
}
