package tier

import (
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/hot"
)

// tierTimes are nanoseconds that changes of tier took which were made.
type tierTimes struct{ demoting, rewriting, promoting atomic.Int64 }

// TierStats are the totals of INFO's section tiers.
type TierStats struct {
	HotItems, ColdItems, OverlayItems int64
	HotBlocks, ColdBlocks             int64
	HotBytes, ColdBytes, OverlayBytes int64 // memory, files, memory
	IndexBytes                        int64 // memory of the page indexes
	Cache                             coldstore.CacheStats
	MaxMemory, Memory                 int64
	Full                              bool
	ReadErrors, Demotions, Promotions int64
	Rewrites, Failed, Refused         int64
	Demoting, Promoting, Rewriting    time.Duration // that those took together
	Written, Fresh                    int64
	Broken                            int64 // cold files that could not be opened at the start
	Scrubs, ScrubErrors               int64 // cold files verified in the background; files of all kinds found damaged then
	ScrubMended                       int64 // files that were written again for that
	ScrubRounds                       int64 // over all files
	BrokenLog                         int64 // damaged log segments that are not mended
	Scrubbing                         bool  // they and the images are being verified
}

// Totals are those that need no walk over all blocks.
func (t *Tiers) Totals() TierStats {
	return TierStats{
		Cache: t.s.Cache.Stats(), MaxMemory: t.Limit.Load(), Memory: t.Memory(), Full: t.s.Full.Load(),
		ReadErrors: t.s.ReadErrors.Load(), Demotions: t.Demotions.Load(), Promotions: t.Promotions.Load(), Rewrites: t.Rewrites.Load(),
		Failed: t.Failed.Load(), Refused: t.refused.Load(), Written: t.written.Load(), Fresh: t.fresh.Load(),
		Demoting: time.Duration(t.spent.demoting.Load()), Promoting: time.Duration(t.spent.promoting.Load()),
		Rewriting: time.Duration(t.spent.rewriting.Load()),
		Broken:    t.s.Broken.Load(),
	}
}

// AddBlocks adds the sums over all blocks. REQUIRES Data.Gate held.
func (st *TierStats) AddBlocks(s *core.Data) {
	for ks := range s.Keyspaces {
		for lo := uint64(0); lo < hot.EndMid; {
			blk := ks.Lock(lo)
			if blk.Cold == nil {
				st.HotBlocks++
				st.HotItems += int64(blk.Tab.Len())
				st.HotBytes += int64(blk.Tab.Bytes())
			} else {
				f := blk.Cold.File.Stat()
				st.ColdBlocks++
				st.ColdItems += int64(blk.Items())
				st.ColdBytes += f.Bytes
				st.IndexBytes += f.IndexBytes
				st.OverlayItems += int64(blk.Tab.Len())
				st.OverlayBytes += int64(len(blk.Span.Data))
			}
			lo = blk.Hi
			blk.Mu.Unlock()
		}
	}
}
