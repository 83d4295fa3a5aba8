package counter

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/coldstore"
)

// Cold files lie unread for years: a scrubber reads them again and again, slowly, so that a disk that loses bits is
// noticed while a replica or a backup still has them. And images are not read before the next start: a damaged one is
// written anew while its items are in memory. Nor is the log: its damage is reported while a backup, or a full copy from
// this node's memory, can still be made.
const (
	// scrubRate is in bytes a second: 20 GB, 10^10 posts, in 40 minutes.
	scrubRate = 8 << 20
	// scrubRest is between two rounds.
	scrubRest = time.Hour
)

// errStopped ends a verification when the store closes.
var errStopped = errors.New("counter: stopped")

// scrubber verifies all files, round after round.
type scrubber struct {
	s         *core.Data
	snapshots *snapshotter

	verified atomic.Int64  // cold files that were found good
	errors   atomic.Int64  // files of all kinds that were found damaged
	running  atomic.Bool   // a round is under way, or asked for
	now      chan struct{} // begins one

	quit, done chan struct{}
	stopOnce   sync.Once
}

func newScrubber(s *core.Data, snapshots *snapshotter) *scrubber {
	return &scrubber{s: s, snapshots: snapshots, now: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

func (c *scrubber) start() {
	if c.s.Config.Manual {
		close(c.done)
		return
	}
	go c.run()
}

func (c *scrubber) stop() {
	c.stopOnce.Do(func() { close(c.quit) })
	<-c.done
}

// run verifies round after round.
func (c *scrubber) run() {
	defer close(c.done)
	pace := func(n int) error { return sleep(time.Duration(n)*time.Second/scrubRate, c.quit) }
	for {
		c.running.Store(true)
		select { // a request from here on means another round
		case <-c.now:
		default:
		}
		for _, m := range c.s.Dir.Manifests() {
			if err := c.snapshots.verifyImages(m, pace); errors.Is(err, errStopped) {
				return
			} else if err != nil {
				c.errors.Add(1)
			}
		}
		damage, err := c.s.Log.Segments().Verify(pace)
		for _, err := range damage {
			c.errors.Add(1)
			c.s.Config.Logger.Error("the log is damaged; a restart may fail, and replicas and restores cannot read this part", "error", err)
		}
		if err != nil {
			return // stopped
		}
		for _, f := range c.files() {
			err := f.Verify(pace)
			switch {
			case err == nil:
				c.verified.Add(1)
			case errors.Is(err, errStopped):
				return
			case errors.Is(err, coldstore.ErrClosed): // replaced meanwhile
			default:
				c.errors.Add(1)
				c.s.Config.Logger.Error("a cold file is damaged; posts on its bad pages cannot be read", "file", f.Name(), "error", err)
			}
		}
		c.running.Store(false)
		rest := time.NewTimer(scrubRest)
		select {
		case <-rest.C:
		case <-c.now:
		case <-c.quit:
			rest.Stop()
			return
		}
		rest.Stop()
	}
}

// Scrub has the images, the log and the cold files verified now, in the background, and not when they are due, as behind a
// disk's trouble. ErrScrubbing: they are being verified. Other errors: ErrInMemory.
func (a Admin) Scrub() error {
	c := a.s.scrubber
	switch {
	case c == nil:
		return ErrInMemory
	case !c.running.CompareAndSwap(false, true):
		return ErrScrubbing
	}
	c.now <- struct{}{} // there is room: nobody else has asked since the round before
	return nil
}

// files are the cold files in use now.
func (c *scrubber) files() (files []*coldstore.File) {
	c.s.Gate.RLock()
	defer c.s.Gate.RUnlock()
	for ks := range c.s.Keyspaces {
		for _, b := range ks.Dir.Load().Blocks {
			if b.Cold != nil {
				files = append(files, b.Cold.File)
			}
		}
	}
	return files
}

// sleep returns errStopped if quit is closed before d is over.
func sleep(d time.Duration, quit <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-quit:
		return errStopped
	case <-timer.C:
		return nil
	}
}
