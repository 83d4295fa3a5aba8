package registrytest

import (
	"testing"
	"testing/synctest"

	"github.com/counterd/counterd/cmd/internal/registry"
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
