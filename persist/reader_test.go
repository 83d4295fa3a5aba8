package persist

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
)

// TestReleasedReaders reads a log whose frames are of all sizes by several readers at once, which give their memory to each other: each
// reads the same frames.
func TestReleasedReaders(t *testing.T) {
	rng := rand.New(rand.NewPCG(newSeed(t), 0))
	l, _, err := OpenLog(LogOptions{FS: vfs.NewSim(), Dir: testDir, History: testHistory, Create: true, Manual: true}, 0, nil)
	must(t, err)
	defer func() { must(t, l.Close()) }()
	var want []byte
	for i := range 60 {
		records := bytes.Repeat([]byte{byte(i)}, 1+rng.IntN(1<<rng.IntN(19)))
		pos, err := l.Append(records)
		must(t, err)
		must(t, l.Commit(pos))
		want = append(want, records...)
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 10 {
				if err := readAll(l, want); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
}

// openFS counts the files that are open, and how many were opened.
type openFS struct {
	vfs.FS
	opened, open atomic.Int32
}

func (o *openFS) Open(name string) (vfs.File, error) {
	f, err := o.FS.Open(name)
	if err != nil {
		return nil, err
	}
	o.opened.Add(1)
	o.open.Add(1)
	return &countedFile{f, o}, nil
}

type countedFile struct {
	vfs.File
	fs *openFS
}

func (c *countedFile) Close() error {
	c.fs.open.Add(-1)
	return c.File.Close()
}

// TestSpareFile: readers of the newest segment that follow each other open its file once. It is closed when no reader has come for a tick, when
// there is another segment, and with the log.
func TestSpareFile(t *testing.T) {
	disk := &openFS{FS: vfs.NewSim()}
	l, _, err := OpenLog(LogOptions{FS: disk, Dir: testDir, History: testHistory, Create: true, Manual: true, SegmentBytes: 4096}, 0, nil)
	must(t, err)
	var want []byte
	appended := func(n int) {
		records := bytes.Repeat([]byte{byte(len(want))}, n)
		pos, err := l.Append(records)
		must(t, err)
		must(t, l.Commit(pos))
		want = append(want, records...)
	}
	read := func(opens int32) {
		t.Helper()
		before := disk.opened.Load()
		for range 5 {
			must(t, readAll(l, want))
		}
		if got := disk.opened.Load() - before; got != opens {
			t.Errorf("%d files opened, want %d", got, opens)
		}
	}
	rests := disk.open.Load()
	appended(100)
	read(1)
	appended(100)
	l.Tick()
	read(0) // with the new records
	l.Tick()
	if disk.open.Load() != rests+1 {
		t.Errorf("%d files are open behind a tick, want one more than %d", disk.open.Load(), rests)
	}
	l.Tick()
	if disk.open.Load() != rests {
		t.Errorf("%d files are open that nobody wants", disk.open.Load()-rests)
	}
	read(1)
	for len(l.Segments().List()) == 1 {
		appended(1000)
		must(t, l.Sync())
	}
	l.Tick()
	if disk.open.Load() != rests {
		t.Errorf("%d files are open that are not the newest segment's", disk.open.Load()-rests)
	}
	must(t, readAll(l, want))
	must(t, l.Close())
	if disk.open.Load() != 0 {
		t.Errorf("%d files are open behind the end", disk.open.Load())
	}
}

// readAll reads the log, whose records are wanted, and releases its reader.
func readAll(l *Log, want []byte) error {
	r, err := l.NewReaderAt(0)
	if err != nil {
		return err
	}
	for {
		f, err := r.TryNext()
		if err != nil {
			return err
		}
		if f == nil {
			break
		}
		if !bytes.HasPrefix(want, f.Payload) {
			return fmt.Errorf("a frame of %d bytes at %d is not what was written", len(f.Payload), f.Start)
		}
		want = want[len(f.Payload):]
	}
	if len(want) > 0 {
		return fmt.Errorf("%d bytes are missing", len(want))
	}
	return r.Release()
}
