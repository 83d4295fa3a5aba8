// Scenario: the clock of a running server is set.

package durability

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

const day = 24 * time.Hour

// TestSetClock sets the clock of a running server by days and years, ahead and back, and kills the server in between. A number of a producer counts
// once, and its place is not given away before a day has passed. retain drops nothing that is not old by the clock of the first start. A window of time
// has at most the additions. counterctl check reports no problem.
func TestSetClock(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	settings := []string{"--appendfsync", "always", "--idmp-max-producers", "1"}
	s := harness.Start(t, settings...)
	dir := s.Dir
	c := s.Dial(t)
	for _, line := range []string{"ADD COUNTER pages ids=snowflake retain=30d", "ADD COLUMN pages views hint=16 max=32 suffix=v", "ADD COLUMN pages recent window=1h/5m of=views suffix=r",
		"ADD COLUMN pages heat decay=6h of=views suffix=h top=10"} {
		harness.RunScript(t, c, line+"\n")
	}
	var keys []string
	for i := range 20 { // from 29 days ago until now
		at := time.Now().Add(-time.Duration(i) * 36 * time.Hour)
		mid := uint64(at.UnixMilli()-1288834974657)<<22 | uint64(i) // as Twitter's snowflake counts
		keys = append(keys, strconv.FormatUint(mid, 10))
	}
	added := make([]int64, len(keys))
	seq := 0
	for _, by := range []time.Duration{0, 2 * day, 400 * day, -400 * day, -20 * 365 * day, time.Second, 3650 * day, 0} {
		if !s.SetClock(by) {
			return
		}
		if seq > 0 {
			if v := c.Do("INCRBY", keys[0]+".v", "1", "IDMP", "other", "1"); !strings.HasPrefix(v.Raw, "-IDMPFULL ") {
				t.Fatalf("clock set by %v: the only place for producers was given away: %s", by, v.Raw)
			}
		}
		for range 10 {
			i := rng.IntN(len(keys))
			seq++
			added[i] += 3
			for range 2 {
				c.Want(fmt.Sprintf(":%d\r\n", added[i]), "INCRBY", keys[i]+".v", "3", "IDMP", "p", strconv.Itoa(seq))
			}
		}
		if rng.IntN(2) == 0 {
			harness.SaveInBackground(t, c)
		}
		for i, key := range keys {
			want := "$-1\r\n"
			if added[i] > 0 {
				want = fmt.Sprintf("$%d\r\n%d\r\n", len(strconv.FormatInt(added[i], 10)), added[i])
			}
			c.Want(want, "GET", key+".v")
			for _, column := range []string{".r", ".h"} {
				got := c.Do("GET", key+column)
				if n, err := strconv.ParseInt(got.Text, 10, 64); !got.Null && (err != nil || n > added[i]) {
					t.Errorf("clock set by %v: %s is %s, and %d were added", by, key+column, got.Raw, added[i])
				}
			}
		}
		if rng.IntN(2) == 0 {
			s.Kill()
			harness.WantCtl(t, 0, []string{"check", dir})
			s = harness.StartIn(t, dir, settings...)
			c = s.Dial(t)
		}
	}
}
