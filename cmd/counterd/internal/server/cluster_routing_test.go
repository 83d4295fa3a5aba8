// Scenario: nodes of a cluster serve their hash slots and redirect commands for all others.

package server

import (
	"bufio"
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/freeport"
)

// testCluster is servers in this process that are told what their parts are by the test.
type testCluster struct {
	t        testing.TB
	srv      []*Server
	nodes    []topology.Node
	shards   []topology.Shard
	down     map[int]bool // nodes that have no lease
	schema   topology.Schema
	revision int64
	change   func(i int, st *cluster.Standing)
}

// testNodeID is that of node i.
func testNodeID(i int) topology.NodeID {
	return topology.NodeID(fmt.Sprintf("%x", sha1.Sum([]byte{byte(i)})))
}

// startCluster starts servers whose shards have the numbers of nodes that of says, and equal parts of the groups.
func startCluster(t testing.TB, change func(*config.Config), of ...int) *testCluster {
	t.Helper()
	return startClusterIn(t, func(int, *counter.Options) string { return "" }, change, of...)
}

// startClusterIn is startCluster with stores in the directories that dir returns. dir may change the options of node i's store.
func startClusterIn(t testing.TB, dir func(i int, o *counter.Options) string, change func(*config.Config), of ...int) *testCluster {
	t.Helper()
	k := &testCluster{t: t, down: map[int]bool{}}
	for s, size := range of {
		shard := topology.Shard{ID: topology.ShardID(s + 1), Epoch: uint64(s + 7), Primary: testNodeID(len(k.nodes))}
		for g := s * slot.Groups / len(of); g < (s+1)*slot.Groups/len(of); g++ {
			shard.Groups.Add(uint8(g))
		}
		for range size {
			id := testNodeID(len(k.nodes))
			port := freeport.Take(t)
			options := counter.Options{SlotGroups: len(k.nodes)%2 == 1} // a directory that was a server's of its own is not
			in := dir(len(k.nodes), &options)
			srv := wireServeStore(t, in, options, func(c *config.Config) {
				c.Port, c.Bind = port, []string{"127.0.0.1"}
				c.Cluster.Enabled, c.Cluster.Name, c.Cluster.Etcd = true, "test", []string{"http://127.0.0.1:1"}
				c.AppendOnly = true
				if change != nil {
					change(c)
				}
			})
			conf := srv.config.Get()
			shard.InSync = append(shard.InSync, id)
			k.srv = append(k.srv, srv)
			k.nodes = append(k.nodes, topology.Node{ID: id, Host: "127.0.0.1", Port: conf.Port, TLSPort: conf.TLS.Port, Version: "test", Shard: shard.ID})
		}
		k.shards = append(k.shards, shard)
	}
	k.stand()
	return k
}

// view is the map of the cluster as it is now.
func (k *testCluster) view() *topology.Map {
	k.t.Helper()
	k.revision++
	var kvs []topology.KV
	put := func(key string, value any) {
		b, err := json.Marshal(value)
		if err != nil {
			k.t.Fatal(err)
		}
		kvs = append(kvs, topology.KV{Key: key, Value: b, Revision: k.revision})
	}
	put(topology.ClusterKey, topology.Cluster{Format: 1, ID: "test", MinInSync: 1, Replicas: 1, LastShard: topology.ShardID(len(k.shards))})
	put(topology.SchemaKey, k.schema)
	for i, n := range k.nodes {
		put(topology.NodeKey(n.ID), n)
		if !k.down[i] {
			put(topology.LiveKey(n.ID), topology.Live{Process: fmt.Sprint("process", i), Address: "127.0.0.1:" + strconv.Itoa(n.Port), Written: uint64(100 + i)})
		}
	}
	for _, s := range k.shards {
		put(topology.ShardKey(s.ID), s)
	}
	m, err := topology.NewMap(k.revision, kvs)
	if err != nil {
		k.t.Fatal(err)
	}
	return m
}

// stand tells all servers what they are.
func (k *testCluster) stand() {
	k.t.Helper()
	m := k.view()
	for i, srv := range k.srv {
		st := &cluster.Standing{Map: m, Self: k.nodes[i].ID, Until: time.Now().Add(time.Hour)}
		if shard := m.Shard(k.nodes[i].Shard); shard != nil {
			st.Shard, st.Primary, st.Leader, st.Owned = shard, shard.Primary == st.Self, shard.Primary, shard.Groups
		}
		if !st.Primary {
			st.Writes = "CLUSTERDOWN The node is a replica"
		}
		if k.change != nil {
			k.change(i, st)
		}
		before := srv.cluster.Now().Owned
		srv.Store().Groups().Own(st.Owned.Union(before))
		srv.cluster.SetStanding(st)
		srv.Store().Groups().Own(st.Owned)
	}
}

// move gives a group to another shard, with its posts: what the source's clients change is held while it is copied.
func (k *testCluster) move(group uint8, to int) {
	k.t.Helper()
	from := slices.IndexFunc(k.shards, func(s topology.Shard) bool { return s.Groups.Has(group) })
	source, target := k.srv[k.primary(from)], k.srv[k.primary(to)]
	release := source.role.HoldWrites(patience)
	defer release()
	if source != target { // or who remembers it as an owner of before would find it one while it has not all yet
		c := k.dial(k.primary(to), 2)
		c.want("CLIENT PAUSE 1000000 WRITE", "+OK")
		defer c.want("CLIENT UNPAUSE", "+OK")
	}
	more := k.shards[to].Groups
	more.Add(group)
	target.Store().Groups().Own(more)
	for cursor := uint64(0); ; {
		items, next, err := source.Store().Scan(cursor, 1000)
		if err != nil {
			k.t.Fatal(err)
		}
		for _, it := range items {
			if slot.Group(it.Mid) != group {
				continue
			}
			for i := range it.Counter.Columns {
				key := string(source.Store().Schema().AppendKey(nil, it.Counter, i, it.Mid))
				v, _, err := source.Store().Get(key)
				if err == nil {
					err = target.Store().Set(key, v)
				}
				if err != nil {
					k.t.Fatal(err)
				}
			}
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	k.shards[from].Groups.Remove(group)
	k.shards[to].Groups.Add(group)
	k.stand()
}

// dial connects to node i.
func (k *testCluster) dial(i, proto int) *wireClient {
	k.t.Helper()
	return k.dialPort(k.nodes[i].Port, proto)
}

// dialPort connects to a port.
func (k *testCluster) dialPort(port, proto int) *wireClient {
	k.t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := &wireClient{t: k.t, conn: conn, r: bufio.NewReader(conn), proto: proto}
	if proto == 3 {
		c.do("HELLO 3")
	}
	return c
}

// mid is post n of those that a shard has, counted from 0.
func (k *testCluster) mid(shard, n int) uint64 {
	for mid := uint64(19089006000); ; mid++ {
		if k.shards[shard].Groups.Has(slot.Group(mid)) {
			if n--; n < 0 {
				return mid
			}
		}
	}
}

// primary is the number of a shard's primary.
func (k *testCluster) primary(shard int) int {
	return slices.IndexFunc(k.nodes, func(n topology.Node) bool { return n.ID == k.shards[shard].Primary })
}

// moved is the redirection of a mid to a shard's primary.
func (k *testCluster) moved(of uint16, shard int) string {
	return fmt.Sprintf("-MOVED %d 127.0.0.1:%d", of, k.nodes[k.primary(shard)].Port)
}

// TestClusterRouting: each command is executed where the slot of its keys is, and where it is not, nothing is done.
func TestClusterRouting(t *testing.T) {
	k := startCluster(t, nil, 1, 2, 1)
	here, there := k.mid(0, 0), k.mid(1, 0)
	away := k.moved(slot.Of(there), 1)
	for _, proto := range []int{2, 3} {
		c := k.dial(0, proto)
		null := c.do("GET {19089006004}.nosuch").String()
		do := func(command, reply string) {
			t.Helper()
			for _, word := range [][2]string{{"HERE", fmt.Sprint(here)}, {"AWAY", fmt.Sprint(there)}, {"NEXT", fmt.Sprint(k.mid(0, 1))}} {
				command = strings.ReplaceAll(command, word[0], word[1])
			}
			c.want(command, reply)
		}
		do("DEL HERE", c.do(fmt.Sprintf("EXISTS %d", here)).String())
		do("INCR {HERE}.cntrn", ":1")
		do("GET {HERE}.cntrn", `"1"`)
		do("GET weibo:{HERE}.cntrn", `"1"`)
		do("HGET HERE repost", `"1"`)
		for _, command := range []string{"INCR {AWAY}.cntrn", "GET {AWAY}.cntrn", "HGETALL AWAY", "HMGET AWAY comment repost", "HVALS AWAY", "HSCAN AWAY 0", "GETDEL {AWAY}.cntrn", "EXISTS AWAY", "HGETALL weibo:{AWAY}", "MGET {AWAY}.cntrn {AWAY}.cntcm", "WATCH {AWAY}.cntrn", "DEL AWAY",
			"EXPIRE AWAY 10", "OBJECT ENCODING AWAY", "MEMORY USAGE AWAY", "COUNTER.MINCRBY {AWAY}.cntrn 1 {AWAY}.cntcm 1 QUIET", "INCRBY {AWAY}.cntrn 1 IDMP p 1"} {
			do(command, away)
		}
		do("GET other{AWAY}", away) // names nothing, and is where clients look for it
		do("GET other{HERE}", null) // the same here
		do("INCR other{HERE}", c.do(fmt.Sprintf("INCR other{%d}", here)).String())
		const wrong = "-ERR clients of a cluster hash '%s' as it stands, and its post is kept by its mid: write %s"
		for key, right := range map[string]string{"%d.cntrn": "{%d}.cntrn", "weibo:%d": "%d", "weibo:%d.cntcm": "{%d}.cntcm", "{weibo:%d}": "%d", "00%d": "%d", "{0%d}.cntrn": "{%d}.cntrn"} {
			for _, mid := range []uint64{here, there} {
				key, right := fmt.Sprintf(key, mid), fmt.Sprintf(right, mid)
				do("GET "+key, fmt.Sprintf(wrong, key, right))
				do("MSET {HERE}.cntcm 1 "+key+" 1", fmt.Sprintf(wrong, key, right))
			}
		}
		const cross = "-CROSSSLOT Keys in request don't hash to the same slot"
		do("MSET {HERE}.cntrn 1 {AWAY}.cntrn 1", cross)
		do("MSET {HERE}.cntrn 1 {NEXT}.cntrn 1", cross)
		do("MSET {HERE}.cntrn 5 {HERE}.cntcm 6", "+OK")
		do("DEL HERE NEXT", cross)
		do("COUNTER.MINCRBY {HERE}.cntrn 1 {NEXT}.cntcm 1 QUIET", cross)
		do("COUNTER.DRAIN {HERE}.cntrn {NEXT}.cntcm", cross)
		do("WATCH HERE NEXT", cross)
		do("GET {HERE}.cntrn", `"5"`)

		// Transactions have one slot, whatever they do there.
		do("MULTI", "+OK")
		do("INCR {HERE}.cntrn", "+QUEUED")
		do("GET {HERE}.cntcm", "+QUEUED")
		do("EXEC", `[:6 "6"]`)
		do("MULTI", "+OK")
		do("INCR {HERE}.cntrn", "+QUEUED")
		do("GET {NEXT}.cntcm", "+QUEUED")
		do("EXEC", cross)
		do("EXEC", "-ERR EXEC without MULTI")
		do("MULTI", "+OK")
		do("INCR {HERE}.cntrn", "+QUEUED")
		do("INCR {AWAY}.cntrn", away)
		do("EXEC", "-EXECABORT Transaction discarded because of previous errors.")
		do("MULTI", "+OK")
		do("MGET {HERE}.cntrn {NEXT}.cntrn", cross)
		do("DISCARD", "+OK")
		do("GET {HERE}.cntrn", `"6"`)

		do("SELECT 0", "+OK")
		do("ASKING", "+OK")
		do("READONLY", "+OK")
		do("GET {AWAY}.cntrn", away) // another shard's
		do("READWRITE", "+OK")
		want := "[\"0\" [\"" + fmt.Sprint(here) + "\"]]"
		do("SCAN 0", want)
		do("SCAN 0 MATCH *.cntcm", "[\"0\" [\"{"+fmt.Sprint(here)+"}.cntcm\"]]")
	}
	k.dial(1, 2).want(fmt.Sprintf("EXISTS %d", there), ":0") // what was refused was not done there either
}

// TestClusterReplica: a replica sends everybody to its primary, but reads of those that said READONLY.
func TestClusterReplica(t *testing.T) {
	k := startCluster(t, nil, 1, 2)
	mid, other := k.mid(1, 0), k.mid(0, 0)
	c := k.dial(2, 2)
	away := k.moved(slot.Of(mid), 1)
	get := fmt.Sprintf("GET {%d}.cntrn", mid)
	c.want(get, away)
	c.want("READONLY", "+OK")
	c.want(get, "nil")
	c.want(fmt.Sprintf("MGET {%d}.cntrn {%d}.cntcm", mid, mid), "[nil nil]")
	c.want(fmt.Sprintf("INCR {%d}.cntrn", mid), away)
	c.want(fmt.Sprintf("GET {%d}.cntrn", other), k.moved(slot.Of(other), 0))
	c.want("MULTI", "+OK")
	c.want(get, "+QUEUED")
	c.want("EXEC", "[nil]")
	c.want("MULTI", "+OK")
	c.want(get, "+QUEUED")
	c.want(fmt.Sprintf("INCR {%d}.cntrn", mid), away)
	c.want("EXEC", "-EXECABORT Transaction discarded because of previous errors.")
	c.want("READWRITE", "+OK")
	c.want(get, away)
	c.want("READONLY", "+OK")
	c.want("RESET", "+RESET")
	c.want(get, away)
}

// TestClusterCameMeanwhile has the store refuse a slot that the node's standing has by then: the client is to ask again here,
// where it waits until the store has it.
func TestClusterCameMeanwhile(t *testing.T) {
	k := startCluster(t, nil, 1, 2)
	w, mid := k.dial(0, 2), k.mid(0, 0)
	command := fmt.Sprintf("INCR {%d}.cntrn", mid)
	less := slot.AllGroups()
	less.Remove(slot.Group(mid))
	k.srv[0].store().Groups().Own(less)
	w.want(command, k.moved(slot.Of(mid), 0))
	w.want("MULTI", "+OK")
	w.want(command, "+QUEUED")
	w.want("EXEC", k.moved(slot.Of(mid), 0))
	k.srv[0].store().Groups().Own(slot.AllGroups())
	w.want(command, ":1")
}

// provokeCluster: what a node of a cluster does not take.
func provokeCluster(p provoker) {
	k := startCluster(p.T, nil, 1, 2)
	s, w := k.srv[0], k.dial(0, 2)
	here, away := k.mid(0, 0), k.mid(1, 0)
	w.want(fmt.Sprintf("SET {%d}.cntcm 5", here), "+OK")
	for _, c := range [][2]string{
		{"INCR {AWAY}.cntcm", "MOVED "}, {"MSET {HERE}.cntcm 1 {AWAY}.cntcm 1", "CROSSSLOT "}, {"INCR HERE.cntcm", "ERR clients of a cluster hash '"},
		{"CLUSTER MEET 127.0.0.1 1", "ERR the cluster is managed with counterctl cluster"}, {"CLUSTER REPLICAS nobody", "ERR Unknown node "},
		{"CLUSTER REPLICAS " + string(k.nodes[2].ID), "ERR The specified node is not a master"}, {"CLUSTER FAILOVER", "ERR You should send CLUSTER FAILOVER to a replica"},
		{"CLUSTER FAILOVER NOW", items.ErrSyntax}, {"CLUSTER COUNTKEYSINSLOT 16384", "ERR Invalid slot"}, {"CLUSTER COUNTKEYSINSLOT x", items.ErrNotInteger},
		{"CLUSTER GETKEYSINSLOT 1 -1", "ERR Invalid slot or number of keys"}, {"CLUSTER GETKEYSINSLOT 1 x", items.ErrNotInteger},
	} {
		command := strings.NewReplacer("HERE", fmt.Sprint(here), "AWAY", fmt.Sprint(away)).Replace(c[0])
		p.refused(s, w, command, c[1])
	}
	link := k.dial(2, 2)
	link.want("COUNTER.LINK 1 x", "+OK")
	p.refused(k.srv[2], link, fmt.Sprintf("GET %d.cntcm", away), "TRYAGAIN The node is not the primary")
	w.want("MULTI", "+OK")
	w.want("CLUSTER GETKEYSINSLOT 1 1", "+QUEUED")
	p.heard(w.do("EXEC").List[0].String(), "ERR posts of a hash slot are not looked for in a transaction")
	w.want("MULTI", "+OK")
	w.want(fmt.Sprintf("COUNTER.MGET weibo %d %d", here, away), "+QUEUED")
	p.refused(s, w, "EXEC", "CROSSSLOT the transaction reads posts of several shards")
	w.want("MULTI", "+OK")
	p.refused(s, w, "COUNTER.UPDATE weibo WHERE comment > 0 INCR comment 1", "CROSSSLOT COUNTER.UPDATE in a transaction would change posts of several nodes")
	w.want("DISCARD", "+OK")
	incr := fmt.Sprintf("INCR {%d}.cntcm", here)
	stand := func(change func(st *cluster.Standing)) {
		p.Helper()
		k.change = func(i int, st *cluster.Standing) {
			if i == 0 {
				change(st)
			}
		}
		k.stand()
	}
	stand(func(st *cluster.Standing) { st.Writes = "CLUSTERDOWN as the agent says" })
	p.refused(s, w, incr, "CLUSTERDOWN as the agent says")
	p.refused(s, w, "FLUSHALL", "CLUSTERDOWN as the agent says")
	p.refused(s, w, "ADD COLUMN weibo x hint=8", route.ErrDown)
	w.want("MULTI", "+OK")
	p.refused(s, w, "ADD COLUMN weibo x hint=8", "ERR the schema of a cluster cannot be changed in a transaction")
	w.want("DISCARD", "+OK")
	p.refused(k.srv[2], k.dial(2, 2), "FLUSHALL", items.ErrReadOnly)
	stand(func(st *cluster.Standing) { st.Until = time.Now() })
	p.refused(s, w, fmt.Sprintf("GET {%d}.cntcm", here), "CLUSTERDOWN ")
	p.refused(s, w, "COUNTER.FIND weibo", "CLUSTERDOWN ")
	stand(func(st *cluster.Standing) { st.Owned = slot.Set{} })
	p.refused(s, w, incr, route.ErrTryAgain)
	stand(func(st *cluster.Standing) { st.Owned, st.Lacking = slot.Set{}, slot.AllGroups() }) // nothing moves: posts are lost
	p.refused(s, w, incr, route.ErrLacking)
	stand(func(st *cluster.Standing) { // nothing moves: the map names this node, which does not lead yet
		st.Owned, st.Primary, st.Reads, st.Writes = slot.Set{}, false, "CLUSTERDOWN as the agent says", "CLUSTERDOWN as the agent says"
	})
	p.refused(s, w, incr, "CLUSTERDOWN as the agent says")
	stand(func(st *cluster.Standing) { st.Map = nil })
	p.refused(s, w, fmt.Sprintf("INCR {%d}.cntcm", away), route.ErrUnserved)
	stand(func(st *cluster.Standing) { st.Shard, st.Primary, st.Owned = nil, false, slot.Set{} })
	p.refused(s, w, "CLUSTER FAILOVER", "ERR this node is of no shard")

	fresh := wireServe(p.T, func(c *config.Config) {
		c.Cluster.Enabled, c.Cluster.Name, c.Cluster.Etcd, c.AppendOnly, c.Port, c.Bind = true, "test", []string{"http://127.0.0.1:1"}, true, freeport.Take(p), []string{"127.0.0.1"}
	})
	p.refused(fresh, wireDial(p, fresh, 2), "FLUSHALL", route.ErrDown)
}

// TestClusterReplicaLink: a replica refuses the reads of another node's link, so a node that does not know the new primary yet gives nobody
// what the old one has.
func TestClusterReplicaLink(t *testing.T) {
	k := startCluster(t, nil, 1, 2)
	mid := k.mid(1, 0)
	const refused = "-TRYAGAIN The node is not the primary of its shard any more"
	for i, want := range [][2]string{1: {"nil", "[nil]"}, 2: {refused, refused}} {
		link := k.dial(i, 2)
		link.want("COUNTER.LINK 1 x", "+OK")
		if want[0] != "" {
			link.want(fmt.Sprintf("GET %d.cntcm", mid), want[0])
			link.want(fmt.Sprintf("MGET %d.cntcm", mid), want[1])
		}
	}
}

// TestShardChannelMoves: a subscriber of a shard channel is told when the channel's slot has moved away, by the node that was its primary, too: that node stops serving the slot before
// the map gives it to another shard. It was told nothing, and no message came any more.
func TestShardChannelMoves(t *testing.T) {
	k := startCluster(t, nil, 1, 1)
	name, group := "", uint8(0)
	for i := 0; name == "" || !k.shards[0].Groups.Has(group); i++ {
		name = fmt.Sprint("news", i)
		group = slot.GroupOf(slot.OfKey([]byte(name)))
	}
	sub := k.dial(0, 2)
	sub.want("SSUBSCRIBE "+name, fmt.Sprintf(`["ssubscribe" %q :1]`, name))
	k.change = func(i int, st *cluster.Standing) { // held for the end of the move
		st.Owned.Remove(group)
	}
	k.stand()
	k.dial(0, 2).want("PUBSUB SHARDCHANNELS", fmt.Sprintf("[%q]", name))
	k.change = nil
	k.shards[0].Groups.Remove(group)
	k.shards[1].Groups.Add(group)
	k.stand()
	if got, want := sub.read().String(), fmt.Sprintf(`["sunsubscribe" %q :0]`, name); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestSwitchHolds: while the role of primary changes, commands on any port wait for the outcome, for half a second at most. They were refused at once, beside each planned failover.
func TestSwitchHolds(t *testing.T) {
	k := serveForward(t, 2, nil)
	k.hurry(time.Minute)
	mid := k.mid(0, 0)
	k.forward(0, 2).want(fmt.Sprintf("SET %d.cntcm 1", mid), "+OK")
	changes := func(i int, st *cluster.Standing) {
		if i == 0 {
			st.Reads, st.Writes = cluster.ErrSwitch, cluster.ErrSwitch
		}
	}
	for _, command := range []string{"INCR {%d}.cntcm", "GET {%d}.cntcm"} {
		k.change = changes
		k.stand()
		command = fmt.Sprintf(command, mid)
		c, answer := k.dial(0, 2), make(chan string, 1)
		go func() { answer <- c.do(command).String() }()
		untilBlocked(t, k.srv[0], 1)
		k.change = nil
		k.stand()
		if got := <-answer; got != ":2" && got != `"2"` {
			t.Errorf("%s: %s", command, got)
		}
	}
	k.change = changes
	k.stand()
	c, answer := k.forward(0, 2), make(chan string, 1)
	go func() { answer <- c.do("COUNTER.SUM weibo comment").String() }()
	untilBlocked(t, k.srv[0], 1)
	k.change = nil
	k.stand()
	if got := <-answer; got != ":2" {
		t.Errorf("a query of all shards: %s", got)
	}
	k.change = changes
	k.stand()
	for range 2 { // nobody waits for long, and nobody behind that
		k.dial(0, 2).want(fmt.Sprintf("GET {%d}.cntcm", mid), "-"+cluster.ErrSwitch)
	}
}
