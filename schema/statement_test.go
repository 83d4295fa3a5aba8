package schema

import (
	"errors"
	"strings"
	"testing"
)

func TestParseStatement(t *testing.T) {
	column := func(f func(*Statement)) Statement {
		st := Statement{Op: AddColumn, Counter: "c", Column: "n", Hint: 8, Max: 8}
		f(&st)
		return st
	}
	for line, want := range map[string]Statement{
		"add counter weibo":             {Op: AddCounter, Counter: "weibo"},
		"ADD Counter Weibo_2":           {Op: AddCounter, Counter: "Weibo_2"},
		"drop counter _":                {Op: DropCounter, Counter: "_"},
		"Drop COLUMN c n":               {Op: DropColumn, Counter: "c", Column: "n"},
		"add column c n hint=8":         column(func(st *Statement) { st.Suffix, st.SuffixUnsaid = "n", true }),
		"add column c n HINT=8 Suffix=": column(func(st *Statement) {}),
		"add column c n max=9 hint=8":   column(func(st *Statement) { st.Max, st.Suffix, st.SuffixUnsaid = 9, "n", true }),
		"add column c n hint=008 suffix=8a_Z default=255": column(func(st *Statement) {
			st.Suffix, st.Default = "8a_Z", 255
		}),
		"add column c n default=9223372036854775807 hint=8 max=63": column(func(st *Statement) {
			st.Default, st.Max, st.Suffix, st.SuffixUnsaid = MaxValue, 63, "n", true
		}),
		"add column c n primarykey":                      keyStatement("c", "n"),
		"add column c n PrimaryKey max=64 hint=64":       keyStatement("c", "n"),
		"add column add counter hint=1 max=1 suffix=sum": {Op: AddColumn, Counter: "add", Column: "counter", Hint: 1, Max: 1, Suffix: "sum"},
	} {
		got, err := ParseStatement(strings.Fields(line))
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", line, got, err, want)
			continue
		}
		var words [][]byte
		for _, w := range strings.Fields(got.String()) {
			words = append(words, []byte(w))
		}
		want.SuffixUnsaid = false // the printed text says all
		if again, err := ParseStatement(words); err != nil || again != want {
			t.Errorf("%s: prints as %s, which reads as %+v, %v", line, got, again, err)
		}
	}
}

func TestParseStatementErrors(t *testing.T) {
	long := strings.Repeat("a", MaxName+1)
	huge := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		line string
		kind error
		say  string // the words that the error must have
	}{
		{"", ErrSyntax, "3 words"},
		{"add", ErrSyntax, "3 words"},
		{"add counter", ErrSyntax, "3 words, got 2"},
		{"add counter a b", ErrSyntax, `unknown attribute "b"`},
		{"add column a", ErrSyntax, "4 words, got 3"},
		{"drop column a b c", ErrSyntax, "4 words, got 5"},
		{"drop counter a b", ErrSyntax, "3 words, got 4"},
		{"create counter a", ErrSyntax, `"create"`},
		{"add index a", ErrSyntax, `"index"`},
		{huge + " " + huge + " a", ErrSyntax, "unknown statement"},
		{"add counter 1a", ErrName, `"1a"`},
		{"add counter a:b", ErrName, `"a:b"`},
		{"add counter a.b", ErrName, `"a.b"`},
		{"add counter a\x00\n", ErrName, `"a\x00"`},
		{"add counter \xff", ErrName, `"\xff"`},
		{"add counter é", ErrName, "é"},
		{"add counter " + long, ErrName, "too long"},
		{"add counter " + huge, ErrName, "too long"},
		{"add column c 9 hint=8", ErrName, `"9"`},
		{"add column c 9", ErrName, `"9"`},
		{"add column c n", ErrAttribute, "hint is missing"},
		{"add column c n max=8", ErrAttribute, "hint is missing"},
		{"add column c n hint", ErrAttribute, "hint needs a value"},
		{"add column c n hint=", ErrAttribute, "hint="},
		{"add column c n hint=a", ErrAttribute, `hint="a"`},
		{"add column c n hint=-1", ErrAttribute, `hint="-1"`},
		{"add column c n hint=+1", ErrAttribute, `hint="+1"`},
		{"add column c n hint=1_0", ErrAttribute, `hint="1_0"`},
		{"add column c n hint=0x8", ErrAttribute, `hint="0x8"`},
		{"add column c n hint=0", ErrAttribute, "hint=0"},
		{"add column c n hint=65", ErrAttribute, "hint=65"},
		{"add column c n hint=8 max=65", ErrAttribute, "max=65"},
		{"add column c n hint=8 max=7", ErrAttribute, "hint=8 max=7"},
		{"add column c n hint=8 max=18446744073709551624", ErrAttribute, "max="},
		{"add column c n hint=8 hint=8", ErrAttribute, "hint is given twice"},
		{"add column c n hint=8 SUFFIX= suffix=a", ErrAttribute, "suffix is given twice"},
		{"add column c n hint=8 primarykey primarykey", ErrAttribute, "primarykey is given twice"},
		{"add column c n hint=8 width=9", ErrAttribute, `"width"`},
		{"add column c n hint=8 id=9", ErrAttribute, `"id"`},
		{"add column c n hint=8 " + huge, ErrAttribute, "unknown attribute"},
		{"add column c n hint=8 default=256", ErrAttribute, "default=256"},
		{"add column c n hint=64 default=9223372036854775808", ErrAttribute, "default=9223372036854775808"},
		{"add column c n hint=8 default=" + strings.Repeat("0", 1000) + "5", ErrAttribute, "default="},
		{"add column c n hint=8 suffix=a-b", ErrName, `"a-b"`},
		{"add column c n hint=8 suffix=a=b", ErrName, `"a=b"`},
		{"add column c n hint=8 suffix=" + long, ErrName, "too long"},
		{"add column c n hint=8 suffix=" + huge, ErrName, "too long"},
		{"add column c n primarykey=1", ErrAttribute, "primarykey takes no value"},
		{"add column c n primarykey hint=32", ErrAttribute, "hint=32"},
		{"add column c n hint=64 max=63 primarykey", ErrAttribute, "max=63"},
		{"add column c n primarykey default=0", ErrAttribute, "no default"},
		{"add column c n primarykey suffix=", ErrAttribute, "no suffix"},
	} {
		_, err := ParseStatement(strings.Split(strings.TrimSuffix(c.line, "\n"), " "))
		show := c.line[:min(len(c.line), 80)]
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: got %v, want %v", show, err, c.kind)
			continue
		}
		text := err.Error()
		if !strings.Contains(text, c.say) {
			t.Errorf("%s: got %q, want it to say %q", show, text, c.say)
		}
		if len(text) > 512 || strings.ContainsAny(text, "\r\n\x00") {
			t.Errorf("%s: no fit error text: %q", show, text)
		}
		var e *Error
		if !errors.As(err, &e) || len(e.Word) > MaxName {
			t.Errorf("%s: got %#v, want an *Error with a short word", show, err)
		}
	}
}

// Statements made by hand are held to the same rules as parsed ones.
func TestApplyChecksStatements(t *testing.T) {
	s := parse(t, seedScript)
	for _, st := range []Statement{
		{},
		{Op: 99, Counter: "weibo"},
		{Op: AddCounter},
		{Op: AddCounter, Counter: "a b"},
		{Op: AddColumn, Counter: "weibo", Column: "x"},
		{Op: AddColumn, Counter: "weibo", Column: "x", Hint: 9, Max: 8},
		{Op: AddColumn, Counter: "weibo", Column: "x", Hint: 9, Max: 65},
		{Op: AddColumn, Counter: "weibo", Column: "x", Hint: 1, Max: 1, Default: 2},
		{Op: AddColumn, Counter: "weibo", Column: "x", Hint: 1, Max: 1, Suffix: "\n"},
		{Op: AddColumn, Counter: "weibo", Column: "x", Hint: 8, Max: 8, PrimaryKey: true},
		{Op: AddColumn, Counter: "weibo", Column: "mid", Hint: 64, Max: 64, PrimaryKey: true, Suffix: "s"},
		{Op: DropColumn, Counter: "weibo", Column: ""},
	} {
		if got, err := s.Apply(st); err == nil || got != nil {
			t.Errorf("%+v: got %v, %v; want an error", st, got, err)
		}
	}
}
