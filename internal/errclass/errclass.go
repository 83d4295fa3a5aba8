// Package errclass says what an error reply of a counterd means for the sender of the command: whether anything was
// changed, and whether the same command may be sent again.
//
// There is one rule: every refusal comes before the first change. A command that may have changed something is answered
// by success, or by one of the few errors of class InDoubt. So a client need not know commands, only the first word of
// an error; the server's tests provoke every error that its code can name, and compare all values before and after.
package errclass

import "strings"

// Class is what an error says of the command that it answers.
type Class uint8

// The classes. The zero Class promises least of all that is refused: that a repeat helps.
const (
	Permanent Class = iota // nothing was changed, and the same command would be refused again
	Transient              // nothing was changed; the same command may be sent again as it is, here later or to another node
	InDoubt                // the change was made, or may have been by an earlier try, and it is not known whether it stays
)

// String is the class in the words of the documentation.
func (c Class) String() string {
	switch c {
	case Permanent:
		return "refused"
	case Transient:
		return "refused, may be sent again"
	case InDoubt:
		return "in doubt"
	}
	return "unknown"
}

// Row is the entry of one code.
type Row struct {
	Code  string // the first word of the error, or the words that it begins with where they say more than the first
	Class Class
	Means string
}

// table has every code that a server sends. Words that begin like another row's stand before it.
var table = []Row{
	{"LOADING", Transient, "the server is loading data, replacing its data during a role change, or shutting down"},
	{"READONLY This port is for reads only:", Permanent, "a change was sent to `readonly-port`; send it to `port`"},
	{"READONLY", Transient, "this node is a replica, or does not know its role yet; send the change to the primary"},
	{"MASTERDOWN", Transient, "a replica has no connection to its primary, and `replica-serve-stale-data` is `no`; or the node's files were damaged, and it is copying the data of another node"},
	{"NOREPLICAS", Transient, "fewer replicas are connected than `min-replicas-to-write` asks for, or fewer nodes of the shard are in sync than `--min-insync`"},
	{"MISCONF", Transient, "the disk is full, slow, failing or hanging. The server accepts changes again when the disk works"},
	{"OOM", Transient, "memory has exceeded `maxmemory` for a second because the disk cannot keep up, or the system is out of memory"},
	{"IDMPFULL", Transient, "`idmp-max-producers` or `idmp-max-memory` is reached, and no producer has been idle for `idmp-min-idle`"},
	{"UNBLOCKED", Transient, "`CLIENT UNBLOCK` ended a `WAIT`, or the node became a replica"},
	{"NOMASTERLINK", Transient, "for replicas: this node has no connection to its own primary"},
	{"NOTYET", Transient, "for replicas: this node is a replica, too, and its log is shorter than the other's. The text has the end of its log"},
	{"MOVED", Transient, "another node owns the hash slot; the text has its address. Clients with cluster support follow by themselves"},
	{"ASK", Transient, "never sent: a hash slot moves in one step"},
	{"TRYAGAIN", Transient, "the hash slot is moving from one node to another; or a node that is asked for a position of the feed does not know yet how far its log is safe"},
	{"CLUSTERDOWN", Transient, "the node is not assigned to a shard, the shard has no primary, or the primary cannot confirm its role with etcd"},
	{"ERR max number of clients reached", Transient, "`maxclients` is reached; the server closes the connection"},
	{"WRONGTYPE", Permanent, "the command needs a single counter and the key names a post, or the other way round"},
	{"IOERR", Permanent, "a cold file has a damaged page or is missing, or the log that `COUNTER.FEED` reads is damaged. Other posts are served. See the [runbook](../operate/runbooks.md)"},
	{"EXECABORT", Permanent, "the transaction was not executed. The error after `because of: ` decides the class"},
	{"NOAUTH", Permanent, "the connection must authenticate with `AUTH` first"},
	{"WRONGPASS", Permanent, "the user name or the password is wrong"},
	{"NOPERM", Permanent, "the user may not run the command, or may not use that key or channel; or `readonly-port` does not accept the command"},
	{"DENIED", Permanent, "protected mode: no password is set, and the client does not come from 127.0.0.1 or ::1. The server closes the connection"},
	{"NOPROTO", Permanent, "`HELLO` accepts protocol versions 2 and 3 only"},
	{"DIVERGED", Permanent, "for replicas: the text has the offset up to which their log equals the primary's"},
	{"LOST", Permanent, "for replicas: this node no longer has a cold file that the replica asked for, or cannot read all of it"},
	{"CROSSSLOT", Permanent, "in a cluster, a change or a transaction names posts of several hash slots. Send one command for each slot"},
	{"POSGONE", Permanent, "the log behind the position of a `COUNTER.FEED` is no longer kept. The second word is the oldest position"},
	{"POSHISTORY", Permanent, "the log went on differently before the position of a `COUNTER.FEED`. The second word is the position up to which the two agree, or `-`"},
	{"IDMPMISMATCH", Permanent, "the producer used this number for another command"},
	{"IDMPFENCED", Permanent, "the epoch is lower than the producer's newest epoch: another process has taken over"},
	{"ERR", Permanent, "any other error: a wrong command, key, argument or value, or a command that is not possible in this state"},
	{"IDMPEXPIRED", InDoubt, "`the change was made`: an earlier attempt was applied, and its reply is not kept. Otherwise the number is older than all remembered numbers of the producer, or hash slots have moved between two attempts of a `COUNTER.UPDATE`, and an earlier attempt may have been applied, or a part of it"},
	{"UNCERTAIN", InDoubt, "the change was applied but is not yet safe: it is not on the disk yet, or not every in-sync node of the cluster has confirmed it. A crash may undo it. Readers of such a value get this error, too. After a partial `COUNTER.UPDATE`, the text has the number of changed posts"},
}

// because parts EXECABORT from the error that ended the transaction, which lacks its ERR.
const because = "EXECABORT Transaction discarded because of: "

// Of returns the class of an error reply, with or without its "-". It is false for a code that no row has.
func Of(text string) (Class, bool) {
	text = strings.TrimPrefix(text, "-")
	if reason, ok := strings.CutPrefix(text, because); ok {
		if class, ok := Of(reason); ok {
			return class, true
		}
		return Of("ERR " + reason)
	}
	for i := range table {
		if rest, ok := strings.CutPrefix(text, table[i].Code); ok && (rest == "" || rest[0] == ' ') {
			return table[i].Class, true
		}
	}
	return Permanent, false
}

// Table returns all rows.
func Table() []Row { return append([]Row(nil), table...) }
