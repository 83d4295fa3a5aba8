package schema

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

func TestDurableGolden(t *testing.T) {
	s := parse(t, richScript)
	golden(t, "rich.v1.durable", s.AppendText(nil))
	golden(t, "rich.script", []byte(s.String()))
	golden(t, "empty.v1.durable", Empty().AppendText(nil))
	golden(t, "aging.v2.durable", parse(t, agingScript).AppendText(nil))
	golden(t, "old.v7.durable", parse(t, oldScript).AppendText(nil))
	golden(t, "top.v3.durable", parse(t, topScript).AppendText(nil))
	for _, name := range []string{"rich.v1", "empty.v1", "aging.v2", "top.v3", "derived.v4", "decay.v5", "hottest.v6", "old.v7"} {
		text, err := os.ReadFile("testdata/" + name + ".durable")
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseDurable(text)
		if err != nil {
			t.Fatal(err)
		}
		checkSchema(t, s)
		if got := s.AppendText([]byte("kept")); string(got) != "kept"+string(text) {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
}

// The same statements give the same ids, whichever way they come.
func TestIDsAreDeterministic(t *testing.T) {
	want := parse(t, richScript).AppendText(nil)
	s := Empty()
	for line := range strings.Lines(richScript) {
		s = parseOnto(t, line, s)
		back, err := ParseDurable(s.AppendText(nil)) // a restart after every statement
		if err != nil {
			t.Fatal(err)
		}
		s = back
	}
	if got := s.AppendText(nil); !bytes.Equal(got, want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestParseDurableErrors(t *testing.T) {
	sound := string(parse(t, richScript).AppendText(nil))
	if _, err := ParseDurable([]byte(sound)); err != nil {
		t.Fatal(err)
	}
	change := func(old, new string) string {
		if !strings.Contains(sound, old) {
			t.Fatalf("no %q in\n%s", old, sound)
		}
		return strings.Replace(sound, old, new, 1)
	}
	for name, c := range map[string]struct {
		text string
		kind error
	}{
		"empty":              {"", ErrCorrupt},
		"first line alone":   {"schema format=1", ErrCorrupt},
		"no next line":       {"schema format=1\n", ErrCorrupt},
		"newer format":       {change("format=1", "format=8"), ErrVersion},
		"format 3 of 1":      {change("format=1", "format=3"), ErrCorrupt},
		"format 2 of 3":      {strings.Replace(string(parse(t, topScript).AppendText(nil)), "format=3", "format=2", 1), ErrCorrupt},
		"top off":            {strings.Replace(string(parse(t, topScript).AppendText(nil)), "top=1000", "top=off", 1), ErrCorrupt},
		"top with zeros":     {strings.Replace(string(parse(t, topScript).AppendText(nil)), "top=1000", "top=01000", 1), ErrCorrupt},
		"format 2 of 1":      {change("format=1", "format=2"), ErrCorrupt},
		"format 1 of 2":      {strings.Replace(string(parse(t, agingScript).AppendText(nil)), "format=2", "format=1", 1), ErrCorrupt},
		"ids by numbers":     {strings.Replace(string(parse(t, agingScript).AppendText(nil)), "ids=weibo", "ids=s:22:515483463", 1), ErrCorrupt},
		"format 6 of 7":      {strings.Replace(string(parse(t, oldScript).AppendText(nil)), "format=7", "format=6", 1), ErrCorrupt},
		"format 7 of 1":      {change("format=1", "format=7"), ErrCorrupt},
		"old off":            {strings.Replace(string(parse(t, oldScript).AppendText(nil)), "old=on", "old=off", 1), ErrCorrupt},
		"retain in hours":    {strings.Replace(string(parse(t, agingScript).AppendText(nil)), "retain=730d", "retain=17520h", 1), ErrCorrupt},
		"format 0":           {change("format=1", "format=0"), ErrVersion},
		"format 01":          {change("format=1", "format=01"), ErrCorrupt},
		"format x":           {change("format=1", "format=x"), ErrCorrupt},
		"format too large":   {change("format=1", "format=99999999999999"), ErrCorrupt},
		"no format":          {change("schema format=1\n", ""), ErrCorrupt},
		"script":             {seedScript, ErrCorrupt},
		"counter without id": {change("add counter wide id=3", "add counter wide"), ErrCorrupt},
		"column without id":  {change("suffix=b id=3", "suffix=b"), ErrCorrupt},
		"key with id":        {change("add column later id hint=64 max=64 primarykey", "add column later id hint=64 max=64 primarykey id=7"), ErrCorrupt},
		"counter id falls":   {change("add counter wide id=3", "add counter wide id=2"), ErrCorrupt},
		"counter id 0":       {change("add counter weibo id=1", "add counter weibo id=0"), ErrCorrupt},
		"column id falls":    {change("suffix=b id=3", "suffix=b id=1"), ErrCorrupt},
		"column id too high": {change("suffix=b id=3", "suffix=b id=65536"), ErrCorrupt},
		"next too low":       {change("next column wide id=5", "next column wide id=3"), ErrCorrupt},
		"next too high":      {change("next column wide id=5", "next column wide id=65537"), ErrCorrupt},
		"next of nobody":     {change("next column wide", "next column nobody"), ErrCorrupt},
		"next of what":       {change("next column wide", "next row wide"), ErrCorrupt},
		"next without id":    {change("next column wide id=5", "next column wide"), ErrCorrupt},
		"next bare":          {change("next column wide id=5", "next id=5"), ErrCorrupt},
		"next twice":         {change("next column wide id=5\n", "next column wide id=5\nnext column wide id=6\n"), ErrCorrupt},
		"next missing":       {change("next column wide id=5\n", ""), ErrCorrupt},
		"counter next high":  {change("next counter id=5", "next counter id=4294967297"), ErrCorrupt},
		"id no number":       {change("id=5", "id=five"), ErrCorrupt},
		"id with zeros":      {change("id=5", "id=05"), ErrCorrupt},
		"statement twice":    {change("add counter reads id=2\n", "add counter reads id=2\nadd counter reads id=3\n"), ErrCorrupt},
		"drop":               {change("next counter", "drop counter wide\nnext counter"), ErrCorrupt},
		"comment":            {change("next counter", "# x\nnext counter"), ErrCorrupt},
		"CR LF":              {strings.ReplaceAll(sound, "\n", "\r\n"), ErrCorrupt},
		"upper case":         {change("add counter wide", "ADD counter wide"), ErrCorrupt},
		"attribute order":    {change("hint=16 max=32", "max=32 hint=16"), ErrCorrupt},
		"bad attribute":      {change("hint=16", "hint=99"), ErrCorrupt},
		"suffix twice":       {change("suffix=cntrn", "suffix=cntcm"), ErrCorrupt},
		"too long":           {sound + strings.Repeat("#", MaxDurable), ErrCorrupt},
	} {
		s, err := ParseDurable([]byte(c.text))
		if s != nil || !errors.Is(err, c.kind) {
			t.Errorf("%s: got %v, %v; want %v", name, s, err, c.kind)
		}
		if c.kind == ErrVersion && errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: a newer format is not corrupt: %v", name, err)
		}
	}
	for n := range len(sound) {
		if s, err := ParseDurable([]byte(sound[:n])); err == nil {
			t.Errorf("the first %d bytes are a schema:\n%s", n, s)
		}
	}
	// A flipped bit in a name or a number can leave a sound text; it must then
	// be that very schema, and never panic.
	for i := range len(sound) * 8 {
		b := []byte(sound)
		b[i/8] ^= 1 << (i % 8)
		if s, err := ParseDurable(b); err == nil && !bytes.Equal(s.AppendText(nil), b) {
			t.Errorf("bit %d: reads as another schema", i)
		}
	}
}

func FuzzParseDurable(f *testing.F) {
	f.Add(parse(f, richScript).AppendText(nil))
	f.Add(parse(f, seedScript).AppendText(nil))
	f.Add(Empty().AppendText(nil))
	f.Add(parse(f, topScript).AppendText(nil))
	f.Add(parse(f, derivedScript).AppendText(nil))
	f.Add([]byte("schema format=1\nadd counter c id=7\nnext column c id=65536\nnext counter id=4294967296\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseDurable(text)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Errorf("got %v", err)
			}
			return
		}
		if got := s.AppendText(nil); !bytes.Equal(got, text) {
			t.Errorf("got\n%swant\n%s", got, text)
		}
		checkSchema(t, s)
	})
}
