package role

import (
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
)

// replicaOf: REPLICAOF host port | NO ONE. In a transaction, where the store is held, the change is made right
// behind it.
func (n *Role) replicaOf(c Conn, args [][]byte) {
	out := &c.Call().Out
	if n.elected != "" {
		out.Error("ERR REPLICAOF not allowed in cluster mode.")
		return
	}
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
		if host, port, err := config.ParsePrimary(settingOf(primary)); err != nil || host != primary.Host || port != primary.Port {
			out.Error("ERR Invalid master host or port: replicaof cannot hold them") // nor could a file of settings
			return
		}
	}
	if n.host.Opening() { // it looks for a node that has its data: see NamesHelper
		if !n.told.tell(primary) {
			out.Error(items.ErrLoading)
			return
		}
		toFollow(n, primary)
		out.Status("OK")
		return
	}
	if !n.host.Store().Durable() && primary != (repl.Address{}) {
		out.Error(items.ErrMemoryOnly + ": a replica needs a log")
		return
	}
	elected := c.Executing() && fromSentinel(c.Name())
	if primary != (repl.Address{}) && n.repl.Follows(primary) && n.handover.state() == PhaseNone {
		out.Status("OK Already connected to specified master")
		return
	}
	if c.Executing() {
		before := n.config.Get().ReplicaOf
		n.setReplicaOf(primary) // Sentinel sends a CONFIG REWRITE after it
		go func() {
			if err := n.becomes(primary, elected); err != nil {
				n.log.Error("cannot change the role", "error", err)
				n.roles.Lock()
				defer n.roles.Unlock()
				if n.config.Get().ReplicaOf == settingOf(primary) {
					n.config.SetReplicaOf(before)
				}
			}
		}()
		out.Status("OK")
		return
	}
	if err := n.becomes(primary, elected); err != nil {
		c.Call().StoreError(err)
		return
	}
	out.Status("OK")
}

// toFollow notes, while the store is being opened, the primary that Start follows; zero: none.
func toFollow(n *Role, primary repl.Address) {
	n.wasReplica.Store(primary != repl.Address{})
	n.setReplicaOf(primary)
}

// becomes makes this node a replica of a primary; of none: the primary, as Sentinel has it elected or as a person says.
// On an error role and setting stay as they were.
func (n *Role) becomes(primary repl.Address, elected bool) error {
	n.handover.cede()
	if elected {
		if err := n.askForHandover(); err != nil {
			return err
		}
	}
	n.roles.Lock()
	defer n.roles.Unlock()
	defer n.RoleChanged()
	var err error
	if primary == (repl.Address{}) {
		err = n.repl.Lead()
	} else {
		err = n.repl.Follow(primary)
	}
	if err != nil {
		return err
	}
	n.awaiting.Store(awaitNothing) // not before: until it is a replica, a primary that waits takes no changes
	n.setReplicaOf(primary)
	if err := n.repl.ForgetHandover(); err != nil { // an error would say that the role is unchanged
		n.log.Warn("cannot remove the record of a handover; ignoring it", "error", err)
	}
	return nil
}

// role: ROLE.
func (n *Role) role(c Conn, _ [][]byte) {
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
	if !ok { // of nobody, or of the one that it is handing its role over to: the asking node must not tell it to lead
		info.State, info.Primary = repl.LinkConnect, n.handover.target()
	}
	out.Array(5)
	out.BulkString("slave")
	out.BulkString(info.Primary.Host)
	out.Int(int64(info.Primary.Port))
	out.BulkString(string(info.State))
	out.Int(int64(offset))
}
