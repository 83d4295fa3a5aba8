// Scenario: a change is repeated after thousands of newer ones.

package server

import (
	"fmt"
	"strings"
	"testing"
)

// TestNumberedDistance: a number is a repeat while there are fewer than 10,000 newer ones; a number below those that are remembered has
// expired.
func TestNumberedDistance(t *testing.T) {
	s := numberedServer(t)
	c := wireDial(t, s, 2)
	const numbers = 10_300
	for from := 0; from < numbers; from += 100 {
		for i := from; i < from+100; i++ {
			c.send(fmt.Sprintf("INCR 1.cntcm IDMP p %d", i))
		}
		for range 100 {
			c.read()
		}
	}
	for seq, want := range map[int]string{0: "-IDMPEXPIRED counter: number 0 is older", numbers - 10_000: "-IDMPEXPIRED the change was made", numbers - 129: "-IDMPEXPIRED the change was made",
		numbers - 128: fmt.Sprintf(":%d", numbers-127), numbers - 1: fmt.Sprintf(":%d", numbers)} {
		if got := c.do(fmt.Sprintf("INCR 1.cntcm IDMP p %d", seq)).Raw; !strings.HasPrefix(got, want) {
			t.Errorf("%d: got %q, want %q", seq, got, want)
		}
	}
	c.want("GET 1.cntcm", fmt.Sprintf("%q", fmt.Sprint(numbers)))
	if got := c.do("COUNTER.PRODUCERS"); got.List[0].Get(t, "entries").Text != "128" || got.List[0].Get(t, "numbers").Text < "10000" {
		t.Errorf("got %s", got)
	}
}
