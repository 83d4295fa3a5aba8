package tracking

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

// manyPrefixes are n prefixes of which none begins with another.
func manyPrefixes(client, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%05d-%04d%s", client, i, strings.Repeat("p", client%7))
	}
	return list
}

// broadcasts makes a client in BCAST mode.
func broadcasts(t *testing.T, table *Table, prefixes ...string) *Client {
	t.Helper()
	c := NewClient(1, func() {})
	if err := table.Enable(c, Mode{Broadcast: true}, nil, prefixes); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPrefixesModel: prefixes come and go by chance, some of several clients, and the table has those that clients have,
// and their lengths in order.
func TestPrefixesModel(t *testing.T) {
	random := rand.New(rand.NewPCG(20, 19))
	var p prefixes
	model := make(map[string]map[*Client]bool)
	clients := []*Client{new(Client), new(Client), new(Client)}
	for range 2000 {
		c := clients[random.IntN(len(clients))]
		var list []string
		for range random.IntN(2 * removeSlice) {
			list = append(list, strings.Repeat("a", random.IntN(maxPrefix+1)))
		}
		if random.IntN(2) == 0 {
			p.add(c, list)
			for _, s := range list {
				if model[s] == nil {
					model[s] = make(map[*Client]bool)
				}
				model[s][c] = true
			}
		} else {
			p.remove(c, list)
			for _, s := range list {
				if delete(model[s], c); len(model[s]) == 0 {
					delete(model, s)
				}
			}
		}
		var lengths []int
		for s, of := range model {
			lengths = append(lengths, len(s))
			if len(p.clients[s]) != len(of) {
				t.Fatalf("prefix %q has %d clients, want %d", s, len(p.clients[s]), len(of))
			}
		}
		slices.Sort(lengths)
		if lengths = slices.Compact(lengths); !slices.Equal(p.lengths, lengths) || p.len() != len(model) || len(p.clients) != len(model) {
			t.Fatalf("%d prefixes of lengths %v, want %d of %v", p.len(), p.lengths, len(model), lengths)
		}
	}
}

// TestPrefixesScale toggles one prefix among 200,000 others, and takes all of them away. If adding or removing one looked at
// the others this would take an hour.
func TestPrefixesScale(t *testing.T) {
	racetest.Skip(t, "one goroutine fills a table of many prefixes")
	var p prefixes
	var clients []*Client
	for n := range 200 {
		clients = append(clients, new(Client))
		p.add(clients[n], manyPrefixes(n, 1000))
	}
	c := new(Client)
	for range 200_000 {
		p.add(c, []string{"zz"})
		p.remove(c, []string{"zz"})
	}
	if p.len() != 200_000 {
		t.Errorf("%d prefixes, want 200,000", p.len())
	}
	for n, c := range clients {
		p.remove(c, manyPrefixes(n, 1000))
	}
	if p.len() != 0 || len(p.lengths) != 0 || len(p.clients) != 0 {
		t.Errorf("%d prefixes of lengths %v are left", p.len(), p.lengths)
	}
}

// TestEndDoesNotWait: a loop that ends connections with many prefixes does not wait for changes that use them, nor do these
// wait for all of them to be removed. In the end nothing is left.
func TestEndDoesNotWait(t *testing.T) {
	_, def := posts(t)
	var table Table
	var clients []*Client
	for n := range 50 {
		clients = append(clients, broadcasts(t, &table, manyPrefixes(n, 1000)...))
	}
	other := broadcasts(t, &table, "weibo:")
	table.bcast.mu.Lock()
	for _, c := range clients {
		if c.PrefixBytes() < 1000*prefixSize {
			t.Errorf("1,000 prefixes take %d bytes", c.PrefixBytes())
		}
		table.End(c)
	}
	table.bcast.mu.Unlock()
	table.TouchItems(def, []uint64{7}, nil)
	if told, _ := other.Take(); len(told.Groups) != 1 {
		t.Errorf("another client was told %v", told)
	}
	for table.Sizes().Prefixes > 1 {
		time.Sleep(time.Millisecond)
	}
	if clients[0].PrefixBytes() != 0 {
		t.Errorf("%d bytes are left", clients[0].PrefixBytes())
	}
	table.Disable(other)
	if f := table.Sizes(); f != (Sizes{}) {
		t.Errorf("%+v is left", f)
	}
}

// TestInboxOfManyPrefixes: names of many prefixes are told by prefix, each name once.
func TestInboxOfManyPrefixes(t *testing.T) {
	var b inbox
	for range 2 {
		for n, prefix := range manyPrefixes(0, 1000) {
			b.group(prefix, []string{prefix + "x", prefix + "y"})
			if n >= few && len(b.index) != len(b.groups) {
				t.Fatalf("%d groups, %d in the index", len(b.groups), len(b.index))
			}
		}
	}
	told := b.take()
	if len(told.Groups) != 1000 || b.index != nil || !b.empty() {
		t.Fatalf("%d groups", len(told.Groups))
	}
	for _, g := range told.Groups {
		if len(g) != 2 {
			t.Errorf("a group of %q", g)
		}
	}
}
