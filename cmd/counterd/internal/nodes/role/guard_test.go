package role

import (
	"context"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
)

// TestGuard says what each reason does to reads, to changes, and to what a stale replica answers too. Lets never lets
// pass what Judge does not.
func TestGuard(t *testing.T) {
	const read, write, stale = command.ReadOnly, command.Write, command.ReadOnly | command.Stale
	for _, c := range []struct {
		why                uint32
		read, write, stale string
	}{
		{0, "", "", ""},
		{guardReplica, "", items.ErrReadOnly, ""},
		{guardReplica | guardStale, errMasterDown, items.ErrReadOnly, ""},
		{guardAwait, "", ErrAwait, ""},
		{guardDeposed, "", ErrDeposed, ""},
		{guardFew, "", errFew, ""},
		{guardPauseWrite, "", "held", ""},
		{guardPauseAll, "held", "held", "held"},
		{guardReplica | guardPauseAll, "held", items.ErrReadOnly, "held"},
		{guardFew | guardPauseWrite, "", errFew, ""},
	} {
		var g Guard
		if pause := c.why & (guardPauseWrite | guardPauseAll); pause != 0 {
			g.pauses.begin(pausedByCommand, pause, 0)
		}
		g.bits.Store(c.why)
		for f, want := range map[command.Flags]string{read: c.read, write: c.write, stale: c.stale} {
			got, held := g.Judge(f, false)
			if held {
				got = "held"
			}
			if got != want {
				t.Errorf("bits %07b, flags %b: %q, want %q", c.why, f, got, want)
			}
			if g.Lets(f) && got != "" {
				t.Errorf("bits %07b, flags %b: passes, though %q", c.why, f, got)
			}
		}
		if _, held := g.Judge(read, true); held {
			t.Errorf("bits %07b: a replica is held back", c.why)
		}
	}
}

// TestPausesOutlast has two pauses in force: what one of them holds back waits until both are over, and a look at the
// role in between changes nothing about that.
func TestPausesOutlast(t *testing.T) {
	n := newTestRole(t, func(c *config.Config) { c.MinReplicas = 0 })
	n.PauseWrites(time.Hour)
	n.pause(pausedByFailover, guardPauseWrite, 0)
	unheld := make(chan bool)
	go func() { unheld <- n.Unheld(t.Context(), command.Write, false) }()
	n.EndPause()
	n.RoleChanged()
	if n.Lets(command.Write) {
		t.Error("a change passes a pause")
	}
	select {
	case <-unheld:
		t.Error("it did not wait for the second pause")
	default:
	}
	n.unpause(pausedByFailover)
	if !<-unheld || !n.Lets(command.Write) {
		t.Error("the pauses are over and it is held back")
	}
	n.PauseWrites(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if n.Unheld(ctx, command.Write, false) {
		t.Error("it goes on behind the end of its connection")
	}
	n.PauseWrites(time.Millisecond) // not shorter
	if n.Lets(command.Write) {
		t.Error("a shorter pause took the place of the longer")
	}
}

// TestPauseOver: a pause that ended by itself holds nothing back, though nobody has told the guard.
func TestPauseOver(t *testing.T) {
	n := newTestRole(t, nil)
	for _, all := range []bool{false, true} {
		bits := uint32(guardPauseWrite)
		if all {
			bits = guardPauseAll
		}
		n.pause(pausedByCommand, bits, time.Hour)
		if _, held := n.Judge(command.Write, false); !held {
			t.Error("a pause holds no change back")
		}
		n.EndPause()
		n.pause(pausedByCommand, bits, time.Nanosecond)
		n.bits.Store(bits) // as if it had been in force when it began
		for n.pauses.bits() != 0 {
			time.Sleep(time.Millisecond)
		}
		if text, held := n.Judge(command.Write, false); text != "" || held {
			t.Errorf("behind a pause a change is held back: %t, or refused: %q", held, text)
		}
	}
}
