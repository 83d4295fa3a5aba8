// Scenario: a store follows a schema that is made elsewhere.

package counter

import (
	"errors"
	"strings"
	"testing"

	"github.com/counterd/counterd/schema"
)

// TestAdopt has a store follow a schema that is made elsewhere, statement by statement and with some left out: ids of
// counters and columns are the same there and here, also after a start, and what was dropped is gone.
func TestAdopt(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := schema.Empty()
	adopt := func(script string) {
		t.Helper()
		next, err := schema.ParseScript(strings.NewReader(script), elsewhere)
		if err != nil {
			t.Fatal(err)
		}
		elsewhere = next
		b := s.NewBatch()
		if err := b.BeginExclusive(); err != nil {
			t.Fatal(err)
		}
		err = b.Whole().Adopt(elsewhere.AppendText(nil))
		b.End()
		if err = errors.Join(err, b.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		if got, want := string(s.Schema().AppendText(nil)), string(elsewhere.AppendText(nil)); got != want {
			t.Fatalf("got the schema\n%s\nwant\n%s", got, want)
		}
	}
	adopt("add counter gone\nadd column gone n hint=8 max=32 suffix=g\ndrop counter gone\nadd counter c\nadd column c a hint=8 max=32 suffix=a\nadd column c b hint=8 max=32 suffix=b")
	check()
	if _, err := s.Incr("7.a", 3); err != nil {
		t.Fatal(err)
	}
	at := s.Replication().Position()
	adopt("")
	if now := s.Replication().Position(); now != at {
		t.Errorf("the log grew from %d to %d by a schema that is in force", at, now)
	}
	adopt("drop column c b\nadd column c b hint=8 max=32 suffix=b\nadd counter d\nadd column d n hint=8 max=32 suffix=n")
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	check()
	if n, _, err := s.Get("7.a"); err != nil || n != 3 {
		t.Errorf("got %d, %v, want 3", n, err)
	}
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	if err := b.Whole().Adopt([]byte("schema format=1\n")); err == nil {
		t.Error("a text that is no schema is adopted")
	}
}
