package counter

import (
	"errors"
	"time"

	"github.com/counterd/counterd/coldstore"
)

// Cold files lie unread for years: a scrubber reads them again and again, slowly, so that a disk that loses bits is
// noticed while a replica or a backup still has them. And images are not read before the next start: a damaged one is
// written anew while memory has what it had. Nor is the log: its damage is reported while a backup, or a full copy from
// this node's memory, can still be made.
const (
	// scrubRate is in bytes a second: 20 GB, 10^10 posts, in 40 minutes.
	scrubRate = 8 << 20
	// scrubRest is between two rounds.
	scrubRest = time.Hour
)

// errStopped ends a verification when the store closes.
var errStopped = errors.New("counter: stopped")

// scrub runs until the tiers stop.
func (t *tiers) scrub(s *Store) {
	defer close(t.scrubbed)
	pace := func(n int) error { return t.wait(time.Duration(n) * time.Second / scrubRate) }
	for {
		t.scrubbing.Store(true)
		select { // what is asked for from here on is another round
		case <-t.scrubNow:
		default:
		}
		for _, m := range s.dir.Manifests() {
			if err := s.snapshots.verifyImages(s, m, pace); errors.Is(err, errStopped) {
				return
			} else if err != nil {
				t.scrubErrors.Add(1)
			}
		}
		damage, err := s.log.Segments().Verify(pace)
		for _, err := range damage {
			t.scrubErrors.Add(1)
			s.opts.Logger.Error("the log is damaged; a restart may fail, and replicas and restores cannot read this part", "error", err)
		}
		if err != nil {
			return // stopped
		}
		for _, f := range t.files(s) {
			err := f.Verify(pace)
			switch {
			case err == nil:
				t.scrubs.Add(1)
			case errors.Is(err, errStopped):
				return
			case errors.Is(err, coldstore.ErrClosed): // replaced meanwhile
			default:
				t.scrubErrors.Add(1)
				s.opts.Logger.Error("a cold file is damaged; posts on its bad pages cannot be read", "file", f.Name(), "error", err)
			}
		}
		t.scrubbing.Store(false)
		rest := time.NewTimer(scrubRest)
		select {
		case <-rest.C:
		case <-t.scrubNow:
		case <-t.quit:
			rest.Stop()
			return
		}
		rest.Stop()
	}
}

// Scrub has the images, the log and the cold files verified now, in the background, and not when they are due, as behind a
// disk's trouble. ErrScrubbing: they are being verified. Other errors: ErrInMemory.
func (a Admin) Scrub() error {
	t := &a.s.tiers
	switch {
	case a.s.dir == nil:
		return ErrInMemory
	case !t.scrubbing.CompareAndSwap(false, true):
		return ErrScrubbing
	}
	t.scrubNow <- struct{}{} // there is room: nobody else has asked since the round before
	return nil
}

// files are the cold files in use now.
func (t *tiers) files(s *Store) (files []*coldstore.File) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	for ks := range s.keyspaces {
		for _, b := range ks.Dir.Load().Blocks {
			if b.Cold != nil {
				files = append(files, b.Cold.File)
			}
		}
	}
	return files
}

// wait sleeps unless the store closes.
func (t *tiers) wait(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-t.quit:
		return errStopped
	case <-timer.C:
		return nil
	}
}
