package replica

import (
	"path/filepath"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// HISTORY, BOOT and MONITORED are read at a start only. While the store is open, memory has their content: a file that
// differs was damaged, and is written again (durable.Note).

// VerifyHistory looks at HISTORY and its copy.
func VerifyHistory(r *Replication) (damage, err error) {
	fsys := r.s.Config.FS
	compare := func() error {
		l := r.Lineage()
		return persist.CompareTwice(fsys, format.LineagePath(r.s.Dir.Path()), l.AppendText(nil))
	}
	if compare() == nil {
		return nil, nil
	}
	r.s.Applying.Lock() // the lineage does not change
	defer r.s.Applying.Unlock()
	r.s.Gate.RLock()
	closed, owes := r.s.Closed, r.pending
	r.s.Gate.RUnlock()
	if closed {
		return nil, core.ErrClosed
	}
	if damage = compare(); damage == nil || owes != nothingPending { // a lineage that is owed is written by WritePending
		return nil, nil
	}
	if err := r.s.Dir.CheckLock(); err != nil {
		return damage, err
	}
	l := r.Lineage()
	return damage, logfile.WriteLineage(fsys, r.s.Dir.Path(), &l)
}

// VerifyBoot looks at BOOT.
func VerifyBoot(r *Replication) (damage, err error) {
	b := &r.boot
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.begun {
		return nil, nil
	}
	if damage = persist.CompareFile(b.s.Config.FS, filepath.Join(b.s.Dir.Path(), bootName), b.note.text()); damage == nil {
		return nil, nil
	}
	return damage, b.write(b.note)
}

// VerifyMonitored looks at MONITORED: its presence alone counts.
func VerifyMonitored(r *Replication) (damage, err error) {
	if !r.monitored.Load() {
		return nil, nil
	}
	_, err = r.s.Config.FS.Stat(filepath.Join(r.s.Dir.Path(), monitoredName))
	if !vfs.IsNotExist(err) {
		return nil, err
	}
	return err, r.SetMonitored()
}
