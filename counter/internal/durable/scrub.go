package durable

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/core"
)

// Cold files lie unread for years: a scrubber reads them again and again, slowly, so that a disk that loses bits is
// noticed while a replica or a backup still has them. And images are not read before the next start: a damaged one is
// written anew while its items are in memory. Nor is the log: where it is damaged, a snapshot of what memory has makes a start
// need it no more. Its damage is reported, as replicas and restores that need this part cannot read it.
const (
	// scrubRate is in bytes a second: 20 GB, 10^10 posts, in 40 minutes.
	scrubRate = 8 << 20
	// scrubRest is between two rounds.
	scrubRest = time.Hour
)

// ErrScrubbing: a round of verifying files is under way.
var ErrScrubbing = errors.New("counter: files are being verified already")

// errStopped ends a verification when the store closes.
var errStopped = errors.New("counter: stopped")

// Scrubber verifies all files, round after round.
type Scrubber struct {
	s         *core.Data
	snapshots *Snapshots

	verified atomic.Int64  // cold files that were found good
	Errors   atomic.Int64  // files of all kinds that were found damaged
	running  atomic.Bool   // a round is under way, or asked for
	now      chan struct{} // begins one

	quit, done chan struct{}
	stopOnce   sync.Once
}

func NewScrubber(s *core.Data, snapshots *Snapshots) *Scrubber {
	return &Scrubber{s: s, snapshots: snapshots, now: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

func (c *Scrubber) Start() {
	if c.s.Config.Manual {
		close(c.done)
		return
	}
	go c.run()
}

func (c *Scrubber) Stop() {
	c.stopOnce.Do(func() { close(c.quit) })
	<-c.done
}

// run verifies round after round.
func (c *Scrubber) run() {
	defer close(c.done)
	pace := func(n int) error { return sleep(time.Duration(n)*time.Second/scrubRate, c.quit) }
	for {
		c.running.Store(true)
		select { // a request from here on means another round
		case <-c.now:
		default:
		}
		for _, m := range c.s.Dir.Manifests() {
			if err := c.snapshots.VerifyImages(m, pace); errors.Is(err, errStopped) {
				return
			} else if err != nil {
				c.Errors.Add(1)
			}
		}
		damage, err := c.s.Log.Segments().Verify(pace)
		for _, err := range damage {
			c.Errors.Add(1)
			c.s.Config.Logger.Error("the log is damaged; a restart may fail, and replicas and restores cannot read this part", "error", err)
		}
		if len(damage) > 0 { // memory has what it says: a start reads the log behind the newest snapshot only
			c.snapshots.asked.Add(1)
			go func() { _ = c.snapshots.Make() }() // told by the logger
		}
		if err != nil {
			return // stopped
		}
		for _, f := range c.Files() {
			err := f.Verify(pace)
			switch {
			case err == nil:
				c.verified.Add(1)
			case errors.Is(err, errStopped):
				return
			case errors.Is(err, coldstore.ErrClosed): // replaced meanwhile
			default:
				c.Errors.Add(1)
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

// Files are the cold files in use now.
func (c *Scrubber) Files() (files []*coldstore.File) {
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

// Begin has a round made now. ErrScrubbing: one is under way.
func (c *Scrubber) Begin() error {
	if !c.running.CompareAndSwap(false, true) {
		return ErrScrubbing
	}
	c.now <- struct{}{} // there is room: nobody else has asked since the round before
	return nil
}

// Totals are the cold files that were found good, the files of all kinds that were found damaged, and whether a round is under
// way.
func (c *Scrubber) Totals() (good, bad int64, running bool) {
	return c.verified.Load(), c.Errors.Load(), c.running.Load()
}
