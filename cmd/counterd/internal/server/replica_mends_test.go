// Scenario: a replica that lacks files fetches the posts from its primary.

package server

import (
	"fmt"
	"os"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/persist/format"
)

// TestMend: a replica that starts without the file of a cold block, or without an image that no snapshot has another
// of, serves all other posts, and gets those of the range back from its primary. Nobody has to tell it, no full copy is taken,
// and it is done once.
func TestMend(t *testing.T) {
	for _, tier := range []format.Tier{format.TierCold, format.TierHot} {
		t.Run(string(tier), func(t *testing.T) {
			a, b := newReplNode(t), newReplNode(t)
			a.start("")
			b.change = func(c *config.Config) { c.AOFRetain = 0 } // a log that begins at 0 brings everything back by itself
			b.start(a.addr())
			w := a.dial()
			for i := range 300 {
				w.want(fmt.Sprintf("SET %d.cntcm %d", i, i*3), "+OK")
			}
			same(t, a, b)
			if tier == format.TierCold {
				b.dial().want("COUNTER.DEMOTE weibo 3", "+OK")
			}
			b.dial().save()
			b.stop()
			var file string    // of the first block, in both snapshots
			for i := range 2 { // the log goes on in a new segment at each start
				b.start(a.addr())
				w.want(fmt.Sprintf("SET 299.cntcm %d", i), "+OK")
				same(t, a, b)
				b.dial().save()
				first := b.srv.Store().Replication().Manifests()[0].Counters[0].Blocks[0]
				if first.Tier != tier {
					t.Fatalf("the first block is %s", first.Tier)
				}
				file = first.Path(b.dir)
				b.stop()
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			w.want("INCR 4.cntcm", ":13")
			before := a.info("sync_full")
			b.start(a.addr())
			until(t, "the range is filled", func() bool { return b.info("counterd_refilled_ranges") == "1" && b.info("cold_files_unusable") == "0" })
			same(t, a, b)
			if after := a.info("sync_full"); after != before {
				t.Errorf("%s full copies, and %s before", after, before)
			}
			until(t, "a snapshot", func() bool { return b.dial().do("SAVE").Text == "OK" })
			for i := range 300 {
				get := fmt.Sprintf("GET %d.cntcm", i)
				b.dial().want(get, w.do(get).String())
			}
			copies := a.info("sync_full")
			b.stop()
			b.start(a.addr())
			w.want("INCR 4.cntcm", ":14")
			same(t, a, b)
			if again := a.info("sync_full"); again != copies || b.info("counterd_refilled_ranges") != "0" {
				t.Errorf("%s full copies, and %s after a restart; %s ranges filled again", copies, again, b.info("counterd_refilled_ranges"))
			}
		})
	}
}
