// Scenario: several pauses at a time, and clients that call themselves replicas.

package role

import (
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
)

// TestTwoPauses: a pause gets neither weaker nor shorter by another one of its cause. Commands look again when the first pause ends.
func TestTwoPauses(t *testing.T) {
	var p pauses
	p.begin(pausedByCommand, guardPauseAll, time.Hour)
	p.begin(pausedByCommand, guardPauseWrite, 2*time.Hour)
	if bits := p.bits(); bits&guardPauseAll == 0 {
		t.Errorf("bits %b: reads go on", bits)
	}
	p.begin(pausedByCommand, guardPauseWrite, time.Minute)
	if _, _, next := p.look(); next < 90*time.Minute {
		t.Errorf("the pause ends in %v", next)
	}
	p.begin(pausedByHold, guardPauseWrite, 10*time.Minute)
	p.begin(pausedByFailover, guardPauseWrite, 0)
	if _, _, next := p.look(); next > 10*time.Minute || next < time.Minute {
		t.Errorf("looks again in %v, want at most 10 minutes", next)
	}
}

// TestHoldsReplicas: replicas go on during a pause, but for changes: any client can call itself a replica.
func TestHoldsReplicas(t *testing.T) {
	for _, bits := range []uint32{guardPauseAll, guardPauseWrite} {
		if !holds(bits, command.Write, true) {
			t.Errorf("pause %b: a replica's connection makes changes", bits)
		}
		if holds(bits, command.ReadOnly, true) {
			t.Errorf("pause %b: a replica waits", bits)
		}
	}
}
