package format

import (
	"errors"
	"testing"

	"github.com/counterd/counterd/internal/testkit/damagetest"
)

// TestClaimDamage: any damage of a slot of DURABLE makes it no claim. It never claims another offset.
func TestClaimDamage(t *testing.T) {
	none := errors.New("no claim")
	slot := AppendClaim(nil, 7, Claim{Offset: 1 << 40, ReplID: testHistory.ReplID})
	slot = append(slot, make([]byte, 100)...) // as the file goes on
	read := func(b []byte) error {
		number, c, ok, err := DecodeClaim(b, ClaimName)
		if err == nil && !ok {
			err = none
		}
		if err == nil && (number != 7 || c.Offset != 1<<40 || c.ReplID != testHistory.ReplID) {
			t.Errorf("reads as claim %d, %+v", number, c)
		}
		return err
	}
	damagetest.AllFound(t, slot[:ClaimLen], func(err error) bool { return err == none }, func(b []byte) error {
		if len(b) > ClaimLen { // the rest of the slot is not the claim's
			return none
		}
		return read(b)
	})
	if err := read(slot); err != nil {
		t.Error(err)
	}
	for _, closed := range []bool{false, true} {
		want := Claim{Offset: 5, ReplID: testHistory.ReplID, Closed: closed}
		if _, c, ok, err := DecodeClaim(AppendClaim(nil, 1, want), ClaimName); err != nil || !ok || c != want {
			t.Errorf("%+v, %v, %v, want %+v", c, ok, err, want)
		}
	}
}
