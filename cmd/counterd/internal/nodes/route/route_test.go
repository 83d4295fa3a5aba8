package route_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

func posts(t testing.TB) *schema.Schema {
	t.Helper()
	s, err := schema.ParseScript(strings.NewReader("add counter weibo\nadd column weibo repost hint=8 max=32 suffix=cntrn\n"+
		"add counter users\nadd column users fans hint=8 max=32 suffix=\n"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestKeys: a key is taken if what clients hash of it is the mid of its post; the key that a refusal names is one that is
// taken, and of the same post.
func TestKeys(t *testing.T) {
	s := posts(t)
	for key, taken := range map[string]bool{
		"7": true, "{7}": true, "{7}.cntrn": true, "weibo:{7}": true, "weibo:{7}.cntrn": true, "users:{7}": true,
		"7.cntrn": false, "weibo:7": false, "{weibo:7}": false, "{weibo:7}.cntrn": false, "users:7": false, "007": false, "{07}.cntrn": false,
		"news": true, "{7}.nosuch": true, "nosuch:7": true, "": true, // of no post: no redirection can be wrong
	} {
		refusal := route.Refusal(s, []byte(key))
		if (refusal == "") != taken {
			t.Errorf("%q: taken %v, want %v (%s)", key, refusal == "", taken, refusal)
			continue
		}
		if taken {
			continue
		}
		better := refusal[strings.LastIndexByte(refusal, ' ')+1:]
		if again := route.Refusal(s, []byte(better)); again != "" {
			t.Errorf("%q: to write %q is refused: %s", key, better, again)
		}
		was, _ := s.ParseKey([]byte(key))
		is, ok := s.ParseKey([]byte(better))
		if !ok || is != was {
			t.Errorf("%q: to write %q, which is another: %v, %v", key, better, is, was)
		}
	}
}

// FuzzKeys: what the quick look takes is hashed as the post's mid, or names no post.
func FuzzKeys(f *testing.F) {
	for _, key := range []string{"7", "{7}", "weibo:{7}.cntrn", "{0}", "0", "07", "{7", "{}7", "a{7}", ":{7}", "users:{9223372036854775807}", "{7}{8}", "18446744073709551616"} {
		f.Add([]byte(key))
	}
	s := posts(f)
	f.Fuzz(func(t *testing.T, key []byte) {
		k, ok := s.ParseKey(key)
		if route.Plain(key) && ok && (!route.Hashed(key, k.Mid) || slot.OfKey(key) != slot.Of(k.Mid) || route.Refusal(s, key) != "") {
			t.Errorf("%q is plain, and not hashed as %d", key, k.Mid)
		}
	})
}

// view is a cluster of two shards, whose second one has all of the third quarter, and no primary that lives; a node is free.
func view(t *testing.T, self topology.NodeID) route.View {
	t.Helper()
	var kvs []topology.KV
	put := func(key string, value any) {
		b, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		kvs = append(kvs, topology.KV{Key: key, Value: b, Revision: 1})
	}
	put(topology.ClusterKey, topology.Cluster{Format: 1, ID: "test", MinInSync: 1, Replicas: 1, LastShard: 2})
	for i, shard := range []topology.ShardID{1, 1, 1, 2, 0} {
		n := topology.Node{ID: id(i), Host: "10.0.0." + strconv.Itoa(i), Port: 6379, Version: "test", Shard: shard}
		if i == 1 {
			n.Host, n.TLSPort = "one.example", 6380
		}
		put(topology.NodeKey(n.ID), n)
		if i < 2 {
			put(topology.LiveKey(n.ID), topology.Live{Process: "p", Address: "10.0.0.1:1", Written: uint64(100 + i)})
		}
	}
	first, second := topology.Shard{ID: 1, Epoch: 9, Primary: id(0), InSync: []topology.NodeID{id(0), id(1)}}, topology.Shard{ID: 2, Epoch: 3, Primary: id(3), InSync: []topology.NodeID{id(3)}}
	for g := range slot.Groups {
		switch g / 64 {
		case 0, 1, 3:
			first.Groups.Add(uint8(g))
		case 2:
			second.Groups.Add(uint8(g))
		}
	}
	put(topology.ShardKey(1), first)
	put(topology.ShardKey(2), second)
	m, err := topology.NewMap(1, kvs)
	if err != nil {
		t.Fatal(err)
	}
	return route.View{Map: m, Self: self}
}

func id(i int) topology.NodeID { return topology.NodeID(strings.Repeat(strconv.Itoa(i), 40)) }

func TestMoved(t *testing.T) {
	for _, c := range []struct {
		self int
		of   uint16
		want string
	}{
		{1, 0, "MOVED 0 10.0.0.0:6379"}, {4, 8191, "MOVED 8191 10.0.0.0:6379"}, {0, 8192, "MOVED 8192 10.0.0.3:6379"}, {3, 16383, "MOVED 16383 10.0.0.0:6379"},
		{0, 0, route.ErrTryAgain},
	} {
		if got := view(t, id(c.self)).Moved(c.of); got != c.want {
			t.Errorf("node %d, slot %d: %q, want %q", c.self, c.of, got, c.want)
		}
	}
	if got := (route.View{Map: new(topology.Map)}).Moved(5); got != route.ErrUnserved {
		t.Errorf("nobody's slot: %q", got)
	}
	n := &topology.Node{Host: "h", Port: 1, TLSPort: 2}
	for _, secure := range []bool{false, true} {
		if _, port := (route.View{TLS: secure}).Endpoint(n); port != 1+btoi(secure) {
			t.Errorf("TLS %v: port %d", secure, port)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestSlots: every slot once, its primary first, with replicas that live.
func TestSlots(t *testing.T) {
	var out resp.Replies
	view(t, id(0)).ReplySlots(&out)
	node := func(host, port string, i int) string {
		return fmt.Sprintf("*4\r\n$%d\r\n%s\r\n:%s\r\n$40\r\n%s\r\n*0\r\n", len(host), host, port, id(i))
	}
	first := node("10.0.0.0", "6379", 0) + node("one.example", "6379", 1)
	want := "*3\r\n*4\r\n:0\r\n:8191\r\n" + first + "*3\r\n:8192\r\n:12287\r\n" + node("10.0.0.3", "6379", 3) + "*4\r\n:12288\r\n:16383\r\n" + first
	if got := string(out.From(0)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNodes: CLUSTER NODES has Redis's fields; REPLICAS has the same lines.
func TestNodes(t *testing.T) {
	v := view(t, id(1))
	want := []string{
		string(id(0)) + " 10.0.0.0:6379@0 master - 0 0 9 connected 0-8191 12288-16383",
		string(id(1)) + " one.example:6379@0 myself,slave " + string(id(0)) + " 0 0 9 connected",
		string(id(2)) + " 10.0.0.2:6379@0 slave,fail " + string(id(0)) + " 0 0 9 disconnected",
		string(id(3)) + " 10.0.0.3:6379@0 master,fail - 0 0 3 disconnected 8192-12287",
		string(id(4)) + " 10.0.0.4:6379@0 master,fail - 0 0 0 disconnected",
	}
	if got := v.Nodes(); got != strings.Join(want, "\n")+"\n" {
		t.Errorf("%s, want %s", got, strings.Join(want, "\n"))
	}
	if lines, primary, ok := v.Replicas(id(0)); !ok || !primary || !slices.Equal(lines, want[1:3]) {
		t.Errorf("replicas %q, %v, %v", lines, primary, ok)
	}
	if _, primary, ok := v.Replicas(id(1)); !ok || primary {
		t.Errorf("a replica's replicas: %v, %v", primary, ok)
	}
	if _, _, ok := v.Replicas("nobody"); ok {
		t.Error("replicas of nobody")
	}
}

func TestInfo(t *testing.T) {
	info := view(t, id(3)).Info(false)
	for _, line := range []string{"cluster_state:fail", "cluster_slots_assigned:16384", "cluster_slots_ok:12288", "cluster_slots_fail:4096", "cluster_known_nodes:5", "cluster_size:2",
		"cluster_current_epoch:9", "cluster_my_epoch:3"} {
		if !strings.Contains(info, line+"\r\n") {
			t.Errorf("no %s in %s", line, info)
		}
	}
	if !strings.HasPrefix(view(t, id(0)).Info(true), "cluster_state:ok\r\n") {
		t.Error("a node that serves is not ok")
	}
}
