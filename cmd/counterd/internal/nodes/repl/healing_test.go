package repl

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"

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

// TestDiskFailsForAMoment: a read that fails while the directory is opened, and does not fail a second later, sets nothing
// aside. One that goes on to fail does.
func TestDiskFailsForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for fails, healing := range map[int]bool{0: false, 1: false, openTries - 1: false, openTries: true} {
			h := &testHost{t: t, sim: vfs.NewSim()}
			h.open()
			h.commit()
			if err := h.Store().Close(); err != nil {
				t.Fatal(err)
			}
			n, opens := newTestNode(h), 0
			store, err := n.Open("data", true, func() (*counter.Store, error) {
				if opens++; opens <= fails {
					return nil, &format.CorruptError{File: "an image", Err: fmt.Errorf("read: %w", syscall.EIO)}
				}
				return h.open(), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := n.Healing() != nil; got != healing || opens != fails+1 {
				t.Errorf("%d failures: healing %v, want %v; opened %d times", fails, got, healing, opens)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
