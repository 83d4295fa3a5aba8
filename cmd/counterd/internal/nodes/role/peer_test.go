package role

import (
	"errors"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/counter"
)

// TestPeerErrorText: whatever keeps a replica from what it asks for, it is told by an error that has a class.
func TestPeerErrorText(t *testing.T) {
	for want, err := range map[string]error{
		"DIVERGED 7":           errors.New("DIVERGED 7"),
		"LOST no such file":    errors.New("LOST no such file"),
		"ERR no such file":     errors.New("no such file"),
		items.ErrLoading:       counter.ErrClosed,
		"ERR ERROR of a class": errors.New("ERROR of a class"),
	} {
		if got := peerErrorText(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}
