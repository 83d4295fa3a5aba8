// Package role is the server as one node of several: its role, the ways to change it, and the commands that are refused
// or wait because of it. Package repl makes nodes follow each other, and a Role is its Host. Which commands and which
// words of Sentinel make it do so, and when, is decided here.
//
// # Roles
//
//	primary    takes changes and feeds replicas
//	replica    follows a primary (repl.Link), refuses changes, and feeds replicas of its own
//	replica    of nobody: it ended in the middle of a change of roles, and waits to be told one
//
// A node starts in the role of its configuration, else in the one that it ended in (start.go). REPLICAOF changes it, as
// a person or Sentinel says so. FAILOVER hands it to a replica that has all changes: failover.go is the primary's part,
// handover.go what others see of it, resume.go what a node does that ended in the middle of one.
//
//	changes wait              until a replica has all there are      ABORT, TIMEOUT: changes go on
//	note, Yield               nothing is added to the log any more
//	it still has all          else: Lead again
//	it is told to lead        asked until it answers                 ABORT: Lead again, and there may be two
//	Follow it, forget the note
//
// Whoever asks for a change of roles (REPLICAOF, a handover's end) does so through repl.Node, which makes one at a
// time.
//
// # The guard
//
// Why commands are refused or wait now is one word of bits, which every command looks at by one atomic load
// (Guard.Lets). It is made of the role, of the link, of how many replicas follow, of Sentinel's word and of the pauses
// in force. Whatever changes one of these but pauses calls RoleChanged.
//
// # Sentinel
//
// Sentinel publishes on every node who the primary is. A node listens (sentinel.go): one that was watched refuses
// changes after a start until it is named, and one that hears that another was named behind it refuses them at once.
//
// # Connections
//
// Handlers see a Conn: the call with its replies, and what else they need of a connection, which is little. Those
// that speak with a replica, or with a tool that behaves like one, see a PeerConn, which can be written to past the
// replies.
//
// # Files
//
//	role.go conn.go commands.go    the node and its host; connections; rows of the command table
//	guard.go pause.go hold.go      what may pass; CLIENT PAUSE, and the pause of a FAILOVER; changes held for a cluster
//	start.go replicaof.go          which role a node starts in; REPLICAOF, ROLE
//	failovercmd.go failover.go     FAILOVER: what it is told, and what it does
//	handover.go                    how far it is
//	resume.go                      a FAILOVER that the end of the process cut off
//	help.go logend.go              a primary with a damaged directory asks its replicas; one whose log may lack its end
//	sentinel.go                    what a node hears from Sentinel
//	wait.go                        WAIT, WAITAOF
//	peer.go copyfile.go archive.go REPLCONF, PSYNC, SYNC; what they send of files
//	life.go                        the goroutines of a node
//
// # Lock order
//
// Role.roles is outermost, held around package repl's changes of the role. Nobody waits for it who holds the store.
// Guard.mu is held around looks at the configuration, at pauses and at package repl's state, and is taken with none of
// their locks held. handover.mu, pauses.mu, sentinelView.mu and life.mu are leaves. None is held across I/O or a call
// of the store.
package role
