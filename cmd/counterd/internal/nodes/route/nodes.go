package route

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// Nodes is what CLUSTER NODES answers: a line for each node, in which tools look for what Redis has there. There is no
// cluster bus: its port is 0, and there are no pings.
func (v View) Nodes() string {
	all, _ := v.members()
	var b strings.Builder
	for _, m := range all {
		v.line(&b, m)
		b.WriteByte('\n')
	}
	return b.String()
}

// Replicas are the lines of a node's replicas; ok is false for a node that there is not.
func (v View) Replicas(of topology.NodeID) (lines []string, primary, ok bool) {
	n := v.Map.Nodes[of]
	if n == nil {
		return nil, false, false
	}
	_, byShard := v.members()
	list := byShard[n.Shard]
	if len(list) == 0 || list[0].ID != of || !list[0].primary {
		return nil, false, true
	}
	for _, m := range list[1:] {
		var b strings.Builder
		v.line(&b, m)
		lines = append(lines, b.String())
	}
	return lines, true, true
}

// line appends "id ip:port@bus flags primary ping pong epoch link slots ...".
func (v View) line(b *strings.Builder, m member) {
	host, port := v.Endpoint(m.Node)
	fmt.Fprintf(b, "%s %s:%d@0 ", m.ID, host, port)
	if m.ID == v.Self {
		b.WriteString("myself,")
	}
	leader, epoch, link := "-", uint64(0), "connected"
	if m.shard != nil {
		epoch = m.shard.Epoch
	}
	if m.shard == nil || m.primary || m.shard.Primary == "" { // a free node is a primary of nothing
		b.WriteString("master")
	} else {
		b.WriteString("slave")
		leader = string(m.shard.Primary)
	}
	if m.live == nil {
		b.WriteString(",fail")
		link = "disconnected"
	}
	fmt.Fprintf(b, " %s 0 0 %d %s", leader, epoch, link)
	if !m.primary {
		return
	}
	for _, r := range slotsOf(m.shard) {
		b.WriteString(" " + strconv.Itoa(r.first) + "-" + strconv.Itoa(r.last))
	}
}
