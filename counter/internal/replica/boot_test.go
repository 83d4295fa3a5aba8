package replica

import (
	"bytes"
	"errors"
	"testing"

	"github.com/counterd/counterd/internal/testkit/damagetest"
)

// TestBootDamage: any damage of the file BOOT is found. The node is then behind, as if it had lost acknowledged changes.
func TestBootDamage(t *testing.T) {
	damaged := errors.New("no note")
	for _, n := range []bootNote{{id: "6a1c", durable: true}, {behind: true}} {
		damagetest.AllFound(t, n.text(), func(err error) bool { return err == damaged }, func(b []byte) error {
			if _, ok := parseBoot(b); !ok {
				return damaged
			}
			return nil
		})
	}
}

// FuzzBootNote: what is read of a note is what it says, or it is not one.
func FuzzBootNote(f *testing.F) {
	for _, n := range []bootNote{{}, {"b26c8c2c-9f0b-4a9c-8d45-6f7f0e0a1c11", true, false}, {"x\ny", false, true}} {
		f.Add(n.text())
	}
	f.Add([]byte("counterd boot 2\nid 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, ok := parseBoot(text)
		if ok != bytes.Equal(n.text(), text) {
			t.Fatalf("%q: %+v, %v", text, n, ok)
		}
		if back, ok := parseBoot(n.text()); ok && back != n {
			t.Fatalf("%+v is read as %+v", n, back)
		}
	})
}
