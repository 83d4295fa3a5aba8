package plan

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// Control is what the map of a cluster is, and what etcd has to do while nothing happens.
type Control struct {
	Keys       int
	EtcdBytes  int // keys and values
	HeapBytes  int // of the map in a node
	SlotsReply int // bytes of an answer to CLUSTER SLOTS
	LiveBytes  int // of a key that is written again and again
	ShardBytes int

	KeepAlives  float64       // a second, which are no writes
	FigureEvery time.Duration // how often each node writes its Live
	Writes      float64       // a second
	Events      float64       // a second, to all watchers
	EventBytes  float64       // a second
	// RedisBus is what the same number of nodes of a Redis Cluster send each other: everybody pings everybody within half
	// of the node timeout and is answered, with 2256 bytes and 104 for each tenth node (the cluster's specification).
	RedisBus float64
}

// figureEvery is how often a node writes its figures.
func (p *Plan) figureEvery() time.Duration {
	return max(p.FigureEvery, time.Duration(p.Nodes)*p.FigureNode)
}

const keyPrefix = "/counterd/weibo/"

// Control makes the map of a cluster and measures it.
func (p *Plan) Control(l *layout) (Control, error) {
	var c Control
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m := p.topology(l)
	runtime.GC()
	runtime.ReadMemStats(&after)
	c.HeapBytes = max(0, int(after.HeapAlloc)-int(before.HeapAlloc))
	add := func(key string, value any) (int, error) {
		text, err := json.Marshal(value)
		c.Keys++
		c.EtcdBytes += len(key) + len(text)
		return len(key) + len(text), err
	}
	_, err := add(keyPrefix+"cluster", m.Cluster)
	for id, n := range m.Nodes {
		if err == nil {
			_, err = add(keyPrefix+"node/"+string(id), n)
		}
	}
	for id, live := range m.Live {
		if err == nil {
			c.LiveBytes, err = add(keyPrefix+"live/"+string(id), live)
		}
	}
	for _, s := range m.Shards {
		if err == nil {
			c.ShardBytes, err = add(fmt.Sprintf("%sshard/%d", keyPrefix, s.ID), s)
		}
		c.SlotsReply += slotsReply(m, s)
	}
	if err != nil {
		return c, err
	}
	c.FigureEvery = p.figureEvery()
	c.KeepAlives = float64(p.Nodes) / (p.NodeTimeout / 3).Seconds()
	c.Writes = float64(p.Nodes) / c.FigureEvery.Seconds()
	c.Events = c.Writes * float64(p.Nodes)
	c.EventBytes = c.Events * float64(c.LiveBytes)
	pings := float64(p.Nodes) * float64(p.Nodes-1) / (p.NodeTimeout / 2).Seconds()
	c.RedisBus = 2 * pings * (2256 + 104*max(3, float64(p.Nodes)/10))
	runtime.KeepAlive(m)
	return c, nil
}

// topology is the map as nodes hold it.
func (p *Plan) topology(l *layout) *topology.Map {
	m := &topology.Map{Cluster: topology.Cluster{Format: 1, ID: randomHex(16), Created: time.Unix(1<<31, 0).UTC(), Replicas: p.Copies - 1, MinInSync: min(2, p.Copies)},
		Nodes: map[topology.NodeID]*topology.Node{}, Live: map[topology.NodeID]*topology.Live{}}
	ids := make([]topology.NodeID, p.Nodes)
	for i := range ids {
		ids[i] = topology.NodeID(randomHex(20))
		host := fmt.Sprintf("10.20.%d.%d", l.rack(i), l.nodes[i].machine)
		m.Nodes[ids[i]] = &topology.Node{ID: ids[i], Host: host, Port: 7000 + i%100, HTTP: host + ":9121", Zone: fmt.Sprintf("rack-%d", l.rack(i)), Version: "0.1.0", Shard: topology.ShardID(l.nodes[i].shard + 1)}
		m.Live[ids[i]] = &topology.Live{Process: randomHex(8), Address: fmt.Sprintf("%s:%d", host, 7000+i%100), Epoch: 12, Written: 1 << 42, Durable: 1 << 42,
			Posts: uint64(p.Posts / float64(p.Shards())), Bytes: uint64(p.dataBytes() / float64(p.Shards())), Ops: uint64(p.Increments / float64(p.Shards()))}
	}
	for s, members := range l.members {
		shard := &topology.Shard{ID: topology.ShardID(s + 1), Epoch: 12, Primary: ids[members[0]], ReplID: randomHex(20)}
		for _, n := range members {
			shard.InSync = append(shard.InSync, ids[n])
		}
		for g := s * slot.Groups / len(l.members); g < (s+1)*slot.Groups/len(l.members); g++ {
			shard.Groups.Add(uint8(g))
		}
		m.Shards = append(m.Shards, shard)
	}
	return m
}

// slotsReply is how many bytes a shard has in CLUSTER SLOTS: an entry for each range, with host, port and id of each
// node.
func slotsReply(m *topology.Map, s *topology.Shard) int {
	entry := len("*3\r\n:12345\r\n:12345\r\n")
	for _, id := range s.InSync {
		entry += len("*4\r\n$12\r\n\r\n:7000\r\n$40\r\n\r\n*0\r\n") + len(m.Nodes[id].Host) + len(id)
	}
	return entry * len(s.Groups.Ranges())
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
