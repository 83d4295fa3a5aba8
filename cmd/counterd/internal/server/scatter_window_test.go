// Scenario: more changes than a link has numbers are sent while some of its numbers are in doubt.

package server

import (
	"fmt"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
)

// TestForwardManyInDoubt: the connection of a long pipeline is lost, and its shard refuses changes for a moment. The numbers of changes in doubt are kept meanwhile. The changes
// behind them are made too when the shard accepts changes again, as are those of another client.
func TestForwardManyInDoubt(t *testing.T) {
	k := serveForward(t, 2, nil)
	port, keep, _ := late(t, k.nodes[1].Port)
	k.nodes[1].Port = port
	k.stand()
	w, other := k.forward(0, 2), k.forward(0, 2)
	key, others := fmt.Sprintf("{%d}.cntcm", k.mid(1, 0)), fmt.Sprintf("{%d}.cntcm", k.mid(1, 1))
	w.want("INCRBY "+key+" 0", ":0") // it connects
	other.want("INCRBY "+others+" 0", ":0")
	for round := range 3 {
		k.change = func(i int, st *cluster.Standing) {
			if i == 1 {
				st.Writes = "CLUSTERDOWN as the test says"
			}
		}
		k.stand()
		calls := k.srv[1].commands.Calls()
		keep()
		const n = 300
		var commands []string
		for range n {
			commands = append(commands, "INCR "+key)
		}
		w.sendAll(commands...)
		until(t, "the shard has refused the changes", func() bool { return k.srv[1].commands.Calls() > calls })
		other.sendAll("INCR " + others)
		k.change = nil
		k.stand()
		left := make(map[string]bool)
		for i := range n {
			left[fmt.Sprint(":", round*n+i+1)] = true
		}
		for i := range n { // those that were refused are made behind others
			got := w.read().String()
			if !left[got] {
				t.Fatalf("round %d, change %d: got %s, want a number from %d to %d that no other change got", round, i, got, round*n+1, round*n+n)
			}
			delete(left, got)
		}
		if got, want := other.read().String(), fmt.Sprint(":", round+1); got != want {
			t.Fatalf("round %d, another client: got %s, want %s", round, got, want)
		}
	}
}
