package route

import (
	"fmt"
	"strings"

	"github.com/counterd/counterd/internal/slot"
)

// Info is what CLUSTER INFO answers. ok tells whether this node serves its part. Messages are those of a cluster bus,
// and there is none.
func (v View) Info(ok bool) string {
	assigned, served, size := 0, 0, 0
	epoch, mine := uint64(0), uint64(0)
	for _, s := range v.Map.Shards {
		n := s.Groups.Len() * slot.PerGroup
		assigned += n
		if v.Map.Live[s.Primary] != nil {
			served += n
		}
		if n > 0 {
			size++
		}
		epoch = max(epoch, s.Epoch)
		if self := v.Map.Nodes[v.Self]; self != nil && self.Shard == s.ID {
			mine = s.Epoch
		}
	}
	state := "ok"
	if !ok {
		state = "fail"
	}
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%s:%v\r\n", name, value) }
	line("cluster_state", state)
	line("cluster_slots_assigned", assigned)
	line("cluster_slots_ok", served)
	line("cluster_slots_pfail", 0)
	line("cluster_slots_fail", assigned-served)
	line("cluster_known_nodes", len(v.Map.Nodes))
	line("cluster_size", size)
	line("cluster_current_epoch", epoch)
	line("cluster_my_epoch", mine)
	line("cluster_stats_messages_sent", 0)
	line("cluster_stats_messages_received", 0)
	line("total_cluster_links_buffer_limit_exceeded", 0)
	return b.String()
}
