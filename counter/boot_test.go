package counter

import (
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
