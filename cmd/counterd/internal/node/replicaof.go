package node

import (
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
)

// replicaOf: REPLICAOF host port | NO ONE. In a transaction, where the store is held, the change is made right
// behind it.
func (n *Node) replicaOf(c Conn, args [][]byte) {
	out := &c.Call().Out
	if n.handover.state() != PhaseNone && !n.handover.isStuck() {
		out.Error("ERR REPLICAOF not allowed while failing over.")
		return
	}
	var primary repl.Address
	if !resp.EqualFold(args[1], "NO") || !resp.EqualFold(args[2], "ONE") {
		port, ok := resp.Number(args[2])
		if !ok || port < 0 || port > 65535 {
			out.Error("ERR Invalid master port")
			return
		}
		if len(args[1]) > 255 {
			out.Error("ERR Invalid master host")
			return
		}
		primary = repl.Address{Host: string(args[1]), Port: int(port)}
	}
	if !n.host.Store().Durable() && primary != (repl.Address{}) {
		out.Error(items.ErrMemoryOnly + ": a replica needs a log")
		return
	}
	elected := c.Executing() && fromSentinel(c.Name())
	change := func() (err error) {
		n.handover.cede()
		switch {
		case primary != repl.Address{}:
			err = n.repl.Follow(primary)
		case elected:
			err = n.leadForSentinel()
		default:
			err = n.repl.Lead()
		}
		if err == nil { // not before: until it is a replica, a primary that waits takes no changes
			n.awaiting.Store(awaitNothing)
			err = n.repl.ForgetHandover()
		}
		n.RoleChanged()
		return err
	}
	if primary != (repl.Address{}) && n.repl.Follows(primary) && n.handover.state() == PhaseNone {
		out.Status("OK Already connected to specified master")
		return
	}
	n.setReplicaOf(primary)
	if c.Executing() {
		go func() {
			if err := change(); err != nil {
				n.log.Error("the role was not changed", "error", err)
			}
		}()
		out.Status("OK")
		return
	}
	if err := change(); err != nil {
		c.Call().StoreError(err)
		return
	}
	out.Status("OK")
}

// role: ROLE.
func (n *Node) role(c Conn, _ [][]byte) {
	out := &c.Call().Out
	store := n.host.Store()
	offset := store.Replication().Written()
	if !n.Replica() {
		var online []repl.PeerInfo
		for _, i := range n.repl.Peers().Infos() {
			if i.Online {
				online = append(online, i)
			}
		}
		out.Array(3)
		out.BulkString("master")
		out.Int(int64(offset))
		out.Array(len(online))
		for _, i := range online {
			out.Array(3)
			out.BulkString(i.IP)
			out.BulkString(strconv.Itoa(i.Port))
			out.BulkString(strconv.FormatUint(i.Applied, 10))
		}
		return
	}
	info, ok := n.repl.Link()
	if !ok { // of nobody, or of the one that it is handing its role over to: whoever asks must not tell it to lead
		info.State, info.Primary = repl.LinkConnect, n.handover.target()
	}
	out.Array(5)
	out.BulkString("slave")
	out.BulkString(info.Primary.Host)
	out.Int(int64(info.Primary.Port))
	out.BulkString(string(info.State))
	out.Int(int64(offset))
}
