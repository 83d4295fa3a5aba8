package role

import (
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
)

// Commands are the rows of the commands of replication, for a table whose handlers see a C: on gives the Role of its
// server, and what the handlers here see of it. CLIENT PAUSE and UNPAUSE are subcommands, and so rows of CLIENT:
// ClientPause and ClientUnpause.
func Commands[C any](on func(C) (*Role, PeerConn)) []*command.Row[C] {
	simple := func(run func(*Role, Conn, [][]byte)) func(C, [][]byte) {
		return func(c C, args [][]byte) {
			n, conn := on(c)
			run(n, conn, args)
		}
	}
	peer := func(run func(*peerServer, PeerConn, [][]byte)) func(C, [][]byte) {
		return func(c C, args [][]byte) {
			n, conn := on(c)
			run(&n.serves, conn, args)
		}
	}
	waiter := func(run func(*ackWaiter, Conn, [][]byte)) func(C, [][]byte) {
		return func(c C, args [][]byte) {
			n, conn := on(c)
			run(&n.waits, conn, args)
		}
	}
	entry := func(name string, arity int, flags command.Flags, since, syntax, summary string, run func(C, [][]byte)) *command.Row[C] {
		return &command.Row[C]{Name: name, Arity: arity, Flags: flags, Group: "server", Since: since, Complexity: "O(1)", Syntax: syntax, Summary: summary, Run: run}
	}
	wait := func(name string, arity int, since, syntax, summary string, run func(C, [][]byte)) *command.Row[C] {
		cmd := entry(name, arity, command.NoScript|command.Blocking, since, syntax, summary, run)
		cmd.Group = "generic"
		return cmd
	}
	const roles = command.Admin | command.NoScript | command.NoAsyncLoading
	return []*command.Row[C]{
		entry("role", 1, command.NoScript|command.Loading|command.Stale|command.Fast, "2.8.12", "",
			"Returns the replication role of the node and its details.", simple((*Role).role)),
		entry("replicaof", 3, roles|command.Stale, "5.0.0", "host port",
			"Makes this node a replica of another node, or with NO ONE a primary.", simple((*Role).replicaOf)),
		entry("slaveof", 3, roles|command.Stale, "1.0.0", "host port",
			"Makes this node a replica of another node, or with NO ONE a primary. Identical to REPLICAOF.", simple((*Role).replicaOf)),
		entry("replconf", -1, command.Admin|command.NoScript|command.AllowBusy|command.Loading|command.Stale|command.NoMulti, "3.0.0", "",
			"Internal: a replica reports its state to its primary.", peer((*peerServer).replconf)),
		entry("psync", -3, roles|command.NoMulti, "2.8.0", "replicationid offset",
			"Internal: a replica requests the replication stream.", peer((*peerServer).psync)),
		entry("sync", 1, roles|command.NoMulti, "1.0.0", "",
			"Streams all following changes as commands, for redis-cli --replica.", peer((*peerServer).sync)),
		entry("failover", -1, command.Admin|command.NoScript|command.Stale, "6.2.0", "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
			"Starts a planned failover from this primary to one of its replicas.", simple((*Role).failover)),
		wait("wait", 3, "3.0.0", "numreplicas timeout",
			"Waits until replicas have acknowledged all previous changes of this connection. Returns the number of such replicas.", waiter((*ackWaiter).wait)),
		wait("waitaof", 4, "7.2.0", "numlocal numreplicas timeout",
			"Waits until all previous changes of this connection are synced to the local disk and to the disks of replicas. Returns both numbers.", waiter((*ackWaiter).waitAOF)),
	}
}
