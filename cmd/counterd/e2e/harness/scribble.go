package harness

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// ToolsScript makes counters of all sorts: with suffixes and with empty ones, narrow and wide, with defaults.
const ToolsScript = SchemaScript + PlainScript + `add counter wide
add column wide a hint=64 max=64 default=7 suffix=
add column wide b hint=1 max=1 suffix=flag
`

var ToolsCounters = []string{"weibo", "n", "h", "wide"}

// Scribble writes random values to a server.
func Scribble(t testing.TB, c *Conn, r *rand.Rand, n int) {
	t.Helper()
	for range n {
		mid := strconv.Itoa(r.IntN(400) * 7919)
		switch r.IntN(8) {
		case 0:
			c.Do("DEL", "weibo:"+mid)
		case 1:
			c.Do("HSET", "wide:"+mid, "a", strconv.FormatInt(r.Int64(), 10), "b", strconv.Itoa(r.IntN(2)))
		case 2:
			c.Do("HSET", "h:"+mid, "a", strconv.FormatInt(r.Int64N(1<<40), 10), "c", "3")
		case 3:
			c.Do("SET", "n:"+mid, strconv.FormatInt(r.Int64(), 10))
		case 4:
			c.Do("SET", strconv.FormatInt(r.Int64(), 10)+".cntan", strconv.Itoa(r.IntN(1<<31)))
		default:
			c.Do("INCRBY", mid+[]string{".cntcm", ".cntrn", ".cntan"}[r.IntN(3)], strconv.Itoa(r.IntN(100_000)))
		}
	}
}
