package logfile

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/internal/testkit/damagetest"
	"github.com/counterd/counterd/internal/testkit/filetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestLineageTwice: no damage of HISTORY or of its copy takes the past of a log, and it is found. Where both are damaged the log
// has no past.
func TestLineageTwice(t *testing.T) {
	disk := filetest.NewFS(t)
	l := format.Lineage{Replica: true, Terms: []format.Term{{ReplID: format.ReplID{1}, Epoch: 3, Start: 0}, {ReplID: format.ReplID{2}, Epoch: 4, Start: 700}}}
	filetest.Must(t, WriteLineage(disk, filetest.Dir, &l))
	want := l.AppendText(nil)
	name := format.LineagePath(filetest.Dir)
	same := func(what string) {
		t.Helper()
		got, err := ReadLineage(disk, filetest.Dir)
		if err != nil || !bytes.Equal(got.AppendText(nil), want) {
			t.Fatalf("%s: %+v, %v", what, got, err)
		}
	}
	for _, path := range []string{name, name + vfs.CopySuffix} {
		for what, bad := range damagetest.Variants(t, want, len(want)) {
			filetest.Must(t, vfs.WriteFileAtomic(disk, path, bad))
			same(path + ": " + what)
			if LineageFault(disk, filetest.Dir) == nil {
				t.Fatalf("%s: %s is not found", path, what)
			}
		}
		filetest.Must(t, disk.Remove(path))
		same(path + " is gone")
		if fault := LineageFault(disk, filetest.Dir); (fault != nil) != (path == name) {
			t.Errorf("%s is gone: %v", path, fault)
		}
		filetest.Must(t, WriteLineage(disk, filetest.Dir, &l))
	}
	for _, path := range []string{name, name + vfs.CopySuffix} {
		filetest.Must(t, vfs.WriteFileAtomic(disk, path, want[1:]))
	}
	if got, err := ReadLineage(disk, filetest.Dir); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("both are damaged: %+v, %v", got, err)
	}
	filetest.Must(t, disk.Remove(name))
	if got, err := ReadLineage(disk, filetest.Dir); !errors.Is(err, format.ErrCorrupt) {
		t.Errorf("one is gone, and the other damaged: %+v, %v", got, err)
	}
	filetest.Must(t, vfs.RemoveTwice(disk, name))
	if got, err := ReadLineage(disk, filetest.Dir); err != nil || len(got.Terms) > 0 || got.Replica {
		t.Errorf("none is there: %+v, %v", got, err)
	}
}

// TestOutdatedLineage: a program of an earlier version wrote HISTORY alone, and HISTORY is damaged now. Its copy does not count where the
// log shows that it is older. It counts where the log has nothing of the newest term yet, or all of it is of the first one.
func TestOutdatedLineage(t *testing.T) {
	id := func(n byte) format.ReplID { return format.ReplID{n} }
	one, two, three := format.Term{ReplID: id(1), Epoch: 1}, format.Term{ReplID: id(2), Epoch: 2, Start: 50}, format.Term{ReplID: id(3), Epoch: 3, Start: 1000}
	for name, c := range map[string]struct {
		log   format.History // of the last segment, which begins at offset 100
		empty bool           // it has no frame
		past  format.Lineage
		want  bool
	}{
		"as the log":             {log: format.History{ReplID: id(2), Epoch: 2}, past: format.Lineage{Terms: []format.Term{one, two}}, want: true},
		"a term has begun since": {log: format.History{ReplID: id(2), Epoch: 2}, past: format.Lineage{Terms: []format.Term{one, two, three}}, want: true},
		"it yields":              {log: format.History{ReplID: id(2), Epoch: 2}, past: format.Lineage{Replica: true, Terms: []format.Term{one, two}}, want: true},
		"nothing was written":    {log: format.History{ReplID: id(9), Epoch: 9}, empty: true, past: format.Lineage{Terms: []format.Term{one, two}}, want: true},
		"named anew":             {log: format.History{ReplID: id(9), Epoch: 2}, past: format.Lineage{Terms: []format.Term{{ReplID: id(4), Epoch: 3}}}, want: true},
		"not finished":           {log: format.History{ReplID: id(9), Epoch: 9}, past: format.Lineage{Installing: format.InstallName, Terms: []format.Term{one, two}}, want: true},
		"a term less":            {log: format.History{ReplID: id(3), Epoch: 3}, past: format.Lineage{Terms: []format.Term{one, two}}},
		"another term":           {log: format.History{ReplID: id(4), Epoch: 2}, past: format.Lineage{Terms: []format.Term{one, two}}},
		"a primary's before":     {log: format.History{ReplID: id(2), Epoch: 2, Replica: true}, past: format.Lineage{Terms: []format.Term{one, two}}},
	} {
		disk := filetest.NewFS(t)
		filetest.Must(t, disk.MkdirAll(format.LogDir(filetest.Dir)))
		var frames [][]byte
		if !c.empty {
			frame := format.AppendSet(make([]byte, format.FrameHeaderLen), 1, 1, 1, 1)
			format.PutFrameHeader(frame, false, 100, 0, 1, c.log.Epoch)
			frames = append(frames, frame)
		}
		maker := Maker{FS: disk, Dir: filetest.Dir, Least: MinSegment}
		seg, err := maker.Rewrite(format.SegmentHeader{History: c.log, Start: 100}, frames, nil)
		filetest.Must(t, err)
		filetest.Must(t, seg.File.Close())
		path := format.LineagePath(filetest.Dir)
		for _, text := range [][]byte{nil, []byte("counterd history 1\n")} { // gone, or damaged
			filetest.Must(t, WriteLineage(disk, filetest.Dir, &c.past))
			filetest.Must(t, disk.Remove(path))
			if text != nil {
				filetest.Must(t, vfs.WriteFileAtomic(disk, path, text))
			}
			got, err := ReadLineage(disk, filetest.Dir)
			if fault := LineageFault(disk, filetest.Dir); (fault != nil) != c.want {
				t.Errorf("%s: fault %v", name, fault)
			}
			if c.want && (err != nil || len(got.Terms) != len(c.past.Terms)) || !c.want && (!errors.Is(err, format.ErrCorrupt) || len(got.Terms) > 0) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
}

// TestHasAll: a log that begins at 0 has all changes, also if HISTORY has forgotten its oldest terms or is gone, unless HISTORY says that the log needs a
// snapshot.
func TestHasAll(t *testing.T) {
	old := format.Lineage{}
	for n := range uint64(300) {
		old = old.Begin(n)
	}
	for what, c := range map[string]struct {
		start uint64
		past  *format.Lineage
		want  bool
	}{
		"from 0":                     {past: &format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{1}, Epoch: 1}}}, want: true},
		"from 0, without HISTORY":    {want: true},
		"from 0, of 300 terms":       {past: &old, want: true},
		"from 0, needs a snapshot":   {past: &format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{1}, Epoch: 1}}, NeedsSnapshot: true}},
		"from behind 0":              {start: 64, past: &format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{1}, Epoch: 1}}}},
		"no terms, needs a snapshot": {past: &format.Lineage{NeedsSnapshot: true}},
	} {
		disk := filetest.NewFS(t)
		filetest.Must(t, disk.MkdirAll(format.LogDir(filetest.Dir)))
		file, err := disk.Create(filepath.Join(format.LogDir(filetest.Dir), format.SegmentName(c.start)))
		filetest.Must(t, err)
		filetest.Must(t, file.Close())
		if c.past != nil {
			filetest.Must(t, WriteLineage(disk, filetest.Dir, c.past))
		}
		if got, err := HasAll(disk, filetest.Dir); got != c.want || err != nil {
			t.Errorf("%s: %t, %v, want %t", what, got, err, c.want)
		}
	}
}
