// Scenario: a read of a cold post waits for a disk that does not answer, while other clients go on.

package server

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/vfs"
)

// hangingReads is a file system on which cold files hang as long as hang is set: to map one, which its first read does,
// waits until the channel is closed.
type hangingReads struct {
	vfs.FS
	waiting *atomic.Int64
	hang    *atomic.Pointer[chan struct{}]
}

type hangingFile struct {
	vfs.File
	fs hangingReads
}

func (h hangingReads) Open(name string) (vfs.File, error) {
	f, err := h.FS.Open(name)
	if err == nil && strings.HasSuffix(name, ".cold") {
		f = hangingFile{f, h}
	}
	return f, err
}

func (f hangingFile) Map(size int64) ([]byte, func() error, error) {
	if hang := f.fs.hang.Load(); hang != nil {
		f.fs.waiting.Add(1)
		<-*hang
		f.fs.waiting.Add(-1)
	}
	return f.File.Map(size)
}

// TestColdReadHangs: a read of a cold post waits for a disk that hangs, and a command that needs the store alone waits with
// it. All commands on other posts are answered, on all loops.
func TestColdReadHangs(t *testing.T) {
	for _, v := range []struct {
		alone string
		after bool // it waits for the read of another, else it reads the file itself
	}{
		{"MULTI\r\nINCR 999.cntrn\r\nEXEC", true},
		{"FLUSHALL", true},
		{"ADD COLUMN weibo late hint=8 max=8", true},
		{"MULTI\r\nGET 5.cntrn\r\nEXEC", false},
	} {
		t.Run(strings.ReplaceAll(v.alone, "\r\n", ";"), func(t *testing.T) {
			fs := hangingReads{vfs.OS(), new(atomic.Int64), new(atomic.Pointer[chan struct{}])}
			s := wireServeStore(t, t.TempDir(), counter.Options{FS: fs, SnapshotGrowth: -1, BlockItems: 64}, nil)
			for i := range 1000 {
				if err := s.Store().Set(fmt.Sprintf("%d.cntrn", i), uint64(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Store().Admin().Demote("weibo", 5); err != nil {
				t.Fatal(err)
			}
			hang := make(chan struct{})
			fs.hang.Store(&hang)
			end := sync.OnceFunc(func() {
				fs.hang.Store(nil)
				close(hang)
			})
			t.Cleanup(end)
			defer time.AfterFunc(patience, func() {
				t.Error("the others wait for the disk")
				end()
			}).Stop()

			reader, exclusive := wireDial(t, s, 2), wireDial(t, s, 2)
			others := make([]*wireClient, 3*runtime.GOMAXPROCS(0)) // on each loop some
			for i := range others {
				others[i] = wireDial(t, s, 2)
			}
			send := func() {
				for _, line := range strings.Split(v.alone, "\r\n") {
					exclusive.send(line)
				}
			}
			if v.after {
				reader.send("GET 5.cntrn")
			} else {
				send()
			}
			until(t, "the read hangs", func() bool { return fs.waiting.Load() > 0 })
			if v.after {
				send()
			}
			// The command has begun to wait by the time that some of these were answered.
			for i := range 50 {
				for k, c := range others {
					c.want(fmt.Sprintf("INCR %d.cntcm", 900+k), fmt.Sprintf(":%d", i+1))
				}
			}
			end()
			if v.after {
				if got := reader.read().String(); got != `"5"` {
					t.Errorf("the cold post is %s", got)
				}
			}
			for range strings.Split(v.alone, "\r\n") {
				if got := exclusive.read().String(); strings.HasPrefix(got, "-") {
					t.Errorf("%q is answered %s", v.alone, got)
				}
			}
		})
	}
}
