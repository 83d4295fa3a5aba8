// Scenario: a write to a key that is no key explains how to write it.

package server

import "testing"

// TestUnknownKey: the error of a write shows how the key would be spelled here.
func TestUnknownKey(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	c.want("ADD COLUMN weibo likes hint=8 max=32", "+OK")
	c.want("INCR 123.likes", ":1")
	c.want("GET weibo:123.likes", `"1"`)
	for _, w := range []struct{ command, key, like string }{
		{"INCR post:123:likes", "post:123:likes", "123.likes"},
		{"SET post:123:comment 5", "post:123:comment", "123.cntcm"},
		{"COUNTER.MINCRBY likes:123 1", "likes:123", "123.likes"},
		{"MSET 123.likes 5 123/likes 6", "123/likes", "123.likes"},
		{"HSET post:123 likes 5", "post:123", "123"},
	} {
		c.want(w.command, "-ERR no counter for key '"+w.key+"': want MID.suffix, MID, NAME:MID or NAME:MID.suffix, as in "+w.like+" (see SCHEMA)")
	}
	c.want("GET post:123:likes", "nil")
}
