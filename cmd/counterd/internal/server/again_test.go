// Scenario: commands in pipelines do the same as one by one.

package server

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// TestDecidedOnce: commands that come in pipelines, where one decision holds for many, have the replies and the effects
// that they have one by one, where each is decided. Commands that make a connection special stand between them.
func TestDecidedOnce(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	servers := [2]*Server{wireServe(t, nil), wireServe(t, nil)}
	decidedOnce(t, 40, func(i, proto int) *wireClient { return wireDial(t, servers[i], proto) }, strings.NewReplacer())
}

// TestDecidedOnceByNodes is TestDecidedOnce on a node of a cluster, on the port of clients that know the cluster, and on the forward port.
func TestDecidedOnceByNodes(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	for _, port := range []string{"cluster", "forward"} {
		t.Run(port, func(t *testing.T) {
			var clusters [2]*testCluster
			var ports []string // MOVED has them
			for i := range clusters {
				clusters[i] = serveForward(t, 3, nil)
				for shard, n := range clusters[i].nodes {
					ports = append(ports, fmt.Sprint(":", n.Port), fmt.Sprint(":of-shard-", shard))
				}
			}
			decidedOnce(t, 25, func(i, proto int) *wireClient {
				if port == "forward" {
					return clusters[i].forward(0, proto)
				}
				return clusters[i].dial(1, proto)
			}, strings.NewReplacer(ports...))
		})
	}
}

// decidedOnce sends random pipelines to the first of two servers, and the same commands one by one to the second.
func decidedOnce(t *testing.T, rounds uint64, dial func(i, proto int) *wireClient, alike *strings.Replacer) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range rounds {
		rng := rand.New(rand.NewPCG(seed, round))
		var pipelines []string
		for range 8 {
			pipelines = append(pipelines, randomPipeline(rng))
		}
		var replies [2]string
		for i := range replies {
			c := dial(i, resptest.Any)
			for _, pipeline := range pipelines {
				pieces := []string{pipeline}
				if i == 1 {
					pieces = strings.SplitAfter(pipeline, "\n")
				}
				for _, piece := range pieces {
					replies[i] += alike.Replace(c.exchange(piece))
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
	if a, b := alike.Replace(dial(0, 2).exchange(posts.String())), alike.Replace(dial(1, 2).exchange(posts.String())); a != b {
		t.Errorf("seed %d: posts\n in pipelines %q\n one by one   %q", seed, a, b)
	}
}

// randomPipeline is lines of commands, most of them like the one before.
func randomPipeline(rng *rand.Rand) string {
	var b strings.Builder
	mids := []int{0, 123456789000}[rng.IntN(2)]
	key := func() string {
		mid := mids + rng.IntN(20)
		return fmt.Sprintf([]string{"%d.%s", "{%d}.%s", "{%d}.%s", "weibo:{%d}.%s"}[rng.IntN(4)], mid, []string{"cntcm", "cntrn", "none"}[rng.IntN(5)/2])
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
