package persist

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// hookFS calls a function before each Remove, Create and Open; an error of it is the call's.
type hookFS struct {
	vfs.FS
	remove, create, open func(name string) error
}

func (h *hookFS) Open(name string) (vfs.File, error) {
	if h.open != nil {
		if err := h.open(name); err != nil {
			return nil, err
		}
	}
	return h.FS.Open(name)
}

func (h *hookFS) Remove(name string) error {
	if h.remove != nil {
		if err := h.remove(name); err != nil {
			return err
		}
	}
	return h.FS.Remove(name)
}

func (h *hookFS) Create(name string) (vfs.File, error) {
	if h.create != nil {
		if err := h.create(name); err != nil {
			return nil, err
		}
	}
	return h.FS.Create(name)
}

// TestDropDuringHeal: a removal of old segments and the writing of lost bytes to a new segment change the list of
// segments at the same time, and the removal ends, well or not, in the middle of the other. The list is what is on
// disk.
func TestDropDuringHeal(t *testing.T) {
	for _, removal := range []error{nil, syscall.EIO} {
		disk := newFS(t)
		faulty := vfs.NewFaulty(disk)
		hooks := &hookFS{FS: faulty}
		c := newClock()
		l, _, err := OpenLog(smallLog(hooks, c), 0, discard)
		must(t, err)
		for len(l.Segments().List()) < 5 {
			must(t, l.Commit(l.AppendSet(1, 1, 1, 1)))
			must(t, l.Sync())
			l.Tick()
		}
		removing, healing, dropped := make(chan struct{}), make(chan struct{}), make(chan struct{})
		hooks.remove = func(name string) error {
			if strings.HasSuffix(name, format.SegmentSuffix) {
				hooks.remove = nil
				close(removing)
				<-healing
				return removal
			}
			return nil
		}
		hooks.create = func(string) error {
			hooks.create = nil
			close(healing)
			<-dropped
			return nil
		}
		go func() {
			defer close(dropped)
			if err := l.Segments().DropBefore(l.Segments().List()[1].Start); !errors.Is(err, removal) {
				t.Error("drop: got", err)
			}
		}()
		<-removing
		pos := l.AppendSet(1, 1, 2, 2)
		faulty.Inject(vfs.Rule{Ops: vfs.OpSync, Err: syscall.EIO})
		must(t, l.Sync())
		if l.Durable() != pos || l.Stats().Rewrites != 1 {
			t.Errorf("durable %d, want %d; %d rewrites", l.Durable(), pos, l.Stats().Rewrites)
		}
		listed, err := logfile.ListSegments(disk, testDir)
		must(t, err)
		var got, want []uint64
		for _, s := range l.Segments().List() {
			got = append(got, s.Start)
		}
		for _, s := range listed {
			want = append(want, s.Start)
		}
		if len(got) != len(want) || got[0] != want[0] {
			t.Errorf("removal %v: the log lists segments %d, on disk are %d", removal, got, want)
		}
		must(t, l.Close())
	}
}
