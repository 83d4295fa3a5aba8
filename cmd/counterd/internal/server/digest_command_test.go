// Scenario: COUNTER.DIGEST of counters, ranges and parts.

package server

import (
	"strings"
	"testing"
)

func TestDigestCommand(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	c.want("SET 1.cntcm 1", "+OK")
	c.want("SET 9223372036854775807.cntcm 1", "+OK")
	whole := c.do("COUNTER.DIGEST weibo").List[0].Text
	if !strings.HasPrefix(whole, "counter=weibo items=2 digest=") {
		t.Errorf("COUNTER.DIGEST weibo: %s", whole)
	}
	parts := c.do("COUNTER.DIGEST weibo PARTS 4").List
	if len(parts) != 2 || !strings.HasPrefix(parts[0].Text, "counter=weibo lo=0 hi=2305843009213693952 items=1 digest=") ||
		!strings.HasPrefix(parts[1].Text, "counter=weibo lo=6917529027641081856 hi=9223372036854775808 items=1 digest=") {
		t.Errorf("PARTS 4: %v", parts)
	}
	one := c.do("COUNTER.DIGEST weibo 1 2 PARTS 4096").List
	if len(one) != 1 || !strings.HasPrefix(one[0].Text, "counter=weibo lo=1 hi=2 items=1 digest=") {
		t.Errorf("[1,2): %v", one)
	}
	c.want("COUNTER.DIGEST weibo 2 2 PARTS 3", "[]")
	c.want("MULTI", "+OK")
	c.want("COUNTER.DIGEST weibo", "+QUEUED")
	c.want("EXEC", `[["`+whole+`"]]`)
	const mids, want = "-ERR want a range of mids: lo, and hi behind it, at most 9223372036854775808", "-ERR PARTS: want 1..4096"
	for command, text := range map[string]string{
		"COUNTER.DIGEST none": "-ERR no counter 'none' (see SCHEMA)", "COUNTER.DIGEST weibo 1": "-ERR syntax error", "COUNTER.DIGEST weibo 1 2 3": "-ERR syntax error",
		"COUNTER.DIGEST weibo 2 1": mids, "COUNTER.DIGEST weibo x 1": mids, "COUNTER.DIGEST weibo 1 9223372036854775809": mids,
		"COUNTER.DIGEST weibo PARTS 0": want, "COUNTER.DIGEST weibo PARTS 4097": want, "COUNTER.DIGEST weibo PARTS x": want, "COUNTER.DIGEST weibo PARTS": "-ERR syntax error",
	} {
		c.want(command, text)
	}
}
