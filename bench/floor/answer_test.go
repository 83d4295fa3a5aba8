//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/wire"
)

func TestChoose(t *testing.T) {
	get := string(wire.AppendCommand(nil, "GET", "4561234567890123.cntrn"))
	page := string(wire.AppendCommand(nil, "COUNTER.MGET", "weibo", "4561234567890123", "4561234567890124"))
	set := string(wire.AppendCommand(nil, "HSET", "4561234567890123", "comment", "1"))
	for _, c := range []struct {
		name     string
		commands string
		last     string // name of the answer to the read before
		reply    string // how it begins
		n        int
	}{
		{"a pipeline", strings.Repeat(get, 64), "", "$1\r\n0\r\n", 64},
		{"a page", page, "", "*20\r\n*3\r\n:0\r\n", 1},
		{"another command", set, "GET", "+OK\r\n", 1},
		{"a read that begins within a command", get[5:] + get, "GET", "$1\r\n0\r\n", 1},
		{"a read that ends within a command", get + get[:5], "", "$1\r\n0\r\n", 2},
		{"without an array", "PING\r\n", "", "+PONG\r\n", 1},
	} {
		var last *answer
		for _, a := range answers {
			if c.last != "" && a.name == c.last+"\r\n" {
				last = a
			}
		}
		a, n := choose([]byte(c.commands), last)
		if n != c.n || !strings.HasPrefix(string(a.replies), c.reply) {
			t.Errorf("%s: %d replies %.20q, want %d of %q", c.name, n, a.replies, c.n, c.reply)
		}
	}
}
