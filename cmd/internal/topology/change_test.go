package topology

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/seed"
)

func nodeID(i int) NodeID { return NodeID(fmt.Sprintf("%040x", i)) }

// TestChanges makes random changes of random maps and wants the invariants to hold behind each: also when several were
// made from the same map, of which those that contradict the first conflict.
func TestChanges(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	for run := range 30 {
		rng := rand.New(rand.NewPCG(seed, uint64(run)))
		m, err := NewMap(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		made := map[string]int{}
		for range 150 {
			from := m
			for range 1 + rng.IntN(3) {
				kind, c, err := randomChange(rng, from)
				if err != nil {
					var refused *RefusedError
					if !errors.As(err, &refused) {
						t.Fatalf("run %d: %s: got %v, want a RefusedError", run, kind, err)
					}
					continue
				}
				next, err := m.Apply(c)
				if errors.Is(err, ErrConflict) && from != m {
					made["conflict"]++
					continue
				}
				if err != nil {
					t.Fatalf("run %d: %s: %v", run, c.What, err)
				}
				checkStep(t, c.What, m, next)
				made[kind]++
				m = next
			}
		}
		if run == 0 {
			t.Log(made)
		}
	}
}

func randomChange(rng *rand.Rand, m *Map) (kind string, c Change, err error) {
	node := nodeID(rng.IntN(8))
	var s *Shard
	if len(m.Shards) > 0 {
		s = m.Shards[rng.IntN(len(m.Shards))]
	}
	var id ShardID
	var epoch uint64
	if s != nil {
		id, epoch = s.ID, s.Epoch
		if members := m.Members(id); len(members) > 0 && rng.IntN(4) != 0 {
			node = members[rng.IntN(len(members))].ID
		}
	}
	kinds := []string{"create", "register", "register", "live", "dead", "add", "remove", "assign", "release", "retire", "forget", "promote", "promote",
		"switch", "force", "shrink", "expand", "expand", "replid", "touch", "schema", "policy",
		"move", "move", "commit", "commit", "cancel", "abort", "end", "dropped", "accepted"}
	kind = kinds[rng.IntN(len(kinds))]
	switch kind {
	case "create":
		c, err = CreateCluster(m, "an id", time.Unix(0, 0), rng.IntN(3), 1+rng.IntN(3))
	case "register":
		c, err = RegisterNode(m, Node{ID: node, Host: "10.0.0.1", Port: 1 + rng.IntN(3)})
	case "live":
		c.Set(LiveKey(node), m.revision(LiveKey(node)), Live{Process: fmt.Sprint(rng.IntN(9))})
	case "dead":
		if m.Live[node] != nil {
			c.Remove(LiveKey(node), m.Live[node].Revision)
		}
	case "add":
		var free []NodeID
		for _, n := range m.Members(0) {
			free = append(free, n.ID)
		}
		var groups slot.Set
		unowned := m.Unowned()
		for g := range 256 {
			if unowned.Has(uint8(g)) && rng.IntN(2) == 0 {
				groups.Add(uint8(g))
			}
		}
		c, err = AddShard(m, free[:min(len(free), 1+rng.IntN(3))], groups)
	case "remove":
		moving := slices.ContainsFunc(m.Moves, func(v *Move) bool { return v.From == id || v.To == id })
		if s != nil && !moving && rng.IntN(2) == 0 { // as if all had been moved away
			next := *s
			next.Groups = slot.Set{}
			c.setShard(next)
			break
		}
		c, err = RemoveShard(m, id)
	case "assign":
		c, err = AssignNode(m, node, id)
	case "release":
		c, err = ReleaseNode(m, node, rng.IntN(3))
	case "retire":
		c, err = RetireNode(m, node, rng.IntN(3))
	case "forget":
		c, err = ForgetNode(m, node, rng.IntN(3))
	case "promote":
		c, err = Promote(m, id, node)
	case "switch":
		c, err = PlannedSwitch(m, id, node)
	case "force":
		c, err = ForceUnclean(m, id, node, 0)
	case "shrink":
		c, err = Shrink(m, id, epoch, []NodeID{node})
	case "expand":
		c, err = Expand(m, id, epoch, []NodeID{node})
	case "replid":
		c, err = SetReplID(m, id, epoch, "a replid")
	case "touch":
		c, err = Touch(m, id)
	case "schema":
		c, err = SetSchema(m, m.Schema.Text+"likes", "ADD likes")
	case "move":
		var groups slot.Set
		if s != nil {
			for _, r := range s.Groups.Ranges() {
				if rng.IntN(3) == 0 {
					groups.Add(r.First)
				}
			}
			to := m.Shards[rng.IntN(len(m.Shards))]
			c, err = StartMove(m, fmt.Sprint(rng.IntN(6)), groups, id, to.ID, time.Unix(0, 0))
		}
	case "commit", "cancel", "abort", "end", "dropped", "accepted":
		if len(m.Moves) == 0 {
			break
		}
		v := m.Moves[rng.IntN(len(m.Moves))]
		switch kind {
		case "commit":
			if from, to := m.Shard(v.From), m.Shard(v.To); from != nil && to != nil {
				c, err = CommitMove(m, v.ID, v.Revision-int64(rng.IntN(5)/4), from.Epoch, 0, LogPoint{Epoch: to.Epoch})
			}
		case "cancel":
			c, err = CancelHold(m, v.ID)
		case "abort":
			c, err = AbortMove(m, v.ID, "why")
		case "end":
			c, err = EndAborted(m, v.ID)
		case "dropped":
			c, err = MoveDropped(m, v.ID)
		case "accepted":
			c, err = MoveAccepted(m, v.ID)
		}
	case "policy":
		c, err = SetPolicy(m, rng.IntN(3), 1+rng.IntN(3))
	}
	return kind, c, err
}

// checkStep wants what must hold behind every change, and between two maps.
func checkStep(t *testing.T, what string, m, next *Map) {
	t.Helper()
	for _, fault := range next.Faults() {
		t.Fatalf("%s: %s", what, fault)
	}
	for _, s := range next.Shards {
		old := m.Shard(s.ID)
		if old == nil {
			if s.ID <= m.Cluster.LastShard {
				t.Fatalf("%s: the id %d is given again", what, s.ID)
			}
			continue
		}
		if s.Epoch < old.Epoch || s.Epoch == old.Epoch && s.Primary != old.Primary {
			t.Fatalf("%s: from %+v to %+v: want one primary an epoch, and none that falls", what, old, s)
		}
	}
	for g := range 256 {
		if a, b := m.Owner(uint8(g)), next.Owner(uint8(g)); a != nil && b != nil && a.ID != b.ID && !slices.ContainsFunc(m.Moves, func(v *Move) bool {
			now := next.Move(v.ID)
			return v.State == MoveCopying && v.From == a.ID && v.To == b.ID && v.Groups.Has(uint8(g)) && now != nil && now.State == MoveCommitted
		}) {
			t.Fatalf("%s: group %d went from %d to %d", what, g, a.ID, b.ID)
		}
	}
	// A map that is updated by changes equals a map that is read anew.
	whole, err := NewMap(next.Revision, next.kvs())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describe(next), describe(whole); !slices.Equal(got, want) {
		t.Fatalf("%s: got the map %v, want %v", what, got, want)
	}
}

// kvs is the keys and values of a map in etcd.
func (m *Map) kvs() (list []KV) {
	var c Change
	add := func(key string, revision int64, value any) {
		if revision == 0 {
			return
		}
		c.Set(key, revision, value)
		list = append(list, KV{key, c.Put[len(c.Put)-1].Value, revision})
	}
	add(ClusterKey, m.Cluster.Revision, m.Cluster)
	add(SchemaKey, m.Schema.Revision, m.Schema)
	for _, n := range m.Nodes {
		add(NodeKey(n.ID), n.Revision, n)
	}
	for id, l := range m.Live {
		add(LiveKey(id), l.Revision, l)
	}
	for _, s := range m.Shards {
		add(ShardKey(s.ID), s.Revision, s)
	}
	for _, v := range m.Moves {
		add(MoveKey(v.ID), v.Revision, v)
	}
	return list
}

func describe(m *Map) []string {
	list := []string{fmt.Sprintf("%d %+v %+v %v", m.Revision, m.Cluster, m.Schema, m.Unowned())}
	for _, id := range slices.Sorted(maps.Keys(m.Nodes)) {
		list = append(list, fmt.Sprintf("%+v", *m.Nodes[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(m.Live)) {
		list = append(list, fmt.Sprintf("%s %+v", id, *m.Live[id]))
	}
	for _, s := range m.Shards {
		list = append(list, fmt.Sprintf("%+v", *s))
	}
	for _, v := range m.Moves {
		list = append(list, fmt.Sprintf("%+v", *v))
	}
	return list
}

// TestNewMapRefuses feeds values that must not become a map.
func TestNewMapRefuses(t *testing.T) {
	a, b := string(nodeID(1)), string(nodeID(2))
	for name, kvs := range map[string][]KV{
		"newer format":          {{"cluster", []byte(`{"format":2,"id":"x","minInSync":1}`), 5}},
		"no JSON":               {{"cluster", []byte(`{`), 5}},
		"two values":            {{"schema", []byte(`{"statements":[]} {}`), 5}},
		"node of another key":   {{"node/" + a, []byte(`{"id":"` + b + `","host":"h","port":1}`), 5}},
		"node without ports":    {{"node/" + a, []byte(`{"id":"` + a + `","host":"h"}`), 5}},
		"host of two words":     {{"node/" + a, []byte(`{"id":"` + a + `","host":"h h","port":1}`), 5}},
		"short id":              {{"live/abc", []byte(`{}`), 5}},
		"shard of another key":  {{"shard/2", []byte(`{"id":1,"inSync":["` + a + `"]}`), 5}},
		"primary out of sync":   {{"shard/1", []byte(`{"id":1,"epoch":1,"primary":"` + b + `","inSync":["` + a + `"]}`), 5}},
		"nobody in sync":        {{"shard/1", []byte(`{"id":1}`), 5}},
		"in sync twice":         {{"shard/1", []byte(`{"id":1,"inSync":["` + a + `","` + a + `"]}`), 5}},
		"epoch over 32 bits":    {{"shard/1", []byte(`{"id":1,"epoch":4294967296,"primary":"` + a + `","inSync":["` + a + `"]}`), 5}},
		"a primary of no epoch": {{"shard/1", []byte(`{"id":1,"primary":"` + a + `","inSync":["` + a + `"]}`), 5}},
		"bad groups":            {{"shard/1", []byte(`{"id":1,"inSync":["` + a + `"],"groups":"0-256"}`), 5}},
		"two owners": {{"shard/1", []byte(`{"id":1,"inSync":["` + a + `"],"groups":"0-9"}`), 5},
			{"shard/2", []byte(`{"id":2,"inSync":["` + b + `"],"groups":"9"}`), 5}},
		"cluster of too many replicas": {{"cluster", []byte(`{"format":1,"id":"x","minInSync":1,"replicas":9223372036854775807}`), 5}},
		"last shard of all":            {{"cluster", []byte(`{"format":1,"id":"x","minInSync":1,"lastShard":9223372036854775807}`), 5}},
		"too many must be in sync":     {{"cluster", []byte(`{"format":1,"id":"x","minInSync":1001}`), 5}},
		"negative replicas":            {{"cluster", []byte(`{"format":1,"id":"x","minInSync":1,"replicas":-1}`), 5}},
		"a cluster that is a list":     {{"cluster", []byte(`[1]`), 5}},
		"a cluster that is null":       {{"cluster", []byte(`null`), 5}},
		"a number as text":             {{"cluster", []byte(`{"format":"1","id":"x","minInSync":1}`), 5}},
		"a number with a fraction":     {{"cluster", []byte(`{"format":1.5,"id":"x","minInSync":1}`), 5}},
		"host with an escape":          {{"node/" + a, []byte(`{"id":"` + a + `","host":"h\u001b[2J","port":1}`), 5}},
		"zone with an escape":          {{"node/" + a, []byte(`{"id":"` + a + `","host":"h","port":1,"zone":"\u001b[2J"}`), 5}},
		"version of two lines":         {{"node/" + a, []byte(`{"id":"` + a + `","host":"h","port":1,"version":"1\n2"}`), 5}},
		"page with an escape":          {{"node/" + a, []byte(`{"id":"` + a + `","host":"h","port":1,"http":"h:1\u0007"}`), 5}},
		"port of 2^40":                 {{"node/" + a, []byte(`{"id":"` + a + `","host":"h","port":1099511627776}`), 5}},
		"negative shard of a node":     {{"node/" + a, []byte(`{"id":"` + a + `","host":"h","port":1,"shard":-1}`), 5}},
		"address with an escape":       {{"live/" + a, []byte(`{"address":"\u001b[31mh:1"}`), 5}},
		"process of two lines":         {{"live/" + a, []byte(`{"process":"a\r\nb"}`), 5}},
		"negative offset":              {{"live/" + a, []byte(`{"written":-1}`), 5}},
		"offset above 64 bits":         {{"live/" + a, []byte(`{"written":18446744073709551616}`), 5}},
		"shard of the last id":         {{"shard/9223372036854775807", []byte(`{"id":9223372036854775807,"inSync":["` + a + `"]}`), 5}},
		"shard with too many in sync":  {{"shard/1", manyInSync(1001), 5}},
		"groups of the wrong type":     {{"shard/1", []byte(`{"id":1,"inSync":["` + a + `"],"groups":[1]}`), 5}},
		"groups twice":                 {{"shard/1", []byte(`{"id":1,"inSync":["` + a + `"],"groups":"5-1"}`), 5}},
		"move of no groups":            {{"move/m", []byte(`{"id":"m","from":1,"to":2,"groups":"","state":"copying"}`), 5}},
		"move from a negative shard":   {{"move/m", []byte(`{"id":"m","from":-1,"to":2,"groups":"1","state":"copying"}`), 5}},
		"move to itself":               {{"move/m", []byte(`{"id":"m","from":1,"to":1,"groups":"1","state":"copying"}`), 5}},
		"unknown state":                {{"move/m", []byte(`{"id":"m","from":1,"to":2,"groups":"1","state":"gone"}`), 5}},
	} {
		m, err := NewMap(9, kvs)
		var value *ValueError
		var format *FormatError
		if m != nil || !errors.As(err, &value) && !errors.As(err, &format) {
			t.Errorf("%s: got %v, %v, want a typed error", name, m, err)
		} else if name == "newer format" && format == nil {
			t.Errorf("%s: got %v, want a FormatError", name, err)
		}
	}
	if m, err := NewMap(9, []KV{{"cluster2", []byte("?"), 1}, {"later/1", []byte("?"), 1}}); err != nil || m.Created() {
		t.Errorf("keys of others: got %v, %v", m, err)
	}
}

// manyInSync is a shard of n nodes in sync.
func manyInSync(n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",%q", nodeID(i))
	}
	return []byte(`{"id":1,"inSync":[` + b.String()[1:] + `]}`)
}

// FuzzNewMap wants no value to end the process, and each map that came out to hold what it promises.
func FuzzNewMap(f *testing.F) {
	for _, kv := range [][2]string{{"cluster", `{"format":1,"id":"x","minInSync":2,"lastShard":3}`},
		{"shard/1", `{"id":1,"epoch":3,"primary":"` + string(nodeID(1)) + `","inSync":["` + string(nodeID(1)) + `"],"groups":"0-255"}`},
		{"node/" + string(nodeID(1)), `{"id":"` + string(nodeID(1)) + `","host":"h","port":6379,"shard":1}`},
		{"live/" + string(nodeID(1)), `{"process":"p"}`}, {"schema", `{"statements":["ADD x"]}`},
		{"move/m", `{"id":"m","from":1,"to":2,"groups":"1","state":"copying"}`}} {
		f.Add(kv[0], []byte(kv[1]))
	}
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		m, err := NewMap(2, []KV{{key, value, 1}})
		if err != nil {
			return
		}
		m.Faults()
		for _, s := range m.Shards {
			if s.Primary != "" && !s.Has(s.Primary) || m.Shard(s.ID) != s {
				t.Fatalf("%s %q: got %+v", key, value, s)
			}
		}
		back, err := NewMap(2, m.kvs())
		if err != nil || !slices.Equal(describe(m), describe(back)) {
			t.Fatalf("%s %q: got %v and %v, %v", key, value, describe(m), describe(back), err)
		}
	})
}
