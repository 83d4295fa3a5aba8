// Scenario: users with few rights try every way to read or change other keys.

package server

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/glob"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestNoWayAround sends whatever comes to mind as users with rights to some keys: no reply shows a number that they may
// not read, and none of those they may not change is another one afterwards. Every number is unlike all others.
func TestNoWayAround(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	pick := func(from []string) string { return from[rnd.IntN(len(from))] }
	s := wireServe(t, nil)
	admin := wireDial(t, s, 2)
	for _, add := range []string{"ADD COUNTER other", "ADD COLUMN other n hint=32", "ADD COLUMN other p hint=32", "ADD COUNTER plain", "ADD COLUMN plain v hint=32 suffix="} {
		admin.want(add, "+OK")
	}
	columns := []struct {
		counter         string
		names, suffixes []string
	}{{"weibo", []string{"comment", "repost"}, []string{".cntcm", ".cntrn"}}, {"other", []string{"n", "p"}, []string{".n", ".p"}}, {"plain", []string{"v"}, []string{""}}}
	number := 100_000_000
	type cell struct{ key, post, value string }
	var cells []cell
	var keys, words []string
	for _, c := range columns {
		counter := c.counter
		for i, suffix := range c.suffixes {
			words = append(words, c.names[i], strings.TrimPrefix(suffix, "."))
			for mid := 1; mid <= 12; mid++ {
				number += 1 + rnd.IntN(1000)
				post := fmt.Sprintf("%s:%d", counter, mid)
				cells = append(cells, cell{post + suffix, post, strconv.Itoa(number)})
				admin.want(fmt.Sprintf("SET %s %d", post+suffix, number), "+OK")
				m := pick([]string{"%d", "0%d", "{%d}"})
				keys = append(keys, fmt.Sprintf(counter+":"+m+suffix, mid), fmt.Sprintf("{"+counter+":%d}"+suffix, mid), post)
				if suffix != "" {
					keys = append(keys, fmt.Sprintf(m+suffix, mid))
				}
				if counter == "weibo" {
					keys = append(keys, fmt.Sprintf(m, mid))
				}
			}
		}
	}
	words = append(words, "weibo", "other", "plain", "", "COLUMNS", "GET", "NX", "IDMP", "QUIET", "MATCH", "*", "PARTS", "2", "WHERE", ">", "0", "MID", "IN", "SET", "INCR", "DEL", "RETURNING", "NEW",
		"LIMIT", "CURSOR", "COUNTER", "COLUMN", "BCAST", "ON", "PREFIX", "DESC", "=", "<", "AND", "RESET", "EPOCH", "USAGE", "ENCODING")
	var names []string
	s.commands.Each(func(cmd *row) {
		switch cmd.Name {
		case "quit", "shutdown", "reset", "auth", "hello", "client|reply", "client|kill", "client|pause", "replicaof", "slaveof", "failover", "psync", "sync", "monitor", "wait", "waitaof", "client|unblock",
			"subscribe", "psubscribe", "ssubscribe", "acl|setuser", "acl|deluser", "acl|load", "config|set", "config|rewrite", "slowlog|get", "add", "alter", "drop", "save", "bgsave", "bgrewriteaof", "replconf":
			return // they end the conversation, or are an administrator's: the other test has them
		}
		if cmd.Run != nil || cmd.Plan != nil {
			names = append(names, strings.ReplaceAll(cmd.Name, "|", " "))
		}
	})
	forms := []string{"K", "K", "K K", "K N", "K N K N", "K F", "K F N", "C", "C M", "C M M", "C M COLUMNS F", "C M M COLUMNS F F", "C F", "C F 5", "C WHERE F > 0", "C SET F N", "C INCR F 1 RETURNING NEW", "C MID = M", "W", "W W", "W W W", "K N GET",
		"K IDMP p N", "K N IDMP p N", "K N K N QUIET", "0", "0 COUNT 100", "0 TYPE string", "COUNTER C", "COLUMN C F", "", "K K K", "K W", "K 0", "C 1 9", "C PARTS 2"}
	numbers := regexp.MustCompile("[0-9]+")
	for i, patterns := range [][]string{{"weibo:*"}, {"*.cntrn"}, {"weibo:*.cntcm", "other:*.p"}, {"other:1*"}, {"plain:*", "*.n"}, {"*:3"}, {"weibo:0*", "other:??"}, {"weibo:[0-1]*", "plain:0?"}} {
		user := fmt.Sprint("u", i)
		admin.want("ACL SETUSER "+user+" on nopass +@all ~"+strings.Join(patterns, " ~"), "+OK")
		may := func(c cell) bool {
			for _, p := range patterns {
				if glob.Match(p, c.key) || glob.Match(p, c.post) {
					return true
				}
			}
			return false
		}
		forbidden := make(map[string]bool)
		var theirs []string
		for _, c := range cells {
			if !may(c) {
				forbidden[c.value] = true
				theirs = append(theirs, c.key)
			}
		}
		look := func() string { return admin.do("MGET " + strings.Join(theirs, " ")).String() }
		before := look()
		w := wireDial(t, s, 2)
		w.want("AUTH "+user+" x", "+OK")
		answered := 0
		for range 2500 {
			args := strings.Fields(pick(names))
			for _, f := range strings.Fields(pick(forms)) {
				switch f {
				case "K":
					f = pick(keys)
				case "C":
					f = pick([]string{"weibo", "other", "plain", ""})
				case "M":
					f = strconv.Itoa(1 + rnd.IntN(12))
				case "F":
					f = pick([]string{"comment", "repost", "n", "p", "v", "cntcm", "cntrn"})
				case "N":
					f = strconv.Itoa(rnd.IntN(1000))
				case "W":
					f = pick(words)
				}
				args = append(args, f)
			}
			if _, err := w.conn.Write(resptest.Append(nil, args...)); err != nil {
				t.Fatal(err)
			}
			reply := w.read().String()
			if !strings.HasPrefix(reply, "-") {
				answered++
			}
			for _, n := range numbers.FindAllString(reply, -1) {
				if forbidden[n] {
					t.Fatalf("~%s: %q shows %s: %.300s", patterns, args, n, reply)
				}
			}
		}
		if after := look(); after != before {
			t.Errorf("~%s: something was changed:\n%s\n%s", patterns, before, after)
		}
		if answered < 50 {
			t.Errorf("~%s: only %d commands were answered", patterns, answered)
		}
		admin.want("ACL DELUSER "+user, ":1")
		for _, c := range cells { // what it changed of its own
			admin.want("SET "+c.key+" "+c.value, "+OK")
		}
	}
}
