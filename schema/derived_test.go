package schema

import (
	"errors"
	"strings"
	"testing"
)

const derivedScript = `add counter weibo
add column weibo comment hint=16 max=32 default=0 suffix=cntcm
add column weibo repost hint=16 max=32 default=0 suffix=cntrn
add column weibo repost1h window=1h/5m of=repost
add counter later
add column weibo attitude hint=8 max=32 default=0 suffix=cntan
add column weibo day window=24h/1h of=comment suffix=d
`

// TestDerived: derived columns stand behind the others, have ids of their own, and their spaces are no counters that users see.
func TestDerived(t *testing.T) {
	s := parse(t, derivedScript)
	text := s.AppendText(nil)
	golden(t, "derived.v4.durable", text)
	back, err := ParseDurable(text)
	if err != nil || back.String() != s.String() {
		t.Fatalf("%v: got\n%s\nwant\n%s", err, back, s)
	}
	if again := parseOnto(t, derivedScript, back); again != back {
		t.Error("the same script again changes the schema")
	}
	if s.String() != parse(t, s.String()).String() {
		t.Error("the script of the schema makes another one")
	}
	c := s.Counter("weibo")
	if len(s.Counters()) != 2 || len(s.All()) != 4 || c.Width() != 5 || len(c.Columns) != 3 {
		t.Fatalf("%d counters, %d with spaces, %d columns, %d with derived ones", len(s.Counters()), len(s.All()), len(c.Columns), c.Width())
	}
	for i, name := range []string{"comment", "repost", "attitude", "repost1h", "day"} {
		col, ok := c.Field([]byte(name))
		if !ok || col != i || c.Col(i).Name != name || c.IsDerived(i) != (i >= 3) {
			t.Errorf("%s is column %d, %v, want %d", name, col, ok, i)
		}
	}
	if k, ok := s.ParseKey([]byte("7.d")); !ok || k.Col != 4 || string(s.AppendKey(nil, k.Counter, k.Col, 7)) != "7.d" {
		t.Errorf("the key of a derived column is %v, %v", k, ok)
	}
	space := c.Derived[0].Space
	if s.CounterByID(space.ID) != space || s.Counter(space.Name) != nil || !space.IsSpace() || c.IsSpace() {
		t.Errorf("the space %s is a counter that users see", space.Name)
	}
	if got := c.Bits(1 << 1); got != 1<<1|1<<3 {
		t.Errorf("repost changes columns %b", got)
	}
	next := parseOnto(t, "drop column weibo repost1h\ndrop column weibo repost", s)
	if next.CounterByID(space.ID) != nil || next.LastCounter() != s.LastCounter() || next.Counter("weibo").Derived[0].Sources[0].At != 0 {
		t.Error("the space of a dropped column is still there, or its id is free")
	}
}

const hottestScript = `add counter weibo
add column weibo repost hint=16 max=32 default=0 suffix=cntrn
add column weibo repost1h window=1h/5m of=repost top=1000
add column weibo heat decay=6h of=repost
add column weibo day window=24h/1h of=repost
`

// TestWindowTop: a column that counts in a window may have a list of the posts with the largest sums, and its length can be changed.
func TestWindowTop(t *testing.T) {
	s := parse(t, hottestScript)
	text := s.AppendText(nil)
	golden(t, "hottest.v6.durable", text)
	back, err := ParseDurable(text)
	if err != nil || back.String() != s.String() {
		t.Fatalf("%v: got\n%s\nwant\n%s", err, back, s)
	}
	if again := parseOnto(t, hottestScript, back); again != back {
		t.Error("the same script again changes the schema")
	}
	c := s.Counter("weibo")
	if got := c.Derived[0].Space.Columns[0].Top; got != 1000 || !c.Derived[0].Space.IsWindow() || c.Derived[1].Space.IsWindow() || c.IsWindow() {
		t.Errorf("the list is for %d", got)
	}
	next := parseOnto(t, "alter column weibo repost1h top=off\nalter column weibo day top=5", s).Counter("weibo")
	if a, b := next.Derived[0].Top, next.Derived[2].Top; a != 0 || b != 5 || next.Derived[2].Space.Columns[0].Top != 5 {
		t.Errorf("the lists are for %d and %d", a, b)
	}
	if without := parseOnto(t, "alter column weibo repost1h top=off", s); without.format() != decayFormat {
		t.Errorf("without a list the format is %d", without.format())
	}
}

// TestDerivedErrors: statements and texts that are refused.
func TestDerivedErrors(t *testing.T) {
	for line, want := range map[string]error{
		"add column weibo x window=1h/5m":                      ErrAttribute,
		"add column weibo x of=repost":                         ErrAttribute,
		"add column weibo x window=1h/7m of=repost":            ErrAttribute,
		"add column weibo x window=1h of=repost":               ErrAttribute,
		"add column weibo x window=off/off of=repost":          ErrAttribute,
		"add column weibo x window=61m/1m of=repost":           ErrAttribute,
		"add column weibo x window=400d/100d of=repost":        ErrAttribute,
		"add column weibo x window=1h/5m of=none":              ErrUnknown,
		"add column weibo x window=1h/5m of=day":               ErrAttribute,
		"add column weibo x window=1h/5m of=repost suffix=":    ErrAttribute,
		"add column weibo x window=1h/5m of=repost hint=8":     ErrAttribute,
		"add column weibo x window=1h/5m of=repost top=10001":  ErrAttribute,
		"add column weibo x window=1h/5m of=repost primarykey": ErrAttribute,
		"add column weibo x window=1h/5m of=repost suffix=d":   ErrClash,
		"add column weibo repost1h window=2h/5m of=repost":     ErrSchemaMismatch,
		"add column weibo repost1h window=1h/5m of=comment":    ErrSchemaMismatch,
		"add column weibo repost1h hint=8":                     ErrSchemaMismatch,
		"add column weibo repost window=1h/5m of=comment":      ErrSchemaMismatch,
		"drop column weibo repost":                             ErrClash,
	} {
		s := parse(t, derivedScript)
		st, err := ParseStatement(strings.Fields(line))
		if err == nil {
			_, err = s.Apply(st)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", line, err, want)
		}
	}
	text := string(parse(t, derivedScript).AppendText(nil))
	for name, change := range map[string][2]string{
		"no space":          {" space=2", ""},
		"space of another":  {" space=2", " space=3"},
		"space to come":     {" space=2", " space=9"},
		"space before":      {" space=2", " space=1"},
		"space of a column": {"suffix=cntrn id=2", "suffix=cntrn space=7 id=2"},
		"id of a column":    {"space=2 id=3", "space=2 id=2"},
		"id to come":        {"space=4 id=5", "space=4 id=6"},
		"older format":      {"format=4", "format=3"},
	} {
		if _, err := ParseDurable([]byte(strings.Replace(text, change[0], change[1], 1))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, ErrCorrupt)
		}
	}
}

// TestWindowSum: buckets come and go, also over the end of the kept bits, and a bucket ahead of the time counts.
func TestWindowSum(t *testing.T) {
	d := parse(t, derivedScript).Counter("weibo").Derived[0]
	n := d.Window.Buckets()
	for _, last := range []int64{1<<16 - 3, 1 << 16, 5_985_000} {
		row := make([]uint64, 1+n)
		row[LastBucket] = uint64(last) % (1 << BucketBits)
		row[FirstBucket+int(last)%n], row[FirstBucket+int(last-5)%n] = 3, 4
		for now, want := range map[int64]uint64{last - 2: 7, last: 7, last + int64(n) - 6: 7, last + int64(n) - 5: 3, last + int64(n) - 1: 3, last + int64(n): 0, last + 30000: 0} {
			if got := d.Sum(row, now*d.Window.Bucket); got != want {
				t.Errorf("newest bucket %d, at %d: got %d, want %d", last, now, got, want)
			}
		}
	}
}
