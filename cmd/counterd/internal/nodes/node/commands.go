package node

import (
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
)

// Commands are the rows of the commands of replication, for a table whose handlers see a C: on gives the node of its
// server, and what the handlers here see of it. CLIENT PAUSE and UNPAUSE are subcommands, and so rows of CLIENT:
// ClientPause and ClientUnpause.
func Commands[C any](on func(C) (*Node, PeerConn)) []*command.Row[C] {
	simple := func(run func(*Node, Conn, [][]byte)) func(C, [][]byte) {
		return func(c C, args [][]byte) {
			n, conn := on(c)
			run(n, conn, args)
		}
	}
	peer := func(run func(*Node, PeerConn, [][]byte)) func(C, [][]byte) {
		return func(c C, args [][]byte) {
			n, conn := on(c)
			run(n, conn, args)
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
			"Returns the role, and what belongs to it.", simple((*Node).role)),
		entry("replicaof", 3, roles|command.Stale, "5.0.0", "host port",
			"Makes this a replica of another server, or by NO ONE a primary.", simple((*Node).replicaOf)),
		entry("slaveof", 3, roles|command.Stale, "1.0.0", "host port",
			"The same as REPLICAOF.", simple((*Node).replicaOf)),
		entry("replconf", -1, command.Admin|command.NoScript|command.AllowBusy|command.Loading|command.Stale|command.NoMulti, "3.0.0", "",
			"What replicas say to their primary.", peer((*Node).replconf)),
		entry("psync", -3, roles|command.NoMulti, "2.8.0", "replicationid offset",
			"Asks for the stream, as a replica.", peer((*Node).psync)),
		entry("sync", 1, roles|command.NoMulti, "1.0.0", "",
			"Sends all changes from now on as commands, for people: what redis-cli --replica prints.", peer((*Node).sync)),
		entry("failover", -1, command.Admin|command.NoScript|command.Stale, "6.2.0", "[TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
			"Hands the role of the primary to a replica.", simple((*Node).failover)),
		wait("wait", 3, "3.0.0", "numreplicas timeout",
			"Waits until replicas have what was written so far, and returns how many.", simple((*Node).wait)),
		wait("waitaof", 4, "7.2.0", "numlocal numreplicas timeout",
			"Waits until what was written so far is safe on disks, and returns on how many.", simple((*Node).waitAOF)),
	}
}
