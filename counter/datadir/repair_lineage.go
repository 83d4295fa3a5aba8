package datadir

import (
	"errors"

	"github.com/counterd/counterd/persist"
)

// mendLineage finishes what HISTORY says was begun, or sets it aside where it is damaged.
func (r *repair) mendLineage() error {
	l, err := persist.ReadLineage(r.fsys, r.dir)
	switch {
	case errors.Is(err, persist.ErrCorrupt):
		r.sayf("%v", err)
		r.noLineage = true
		return r.setAside(persist.LineagePath(r.dir))
	case err != nil:
		return err
	case l.Begun() != "":
		r.sayf("finishing what a crash broke off: see HISTORY")
		return persist.SettleLocked(r.fsys, r.dir, &l)
	}
	return nil
}

// restoreLineage makes HISTORY anew from the log's last segment. A log under one id is one log from its beginning, so others who know the id
// agree with it; of those who know an older one only nobody can tell.
func (r *repair) restoreLineage() error {
	h := r.walked.History
	if !r.noLineage || h.ReplID == (persist.ReplID{}) {
		return nil
	}
	role := "a primary's"
	if h.Replica = h.Replica || r.replica; h.Replica {
		role = "a replica's"
	}
	r.sayf("wrote %s: the log is %s, of history %s", persist.LineagePath(r.dir), role, h.ReplID)
	return persist.WriteLineage(r.fsys, r.dir, &persist.Lineage{Replica: h.Replica, Terms: []persist.Term{{ReplID: h.ReplID, Epoch: h.Epoch}}})
}

// mendDiverged cuts tails at the first damage and sets aside what cannot be read at all.
func (r *repair) mendDiverged() error {
	tails, archives, err := persist.ListDiverged(r.fsys, r.dir)
	if err != nil {
		return err
	}
	for _, d := range tails {
		walked, err := persist.WalkDiverged(r.fsys, d, persist.LogVisitor{})
		var bad *persist.CorruptError
		if !errors.As(err, &bad) {
			if err != nil {
				return err
			}
			continue
		}
		r.sayf("%v", bad)
		if walked.Frames == 0 {
			err = r.setAside(d.Path)
		} else if err = r.copyAside(d.Path); err == nil {
			err = d.End(r.fsys, walked.End)
			if err == nil {
				r.sayf("%s ends at log offset %d now, with %d frames", d.Path, walked.End, walked.Frames)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, d := range archives {
		err := d.Verify(r.fsys)
		if !errors.Is(err, persist.ErrCorrupt) {
			if err != nil {
				return err
			}
			continue
		}
		r.sayf("%v", err)
		if err := r.setAside(d.Path); err != nil {
			return err
		}
	}
	return nil
}
