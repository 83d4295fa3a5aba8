package role

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
)

// TestHoldWrites holds changes twice at a time: commands wait for as long as was said, and nothing is changed until both
// have let go, whatever came past the guard.
func TestHoldWrites(t *testing.T) {
	store, err := counter.Open(t.TempDir(), counter.Options{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.AlterScript("add counter c\nadd column c n hint=16 max=48 suffix=n"); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		n := New(&testHost{store}, config.NewLive(config.Default()), "run", slog.New(slog.DiscardHandler))
		waits := func() bool {
			_, held := n.Judge(command.Write, false)
			return held
		}
		changes := func() error {
			_, err := store.Incr("7.n", 1)
			return err
		}
		first := n.HoldWrites(time.Second)
		second := n.HoldWrites(500 * time.Millisecond)
		if !waits() || !errors.Is(changes(), ErrHeld) {
			t.Error("changes are made while they are held")
		}
		if _, held := n.Judge(command.ReadOnly, false); held {
			t.Error("reads wait")
		}
		first()
		first()
		if !waits() || !errors.Is(changes(), ErrHeld) {
			t.Error("changes are made while one still holds them")
		}
		time.Sleep(2 * time.Second)
		if waits() {
			t.Error("commands wait for longer than was said")
		}
		if !errors.Is(changes(), ErrHeld) {
			t.Error("changes are made when the time of a hold is over")
		}
		second()
		if err := changes(); waits() || err != nil {
			t.Errorf("changes wait, or get %v, when nobody holds them", err)
		}
	})
}
