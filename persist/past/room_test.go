package past

import (
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestDropCopied: images that were set aside go only if the other node's log holds all of the log that was set aside with them, and nobody
// is to lead again.
func TestDropCopied(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	m := newMendable(t)
	mine, err := logfile.ReadLineage(m.disk, persisttest.Dir)
	persisttest.Must(t, err)
	next := func(at uint64) format.Lineage {
		return format.Lineage{Terms: append(mine.Cut(at).Terms, format.Term{ReplID: format.ReplID{9}, Epoch: 99, Start: at})}
	}
	for _, c := range []struct {
		name   string
		other  format.Lineage
		lead   bool
		damage func(disk *vfs.Sim)
		drops  bool
	}{
		{name: "the same log", other: mine, drops: true},
		{name: "the beginning of its log", other: next(m.end), drops: true},
		{name: "another end", other: next(m.end - 100)},
		{name: "another log", other: format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{9}, Epoch: 1}}}},
		{name: "a node that leads again", other: mine, lead: true},
		{name: "HISTORY is damaged", other: mine, drops: true, damage: func(disk *vfs.Sim) {
			persisttest.Damage(t, disk, format.LineagePath(persisttest.Dir), 30)
		}},
		{name: "HISTORY and its copy are damaged", other: mine, damage: func(disk *vfs.Sim) {
			persisttest.Damage(t, disk, format.LineagePath(persisttest.Dir), 30)
			persisttest.Damage(t, disk, format.LineagePath(persisttest.Dir)+vfs.CopySuffix, 30)
		}},
		{name: "the log is gone", other: mine, damage: func(disk *vfs.Sim) {
			segs, err := logfile.ListSegments(disk, persisttest.Dir)
			persisttest.Must(t, err)
			for _, s := range segs {
				persisttest.Must(t, disk.Remove(s.Path))
			}
		}},
	} {
		disk := m.disk.Kill()
		if c.damage != nil {
			c.damage(disk)
		}
		h := format.Healing{Reason: "a bad page", Since: 1}
		if c.lead {
			h.Host, h.Port, h.Lead = "h", 1, mine.Current().ReplID
		}
		persisttest.Must(t, GiveUp(disk, persisttest.Dir, h))
		sets, err := DropCopied(disk, persisttest.Dir, &c.other)
		_, serr := disk.Stat(DamagedPath(persisttest.Dir, format.ImageDirName, 1))
		if dropped := vfs.IsNotExist(serr); dropped != c.drops || (sets == 1) != c.drops || (err == nil) != c.drops {
			t.Errorf("%s: dropped %v, %d sets, %v", c.name, dropped, sets, err)
		}
		if _, err := disk.Stat(DamagedPath(persisttest.Dir, format.LogDirName, 1)); err != nil {
			t.Errorf("%s: the log: %v", c.name, err)
		}
	}
}
