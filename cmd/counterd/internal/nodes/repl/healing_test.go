package repl

import (
	"errors"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestLeadBehindDamage: a node is told to lead while its link opens the store again. The link ends before the node leads, and
// it may have found damage and set the files aside: then the node must not lead.
func TestLeadBehindDamage(t *testing.T) {
	for _, elected := range []bool{false, true} {
		h := &testHost{t: t, sim: vfs.NewSim(), options: func(o *counter.Options) { o.Elected = elected }}
		n := newTestNode(h)
		defer h.open().Close()
		lead := n.Lead
		if elected {
			lead = func() error { return n.LeadAt(1) }
		}
		done := make(chan struct{})
		n.link = &Link{done: done, cancel: func() {
			n.healing.now.Store(&format.Healing{Reason: "a bad page"})
			close(done)
		}}
		if err := lead(); !errors.Is(err, ErrHealing) {
			t.Errorf("elected %v: %v, want ErrHealing", elected, err)
		}
		if n.peers.quorum.leads() != 0 {
			t.Errorf("elected %v: it leads", elected)
		}
	}
}
