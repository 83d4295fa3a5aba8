package schema

import (
	"errors"
	"strings"
	"testing"
)

const decayScript = `add counter weibo
add column weibo comment hint=16 max=32 default=0 suffix=cntcm
add column weibo repost hint=16 max=32 default=0 suffix=cntrn
add column weibo heat decay=6h of=repost*2+comment top=1000
add column weibo repost1h window=1h/5m of=repost
add column weibo cool decay=90d of=comment*1 suffix=c
`

// TestDecayingColumns: columns that decay have ids, spaces and sources, and there is one text of each.
func TestDecayingColumns(t *testing.T) {
	s := parse(t, decayScript)
	text := s.AppendText(nil)
	golden(t, "decay.v5.durable", text)
	back, err := ParseDurable(text)
	if err != nil || back.String() != s.String() {
		t.Fatalf("%v: got\n%s\nwant\n%s", err, back, s)
	}
	if again := parseOnto(t, decayScript, back); again != back {
		t.Error("the same script again changes the schema")
	}
	if s.String() != parse(t, s.String()).String() {
		t.Error("the script of the schema makes another one")
	}
	c := s.Counter("weibo")
	d := &c.Derived[0]
	if !d.Decays() || c.Derived[1].Decays() || d.HalfLife != 6*60*60 || d.Step() != 90 || d.SweepEvery() != 3*60*60 {
		t.Errorf("the column is %+v", d)
	}
	if col := d.Space.Columns[0]; col.Hint != 49 || col.Max != 63 || col.Top != 1000 || !d.Space.IsSpace() {
		t.Errorf("the column of the space is %+v", col)
	}
	for n, want := range map[[2]uint64]uint64{{0, 5}: 5, {1, 5}: 10, {1, MaxValue}: MaxValue, {1, 1 << 62}: MaxValue, {1, 0}: 0, {2, 5}: 0} {
		if got := d.Counts(int(n[0]), n[1]); got != want {
			t.Errorf("%d added to column %d counts %d, want %d", n[1], n[0], got, want)
		}
	}
	if got := c.Bits(1 << 0); got != 1<<0|1<<2|1<<4 {
		t.Errorf("comment changes columns %b", got)
	}
	next := parseOnto(t, "alter column weibo heat top=off\ndrop column weibo cool", s)
	if d := &next.Counter("weibo").Derived[0]; d.Top != 0 || d.Space.Columns[0].Top != 0 || d.Space.ID != c.Derived[0].Space.ID || d.ID != c.Derived[0].ID {
		t.Errorf("without a list the column is %+v, of space %+v", d, d.Space)
	}
	if want := strings.NewReplacer(" top=1000", "", "add column weibo cool decay=90d of=comment suffix=c\n", "").Replace(s.String()); next.String() != want {
		t.Errorf("got\n%s\nwant\n%s", next, want)
	}
	if back := parseOnto(t, "alter column weibo heat top=1000", next); back.Counter("weibo").Derived[0].Space.Columns[0].Top != 1000 {
		t.Error("the list does not come back")
	}
	if got := string(parse(t, derivedScript).AppendText(nil)); !strings.HasPrefix(got, "schema format=4\n") {
		t.Errorf("windows alone make %q", got[:16])
	}
}

// TestDecayErrors: statements and texts that are refused.
func TestDecayErrors(t *testing.T) {
	nine := "a+b+c+d+e+f+g+h+i"
	for line, want := range map[string]error{
		"add column weibo x decay=6h":                              ErrAttribute,
		"add column weibo x decay=off of=repost":                   ErrAttribute,
		"add column weibo x decay=6 of=repost":                     ErrAttribute,
		"add column weibo x decay=59s of=repost":                   ErrAttribute,
		"add column weibo x decay=367d of=repost":                  ErrAttribute,
		"add column weibo x decay=6h window=1h/5m of=repost":       ErrAttribute,
		"add column weibo x decay=6h decay=6h of=repost":           ErrAttribute,
		"add column weibo x window=1h/5m of=repost*2":              ErrName,
		"add column weibo x window=1h/5m of=repost+comment":        ErrName,
		"add column weibo x decay=6h of=":                          ErrAttribute,
		"add column weibo x decay=6h of=repost*0":                  ErrAttribute,
		"add column weibo x decay=6h of=repost*-1":                 ErrAttribute,
		"add column weibo x decay=6h of=repost*1000001":            ErrAttribute,
		"add column weibo x decay=6h of=repost*":                   ErrAttribute,
		"add column weibo x decay=6h of=repost*2*2":                ErrAttribute,
		"add column weibo x decay=6h of=2*repost":                  ErrName,
		"add column weibo x decay=6h of=repost+":                   ErrName,
		"add column weibo x decay=6h of=repost+repost*2":           ErrAttribute,
		"add column weibo x decay=6h of=" + nine:                   ErrAttribute,
		"add column weibo x decay=6h of=none":                      ErrUnknown,
		"add column weibo x decay=6h of=repost+heat":               ErrAttribute,
		"add column weibo x decay=6h of=repost suffix=":            ErrAttribute,
		"add column weibo x decay=6h of=repost hint=8":             ErrAttribute,
		"add column weibo x decay=6h of=repost default=1":          ErrAttribute,
		"add column weibo x decay=6h of=repost top=10001":          ErrAttribute,
		"add column weibo x decay=6h of=repost primarykey":         ErrAttribute,
		"add column weibo heat decay=7h of=repost*2+comment":       ErrSchemaMismatch,
		"add column weibo heat decay=6h of=repost*3+comment":       ErrSchemaMismatch,
		"add column weibo heat decay=6h of=repost*2+comment top=9": ErrSchemaMismatch,
		"add column weibo heat window=1h/5m of=repost":             ErrSchemaMismatch,
		"add column weibo repost1h decay=6h of=repost":             ErrSchemaMismatch,
		"add column weibo repost decay=6h of=comment":              ErrSchemaMismatch,
		"add column weibo heat hint=8":                             ErrSchemaMismatch,
		"drop column weibo comment":                                ErrClash,
	} {
		s := parse(t, decayScript)
		st, err := ParseStatement(strings.Fields(line))
		if err == nil {
			_, err = s.Apply(st)
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", line, err, want)
		}
	}
	text := string(parse(t, decayScript).AppendText(nil))
	for name, change := range map[string][2]string{
		"older format":   {"format=5", "format=4"},
		"weight of 1":    {"of=comment ", "of=comment*1 "},
		"leading zero":   {"repost*2", "repost*02"},
		"other half":     {"decay=6h", "decay=360m"},
		"no space":       {" space=2", ""},
		"not its column": {"of=repost*2+comment", "of=repost*2+other"},
	} {
		if _, err := ParseDurable([]byte(strings.Replace(text, change[0], change[1], 1))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, ErrCorrupt)
		}
	}
}

// TestCutWords: the end of a long word is not passed over, however many zeros are before its numbers.
func TestCutWords(t *testing.T) {
	fill := func(before, behind string, limit int) string {
		return before + strings.Repeat("0", limit-len(before)-len(behind)) + behind
	}
	of := fill("of=repost*", "2", len("of=")+maxTerms*headMax)
	for _, line := range []string{
		"add column weibo x decay=6h " + of + "+comment",
		"add column weibo x decay=6h " + of + "+none",
		"add column weibo x decay=6h " + of + "000000",
		"add column weibo x of=repost " + fill("decay=", "6h", headMax) + "6h",
		"add column weibo x of=repost " + fill("window=1h/", "5m", headMax) + "s",
		"add counter x " + fill("ids=s:", "1:0", headMax) + "9",
		"add counter x ids=weibo " + fill("retain=", "6d", headMax) + "d",
	} {
		if _, err := ParseStatement(strings.Fields(line)); !errors.Is(err, ErrAttribute) {
			t.Errorf("%s: got %v, want %v", strings.ReplaceAll(line, "00", ""), err, ErrAttribute)
		}
	}
}

// TestDecayTops: columns that decay count among those with a top list.
func TestDecayTops(t *testing.T) {
	s := parse(t, "add counter a\nadd column a v hint=8 top=5\n")
	for i := range MaxTops {
		name := string(rune('a' + i))
		st := statement(t, "add column a d"+name+" decay=1h of=v top=5")
		next, err := s.Apply(st)
		if i+2 > MaxTops {
			if !errors.Is(err, ErrLimit) {
				t.Errorf("list %d: got %v, want %v", i+2, err, ErrLimit)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
}

// TestManyTerms: the longest expression is read whole.
func TestManyTerms(t *testing.T) {
	script, of := "add counter a\n", ""
	for i := range maxTerms {
		name := strings.Repeat(string(rune('a'+i)), MaxName)
		script += "add column a " + name + " hint=8\n"
		of += "+" + name + "*1000000"
	}
	s := parse(t, script+"add column a heat decay=1m of="+of[1:])
	if d := s.Counter("a").Derived[0]; len(d.Sources) != maxTerms || d.Sources[maxTerms-1].Weight != MaxWeight {
		t.Errorf("the sources are %+v", d.Sources)
	}
	if _, err := ParseDurable(s.AppendText(nil)); err != nil {
		t.Error(err)
	}
}
