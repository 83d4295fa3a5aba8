// Scenario: commands in pipelines do the same as one by one.

package server

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// TestDecidedOnce: commands that come in pipelines, where one decision holds for many, have the replies and the effects
// that they have one by one, where each is decided. Commands that make a connection special stand between them.
func TestDecidedOnce(t *testing.T) {
	servers := [2]*Server{wireServe(t, nil), wireServe(t, nil)}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, round))
		var pipelines []string
		for range 8 {
			pipelines = append(pipelines, randomPipeline(rng))
		}
		var replies [2]string
		for i, s := range servers {
			c := wireDial(t, s, resptest.Any)
			for _, pipeline := range pipelines {
				pieces := []string{pipeline}
				if i == 1 {
					pieces = strings.SplitAfter(pipeline, "\n")
				}
				for _, piece := range pieces {
					replies[i] += c.exchange(piece)
				}
			}
		}
		if replies[0] != replies[1] {
			t.Fatalf("seed %d round %d: %q\n in pipelines %q\n one by one   %q", seed, round, pipelines, replies[0], replies[1])
		}
	}
	var posts strings.Builder
	for mid := range 20 {
		fmt.Fprintf(&posts, "HGETALL %d\nHGETALL %d\n", mid, 123456789000+mid)
	}
	if a, b := wireDial(t, servers[0], 2).exchange(posts.String()), wireDial(t, servers[1], 2).exchange(posts.String()); a != b {
		t.Errorf("seed %d: posts\n in pipelines %q\n one by one   %q", seed, a, b)
	}
}

// randomPipeline is lines of commands, most of them like the one before.
func randomPipeline(rng *rand.Rand) string {
	var b strings.Builder
	mids := []int{0, 123456789000}[rng.IntN(2)]
	key := func() string {
		return fmt.Sprintf("%d.%s", mids+rng.IntN(20), []string{"cntcm", "cntrn", "none"}[rng.IntN(5)/2])
	}
	for range 1 + rng.IntN(12) {
		line := []func() string{
			func() string { return "GET " + key() }, func() string { return "INCR " + key() }, func() string { return "INCRBY " + key() + " -1" },
			func() string { return "DECR " + key() }, func() string { return "get " + key() }, func() string { return "STRLEN " + key() }, func() string { return "GET 7" },
			func() string { return fmt.Sprintf("COUNTER.MGET weibo %d 7 %d", rng.IntN(20), rng.IntN(20)) }, func() string { return "MGET " + key() + " " + key() + " " + key() },
			func() string { return fmt.Sprintf("HSET %d comment %d repost 2", rng.IntN(20), rng.IntN(20)) },
		}[rng.IntN(10)]
		for range rng.IntN(20) {
			b.WriteString(line() + "\n")
		}
		b.WriteString([]string{
			"", "", "MULTI\n", "EXEC\n", "DISCARD\n", "GET\n", "GET 1.cntrn 2\n", "INCR 1.cntrn IDMP p 1\n", "INCR 1.cntrn IDMP p 2\n", "HELLO 3\n", "HELLO 2\n",
			"CLIENT IDMP q 5\n", "CLIENT IDMP OFF\n", "WATCH 1.cntrn\n", "ACL SETUSER u on nopass ~* -@all +get\n", "AUTH u x\n", "AUTH default x\n", "RESET\n", "COUNTER.MGET weibo 1 2 3\n", "COUNTER.MGET weibo 1 2 x\n", "HSET 1 comment 3 IDMP p 3\n",
		}[rng.IntN(21)])
	}
	return b.String()
}

// exchange sends commands, one a line, in one packet, and returns their replies.
func (c *wireClient) exchange(lines string) (replies string) {
	c.t.Helper()
	commands := strings.Split(strings.TrimSuffix(lines, "\n"), "\n")
	var packet []byte
	for _, line := range commands {
		packet = resptest.Append(packet, strings.Fields(line)...)
	}
	if lines == "" {
		return ""
	}
	if _, err := c.conn.Write(packet); err != nil {
		c.t.Fatal(err)
	}
	for _, line := range commands {
		v, err := resptest.Read(c.r, c.proto)
		if err != nil && err != io.EOF {
			c.t.Fatal(err)
		}
		replies += line + " = " + v.String() + "\n"
	}
	return replies
}
