// Scenario: numbered commands come in pipelines of commands that are like the one before.

package server

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestNumberedJoined: a pipeline is answered, and numbered, as its commands are one by one: with the connection's numbers, with numbers of
// their own, and among commands that are refused for their arguments.
func TestNumberedJoined(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	rng := seed.Rand(t)
	together, alone := numberedServer(t), numberedServer(t)
	c, one := wireDial(t, together, 2), wireDial(t, alone, 2)
	seq := 0
	keys := []string{"1.cntcm", "2.cntcm", "3.cntan", "7", "nokey"}
	command := func() string {
		key := keys[rng.IntN(5)]
		name := []string{"INCR", "INCR", "DECR", "GET"}[rng.IntN(4)]
		switch rng.IntN(40) {
		case 0:
			return fmt.Sprintf("CLIENT IDMP p %d", rng.IntN(300))
		case 1:
			return "CLIENT IDMP OFF"
		case 2:
			return name + " " + key + " a b c"
		case 3:
			return name + " " + key + " IDMP q x"
		case 4:
			return name + " " + key + " a IDMP q 5"
		}
		if seq++; name != "GET" && rng.IntN(2) == 0 {
			return fmt.Sprintf("%s %s IDMP q %d", name, key, seq-rng.IntN(3))
		}
		return name + " " + key
	}
	for range 200 {
		var lines []string
		for len(lines) < 100 {
			line := command()
			if rng.IntN(4) == 0 { // numbers that follow each other, or nearly
				name, step := []string{"INCR", "DECR"}[rng.IntN(2)], 1+rng.IntN(9)/8
				for range 1 + rng.IntN(20) {
					seq += step
					lines = append(lines, fmt.Sprintf("%s %s IDMP q %d", name, keys[rng.IntN(21)/5], seq-rng.IntN(30)/29))
				}
			}
			for range 1 + rng.IntN(8) { // repeats too
				lines = append(lines, line)
			}
		}
		sendTogether(c, lines)
		for i, line := range lines {
			if got, want := c.read().String(), one.do(line).String(); got != want {
				t.Fatalf("command %d of a pipeline, %s: got %s, want %s as alone\n%s", i, line, got, want, strings.Join(lines[:i+1], "\n"))
			}
		}
		for _, ask := range []string{"IDMP LAST p", "IDMP LAST q", "MGET 1.cntcm 2.cntcm 3.cntan"} {
			c.want(ask, one.do(ask).String())
		}
		if got, want := callsOf(c), callsOf(one); got != want {
			t.Fatalf("behind a pipeline, INFO commandstats counts\n%s, want as alone\n%s\n%s", got, want, strings.Join(lines, "\n"))
		}
	}
}

// TestNumberedJoinedInCluster: a node of a cluster refuses keys that clients hash to another slot than that of the post. It does so in a pipeline
// of numbered commands as for single ones.
func TestNumberedJoinedInCluster(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	rng := seed.Rand(t)
	together, alone := startCluster(t, nil, 1, 2), startCluster(t, nil, 1, 2)
	c, one := together.dial(0, 2), alone.dial(0, 2)
	keys := []string{"{1}.cntcm", "{2}.cntcm", "{3}.cntrn", "1.cntcm", "weibo:2.cntcm", "nokey", "no{4}", "{5}.cntcm", "{6}.cntcm", "{7}.cntcm"} // of both shards
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	told := func(v resptest.Value) string { return address.ReplaceAllString(v.String(), "") }
	for round := range 50 {
		var lines []string
		seq := 1000 * round
		for len(lines) < 100 {
			key, tail := keys[rng.IntN(3+rng.IntN(len(keys)-2))], ""
			if seq++; round%2 == 0 { // numbers of their own, or of the connection
				tail = fmt.Sprintf(" IDMP q %d", seq)
			} else if len(lines) == 0 {
				lines = append(lines, fmt.Sprintf("CLIENT IDMP q %d", seq))
			}
			lines = append(lines, "INCR "+key+tail)
		}
		sendTogether(c, append(lines, "CLIENT IDMP OFF"))
		for i, line := range append(lines, "CLIENT IDMP OFF") {
			if got, want := told(c.read()), told(one.do(line)); got != want {
				t.Fatalf("command %d of a pipeline, %s: got %s, want %s as alone\n%s", i, line, got, want, strings.Join(lines[:min(i+1, len(lines))], "\n"))
			}
		}
	}
	for _, key := range keys {
		if got, want := told(c.do("GET "+key)), told(one.do("GET "+key)); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
}

// callsOf returns the counts of INFO for INCR and DECR, without times.
func callsOf(c *wireClient) string {
	c.t.Helper()
	stats := c.do("INFO commandstats").Text
	counts := regexp.MustCompile(`cmdstat_(incr|decr):calls=\d+|(rejected|failed)_calls=\d+`)
	var all []string
	for _, line := range strings.Split(stats, "\n") {
		if strings.HasPrefix(line, "cmdstat_incr:") || strings.HasPrefix(line, "cmdstat_decr:") {
			all = append(all, strings.Join(counts.FindAllString(line, -1), ","))
		}
	}
	return strings.Join(all, "\n")
}

// sendTogether sends commands in one packet.
func sendTogether(c *wireClient, lines []string) {
	c.t.Helper()
	var packet strings.Builder
	for _, line := range lines {
		words := strings.Fields(line)
		fmt.Fprintf(&packet, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&packet, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	if _, err := c.conn.Write([]byte(packet.String())); err != nil {
		c.t.Fatal(err)
	}
}
