package harness

import (
	"strconv"
	"strings"
	"testing"
)

// SchemaScript makes the counter of the examples. The primary key's line may stand before the counter's.
const SchemaScript = `add column weibo mid hint=64 max=64 primarykey
add counter weibo
add column weibo comment hint=16 max=32 default=0 suffix=cntcm
add column weibo repost hint=16 max=32 suffix=cntrn
add column weibo attitude hint=8 max=32 suffix=cntan
`

// CounterFirst is the same with the counter's line first.
const CounterFirst = `add counter weibo
add column weibo mid hint=64 max=64 primarykey
add column weibo comment hint=16 max=32 default=0 suffix=cntcm
add column weibo repost hint=16 max=32 suffix=cntrn
add column weibo attitude hint=8 max=32 suffix=cntan
`

// PlainScript adds the two counters that behave as Redis does: n:MID is a string of digits, h:MID a hash of three
// fields.
const PlainScript = `add counter n
add column n v hint=8 max=63 suffix=
add counter h
add column h a hint=8 max=63 suffix=ha
add column h b hint=16 max=63 suffix=hb
add column h c hint=1 max=63 suffix=hc
`

// RunScript sends the lines of a script, which must all be answered with OK.
func RunScript(t testing.TB, c *Conn, script string) {
	t.Helper()
	for line := range strings.Lines(script) {
		if v := c.Do(strings.Fields(line)...); v.Raw != "+OK\r\n" {
			t.Fatalf("%s: got %q, want OK", strings.TrimSpace(line), v.Raw)
		}
	}
}

// SeedSchema makes the counter of the examples.
func SeedSchema(t testing.TB, c *Conn) {
	t.Helper()
	RunScript(t, c, SchemaScript)
}

// BulkOf is the reply that carries s as a bulk string.
func BulkOf(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }
