package tier

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
)

// Repacker brings blocks to their counter's present columns after a change of the schema, and chooses widths again
// (block/widths.go), one block at a time, in the background and beside its readers and writers (beside.go). It pauses after each
// for as long as that took, so it takes half a core at most. And it seals open blocks ahead.
type Repacker struct {
	s      *core.Data
	tiers  *Tiers
	quit   chan struct{}
	done   sync.WaitGroup
	once   sync.Once
	blocks atomic.Int64 // that got another layout, or were looked at for that
	nanos  atomic.Int64 // that this took
}

func (r *Repacker) Init(s *core.Data, t *Tiers) {
	r.s, r.tiers, r.quit = s, t, make(chan struct{})
}

func (r *Repacker) Start() {
	r.done.Go(func() { r.run() })
	r.done.Go(func() { r.seal() })
	r.done.Go(func() { r.widen() })
}

func (r *Repacker) Stop() {
	r.once.Do(func() { close(r.quit) })
	r.done.Wait()
}

// lostRest is the pause after a writer sealed a block first: posts that come that fast would be packed twice.
const lostRest = time.Second

// seal seals blocks ahead.
func (r *Repacker) seal() {
	var rest <-chan time.Time
	sealing := r.s.Sealing
	for {
		select {
		case <-r.quit:
			return
		case <-rest:
			rest, sealing = nil, r.s.Sealing
		case ks := <-sealing:
			if r.tiers.sealAhead(ks) != nil {
				rest, sealing = time.After(lostRest), nil
			}
		}
	}
}

// widen chooses widths for blocks in which many values have outgrown theirs.
func (r *Repacker) widen() {
	for {
		select {
		case <-r.quit:
			return
		case p := <-r.s.Widening:
			began := time.Now()
			_ = r.tiers.ReshapeBeside(p.Keyspace, p.Mid, widerPlans) // else a writer does it when more values overflow
			r.blocks.Add(1)
			r.nanos.Add(int64(time.Since(began)))
		}
	}
}

// widerPlans plans other widths for a block that still needs them.
func widerPlans(cs *block.Columns, b *block.Block) []block.Plan {
	if b.Open() {
		return nil
	}
	return []block.Plan{cs.RepackPlan(b)}
}

func (r *Repacker) run() {
	tick := time.NewTicker(block.TightenTick)
	defer tick.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-r.s.Outdated:
		case <-tick.C:
		}
		for n := 0; r.keyspace(n); n++ {
		}
	}
}

// keyspace re-packs the blocks of one keyspace, see KeyspaceAt. It answers false when there is none of that number or
// above, or on stop.
func (r *Repacker) keyspace(n int) bool {
	for lo := uint64(0); ; {
		r.s.Gate.RLock()
		ks, more := r.s.KeyspaceAt(n)
		if ks == nil {
			r.s.Gate.RUnlock()
			return more
		}
		began := time.Now()
		b := ks.Lock(lo)
		ks.Recognize(b)
		// Out of memory: the block keeps its old layout, which is answered correctly all the same.
		var plans func(*block.Columns, *block.Block) []block.Plan
		switch {
		case !ks.Current(b) && b.Cold != nil:
			_ = ks.Builder.RepackOverlay(b, ks.Over)
		case !ks.Current(b):
			plans = RepackPlans
		case b.TightenDue(began):
			b.Tightened = true
			plans = ks.TightenPlans
		}
		worked := plans != nil
		hi, last := b.Hi, b.Open()
		b.Mu.Unlock()
		r.s.Gate.RUnlock()
		if worked && errors.Is(r.tiers.ReshapeBeside(ks, lo, plans), hot.ErrFull) {
			r.inPlace(ks, lo)
		}
		if last {
			return true
		}
		lo = hi
		pause := time.Duration(0)
		if worked {
			pause = time.Since(began)
			r.blocks.Add(1)
			r.nanos.Add(int64(pause))
		}
		select {
		case <-r.quit:
			return false
		case <-time.After(pause):
		}
	}
}

// RepackPlans plans the present columns.
func RepackPlans(cs *block.Columns, b *block.Block) []block.Plan {
	return []block.Plan{cs.RepackPlan(b)}
}

// inPlace re-packs a block that changes so fast that its new table was full before it was in place.
func (r *Repacker) inPlace(ks *block.Keyspace, lo uint64) {
	r.s.Gate.RLock()
	defer r.s.Gate.RUnlock()
	if !r.s.Serves(ks) {
		return
	}
	b := ks.Lock(lo)
	if ks.Recognize(b); !ks.Current(b) {
		b, _ = block.AddColumns(ks, b, lo)
	}
	b.Mu.Unlock()
}

// Totals tells how many blocks got another layout, or were looked at for that, and how long it took.
func (r *Repacker) Totals() (blocks int64, took time.Duration) {
	return r.blocks.Load(), time.Duration(r.nanos.Load())
}
