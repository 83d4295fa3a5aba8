package route

import (
	"net/netip"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// ReplyShards answers CLUSTER SHARDS: each shard's slots and nodes, those that are away too.
func (v View) ReplyShards(out *resp.Replies) {
	_, byShard := v.members()
	out.Array(len(v.Map.Shards))
	for _, s := range v.Map.Shards {
		out.Map(2)
		out.BulkString("slots")
		ranges := slotsOf(s)
		out.Array(2 * len(ranges))
		for _, r := range ranges {
			out.Int(int64(r.first))
			out.Int(int64(r.last))
		}
		out.BulkString("nodes")
		out.Array(len(byShard[s.ID]))
		for _, m := range byShard[s.ID] {
			v.shardNode(out, m)
		}
	}
}

func (v View) shardNode(out *resp.Replies, m member) {
	ip, name := m.Host, ""
	if _, err := netip.ParseAddr(m.Host); err != nil {
		ip, name = "", m.Host // as in Redis where it prefers names
	}
	fields := 6
	for _, there := range []bool{m.Port != 0, m.TLSPort != 0, name != ""} {
		if there {
			fields++
		}
	}
	text := func(key, value string) {
		out.BulkString(key)
		out.BulkString(value)
	}
	number := func(key string, value int64) {
		out.BulkString(key)
		out.Int(value)
	}
	out.Map(fields)
	text("id", string(m.ID))
	if m.Port != 0 {
		number("port", int64(m.Port))
	}
	if m.TLSPort != 0 {
		number("tls-port", int64(m.TLSPort))
	}
	text("ip", ip)
	text("endpoint", m.Host)
	if name != "" {
		text("hostname", name)
	}
	role, health, offset := "replica", "fail", int64(0)
	if m.primary {
		role = "master"
	}
	if m.live != nil {
		health, offset = "online", int64(m.live.Written)
	}
	text("role", role)
	number("replication-offset", offset)
	text("health", health)
}
