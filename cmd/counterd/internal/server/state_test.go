package server

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/vfs"
)

// fillingDisk is a disk that can tell that it has no room.
type fillingDisk struct {
	vfs.FS
	full atomic.Bool
}

func (d *fillingDisk) Space(dir string) (vfs.Space, error) {
	space, err := d.FS.Space(dir)
	if d.full.Load() {
		space.Free = 0
	}
	return space, err
}

// TestPriorityOfFullReplica: a replica whose disk has no room cannot note that it is the primary. It tells Sentinel not to promote it, as long as that is so.
func TestPriorityOfFullReplica(t *testing.T) {
	disk := &fillingDisk{FS: vfs.OS()}
	s := wireServeStore(t, t.TempDir(), counter.Options{FS: disk}, nil)
	c := wireDial(t, s, 2)
	c.want("REPLICAOF 127.0.0.1 1", "+OK")
	priority := func(want string) {
		t.Helper()
		until(t, "the priority to be "+want, func() bool { return strings.Contains(c.do("INFO replication").Text, "\r\nslave_priority:"+want+"\r\n") })
	}
	priority("100")
	for range 2 {
		disk.full.Store(true)
		priority("0")
		disk.full.Store(false)
		priority("100")
	}
}
