package tier

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/durable"
	"github.com/counterd/counterd/internal/monotonic"
)

// Tiers keeps memory within MaxMemory: the coldest ranges are written to files, overlays that have grown are merged
// into new files, and cold ranges that are used a lot come back. One goroutine does it, a block at a time; writers of
// other blocks never wait, those of that block for some milliseconds.
type Tiers struct {
	s         *core.Data
	space     *durable.Space // free space of the disk that files are written to
	Limit     atomic.Int64   // MaxMemory, 0: none
	fullSince atomic.Int64   // when Data.Full began, a monotonic.Moment

	Demotions  atomic.Int64
	Promotions atomic.Int64
	Rewrites   atomic.Int64
	Failed     atomic.Int64
	refused    atomic.Int64 // times that full began
	spent      tierTimes
	written    atomic.Int64 // bytes of cold files written
	// Rows in them that were hot or new, as bytes of the same files: the bytes that would have been written without
	// rewrites.
	fresh atomic.Int64

	misses, evictions uint64 // of the cache, at the last look; of the tiers' goroutine

	one     sync.Mutex    // held while a block changes its tier
	Rest    func()        // called by ReshapeBeside now and then; nil: it rests as pace.Pace does. Tests count the calls
	Backoff block.Backoff // of all blocks, after a failure that others may have too; of the tiers' goroutine

	quit     chan struct{}
	done     chan struct{}
	stopOnce sync.Once
}

const (
	// IdleSeconds is how long a range must not have been used to be taken before those above it.
	IdleSeconds = 10
	// Headroom is how far memory may pass MaxMemory before changes that need new rows are refused: the memory of half a
	// second of inserts.
	Headroom = 48 << 20
	// mergeShare: an overlay of more than a sixteenth of the file's rows is merged.
	mergeShare = 16
	// promoteShare: a range with as many operations in a look as a quarter of its rows is hot again.
	promoteShare = 4
	// cacheShare of MaxMemory is for pages of cold files, within bounds, whatever hot ranges are used; and up to warmShare
	// quarters where tables leave room, or hot ranges are not used: a post takes 2.5 bytes there, 5.4 in a hot block, and
	// the pages read most stay.
	cacheShare          = 16
	MinCache, maxCache  = 1 << 20, 256 << 20
	warmShare           = 3
	reserveShare        = 10
	maxReserve          = 32 << 20
	tierTick            = 100 * time.Millisecond
	hugePagesATick      = 2       // put together: 40 MB/s, half a percent of a processor
	overlayLeftAlone    = 512     // rows: fewer are merged only when memory is short
	overlayWorthMerging = 4 << 10 // bytes
)

// NewCache makes a cache of the size that it has under MaxMemory.
func NewCache(limit int64) *coldstore.Cache {
	_, most := CacheShares(limit)
	return coldstore.NewCache(most)
}

func (t *Tiers) Init(s *core.Data, space *durable.Space, limit int64) {
	t.s, t.space = s, space
	t.Limit.Store(limit)
	limitMapped(limit)
	t.quit = make(chan struct{})
	t.done = make(chan struct{})
}

func (t *Tiers) Start() {
	if t.s.Dir == nil || t.s.Config.Manual {
		close(t.done)
		return
	}
	go t.run()
}

// Stop waits until nothing is under way. REQUIRES Data.Closed.
func (t *Tiers) Stop() {
	t.stopOnce.Do(func() { close(t.quit) })
	<-t.done
	// A change of tier that somebody else asked for: its file's name may be the next store's, which opens the same
	// directory.
	t.one.Lock()
	defer t.one.Unlock()
}

// Memory is the memory that counts against MaxMemory: blocks, overlays, partial rows and the cache of pages.
func (t *Tiers) Memory() int64 { return t.Tables() + t.s.Cache.Stats().Bytes }

// Tables is memory without the cache.
func (t *Tiers) Tables() int64 { return t.s.Arena.Used() + t.s.Files.PartialBytes.Load() }

// CacheShares are the least and the most memory of the page cache under MaxMemory. For the least, even used hot ranges are
// demoted.
func CacheShares(limit int64) (own, most int64) {
	if limit == 0 {
		return maxCache, maxCache
	}
	own = min(max(limit/cacheShare, MinCache), maxCache)
	return own, max(limit/4*warmShare, own)
}

// CacheGrowth: the cache that is full grows by an eighth of itself, or of its own share, as soon as there is room. 100 reads
// of cold posts a ms would else fill 192 MiB in half a second, which demotion takes two for: changes would be refused.
const CacheGrowth = 8

// FitCache gives the cache what the tables leave of MaxMemory, within bounds: it gives way at once, and grows into room
// that was made for it.
func (t *Tiers) FitCache() {
	limit := t.Limit.Load()
	if limit == 0 {
		return
	}
	own, most := CacheShares(limit)
	room, now := min(max(t.Target()-t.Tables(), MinCache), most), t.s.Cache.Stats().Limit
	if room < now || room-now >= max(min(max(own, now)/CacheGrowth, most-now), 1<<10) { // its shards round
		t.s.Cache.SetLimit(room)
	}
}

// CacheWants is the memory that is to be left for the cache: its present memory, and more while it is full and pages are missed.
// Used hot ranges are demoted for used bytes of it, idle ranges for idle bytes.
func (t *Tiers) CacheWants() (used, idle int64) {
	st := t.s.Cache.Stats()
	own, most := CacheShares(t.Limit.Load())
	want := st.Bytes
	if st.Misses != t.misses && st.Evictions != t.evictions {
		want = max(st.Limit, st.Bytes)
		want += max(own, want) / CacheGrowth
	}
	t.misses, t.evictions = st.Misses, st.Evictions
	return min(want, own), min(want, most)
}

// SetLimit changes Options.MaxMemory.
func (t *Tiers) SetLimit(n int64) {
	t.Limit.Store(n)
	_, most := CacheShares(n)
	t.s.Cache.SetLimit(most)
	limitMapped(n)
}

// mappedMost is what pages of cold files that are read where they are mapped may count as the process's memory, beside
// MaxMemory.
const mappedMost = 24 << 20

func limitMapped(limit int64) {
	if limit > 0 {
		coldstore.LimitMapped(mappedMost)
	} else {
		coldstore.LimitMapped(0)
	}
}

func (t *Tiers) run() {
	defer close(t.done)
	tick := time.NewTicker(tierTick)
	defer tick.Stop()
	began, looked := time.Now(), time.Now()
	for {
		t.s.Clock.Store(1 + int64(time.Since(began)/time.Second))
		t.FitCache()
		more := t.Shrink()
		if time.Since(looked) >= time.Second {
			looked = time.Now()
			t.MergeAndPromote()
		}
		if more {
			select {
			case <-t.quit:
				return
			default:
				continue
			}
		}
		select {
		case <-t.quit:
			return
		case <-tick.C:
			t.s.Arena.Collapse(hugePagesATick)
		}
	}
}

// Target is the goal of demotion: MaxMemory less the memory that demoting itself takes (a copy of a block, its rows in
// order, the garbage collector's slack).
func (t *Tiers) Target() int64 {
	limit := t.Limit.Load()
	return limit - min(limit/reserveShare, maxReserve)
}

// Shrink writes the coldest range to a file if memory is above the target, and answers whether there may be more to do.
// When no range is left, it merges the largest overlay, or seals an open block of a store made of groups, which has 256
// of them a counter. After an error it waits, for longer and longer.
func (t *Tiers) Shrink() (more bool) {
	defer t.UpdateFull()
	if t.Limit.Load() == 0 || !t.Backoff.Over() {
		return false
	}
	used, idle := t.CacheWants()
	room := t.Target() - t.Tables()
	if idle <= room {
		return false
	}
	ks, lo, age, ok := t.victim()
	if used <= room && (!ok || age <= IdleSeconds) {
		return false // the cache goes without
	}
	if !ok {
		if ks, lo, ok = t.largestOverlay(); !ok {
			return t.s.SlotGroups && t.sealOpen()
		}
	}
	return t.noteOutcome(ks, lo, t.Demote(ks, lo))
}

// short tells whether memory passes MaxMemory: changes will be refused soon.
func (t *Tiers) short() bool {
	limit := t.Limit.Load()
	return limit > 0 && t.Memory() > limit
}

const (
	// longestBackoff is of all blocks: a failure of all of them, such as a full disk, is soon mended or the store is full.
	longestBackoff = 30 * time.Second
	// longestBlockBackoff is of a block: a damaged page stays damaged, and it is read again to find that out.
	longestBlockBackoff = 10 * time.Minute
)

// noteOutcome takes down how a change of tier went, and answers whether there may be more to do. A block that failed is
// left alone for a while, so that the next one has its turn. So are all others unless it was its own file that could
// not be read. A block that was split, cleared or dropped meanwhile is no failure.
func (t *Tiers) noteOutcome(ks *block.Keyspace, lo uint64, err error) (more bool) {
	if err == nil || errors.Is(err, ErrNoBlock) {
		t.Backoff = block.Backoff{}
		return err == nil
	}
	t.Failed.Add(1)
	own := errors.Is(err, block.ErrCold)
	if !own {
		t.Backoff.Failed(longestBackoff)
	}
	retry := t.Backoff.Pause
	t.s.Gate.RLock()
	if t.s.Serves(ks) {
		b := ks.Lock(lo)
		b.Backoff.Failed(longestBlockBackoff)
		retry = max(retry, b.Backoff.Pause)
		b.Mu.Unlock()
	}
	t.s.Gate.RUnlock()
	t.s.Config.Logger.Error("cannot move a range to another tier", "counter", ks.CounterName, "lo", lo, "error", err, "retry_in", retry)
	return own
}

// largestOverlay chooses the cold block whose overlay takes the most memory, if that is worth a rewrite.
func (t *Tiers) largestOverlay() (best *block.Keyspace, lo uint64, ok bool) {
	t.s.Gate.RLock()
	defer t.s.Gate.RUnlock()
	if t.s.Closed {
		return nil, 0, false
	}
	most := overlayWorthMerging
	for ks := range t.s.Keyspaces {
		for _, b := range ks.Dir.Load().Blocks {
			if b.Cold == nil {
				continue
			}
			b.Mu.Lock()
			size, ready := len(b.Span.Data), b.Backoff.Over()
			b.Mu.Unlock()
			if size > most && ready {
				best, lo, ok, most = ks, b.Lo, true, size
			}
		}
	}
	return best, lo, ok
}

// sealShare: an open block is sealed for memory's sake from a sixteenth of BlockItems on.
const sealShare = 16

// sealOpen seals the open block that takes the most memory, so that it can be written to a file, and tells whether there
// was one worth it.
func (t *Tiers) sealOpen() bool {
	t.s.Gate.RLock()
	defer t.s.Gate.RUnlock()
	if t.s.Closed {
		return false
	}
	var best *block.Keyspace
	var lo uint64
	most := 0
	for ks := range t.s.Keyspaces {
		blocks := ks.Dir.Load().Blocks
		b := blocks[len(blocks)-1]
		b.Mu.Lock()
		worth := !ks.Def.IsSpace() && !b.Dead && b.Cold == nil && b.Open() && b.Tab.Len() >= max(ks.BlockItems/sealShare, 2) && len(ks.Def.Columns) > 0
		if worth && len(b.Span.Data) > most {
			best, lo, most = ks, b.Lo, len(b.Span.Data)
		}
		b.Mu.Unlock()
	}
	if best == nil {
		return false
	}
	b := best.Lock(lo)
	b, sealed, err := best.Seal(b)
	b.Mu.Unlock()
	if err != nil {
		t.s.Config.Logger.Error("cannot seal an open block", "counter", best.CounterName, "lo", lo, "error", err)
	}
	return sealed
}

// UpdateFull decides whether changes that need new rows are to be refused.
func (t *Tiers) UpdateFull() {
	limit := t.Limit.Load()
	full := limit > 0 && t.Memory() > limit+Headroom
	if full && !t.s.Full.Load() {
		t.fullSince.Store(int64(monotonic.Now()))
		t.refused.Add(1)
		t.s.Config.Logger.Warn("maxmemory exceeded; refusing changes that need memory until ranges are written to disk", "memory", t.Memory(), "maxmemory", limit)
	}
	t.s.Full.Store(full)
}

// FullWait is how long changes are waited with before they are refused, from when memory is full: in this time demotion
// makes half of the headroom free again.
const FullWait = time.Second

// victim chooses the lowest range that was not used for a while, or else the one used longest ago, and tells how many
// seconds ago that was. Ids grow with time, so low ranges are old posts.
func (t *Tiers) victim() (best *block.Keyspace, lo uint64, oldest int64, ok bool) {
	t.one.Lock() // or a promotion might lower hotFrom under our hands
	defer t.one.Unlock()
	t.s.Gate.RLock()
	defer t.s.Gate.RUnlock()
	if t.s.Closed {
		return nil, 0, 0, false
	}
	now := t.s.Clock.Load()
	oldest = -1
	for ks := range t.s.Keyspaces {
		if len(ks.Def.Columns) == 0 || ks.Def.IsSpace() { // posts in windows are in use
			continue
		}
		d := ks.Dir.Load()
		first := d.Index(ks.HotFrom.Load())
		start := true // everything before was cold
		for _, b := range d.Blocks[first:] {
			if b.Cold != nil {
				continue
			}
			b.Mu.Lock()
			used, empty, skip := b.Used, b.Tab.Len() == 0, b.Dead || !b.Backoff.Over()
			b.Mu.Unlock()
			if empty && !b.Open() { // a dropped range. candidates looks whether it has posts again
				continue
			}
			if start {
				ks.HotFrom.Store(b.Lo)
				start = false
			}
			if b.Open() {
				break
			}
			if skip {
				continue
			}
			if age := now - used; age > oldest {
				best, lo, ok, oldest = ks, b.Lo, true, age
				if age > IdleSeconds {
					break
				}
			}
		}
	}
	return best, lo, oldest, ok
}

// Crowded tells whether changes that need new rows are refused, but only since a moment ago. Two atomic loads at most.
func (t *Tiers) Crowded() bool {
	return t.s.Full.Load() && monotonic.Moment(t.fullSince.Load()).Age() < FullWait
}

// AwaitRoom returns when there is memory again, or the memory is no longer crowded, or the tiers stop.
func (t *Tiers) AwaitRoom() {
	for t.Crowded() {
		select {
		case <-t.quit:
			return
		case <-time.After(time.Millisecond):
		}
	}
}
