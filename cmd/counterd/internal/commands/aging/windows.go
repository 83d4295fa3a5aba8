package aging

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Windows keeps the windows of derived columns going: on the primary it logs ticks of the clock, and removes what no window counts any more. All
// methods are safe for concurrent use.
//
// A tick is logged as soon as a bucket of some column has ended. Where the clock is more than a day ahead of the log's time, it is believed only
// when it has stayed there for ten minutes: a server that was stopped for days waits so long with its first tick, and a clock that
// jumps, and is set right before, does nothing. The log's time never goes back.
//
// A tick that fails is tried again with the next Look, a second later: until it is made, readers see additions that have left their windows.
//
// Invariant: at most one goroutine ticks and sweeps, and mu is not held by it meanwhile.
type Windows struct {
	task
	host Host
	log  *slog.Logger

	mu      sync.Mutex           // guards the rest
	ahead   time.Time            // since when the clock has been far ahead of the log's time; zero: it is not
	swept   map[uint32]time.Time // when what no window counts was last removed, by space
	removed int64                // so many items since the start
	told    time.Time            // when the log was last told of a failure
}

// believeAfter is how long a clock that is far ahead must have been there.
const believeAfter = 10 * time.Minute

const (
	tickPause = time.Second // between a failed tick and the next
	tellAgain = time.Minute // between two lines of the log about ticks that fail
)

// NewWindows makes the keeper of a server's windows.
func NewWindows(host Host, log *slog.Logger) *Windows {
	return &Windows{task: task{pause: tickPause}, host: host, log: log, swept: make(map[uint32]time.Time)}
}

// Look begins a tick in the background, if one is due. It takes some nanoseconds where there is no derived column.
func (k *Windows) Look() {
	store := k.host.Store()
	now := store.Admin().Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	due, far := store.Windows().Due(now)
	switch {
	case !far:
		k.ahead = time.Time{}
	case k.ahead.IsZero() || now.Before(k.ahead):
		k.ahead = now
		k.log.Warn("the clock is more than a day ahead of the time of the log; windows wait ten minutes to see whether it stays there", "clock", now.UTC(), "log_time", time.Unix(store.Windows().Time(), 0).UTC())
	}
	if !due || far && now.Sub(k.ahead) < believeAfter || !k.ready(now) {
		return
	}
	if !k.host.MayChange() || takesChanges(store) != nil {
		return
	}
	k.start(now, func() error { return k.run(store, now) })
}

// run ticks, and sweeps where it is time to.
func (k *Windows) run(store *counter.Store, now time.Time) error {
	err := store.Windows().Tick(now, k.host.MayChange)
	for _, of := range k.dueSweeps(store.Schema(), now) {
		if err != nil {
			break
		}
		var removed int
		if removed, err = store.Windows().Sweep(of, k.host.MayChange); removed > 0 {
			k.mu.Lock()
			k.removed += int64(removed)
			k.mu.Unlock()
		}
	}
	var dropped *counter.DroppedError
	if errors.As(err, &dropped) {
		err = nil
	}
	if err != nil && !errors.Is(err, counter.ErrClosed) && !errors.Is(err, counter.ErrReplica) && k.news(now) {
		k.log.Warn("windows of time cannot go on; attempts follow each second", "error", err)
	}
	return err
}

// news tells whether a failure at a moment is to be told: the last line about one is a minute old.
func (k *Windows) news(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !now.Before(k.told) && now.Sub(k.told) < tellAgain {
		return false
	}
	k.told = now
	return true
}

// dueSweeps are the derived columns whose spaces are to be swept now: each eight times in a window, or twice in a half-life, with ten seconds in between at least.
func (k *Windows) dueSweeps(sch *schema.Schema, now time.Time) (list []*schema.Derived) {
	k.mu.Lock()
	defer k.mu.Unlock()
	swept := make(map[uint32]time.Time)
	for _, def := range sch.Counters() {
		for i := range def.Derived {
			of := &def.Derived[i]
			last, every := k.swept[of.Space.ID], max(time.Duration(of.SweepEvery())*time.Second, 10*time.Second)
			if now.Sub(last) >= every || now.Before(last) {
				list, last = append(list, of), now
			}
			swept[of.Space.ID] = last
		}
	}
	k.swept = swept
	return list
}
