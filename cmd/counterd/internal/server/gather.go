package server

import (
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/gather"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/route"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
	"github.com/counterd/counterd/internal/slot"
)

// linkSettings are those of links to other nodes: as replicas have them to their primary.
func (s *Server) linkSettings() gather.Settings {
	c := s.config.Get()
	return gather.Settings{User: c.MasterUser, Password: c.MasterAuth, TLS: s.LinkTLS, Timeout: time.Duration(c.Cluster.NodeTimeout) * time.Millisecond}
}

func gatherCommands() []*row {
	return []*row{
		{Name: "counter.link", Arity: 3, Flags: command.Admin | command.NoScript | command.NoMulti | command.Fast | command.Loading | command.Stale, Group: "counterd", Since: "0.1.0", Complexity: "O(1)",
			Summary: "Internal: marks the connection as a link of another cluster node.", Syntax: "format node-id | OWNING groups | STILL groups", Run: runLink, Asks: command.NoData},
	}
}

// runLink: COUNTER.LINK format node-id | OWNING groups | STILL groups. What a link asks is answered by this node alone, or
// refused (MOVED), and in the neutral version of the protocol. OWNING answers OK if the node's shard owns just these groups,
// else the next command is refused too. STILL says behind a change whether that is so yet.
func runLink(c *client, args [][]byte) {
	owning, still := resp.EqualFold(args[1], "OWNING"), resp.EqualFold(args[1], "STILL")
	if c.internal && c.scatter == nil && (owning || still) {
		set, err := slot.ParseSet(string(args[2]))
		switch c.disowned = err != nil || c.call.store.Groups().Owned() != set; {
		case !c.disowned:
			c.call.Out.Status("OK")
		case owning:
			c.call.Out.Error(scatter.ErrOwning)
		default:
			c.disowned = false
			c.call.Out.Error(scatter.ErrStill)
		}
		return
	}
	switch format, ok := resp.Number(args[1]); {
	case c.srv.shards == nil:
		c.call.Out.Error(route.ErrNoCluster)
		return
	case !ok || format != gather.Format:
		c.call.Out.Error("ERR COUNTER.LINK: got format " + resp.Printable(args[1], 20) + ", want 1: the node is of another version")
		return
	}
	c.internal, c.scatter = true, nil
	c.info.setName(append([]byte("link:"), args[2]...))
	c.call.Out.SetProtocol(resp.Neutral)
	c.call.Out.Status("OK")
}
