package past

import (
	"errors"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestReadLogEnd: DURABLE has the end of a log that was closed, and says so, for the term in which it was closed. A killed log ends behind
// DURABLE, or there, or has a torn tail. A replica's log is told from a primary's. Of a damaged log no end is known.
func TestReadLogEnd(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	m := newMendable(t)
	term := persisttest.History.ReplID
	asPrimary := func(disk *vfs.Sim) *vfs.Sim {
		t.Helper()
		l := format.Lineage{Terms: []format.Term{{ReplID: term, Epoch: persisttest.History.Epoch}}}
		persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &l))
		return disk
	}
	closed := asPrimary(m.disk.Kill())
	opts := m.opts
	opts.FS, opts.Create, opts.History = closed, false, format.History{}
	l, rec, err := persist.OpenLog(opts, 0, func(uint64, *format.Record) error { return nil })
	persisttest.Must(t, errors.Join(err, l.Close()))
	unclaimed := closed.Kill()
	persisttest.Must(t, logfile.DropClaim(unclaimed, persisttest.Dir))
	synced, claim := unclaimed.Kill(), logfile.ClaimFile{Dir: persisttest.Dir}
	claim.FS = synced
	persisttest.Must(t, errors.Join(claim.Write(format.Claim{Offset: rec.End, ReplID: term}), claim.Close()))
	again := closed.Kill()
	persisttest.Must(t, logfile.WriteLineage(again, persisttest.Dir, &format.Lineage{Terms: []format.Term{
		{ReplID: term, Epoch: persisttest.History.Epoch}, {ReplID: format.ReplID{1}, Epoch: persisttest.History.Epoch + 1, Start: rec.End}}}))
	segs, err := logfile.ListSegments(unclaimed, persisttest.Dir)
	persisttest.Must(t, err)
	torn := unclaimed.Kill()
	persisttest.Must(t, torn.Damage(segs[len(segs)-1].Path, func(b []byte) []byte {
		return append(b[:segs[len(segs)-1].Offset(rec.End)], "no frame"...)
	}))
	for name, c := range map[string]struct {
		disk *vfs.Sim
		want LogEnd
	}{
		"a replica's":   {m.disk, LogEnd{Offset: rec.End, Term: term, Replica: true, Closed: true}},
		"closed":        {closed, LogEnd{Offset: rec.End, Term: term, Closed: true}},
		"started again": {again, LogEnd{Offset: rec.End, Term: format.ReplID{1}}},
		"with DURABLE":  {synced, LogEnd{Offset: rec.End, Term: term}},
		"killed":        {unclaimed, LogEnd{Offset: rec.End, Term: term}},
		"torn":          {torn, LogEnd{Offset: rec.End, Term: term, Torn: true}},
	} {
		if end, err := ReadLogEnd(c.disk, persisttest.Dir); err != nil || end != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, end, err, c.want)
		}
		if end, err := ReadWholeEnd(c.disk, persisttest.Dir); err != nil || end != c.want {
			t.Errorf("%s, read as whole: %+v, %v, want %+v", name, end, err, c.want)
		}
	}
	damaged := closed.Kill()
	persisttest.Must(t, damaged.Remove(segs[len(segs)-2].Path))
	persisttest.Must(t, damaged.Remove(segs[len(segs)-1].Path))
	if end, err := ReadLogEnd(damaged, persisttest.Dir); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("a log that ends before DURABLE: %+v, %v", end, err)
	}
	whole := LogEnd{Offset: segs[len(segs)-2].Start, Term: term, Torn: true}
	if end, err := ReadWholeEnd(damaged, persisttest.Dir); err != nil || end != whole {
		t.Errorf("a log that ends before DURABLE, read as whole: %+v, %v, want %+v", end, err, whole)
	}
	persisttest.Must(t, logfile.WriteLineage(damaged, persisttest.Dir, &format.Lineage{Replica: true}))
	if end, err := ReadWholeEnd(damaged, persisttest.Dir); err == nil {
		t.Errorf("a log of no known term: %+v", end)
	}
}
