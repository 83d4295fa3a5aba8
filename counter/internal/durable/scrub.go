package durable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
)

// Files lie unread for years: a scrubber reads all of them again and again, slowly, so that a disk that loses bits is noticed
// while memory, a replica or a backup still has them. Damage is mended at once, from the nearest copy:
//
//	manifest, HISTORY, BOOT, MONITORED   written again, from memory (Note)
//	image of a block or of producers     written again, from memory, by a snapshot (Snapshots.mend)
//	DURABLE                              written again by the log
//	log segment                          a snapshot has a start need it no more; its frames are fetched from another node
//	                                     (Broken, Restore). The last segment is ended before
//	header or index of a cold file       the file is written again, from its pages
//	page of a cold file, the file        the posts are fetched from another node (coldstore.File.Damaged)
//
// Small files are looked at each notesEvery, all others round by round. A round that nobody asked for compares the checksums of cold
// files. To decode each post as well, as a round that was asked for does, takes 130 times the processor.
const (
	// DefaultScrubRate is in bytes a second: 20 GB, 10^10 posts, in 40 minutes.
	DefaultScrubRate = 8 << 20
	// DefaultScrubCPU is 0.5 % of a processor.
	DefaultScrubCPU = 5 * time.Millisecond
	// A rest between two rounds is longRest times the round before, and between leastRest and mostRest: damage in a small
	// directory is found within a minute, and a large one is not read all the time.
	longRest  = 20
	leastRest = 20 * time.Second
	mostRest  = time.Hour
	// notesEvery is how often small files are looked at.
	notesEvery = 10 * time.Second
)

// ErrScrubbing: a round of verifying files is under way.
var ErrScrubbing = errors.New("counter: files are being verified already")

// errStopped ends a verification when the store closes.
var errStopped = errors.New("counter: stopped")

// A Note compares a small file with its text in memory. Where the two differ it writes the file again, and returns the
// difference as damage. err is the reason why it could not.
type Note func() (damage, err error)

// Scrubber verifies all files, round after round.
type Scrubber struct {
	Budget ScrubBudget
	Notes  []Note                                         // set before Start
	Anew   func(ks *block.Keyspace, b *block.Block) error // writes the file of a cold block again; set before Start

	s         *core.Data
	snapshots *Snapshots

	verified atomic.Int64  // cold files that were found good
	Errors   atomic.Int64  // files of all kinds that were found damaged
	Mended   atomic.Int64  // files of all kinds that were written again
	rounds   atomic.Int64  // that are done
	running  atomic.Bool   // a round is under way
	asked    atomic.Bool   // an operator has asked for a round, and it has not ended
	now      chan struct{} // begins one
	suspect  chan struct{} // has the log verified before all else

	turn float64                  // where among the cold files a round begins, from 0 to 1; run's
	owed map[*coldstore.File]bool // their pages were good, and they could not be written again; run's
	late time.Time                // when a last segment that is gone is looked at again; run's

	mu     sync.Mutex        // guards these
	broken map[uint64]BadLog // segments whose frames are to be fetched, by their start
	noted  time.Time         // when small files were looked at

	quit, done chan struct{}
	stopOnce   sync.Once
}

// BadLog is a damaged segment that is not appended to, by its log offsets.
type BadLog struct{ Start, End uint64 }

func NewScrubber(s *core.Data, snapshots *Snapshots) *Scrubber {
	c := &Scrubber{s: s, snapshots: snapshots, turn: rand.Float64(), now: make(chan struct{}, 1), suspect: make(chan struct{}, 1), broken: map[uint64]BadLog{}, quit: make(chan struct{}), done: make(chan struct{})}
	c.Budget.Rate.Store(DefaultScrubRate)
	c.Budget.CPU.Store(int64(DefaultScrubCPU))
	return c
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
	for {
		c.running.Store(true)
		asked := false // a request from here on means another round
		select {
		case <-c.now:
			asked = true
		default:
		}
		began := time.Now()
		if (asked || c.Budget.Rate.Load() > 0) && c.round() != nil {
			return
		}
		c.rounds.Add(1)
		if asked {
			c.asked.Store(false)
		}
		c.running.Store(false)
		if !c.rest(min(max(longRest*time.Since(began), leastRest), mostRest)) {
			return
		}
	}
}

// rest returns when another round is due or asked for; false: never.
func (c *Scrubber) rest(d time.Duration) bool {
	next := time.NewTimer(d)
	defer next.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-next.C:
			return true
		case <-c.now:
			c.now <- struct{}{} // run takes it
			return true
		case <-look.C:
			c.lookAround()
		case <-c.suspect:
			p := newPacer(&c.Budget, c.quit)
			if c.verifyLog(func(n int) error { c.lookAround(); return p.pace(n) }) != nil {
				return false
			}
		case <-c.quit:
			return false
		}
	}
}

// pacer is that of a round. While an operator waits for a round, this one may take more of a processor.
func (c *Scrubber) pacer() *pacer {
	p := newPacer(&c.Budget, c.quit)
	p.free = &c.asked
	return p
}

// round verifies all files. The error is errStopped.
func (c *Scrubber) round() error {
	c.checkNotes()
	p := c.pacer()
	pace := func(n int) error {
		c.lookAround()
		return p.pace(n)
	}
	urgent := func(n int) error { // not within verifyLog, whose result would replace the newer one
		select {
		case <-c.suspect:
			if err := c.verifyLog(pace); err != nil {
				return err
			}
		default:
		}
		return pace(n)
	}
	seen := make(map[string]bool)
	for _, m := range c.s.Dir.Manifests() {
		c.took(c.s.Dir.VerifyManifest(m))
		bad, err := c.snapshots.readImages(m, seen, urgent)
		if err != nil {
			return err
		}
		c.Errors.Add(int64(c.snapshots.mend(bad)))
	}
	if err := c.verifyLog(pace); err != nil {
		return err
	}
	return c.verifyCold(urgent)
}

// lookAround does all that cannot wait for the end of a round, which takes hours for some GB. It is called in between, and each second of a rest.
func (c *Scrubber) lookAround() {
	if _, gone := errors.AsType[*logfile.GoneError](c.s.Log.Ready()); gone && time.Now().After(c.late) {
		c.beginLast()
	}
	c.mu.Lock()
	due := time.Since(c.noted) >= notesEvery
	c.mu.Unlock()
	if due {
		c.checkNotes()
	}
}

// beginLast begins another log segment if the file of the last one is gone: until then all changes are refused.
func (c *Scrubber) beginLast() {
	if !c.s.Log.Segments().LastGone() {
		c.late = time.Now().Add(time.Second) // something else is wrong: the files are not listed for each page
		return
	}
	c.Errors.Add(1)
	c.s.Config.Logger.Error("the last segment of the log is gone; beginning another one")
	if err := persist.NewSegment(c.s.Log); err != nil {
		c.late = time.Now().Add(notesEvery)
		c.s.Config.Logger.Error("cannot begin another log segment", "error", err)
		return
	}
	c.snapshots.renewBeside()
}

// checkNotes looks at the small files.
func (c *Scrubber) checkNotes() {
	c.mu.Lock()
	c.noted = time.Now()
	c.mu.Unlock()
	for _, note := range c.Notes {
		c.took(note())
	}
}

// took takes in the result of a Note.
func (c *Scrubber) took(damage, err error) {
	if persist.LogMended(c.s.Config.Logger, damage, err) {
		c.Errors.Add(1)
		c.Mended.Add(1)
	}
}

// verifyLog verifies the log. The error is errStopped.
func (c *Scrubber) verifyLog(pace func(int) error) error {
	c.beginLast()
	bad, err := c.s.Log.Segments().Verify(pace)
	c.foundBroken(bad)
	return err
}

// foundBroken takes in the damage that a round has found in the log.
func (c *Scrubber) foundBroken(bad []*persist.BadSegment) {
	now, needed := map[uint64]BadLog{}, false
	for _, b := range bad {
		c.Errors.Add(1)
		if errors.Is(b.Err, logfile.ErrIndex) {
			c.s.Config.Logger.Error("a log segment is damaged; it is made again of its own frames", "error", b.Err)
			now[b.Start] = BadLog{b.Start, b.End}
			continue
		}
		c.s.Config.Logger.Error("the log is damaged; its frames are fetched from another node if there is one. Until then replicas and restores cannot read this part", "error", b.Err)
		if b.Last {
			if err := persist.NewSegment(c.s.Log); err != nil {
				c.s.Config.Logger.Error("cannot begin another log segment", "error", err)
				continue
			}
			b.End = c.s.Log.Durable()
		}
		now[b.Start] = BadLog{b.Start, b.End}
		needed = needed || b.End > c.s.Dir.ReplayFrom() || b.Last
	}
	c.mu.Lock()
	c.broken = now
	c.mu.Unlock()
	if needed { // memory has its changes: a start reads the log behind the newest snapshot only
		c.snapshots.renewBeside()
	}
}

// Broken are the damaged segments whose frames are to be fetched.
func (c *Scrubber) Broken() (list []BadLog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.broken {
		list = append(list, b)
	}
	return list
}

// Restore makes the file of a damaged segment again: see persist.SegmentList.Restore.
func (c *Scrubber) Restore(b BadLog, past *format.Lineage, fetch func(from, end uint64) ([]byte, error)) error {
	err := c.s.Log.Segments().Restore(b.Start, past, fetch)
	if err != nil && !errors.Is(err, format.ErrGone) { // it was dropped meanwhile
		return err
	}
	if err == nil {
		c.Mended.Add(1)
	}
	c.mu.Lock()
	delete(c.broken, b.Start)
	c.mu.Unlock()
	return nil
}

// ranged is a cold block.
type ranged struct {
	ks   *block.Keyspace
	b    *block.Block
	file *coldstore.File
}

// verifyCold verifies the cold files. The error is errStopped.
func (c *Scrubber) verifyCold(pace func(int) error) error {
	owed := c.owed
	c.owed = map[*coldstore.File]bool{}
	for _, r := range c.inTurn(c.cold()) {
		file := r.file
		verify := file.VerifySums
		if c.asked.Load() {
			verify = file.Verify
		}
		err := verify(pace)
		switch {
		case err == nil:
			c.verified.Add(1)
			continue
		case errors.Is(err, errStopped):
			return err
		case errors.Is(err, coldstore.ErrClosed): // replaced meanwhile
			continue
		}
		c.Errors.Add(1)
		log := c.s.Config.Logger.With("file", file.Name())
		if file.Damaged() && !owed[file] {
			log.Error("a cold file is damaged; posts on its bad pages cannot be read", "error", err)
			continue
		}
		// Its pages are good, and the rest of it is in memory.
		if again := c.Anew(r.ks, r.b); again != nil {
			file.NoteDamage()
			c.owed[file] = true // the disk may be full: without another node nothing else has these posts
			log.Error("a cold file is damaged, and cannot be written again", "error", fmt.Errorf("%w; %w", err, again))
			continue
		}
		c.Mended.Add(1)
		log.Error("a cold file was damaged where no posts are; it was written again", "error", err)
		c.snapshots.renewBeside()
	}
	return nil
}

// cold lists the cold blocks.
func (c *Scrubber) cold() (list []ranged) {
	c.s.Gate.RLock()
	defer c.s.Gate.RUnlock()
	for ks := range c.s.Keyspaces {
		for _, b := range ks.Dir.Load().Blocks {
			if b.Cold != nil {
				list = append(list, ranged{ks, b, b.Cold.File})
			}
		}
	}
	return list
}

// inTurn puts the files of a round in order. The first round of a process begins at a random place: a process that restarts each
// day reads a part of a large directory only, and would never come to the files at the end.
func (c *Scrubber) inTurn(list []ranged) []ranged {
	n := int(c.turn * float64(len(list)))
	c.turn = 0
	return slices.Concat(list[n:], list[:n])
}

// Files are the cold files in use now.
func (c *Scrubber) Files() (files []*coldstore.File) {
	for _, r := range c.cold() {
		files = append(files, r.file)
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

// Begin has a round made now. A round of the background, which takes hours for some GB, goes on faster, and the other one is made
// behind it. ErrScrubbing: one was asked for already.
func (c *Scrubber) Begin() error {
	if !c.asked.CompareAndSwap(false, true) {
		return ErrScrubbing
	}
	c.now <- struct{}{} // there is room: nobody else has asked since that round
	return nil
}

// Knows tells whether a log offset is in a damaged segment that was found already.
func (c *Scrubber) Knows(at uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.broken {
		if b.Start <= at && at < b.End {
			return true
		}
	}
	return false
}

// Suspect has the log verified before all else, as a reader met damage in it that is not known.
func (c *Scrubber) Suspect() {
	select {
	case c.suspect <- struct{}{}:
	default:
	}
}

// ScrubStats tells about verification.
type ScrubStats struct {
	Good   int64 // cold files that were found good
	Bad    int64 // files of all kinds that were found damaged
	Mended int64 // files of all kinds that were written again
	Rounds int64
	Broken int  // damaged log segments that are not mended yet
	Under  bool // a round is under way
}

// Totals tells about verification.
func (c *Scrubber) Totals() ScrubStats {
	return ScrubStats{Good: c.verified.Load(), Bad: c.Errors.Load(), Mended: c.Mended.Load(), Rounds: c.rounds.Load(), Broken: len(c.Broken()), Under: c.running.Load() || c.asked.Load()}
}
