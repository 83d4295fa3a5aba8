package schema

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestParseScriptForms(t *testing.T) {
	for name, script := range map[string]string{
		"CR LF":           strings.ReplaceAll(seedScript, "\n", "\r\n"),
		"byte order mark": "\ufeff" + seedScript,
		"no last newline": strings.TrimSuffix(seedScript, "\n"),
		"tabs and spaces": "\t" + strings.ReplaceAll(strings.ReplaceAll(seedScript, " ", " \t "), "\n", " \n"),
		"upper case":      strings.NewReplacer("add", "ADD", "column", "Column", "hint", "HINT", "suffix=", "SUFFIX=").Replace(seedScript),
		"comments":        "# posts\n\n#\n  \t# x\n" + strings.ReplaceAll(seedScript, "\n", " # add counter other\n\n"),
		"drops":           "add counter w\ndrop counter w\n" + seedScript + "add column weibo n hint=1\ndrop column weibo n\n",
	} {
		got, err := ParseScript(iotest.HalfReader(strings.NewReader(script)), Empty())
		if err != nil || got.String() != seedText {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	for _, script := range []string{"", "\n\n", "# nothing", "\r\n", "\ufeff"} {
		if got := parse(t, script); got != Empty() {
			t.Errorf("%q: got %v", script, got)
		}
	}
}

func TestParseScriptErrors(t *testing.T) {
	onto := parse(t, seedScript)
	for _, c := range []struct {
		script string
		line   int // 0: no line is at fault
		kind   error
	}{
		{"add counter", 1, ErrSyntax},
		{"\n# x\r\nadd counter a\nadd counter 1\n", 4, ErrName},
		{"add counter a\n\n\nadd column a b hint=8x", 4, ErrAttribute},
		{"add counter a # b\nadd column b b hint=8", 2, ErrUnknown},
		{"add counter a#b", 1, ErrName},
		{"add counter a\rb", 1, ErrName},
		{"add counter a\vb", 1, ErrName},
		{"add counter a\u00a0b", 1, ErrName},
		{"add counter a\x00", 1, ErrName},
		{"add\n counter a", 1, ErrSyntax},
		{"add counter a\n#" + strings.Repeat("x", MaxLine), 2, ErrLimit},
		{"add column weibo comment hint=1", 1, ErrSchemaMismatch},
		{"schema format=1", 1, ErrSyntax},
		{"next counter id=7", 1, ErrSyntax},
		{"add counter a id=7", 1, ErrSyntax},
		{strings.Repeat("\n", MaxScript) + "\n", 0, ErrLimit},
	} {
		got, err := ParseScript(strings.NewReader(c.script), onto)
		show := c.script[:min(len(c.script), 80)]
		var line *LineError
		errors.As(err, &line)
		switch {
		case got != nil || !errors.Is(err, c.kind):
			t.Errorf("%q: got %v, %v; want %v", show, got, err, c.kind)
		case c.line == 0 && line != nil, c.line > 0 && (line == nil || line.Line != c.line):
			t.Errorf("%q: got %v, want line %d", show, err, c.line)
		}
	}
	if got := onto.String(); got != seedText {
		t.Errorf("errors changed the schema to\n%s", got)
	}
	if got := parse(t, strings.Repeat("\n", MaxScript)); got != Empty() {
		t.Errorf("a script of the largest size: got %v", got)
	}
	if _, err := ParseScript(iotest.ErrReader(io.ErrClosedPipe), onto); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a reader that fails: got %v", err)
	}
}

// An endless script is given up at its limit.
func TestParseScriptEndless(t *testing.T) {
	r := &endless{}
	if _, err := ParseScript(r, Empty()); !errors.Is(err, ErrLimit) {
		t.Errorf("got %v", err)
	}
	if r.read > 2*MaxScript {
		t.Errorf("read %d bytes", r.read)
	}
}

type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	e.read += len(p)
	return len(p), nil
}

func FuzzParseScript(f *testing.F) {
	f.Add([]byte(seedScript))
	f.Add([]byte(richScript))
	f.Add([]byte(derivedScript))
	f.Add([]byte(strings.ReplaceAll(richScript, "\n", "\r\n")))
	f.Add([]byte("add counter a\nadd column a b hint=1 max=64 default=1 # c\ndrop column a b\ndrop counter a"))
	f.Fuzz(func(t *testing.T, script []byte) {
		s, err := ParseScript(bytes.NewReader(script), Empty())
		if err != nil {
			if len(err.Error()) > 1024 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		checkSchema(t, s)
	})
}

// checkSchema holds s to its invariants and to the round trips of its texts.
func checkSchema(t *testing.T, s *Schema) {
	t.Helper()
	text := s.String()
	if len(text) != s.size {
		t.Errorf("the text has %d bytes, counted as %d:\n%s", len(text), s.size, text)
	}
	again := parse(t, text)
	if got := again.String(); got != text {
		t.Errorf("printed, parsed and printed: got\n%swant\n%s", got, text)
	}
	if got := parseOnto(t, text, s); got != s {
		t.Errorf("its own script changes the schema from\n%sto\n%s", text, got)
	}
	durable := s.AppendText(nil)
	back, err := ParseDurable(durable)
	if err != nil {
		t.Fatalf("%v in\n%s", err, durable)
	}
	if got := back.AppendText(nil); !bytes.Equal(got, durable) || back.String() != text || back.size != s.size {
		t.Errorf("durable form: got\n%swant\n%s", got, durable)
	}
	var lastID uint32
	for _, c := range s.counters {
		if c.ID <= lastID || c.ID > s.lastCounter || s.Counter(c.Name) != c || s.CounterByID(c.ID) != c {
			t.Errorf("counter %s, id %d, is not where it belongs", c.Name, c.ID)
		}
		lastID = c.ID
		var last uint16
		for i := range c.Columns {
			col := &c.Columns[i]
			if col.ID <= last || col.ID > c.lastColumn || c.Index(col.ID) != i {
				t.Errorf("column %s, id %d, is not where it belongs", col.Name, col.ID)
			}
			last = col.ID
			if got, ok := c.Field([]byte(col.Name)); !ok || got != i {
				t.Errorf("field %s is %d, %v", col.Name, got, ok)
			}
			want := Key{c, i, 42}
			if k, ok := s.ParseKey(s.AppendKey(nil, c, i, 42)); !ok || k != want {
				t.Errorf("the key of column %s is %+v, %v", col.Name, k, ok)
			}
			if f := c.Layout.Fields[i]; f.ID != col.ID || f.Width != col.Hint || f.Max != col.Max || f.Default != col.Default {
				t.Errorf("column %+v is laid out as %+v", col, f)
			}
		}
		if got, mid, ok := s.ParseItem(s.AppendKey(nil, c, WholeItem, 42)); !ok || got != c || mid != 42 {
			t.Errorf("the key of an item of %s is one of %+v", c.Name, got)
		}
	}
}
