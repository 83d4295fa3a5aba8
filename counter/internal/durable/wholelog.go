package durable

import (
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
)

// wholeLog tells whether the log has all changes and is not damaged. If it has all changes, err is its damage.
func (r *Recovery) wholeLog() (whole bool, err error) {
	fsys, path := r.s.Config.FS, r.s.Dir.Path()
	all, err := logfile.HasAll(fsys, path)
	if !all || err != nil {
		return false, err
	}
	claim, err := logfile.ReadClaim(fsys, path)
	if err != nil {
		return false, err
	}
	_, err = logfile.Walk(fsys, path, 0, max(r.s.Dir.KnownDurable(), claim.Offset), logfile.Visitor{
		Frame: func(seg logfile.SegmentInfo, f *format.Frame) error { return logfile.VerifyFrame(f, path, seg) },
	})
	return err == nil, err
}
