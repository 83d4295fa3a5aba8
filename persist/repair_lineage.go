package persist

import (
	"errors"
	"path/filepath"
)

// mendLineage finishes what HISTORY says was begun, or sets it aside where it is damaged.
func (r *repair) mendLineage() error {
	l, err := ReadLineage(r.fsys, r.dir)
	switch {
	case errors.Is(err, ErrCorrupt):
		r.sayf("%v", err)
		r.noLineage = true
		return r.setAside(filepath.Join(r.dir, historyName))
	case err != nil:
		return err
	case l.cut || l.install != installNone:
		r.sayf("finishing what a crash broke off: see HISTORY")
		return settle(r.fsys, r.dir, &l)
	}
	return nil
}

// restoreLineage makes HISTORY anew from the log's last segment. A log under one id is one log from its beginning, so others who know the id
// agree with it; of those who know an older one only nobody can tell.
func (r *repair) restoreLineage() error {
	h := r.walk.header.history
	if !r.noLineage || h.ReplID == (ReplID{}) {
		return nil
	}
	role := "a primary's"
	if h.Replica = h.Replica || r.replica; h.Replica {
		role = "a replica's"
	}
	r.sayf("wrote %s: the log is %s, of history %s", filepath.Join(r.dir, historyName), role, h.ReplID)
	return WriteLineage(r.fsys, r.dir, &Lineage{Replica: h.Replica, Terms: []Term{{ReplID: h.ReplID, Epoch: h.Epoch}}})
}
