package repl

import (
	"errors"
	"testing"

	"github.com/counterd/counterd/internal/testkit/damagetest"
	"github.com/counterd/counterd/persist/format"
)

// TestAddressNoteDamage: any damage of the files PRIMARY and HANDOVER is found. A flipped bit of the port would make a replica
// follow another server.
func TestAddressNoteDamage(t *testing.T) {
	for _, n := range []addressNote{{Address{Host: "10.1.2.3", Port: 6379}, false}, {Address{Host: "host with spaces", Port: 1}, true}} {
		damagetest.AllFound(t, n.text(), func(err error) bool { return errors.Is(err, format.ErrCorrupt) }, func(b []byte) error {
			_, err := parseAddressNote(b)
			return err
		})
		if got, err := parseAddressNote(n.text()); err != nil || got != n {
			t.Errorf("got %+v, %v, want %+v", got, err, n)
		}
	}
}

// TestAddressNoteOld: notes of an older program, without a checksum, are read.
func TestAddressNoteOld(t *testing.T) {
	for text, want := range map[string]addressNote{
		"6379 10.1.2.3\n":         {Address{Host: "10.1.2.3", Port: 6379}, false},
		"6379 10.1.2.3\nforced\n": {Address{Host: "10.1.2.3", Port: 6379}, true},
	} {
		if got, err := parseAddressNote([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x y\n", "70000 h\n", "6379\n", "-1 h\n", "1 h\nfor", "1 h\nfoxced\n"} {
		if got, err := parseAddressNote([]byte(text)); !errors.Is(err, format.ErrCorrupt) {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}
