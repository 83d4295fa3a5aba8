package registrytest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
)

func TestConformance(t *testing.T) {
	for _, c := range append([]Case{NoSpace}, Cases...) {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewServer()
				c.Run(t, Env{Open: func() registry.Registry { return s.Open(nil) }, Store: func() registry.Store { return s.Store(nil) },
					Put: s.Put, Compact: s.Compact, Full: s.SetFull})
			})
		})
	}
}

// TestSlowLease: a lease of two seconds lives with an etcd that takes 600 ms for each request, the first ones too.
func TestSlowLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := NewLink(1)
		link.SetFaults(Faults{Least: 600 * time.Millisecond})
		r := NewServer().Open(link)
		defer r.Close()
		l := register(t, r, topology.Live{Process: "one"})
		if !sleepOrLost(l, time.Minute) {
			t.Error("the lease is lost")
		}
	})
}
