package replica

import (
	"fmt"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
)

// AdmitCursors says durably, in HISTORY, that the log may have records of cursors and of dropped ranges, so that programs that do not know these refuse the
// directory. It comes before the first such record; later calls do nothing. The error is ErrInMemory, ErrReplica, ErrClosed, or one of the
// disk.
func (r *Replication) AdmitCursors() error {
	if r.s.Log == nil {
		return core.ErrInMemory
	}
	if r.s.Cursors.Admitted.Load() {
		return nil
	}
	r.s.Applying.Lock() // no change of role writes HISTORY meanwhile
	defer r.s.Applying.Unlock()
	r.s.Gate.RLock()
	err := r.s.TakesChanges()
	if r.s.Closed {
		err = core.ErrClosed
	}
	r.s.Gate.RUnlock()
	if err != nil {
		return err
	}
	return r.admitCursors()
}

// admitCursors is AdmitCursors of either role. REQUIRES Applying held, and the log to take changes: HISTORY is the lineage in force then.
func (r *Replication) admitCursors() error {
	if r.s.Cursors.Admitted.Load() {
		return nil
	}
	l := r.Lineage()
	l.Cursors = true
	if err := logfile.WriteLineage(r.s.Config.FS, r.s.Dir.Path(), &l); err != nil {
		return fmt.Errorf("counter: HISTORY cannot say that the log has cursors: %w: %w", format.ErrNotReady, err)
	}
	r.mu.Lock()
	r.lineage.Cursors = true
	r.mu.Unlock()
	r.s.Cursors.Admitted.Store(true)
	return nil
}
