package route

import (
	"cmp"
	"slices"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// ReplySlots answers CLUSTER SLOTS: for each range its primary, and its replicas that are there. Ranges without a
// primary are left out: nobody serves them.
func (v View) ReplySlots(out *resp.Replies) {
	type owned struct {
		slotRange
		shard *topology.Shard
	}
	_, byShard := v.members()
	var list []owned
	for _, s := range v.Map.Shards {
		if nodes := byShard[s.ID]; len(nodes) == 0 || !nodes[0].primary {
			continue
		}
		for _, r := range slotsOf(s) {
			list = append(list, owned{r, s})
		}
	}
	slices.SortFunc(list, func(a, b owned) int { return cmp.Compare(a.first, b.first) })
	out.Array(len(list))
	for _, r := range list {
		nodes := slices.DeleteFunc(slices.Clone(byShard[r.shard.ID]), func(m member) bool { return !m.primary && m.live == nil })
		out.Array(2 + len(nodes))
		out.Int(int64(r.first))
		out.Int(int64(r.last))
		for _, m := range nodes {
			host, port := v.Endpoint(m.Node)
			out.Array(4)
			out.BulkString(host)
			out.Int(int64(port))
			out.BulkString(string(m.ID))
			out.Array(0) // other names of it: none
		}
	}
}
