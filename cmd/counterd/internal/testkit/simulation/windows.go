package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Column w of counter c counts the additions to n, which clients only ever add to. Both are deleted together, so w never has more than n.
const (
	longWindow  = "360d/6d" // nothing leaves it in a run, so w is n
	shortWindow = "10s/1s"
)

// wholeWindow tells whether nothing leaves the window: a clock of a long run may be set ahead by 300 days more than once.
func wholeWindow(r *Run) bool {
	return r.Config.Window == longWindow && (!r.Config.Quiet || r.Config.Drift == 0)
}

// windowed tells which node has no column w yet: a cluster's statement is made before all shards have it.
func windowed(r *Run) string {
	for _, m := range r.Machines {
		srv := m.server()
		if srv == nil {
			return m.name + " does not run"
		}
		if def := srv.Store().Schema().Counter("c"); def == nil || column(def, "w") < 0 {
			return m.name + " lacks it"
		}
	}
	return ""
}

// readWindow reads a post with its window, which are of one moment.
func (c *client) readWindow(key string) {
	mid, _, _ := strings.Cut(strings.TrimPrefix(key, "{"), "}")
	words := []string{"COUNTER.MGET", "c", mid, "COLUMNS", "n", "w"}
	v, got := c.exchange(key, words)
	if got != acknowledged {
		return
	}
	list := leaves(v)
	if len(list) == 1 && list[0].Null {
		return
	}
	if failing(list) != "" {
		return
	}
	if len(list) != 2 {
		c.run.Fault("%s: %v was answered %+v", c.name, words, v)
		return
	}
	n, err := strconv.ParseInt(list[0].Text(), 10, 64)
	w, also := strconv.ParseInt(list[1].Text(), 10, 64)
	if err != nil || also != nil || w > n || wholeWindow(c.run) && w < n {
		c.run.Fault("%s: the window of %s has %d of %d additions: it was read on %s", c.name, key, w, n, c.at)
	}
	c.run.Story.meet("simulation: a window was read")
}

// verifyWindows compares column w with n on all nodes, and the nodes of a shard with each other.
func verifyWindows(r *Run) {
	if r.Config.Window == "" || r.lossy {
		return
	}
	r.await("all nodes have the windows of their posts", func() string { return sameWindows(r) })
}

// sameWindows tells which node has a window that does not belong to its values, or another window than the others of its shard.
func sameWindows(r *Run) string {
	first := make(map[topology.ShardID][]uint64)
	for _, m := range r.Machines {
		srv := m.server()
		if srv == nil {
			return m.name + " does not run"
		}
		shard, ok := shardOf(r, srv)
		if !ok {
			continue
		}
		var rows []uint64
		wrong := ""
		def := srv.Store().Schema().Counter("c")
		n, w := column(def, "n"), column(def, "w")
		if n < 0 || w < 0 {
			return m.name + " lacks a column"
		}
		err := srv.Store().Find(counter.Query{Counter: def, To: schema.MaxMid, Columns: []int16{n, w}}, func(mid uint64, values []uint64) bool {
			rows = append(rows, mid, values[1])
			if values[1] > values[0] || wholeWindow(r) && values[1] < values[0] {
				wrong = fmt.Sprintf("%s: the window of post %d has %d of %d additions", m.name, mid, values[1], values[0])
			}
			return true
		})
		if err != nil {
			return fmt.Sprintf("%s: %v", m.name, err)
		}
		if wrong != "" {
			return wrong
		}
		if other, ok := first[shard]; ok && !slices.Equal(other, rows) {
			return fmt.Sprintf("%s has %v, another node of its shard %v", m.name, rows, other)
		}
		first[shard] = rows
	}
	return ""
}

// column is the index of a counter's column, or -1.
func column(def *schema.Counter, name string) int16 {
	for i := range def.Width() {
		if def.Col(i).Name == name {
			return int16(i)
		}
	}
	return -1
}
