//go:build linux && !noepoll

package front

import (
	"math"
	"testing"
)

// TestSpareGoroutines: a goroutine that has brought a session back goes on with the next session that leaves the loop, also behind a panic. Few wait
// for that, however many sessions were away at the same time.
func TestSpareGoroutines(t *testing.T) { both(t, nil, testSpareGoroutines) }

func testSpareGoroutines(t *testing.T, h *echoes) {
	var clients []*wire
	for range 8 * len(h.loops) {
		clients = append(clients, dial(t, h))
	}
	spares := func() (least, most int32) {
		least = math.MaxInt32
		for _, l := range h.loops {
			least, most = min(least, l.spares.Load()), max(most, l.spares.Load())
		}
		return least, most
	}
	for range 20 {
		for _, c := range clients {
			c.send("SLOW a\r\nSLOW b\r\n")
		}
		for _, c := range clients {
			for _, text := range []string{`"a"`, `"b"`} {
				if got := c.read().String(); got != text {
					t.Fatalf("got %s, want %s", got, text)
				}
			}
		}
		until(t, "goroutines that wait", func() bool {
			least, most := spares()
			return least > 0 && most <= spareGoroutines
		})
	}
	for _, c := range clients[:len(h.loops)] {
		c.send("SLOW a\r\nPANIC\r\n")
	}
	until(t, "sessions that have panicked", func() bool { return h.ended.Load() == int64(len(h.loops)) })
	for _, c := range clients[len(h.loops):] {
		c.want("SLOW c", `"c"`)
	}
	until(t, "few goroutines that wait", func() bool {
		_, most := spares()
		return most <= spareGoroutines
	})
}
