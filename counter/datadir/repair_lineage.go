package datadir

import (
	"errors"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// mendLineage finishes what HISTORY says was begun. Where it is damaged, it writes one with the role alone, and that the log needs a snapshot if the
// directory may have had one: whether the log was cut is not known any more.
func (r *repair) mendLineage() error {
	l, err := logfile.ReadLineage(r.fsys, r.dir)
	switch {
	case errors.Is(err, format.ErrCorrupt):
		r.sayf("%v", err)
		r.noLineage = true
		for _, path := range []string{format.LineagePath(r.dir) + vfs.CopySuffix, format.LineagePath(r.dir)} {
			if _, err := r.fsys.Stat(path); vfs.IsNotExist(err) {
				continue
			}
			if err := r.copyAside(path); err != nil {
				return err
			}
		}
		if r.replica, err = r.lastRole(); err != nil {
			return err
		}
		had, err := logfile.HadSnapshot(r.fsys, r.dir)
		if err != nil {
			return err
		}
		if !had {
			r.sayf("no file of a snapshot is here, so the log counts as one with all changes. If there were such files, this node may lack changes that only they had")
		}
		return logfile.WriteLineage(r.fsys, r.dir, &format.Lineage{Replica: r.replica, NeedsSnapshot: had})
	case err != nil:
		return err
	case l.Begun() != "":
		r.sayf("finishing what a crash broke off: see HISTORY")
		return past.FinishBegunLocked(r.fsys, r.dir, &l)
	}
	if fault := logfile.LineageFault(r.fsys, r.dir); fault != nil {
		r.sayf("%v: writing it again, as its copy has it", fault)
		return logfile.WriteLineage(r.fsys, r.dir, &l)
	}
	return nil
}

// lastRole tells whether the log is a replica's, by its last segment with a good header. A cut begins a segment that does not tell it any more.
func (r *repair) lastRole() (replica bool, err error) {
	segs, err := logfile.ListSegments(r.fsys, r.dir)
	for i := len(segs) - 1; i >= 0; i-- {
		if h, fault, err := logfile.SegmentHeaderOf(r.fsys, &segs[i]); err == nil && fault == nil { // damage is mended later
			return h.History.Replica, nil
		}
	}
	return false, err
}

// restoreLineage makes HISTORY anew from the log's last segment. A log has one id from its beginning, so other nodes that know
// the id agree with it. Whether nodes that know only an older id agree cannot be known.
func (r *repair) restoreLineage() error {
	h := r.walked.History
	if !r.noLineage || h.ReplID == (format.ReplID{}) {
		return nil
	}
	now, err := logfile.ReadLineage(r.fsys, r.dir)
	if err != nil {
		return err
	}
	role := "a primary's"
	if h.Replica = h.Replica || r.replica; h.Replica {
		role = "a replica's"
	}
	r.sayf("wrote %s: the log is %s, of history %s", format.LineagePath(r.dir), role, h.ReplID)
	return logfile.WriteLineage(r.fsys, r.dir, &format.Lineage{Replica: h.Replica, Terms: []format.Term{{ReplID: h.ReplID, Epoch: h.Epoch}}, NeedsSnapshot: now.NeedsSnapshot})
}
