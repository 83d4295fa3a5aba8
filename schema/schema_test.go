package schema

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func TestSeedScript(t *testing.T) {
	lines := strings.SplitAfter(seedScript, "\n")
	other := lines[1] + lines[0] + strings.Join(lines[2:], "")
	for name, script := range map[string]string{"as written": seedScript, "counter first": other} {
		s := parse(t, script)
		if got := s.String(); got != seedText {
			t.Errorf("%s: got\n%swant\n%s", name, got, seedText)
		}
		for again, script := range map[string]string{"as written": seedScript, "counter first": other, "printed": s.String()} {
			if got := parseOnto(t, script, s); got != s {
				t.Errorf("%s, then %s: the schema changed to\n%s", name, again, got)
			}
		}
		c := s.Counter("weibo")
		if c == nil || c.ID != 1 || c.Key != "mid" || !c.KeyDeclared() || c.Plain != -1 || c != s.CounterByID(1) || c != s.CounterNamed([]byte("weibo")) {
			t.Fatalf("%s: got %+v", name, c)
		}
		want := []Column{
			{1, "comment", "cntcm", 16, 32, 0, 0},
			{2, "repost", "cntrn", 16, 32, 0, 0},
			{3, "attitude", "cntan", 8, 32, 0, 0},
		}
		if !reflect.DeepEqual(c.Columns, want) {
			t.Errorf("%s: got %+v", name, c.Columns)
		}
		if c.Layout.Bits != 40 || c.Columns[2].Limit() != math.MaxUint32 {
			t.Errorf("%s: got %d bits, limit %d", name, c.Layout.Bits, c.Columns[2].Limit())
		}
		for field, col := range map[string]int{"comment": 0, "cntcm": 0, "repost": 1, "cntan": 2} {
			if got, ok := c.Field([]byte(field)); !ok || got != col {
				t.Errorf("%s: field %s is %d, %v", name, field, got, ok)
			}
		}
		for _, field := range []string{"", "mid", "Comment", "weibo"} {
			if _, ok := c.Field([]byte(field)); ok {
				t.Errorf("%s: there is a field %q", name, field)
			}
		}
	}
}

func TestEmpty(t *testing.T) {
	for _, s := range []*Schema{Empty(), {}} {
		if !s.IsEmpty() || s.String() != "" || len(s.Counters()) != 0 || s.Counter("a") != nil || s.CounterByID(0) != nil {
			t.Error("the empty schema is not")
		}
		if _, ok := s.ParseKey([]byte("1")); ok {
			t.Error("the empty schema has keys")
		}
		if _, _, ok := s.ParseItem([]byte("1")); ok {
			t.Error("the empty schema has items")
		}
	}
	s := parse(t, "add column c id primarykey\n")
	if s.IsEmpty() || s.String() != "add column c id hint=64 max=64 primarykey\n" {
		t.Errorf("a declared key alone: got %q", s)
	}
	if s = parseOnto(t, "drop counter c", s); !s.IsEmpty() || s.String() != "" {
		t.Errorf("after forgetting it: got %q", s)
	}
}

// Names win over suffixes.
func TestFieldNamesWin(t *testing.T) {
	c := parse(t, "add counter c\nadd column c a hint=1 suffix=b\nadd column c b hint=1 suffix=a\n").Counter("c")
	for field, want := range map[string]int{"a": 0, "b": 1} {
		if got, ok := c.Field([]byte(field)); !ok || got != want {
			t.Errorf("field %s is %d, %v", field, got, ok)
		}
	}
}

// A column that is dropped and added again is another column, and so is a counter.
func TestIDsAreNeverReused(t *testing.T) {
	s := parse(t, richScript)
	wide := s.Counter("wide")
	if wide.ID != 3 || wide.Columns[0].ID != 1 || wide.Columns[1].ID != 3 {
		t.Errorf("got %+v", wide)
	}
	s = parseOnto(t, "add column wide gone hint=3 suffix=gone\nadd column later n hint=2", parseOnto(t, "add counter later", s))
	wide = s.Counter("wide")
	if got := wide.Columns[2].ID; got != 5 || wide.Index(5) != 2 || wide.Index(2) != -1 || wide.Index(4) != -1 {
		t.Errorf("the column came back as id %d", got)
	}
	later := s.Counter("later")
	if later.ID != 5 || later.Key != "id" || !later.KeyDeclared() {
		t.Errorf("got %+v", later)
	}
	if s.CounterByID(4) != nil || s.CounterByID(6) != nil || s.CounterByID(5) != later {
		t.Error("CounterByID is wrong")
	}
	s = parseOnto(t, "drop counter later\nadd counter later", s)
	if later = s.Counter("later"); later.ID != 6 || later.Key != DefaultKey || later.KeyDeclared() || len(later.Columns) != 0 {
		t.Errorf("got %+v", later)
	}
}

func TestApplyErrors(t *testing.T) {
	s := parse(t, richScript)
	before := string(s.AppendText(nil))
	for line, want := range map[string]struct {
		kind error
		text string
	}{
		"add column weibo comment hint=8 max=16 default=1 suffix=x": {ErrSchemaMismatch,
			"column comment of counter weibo is defined differently: hint have 16 want 8, max have 32 want 16, default have 0 want 1, suffix have cntcm want x"},
		"add column weibo comment hint=16 max=32": {ErrSchemaMismatch,
			`column comment of counter weibo is defined differently: suffix have cntcm want comment`},
		"add column reads n hint=12 max=40 default=7 suffix=x": {ErrSchemaMismatch,
			`column n of counter reads is defined differently: suffix have "" want x`},
		"add column weibo id primarykey":        {ErrSchemaMismatch, "primarykey have mid want id"},
		"add column later mid primarykey":       {ErrSchemaMismatch, "primarykey have id want mid"},
		"add column weibo comment primarykey":   {ErrClash, "counter weibo has a column comment already"},
		"add column reads n primarykey":         {ErrClash, "counter reads has a column n already"},
		"add column weibo mid hint=16":          {ErrClash, "mid is the declared primary key of counter weibo"},
		"add column reads mid hint=16":          {ErrClash, "mid is the default primary key of counter reads"},
		"add column wide x hint=1 suffix=cntcm": {ErrClash, "suffix cntcm belongs to column comment of counter weibo"},
		"add column reads x hint=1 suffix=":     {ErrClash, "column n of counter reads has the empty one already"},
		"add column reads big hint=1":           {ErrClash, "give column big of counter reads a suffix of its own, suffix=NAME"},
		"add column later x hint=1 suffix=x":    {ErrUnknown, "there is no counter later"},
		"add column nobody x hint=1 suffix=x":   {ErrUnknown, "there is no counter nobody"},
		"drop column nobody x":                  {ErrUnknown, "there is no counter nobody"},
		"drop column later x":                   {ErrUnknown, "there is no counter later"},
		"drop column weibo x":                   {ErrUnknown, "counter weibo has no column x"},
		"drop column wide gone":                 {ErrUnknown, "counter wide has no column gone"},
		"drop counter dropped":                  {ErrUnknown, "there is no counter dropped"},
		"drop column weibo mid":                 {ErrClash, "cannot be dropped"},
		"drop column reads mid":                 {ErrClash, "cannot be dropped"},
		"drop column later id":                  {ErrClash, "cannot be dropped"},
	} {
		got, err := s.Apply(statement(t, line))
		if got != nil || !errors.Is(err, want.kind) || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: got %v, %v; want %v: %s", line, got, err, want.kind, want.text)
		}
	}
	var mismatch *MismatchError
	_, err := s.Apply(statement(t, "add column weibo repost hint=16 suffix=cntrn"))
	if !errors.As(err, &mismatch) || !reflect.DeepEqual(mismatch, &MismatchError{"weibo", "repost", []Difference{{"max", "32", "16"}}}) {
		t.Errorf("got %#v", err)
	}
	if got := string(s.AppendText(nil)); got != before {
		t.Errorf("errors changed the schema to\n%s", got)
	}
}

// A key may be declared once for a counter that has lived with the default.
func TestDeclareKeyLater(t *testing.T) {
	s := parse(t, "add counter c\nadd column c n hint=4")
	same := parseOnto(t, "add column c mid primarykey", s)
	other := parseOnto(t, "add column c pid primarykey", s)
	if same == s || !same.Counter("c").KeyDeclared() || other.Counter("c").Key != "pid" || s.Counter("c").KeyDeclared() {
		t.Error("the key was not declared")
	}
	if got := parseOnto(t, "add column c mid hint=3 suffix=m", other).Counter("c"); len(got.Columns) != 2 {
		t.Error("with another key, mid is a name like any other")
	}
}

func TestLimits(t *testing.T) {
	var b strings.Builder
	for i := range MaxCounters - 1 {
		fmt.Fprintf(&b, "add counter c%d\n", i)
	}
	b.WriteString("add column last id primarykey\n")
	for i := range MaxColumns {
		fmt.Fprintf(&b, "add column c0 n%d hint=64 suffix=s%d\n", i, i)
	}
	s := parse(t, b.String())
	for _, line := range []string{
		"add counter more", "add column more id primarykey", "add column c0 more hint=1 suffix=more",
	} {
		if _, err := s.Apply(statement(t, line)); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: got %v", line, err)
		}
	}
	for _, line := range []string{"add counter c7", "add column last id primarykey", "add column c0 n63 hint=64 suffix=s63"} {
		if got, err := s.Apply(statement(t, line)); got != s || err != nil {
			t.Errorf("%s: got %v", line, err)
		}
	}
	// The counter for which a key was declared has its place.
	s = parseOnto(t, "add counter last", s)
	if got := s.Counter("c0").Layout.Bits; got != 4096 {
		t.Errorf("the widest item has %d bits", got)
	}
	if got := parse(t, s.String()).String(); got != s.String() {
		t.Error("the largest schema does not come back")
	}
}

// A schema stops growing where its text would no longer be a script.
func TestTextLimit(t *testing.T) {
	name := func(kind byte, i int) string { return fmt.Sprintf("%c%s%07d", kind, strings.Repeat("x", MaxName-8), i) }
	d := Empty().thaw()
	var err error
	added := 0
	for i := 0; err == nil && i < MaxCounters; i++ {
		if err = d.apply(Statement{Op: AddCounter, Counter: name('c', i)}); err != nil {
			break
		}
		for k := 0; err == nil && k < MaxColumns; k++ {
			err = d.apply(Statement{
				Op: AddColumn, Counter: name('c', i), Column: name('n', k), Hint: 63, Max: 63,
				Default: MaxValue, Suffix: name('s', i*MaxColumns+k),
			})
			added++
		}
	}
	if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "schema is full") {
		t.Fatalf("after %d columns: got %v", added, err)
	}
	s := d.freeze()
	text := s.String()
	if len(text) != s.size || len(text) > MaxScript || len(text) < MaxScript-1024 {
		t.Errorf("the text has %d bytes, counted as %d, of %d", len(text), s.size, MaxScript)
	}
	if parse(t, text).String() != text {
		t.Error("a full schema does not come back from its script")
	}
	durable := s.AppendText(nil)
	if len(durable) > MaxDurable {
		t.Errorf("the durable form has %d bytes", len(durable))
	}
	if got, err := ParseDurable(durable); err != nil || got.String() != text {
		t.Errorf("a full schema does not come back from its durable form: %v", err)
	}
}

// When the ids are used up, adding fails and everything else goes on.
func TestIDsRunOut(t *testing.T) {
	text := "schema format=1\n" +
		"add counter c id=4294967294\n" +
		"add column c n hint=4 max=4 default=0 suffix=n id=65534\n" +
		"next column c id=65535\n" +
		"next counter id=4294967295\n"
	s, err := ParseDurable([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s = parseOnto(t, "add counter d\nadd column c m hint=4 suffix=m", s)
	if s.Counter("d").ID != math.MaxUint32 || s.Counter("c").Columns[1].ID != math.MaxUint16 {
		t.Errorf("got %s", s.AppendText(nil))
	}
	for _, line := range []string{"add counter e", "add column c o hint=4 suffix=o"} {
		if _, err := s.Apply(statement(t, line)); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "used") {
			t.Errorf("%s: got %v", line, err)
		}
	}
	s = parseOnto(t, "drop column c m\ndrop counter d", s)
	back, err := ParseDurable(s.AppendText(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"add counter e", "add column c o hint=4 suffix=o"} {
		if _, err := back.Apply(statement(t, line)); !errors.Is(err, ErrLimit) {
			t.Errorf("%s, after a restart: got %v", line, err)
		}
	}
}

// Counters that a statement does not touch stay the same, pointer and all.
func TestApplySharesCounters(t *testing.T) {
	s := parse(t, richScript)
	n := parseOnto(t, "add column reads m hint=3 suffix=m", s)
	if n.Counter("weibo") != s.Counter("weibo") || n.Counter("wide") != s.Counter("wide") || n.Counter("reads") == s.Counter("reads") {
		t.Error("copied what did not change, or changed what was shared")
	}
	if len(s.Counter("reads").Columns) != 1 {
		t.Error("the old schema changed")
	}
}

// Readers of a schema go on while others are made from it.
func TestConcurrentUse(t *testing.T) {
	s := parse(t, richScript)
	drop, add := statement(t, "drop column weibo comment"), statement(t, "add column weibo x hint=3 suffix=x")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				for _, st := range []Statement{drop, add} {
					if _, err := s.Apply(st); err != nil {
						t.Error(err)
					}
				}
				if k, ok := s.ParseKey([]byte("77.cntcm")); !ok || k.Mid != 77 || k.Col != 0 {
					t.Errorf("got %+v, %v", k, ok)
				}
			}
		})
	}
	wg.Wait()
}
