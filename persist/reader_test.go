package persist

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
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
