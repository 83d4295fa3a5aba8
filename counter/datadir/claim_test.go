// Scenario: the last segment of a replica is damaged, and the file DURABLE tells how much of it counts

package datadir

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// replicaDir makes a directory with a replica's log, which was ended if ended is set and else stays open: the frames say
// that all before them was durable on the primary's disk, which is no word on this one.
func replicaDir(t *testing.T, disk *vfs.Sim, frames int) (l *persist.Log, tick func()) {
	t.Helper()
	primary, c := persisttest.NewFS(t), persisttest.NewClock()
	from, _, err := persist.OpenLog(persisttest.SmallLog(primary, c), 0, persisttest.Discard)
	persisttest.Must(t, err)
	opts := persisttest.SmallLog(disk, c)
	opts.History.Replica = true
	for _, sub := range []string{format.ImageDir(persisttest.Dir), format.ColdDir(persisttest.Dir)} {
		persisttest.Must(t, disk.MkdirAll(sub))
	}
	l, _, err = persist.OpenLog(opts, 0, persisttest.Discard)
	persisttest.Must(t, err)
	r, err := from.NewReader(0)
	persisttest.Must(t, err)
	tick = func() {
		c.At = c.At.Add(time.Second)
		l.Tick()
	}
	var m persisttest.Model
	for i := range frames {
		persisttest.Must(t, from.Commit(m.AppendSome(t, from, i)))
		persisttest.Must(t, from.Sync())
		f, err := r.TryNext()
		persisttest.Must(t, err)
		pos, err := l.AppendFrame(f.Raw)
		persisttest.Must(t, err)
		persisttest.Must(t, l.Commit(pos))
		if i%5 == 4 {
			tick()
		}
	}
	persisttest.Must(t, errors.Join(r.Close(), from.Close()))
	return l, tick
}

// TestCheckReplica damages the last segment of a replica's log that is open, and of one that was ended. Check finds it,
// and a repair says what it takes.
func TestCheckReplica(t *testing.T) {
	for _, ended := range []bool{false, true} {
		disk := persisttest.NewFS(t)
		l, tick := replicaDir(t, disk, 40)
		tick()
		segs := l.Segments().List()
		last := segs[len(segs)-1]
		if ended {
			persisttest.Must(t, l.Close())
		} else {
			defer l.Close()
		}
		left := disk.Kill()
		persisttest.Damage(t, left, last.Path, format.SegmentHeaderLen+10)
		fsys := vfs.FS(left)
		if !ended {
			fsys = NewView(left, persisttest.Dir)
		}
		r, err := Check(fsys, persisttest.Dir, CheckOptions{})
		persisttest.Must(t, err)
		var bad *format.CorruptError
		if len(r.Problems) == 0 || !r.Problems[0].Fatal || !errors.As(r.Problems[0].Err, &bad) || bad.File != last.Path || bad.Offset != format.SegmentHeaderLen {
			t.Fatalf("ended %v: %+v", ended, r.Problems)
		}
		var said []string
		persisttest.Must(t, Repair(left, persisttest.Dir, RepairOptions{Say: func(s string) { said = append(said, s) }}))
		if text := strings.Join(said, "\n"); !strings.Contains(text, "LOST: the log was durable up to offset") || len(findBroken(t, left)) == 0 {
			t.Errorf("the repair said %s", text)
		}
		r, err = Check(left, persisttest.Dir, CheckOptions{})
		if persisttest.Must(t, err); !r.OK() {
			t.Errorf("repaired: %+v", r.Problems)
		}
	}
}

// TestCheckBusy checks views of a log that is written to at every moment of the view: what is claimed later is not asked
// of what the view shows.
func TestCheckBusy(t *testing.T) {
	disk := persisttest.NewFS(t)
	l, tick := replicaDir(t, disk, 5)
	defer l.Close()
	more := func() {
		for i := range 40 { // some segments
			persisttest.Must(t, l.Commit(l.AppendSet(1, 1, uint64(i), 1)))
		}
		tick()
	}
	for n := range 40 {
		v := NewView(&busyFS{FS: disk, left: n, act: more}, persisttest.Dir)
		r, err := Check(v, persisttest.Dir, CheckOptions{})
		persisttest.Must(t, err)
		if !r.OK() {
			t.Fatalf("at call %d: %+v", n, r.Problems)
		}
	}
	v := NewView(disk, persisttest.Dir)
	before, err := logfile.ReadClaim(v, persisttest.Dir)
	persisttest.Must(t, err)
	more()
	if after, err := logfile.ReadClaim(v, persisttest.Dir); err != nil || after != before || after.Offset == 0 {
		t.Errorf("the view's claim was %+v and is %+v, %v", before, after, err)
	}
	if claim, err := logfile.ReadClaim(disk, persisttest.Dir); err != nil || claim.Offset != l.Position() {
		t.Errorf("claim %+v, %v", claim, err)
	}
}

// busyFS lets somebody write before the call after so many.
type busyFS struct {
	vfs.FS
	left int
	act  func()
}

func (b *busyFS) turn() {
	if b.left--; b.left == -1 {
		b.act()
	}
}

func (b *busyFS) Open(name string) (vfs.File, error) {
	b.turn()
	return b.FS.Open(name)
}

func (b *busyFS) List(dir string) ([]string, error) {
	b.turn()
	return b.FS.List(dir)
}
