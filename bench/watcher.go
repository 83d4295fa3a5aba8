package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/counterd/counterd/bench/procstat"
	"github.com/counterd/counterd/internal/wire"
)

// watchEvery is how often a server is looked at while it is measured, in quiet windows as in busy ones, so that looking
// makes no difference between them.
const watchEvery = 20 * time.Millisecond

// watcher looks at a server: what its INFO says of background work, and its resident memory.
type watcher struct {
	conn  *wire.Conn
	meter *procstat.Meter
	args  []string // the command that asks

	mu      sync.Mutex
	changed *sync.Cond
	last    look
	saves   spans // made by itself or by somebody: snapshots and rewritten logs that were seen under way
	saving  bool
	saved   bool  // one was seen under way, or told of, since the last rest
	peak    int64 // of rss, since then
	forked  int64 // most that a forked process had to itself, since then
	err     error
	ended   bool
}

// look is one look at a server.
type look struct {
	asked, at time.Duration // when INFO was sent, and answered
	info      procstat.Info
	rss       int64
}

// saving tells whether a snapshot is made, or the log rewritten.
func (l *look) saving() bool {
	return l.info["rdb_bgsave_in_progress"] == "1" || l.info["aof_rewrite_in_progress"] == "1"
}

// forked is what a forked process of Redis has to itself, as it says of it: pages that were changed since, and buffers.
func (l *look) forked() (most int64) {
	names := []string{"rdb_last_cow_size", "aof_last_cow_size"}
	if l.saving() {
		names = []string{"current_cow_peak", "current_cow_size"}
	}
	for _, name := range names {
		if n, err := l.info.Int(name); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// newWatcher returns a watcher with a connection of its own.
func newWatcher(s *side, what string) (*watcher, error) {
	w := &watcher{args: []string{"INFO", "persistence"}}
	w.changed = sync.NewCond(&w.mu)
	if s.target.Kind == Counterd && (what == "seal" || what == "scrub") { // it goes over all ranges
		w.args = []string{"INFO", "persistence", "tiers"}
	}
	var err error
	if w.conn, err = s.target.Dial(); err != nil {
		return nil, err
	}
	// A meter that asks INFO would come between the watcher's own questions.
	if s.meter.PID() != 0 {
		w.meter = s.meter
	} else {
		w.args = append(w.args, "memory")
	}
	if err = w.look(); err != nil {
		w.conn.Close()
	}
	return w, err
}

// watch looks until the context ends, which is no error.
func (w *watcher) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	defer context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = true
		w.changed.Broadcast()
	})()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := w.look(); err != nil {
			w.mu.Lock()
			w.err = err
			w.changed.Broadcast()
			w.mu.Unlock()
			return fmt.Errorf("INFO: %w", err)
		}
	}
}

// look looks once.
func (w *watcher) look() error {
	l := look{asked: clock()}
	v, err := w.conn.Do(w.args...)
	if err != nil {
		return err
	}
	l.at, l.info = clock(), procstat.ParseInfo(v.Str)
	if w.meter != nil {
		usage, err := w.meter.Usage()
		if err != nil {
			return err
		}
		l.rss = usage.RSS
	} else {
		l.rss, _ = l.info.Int("used_memory_rss") // a server that does not tell has 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	saving := l.saving()
	switch {
	case saving && !w.saving:
		// It began after the look before this one.
		w.saves = append(w.saves, span{"by itself", max(w.last.at, l.asked-watchEvery), l.at})
	case w.saving:
		w.saves[len(w.saves)-1].to = l.at
	}
	w.saving, w.last = saving, l
	w.saved = w.saved || saving
	w.peak = max(w.peak, l.rss)
	if w.saved { // else what it says is of an earlier one
		w.forked = max(w.forked, l.forked())
	}
	w.changed.Broadcast()
	return nil
}

// next returns a look that was begun after it was called.
func (w *watcher) next(ctx context.Context) (look, error) {
	began := clock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.last.asked < began && w.err == nil && !w.ended && ctx.Err() == nil {
		w.changed.Wait()
	}
	switch {
	case w.err != nil:
		return look{}, w.err
	case ctx.Err() != nil:
		return look{}, context.Cause(ctx)
	case w.ended:
		return look{}, context.Canceled
	}
	return w.last, nil
}

// until returns the first look of which is is true.
func (w *watcher) until(ctx context.Context, is func(*look) bool) (look, error) {
	// Who waits is woken by looks; the end of ctx is to be one too.
	defer context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed.Broadcast()
	})()
	for {
		l, err := w.next(ctx)
		if err != nil || is(&l) {
			return l, err
		}
	}
}

// rest begins to count the peak anew, and returns the resident memory now.
func (w *watcher) rest() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.peak, w.forked, w.saved = w.last.rss, 0, w.saving
	return w.last.rss
}

// forks says that a process is to be forked, which may be over before the next look.
func (w *watcher) forks() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saved = true
}

// most returns the peak since the last rest, and what a forked process had to itself.
func (w *watcher) most() (rss, forked int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.peak, w.forked
}

// seen returns when snapshots were seen under way.
func (w *watcher) seen() spans {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(spans(nil), w.saves...)
}
