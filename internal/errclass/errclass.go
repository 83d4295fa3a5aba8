// Package errclass says what an error reply of a counterd means for who sent the command: whether anything was changed,
// and whether the same command may be sent again.
//
// There is one rule: every refusal comes before the first change. What may have changed something is answered by
// success, or by one of the few errors of class InDoubt. So a client need not know commands, only the first word of an
// error; the server's tests provoke every error that its code can name, and compare all values before and after.
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

// Row is what is said of one code.
type Row struct {
	Code  string // the first word of the error, or the words that it begins with where they say more than the first
	Class Class
	Means string
}

// table has every code that a server sends. Words that begin like another row's stand before it.
var table = []Row{
	{"LOADING", Transient, "data is being loaded, or replaced as the role changes, or the server ends"},
	{"READONLY This port is for reads only:", Permanent, "a change, sent to `--readonly-port`"},
	{"READONLY", Transient, "a replica, or a node that waits to hear its role: the primary takes it"},
	{"MASTERDOWN", Transient, "a replica without its primary, and `replica-serve-stale-data no`"},
	{"NOREPLICAS", Transient, "fewer good replicas than `min-replicas-to-write`"},
	{"MISCONF", Transient, "the disk is full, slow, failing or hanging: until it is well"},
	{"OOM", Transient, "`maxmemory` has been passed for a second as the disk cannot keep up, or the system has no memory"},
	{"IDMPFULL", Transient, "the limits of producers or of their memory are reached"},
	{"UNBLOCKED", Transient, "`WAIT` ended early, by `CLIENT UNBLOCK` or as the node became a replica"},
	{"NOMASTERLINK", Transient, "to replicas: this one has no link to its own primary"},
	{"NOTYET", Transient, "to replicas: this one is a replica too, and the log of the other one is longer: how far its own log is"},
	{"MOVED", Transient, "another node of the cluster has the hash slot, at the address behind it: clients of a cluster go there by themselves"},
	{"ASK", Transient, "never sent: hash slots move at once here"},
	{"TRYAGAIN", Transient, "the hash slot is on its way from one node to another at this moment"},
	{"CLUSTERDOWN", Transient, "the node has no part in its cluster now, or the hash slot has no primary, or the primary cannot know that it still is one"},
	{"ERR max number of clients reached", Transient, "`maxclients`; the connection is closed"},
	{"WRONGTYPE", Permanent, "the key names a post where a number is wanted, or the other way round"},
	{"IOERR", Permanent, "a damaged page or a missing file: until it can be read, or a replica leads"},
	{"EXECABORT", Permanent, "the transaction was not executed; behind `because of: ` stands why, which decides the class"},
	{"NOAUTH", Permanent, "`AUTH` comes first"},
	{"WRONGPASS", Permanent, "the password is another one"},
	{"NOPERM", Permanent, "the user may not run the command, or not on that key or channel; or `--readonly-port` does not take it"},
	{"DENIED", Permanent, "protected mode; the connection is closed"},
	{"NOPROTO", Permanent, "`HELLO` knows versions 2 and 3"},
	{"DIVERGED", Permanent, "to replicas: how far their log is the primary's"},
	{"LOST", Permanent, "to replicas: a cold file that this node does not have any more"},
	{"CROSSSLOT", Permanent, "a change, or a transaction, of posts in several hash slots of a cluster: one command for each"},
	{"IDMPMISMATCH", Permanent, "the number was used for another command"},
	{"IDMPFENCED", Permanent, "a newer incarnation of the producer is at work"},
	{"ERR", Permanent, "all else: a wrong command, key, argument or value, or one that is not possible now"},
	{"IDMPEXPIRED", InDoubt, "the number is older than what is remembered: an earlier try may have counted"},
	{"UNCERTAIN", InDoubt, "the change was made and is not safe on the disk yet; a crash before it is takes it back. In a cluster: not every node that must have it is known to, and this one may have lost its role; so for who read it. Or a part of a `COUNTER.UPDATE`: it says how many posts"},
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
