package e2e

import (
	"strconv"
	"strings"
	"testing"
)

// schemaScript makes the counter of the examples. The primary key's line may stand before the counter's.
const schemaScript = `add column weibo mid hint=64 max=64 primarykey
add counter weibo
add column weibo comment hint=16 max=32 default=0 suffix=cntcm
add column weibo repost hint=16 max=32 suffix=cntrn
add column weibo attitude hint=8 max=32 suffix=cntan
`

// counterFirst is the same with the counter's line first.
const counterFirst = `add counter weibo
add column weibo mid hint=64 max=64 primarykey
add column weibo comment hint=16 max=32 default=0 suffix=cntcm
add column weibo repost hint=16 max=32 suffix=cntrn
add column weibo attitude hint=8 max=32 suffix=cntan
`

// plainScript adds the two counters that behave as Redis does: n:MID is a string of digits, h:MID a hash of three
// fields.
const plainScript = `add counter n
add column n v hint=8 max=63 suffix=
add counter h
add column h a hint=8 max=63 suffix=ha
add column h b hint=16 max=63 suffix=hb
add column h c hint=1 max=63 suffix=hc
`

// runScript sends the lines of a script, which must all be answered with OK.
func runScript(t testing.TB, c *conn, script string) {
	t.Helper()
	for line := range strings.Lines(script) {
		if v := c.do(strings.Fields(line)...); v.Raw != "+OK\r\n" {
			t.Fatalf("%s: got %q, want OK", strings.TrimSpace(line), v.Raw)
		}
	}
}

// seedSchema makes the counter of the examples.
func seedSchema(t testing.TB, c *conn) {
	t.Helper()
	runScript(t, c, schemaScript)
}

// bulkOf is the reply that carries s as a bulk string.
func bulkOf(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }
