// Package front is what a server has towards the network: listeners, loops, sockets and sessions. It moves bytes and
// gives turns. What the bytes mean is the Handler's, which it knows as an interface alone: no command, no item and no
// store is named here.
//
//	       bytes           commands                     replies
//	socket ────▶ resp.Reader ────▶ Handler.Command ──▶ resp.Replies ────▶ socket
//	└──────────── Session ───────┘ └─ commands' side ─┘ └──── Session ─────────┘
//
// # Turns and rounds
//
// Connections are dealt to one event loop a processor (loop_epoll.go). A loop goes in cycles: it asks epoll who has sent
// something, and gives sessions turns, in an order in which nobody waits long for others' thousands (lanes.go). The turn
// reads what has arrived, one buffer at most, and hands every complete command to Handler.Command, which executes it, or
// plans it to be executed together with others. When no complete command is left, or the turn has had 512, Handler.Flush
// executes what was planned. Replies that tell of nothing which has to be made safe first (Handler.Settled) are sent at
// once. At the end of a round of turns Handler.Settle makes safe what the others tell of, which for the first of them is
// one write of the log for all, and then those are sent. The replies of a round lie in one resp.Arena.
//
// The border between the two sides is crossed by one call a command, and six a turn. A turn without a command waiting
// costs no memory: buffers are lent to a session for the time it has something to do (scratch.go), and so is the
// memory that its handler works in (Handler.Attach, Detach).
//
// # What waits
//
// Nothing in a loop waits, for it would stop all connections of the loop. A session is in one of three states, which
// say who may use it:
//
//	in its loop  ──(it has to wait)──▶ away: a goroutine of its own goes on with it, by the same code; all may wait there
//	     ▲                              │
//	     └──(everything read is answered)
//	ended        closed, when what was to be answered is sent
//
// Where others see to what is waited for and tell when it is there, as replicas that must have a change before it is
// acknowledged, the replies of a turn wait in the loop (Session.Hold) until Resume: a loop is told once of all that may
// go on, and no goroutine is needed. All else that waits leaves the loop.
//
// The handler says that it has to wait by Postpone, for a command that was not executed yet and is handed to it again
// elsewhere, or by Leave, in Flush and Settle. The session itself leaves when the connection does not take its replies.
//
// Who waits in a command (Session.Block) is told when its connection ends: the loop hears of it, and socket.watch says
// so. Then nothing more that it sent is executed, for its client may have tried elsewhere by then. Who works for long
// (Session.Busy) is told too, a while later, as somebody may have said all and wait for the answer.
//
// Sessions that others write to as well, subscribers and replicas, stay in their loop: what others send is written by
// goroutines of theirs. Replies go there too where the order matters (Session.Divert). The end of such a session is
// waited for outside of the loop.
//
// Systems without epoll have a goroutine a connection, which is a session that is always away (loop_portable.go; go
// test -tags noepoll).
//
// # TLS
//
// A connection by TLS has its handshake in a goroutine of its own, before there is a session (handshake.go). From then
// on its record layer stands between session and socket, in the loop (secure.go): a turn reads, decrypts, executes,
// encrypts and writes. Where crypto/tls holds something that epoll does not know of, Session.conn.more tells, and the
// session has another turn, or goes on where it is away.
//
// # Limits
//
// A janitor looks at all sessions each second: at how long they take (janitor.go) and at what they hold together
// (memory.go). Some sessions are treated in another way, as their Handler.Standing says.
//
// # Files
//
//	front.go listen.go         the front and its host; listeners, who is let in
//	descriptors.go             descriptors that connections leave to files
//	session.go turn.go         a session and its handler; what is done in a turn
//	send.go wait.go            how replies are sent, and left out; how a command waits
//	wake.go                    how others have something told to a session
//	scratch.go                 the memory that sessions share
//	lanes.go                   whose turn it is, however a loop hears of who has come
//	loop_*.go                  loops: by epoll, or portable
//	socket_*.go sending.go     reading and writing without waiting, and with
//	handshake.go secure.go     TLS: who is let in, and its record layer
//	janitor.go memory.go       limits of time; what all sessions hold together, and who is closed for it
//
// # Lock order
//
// Session.parking is held while notices are sent to a session that waits; the handler's locks and a socket's are taken
// inside. Under Front.mu the handler's locks are taken, by Standing, and a socket's. A socket's mutex may be taken under any
// lock of the handler's too, and is a leaf; so is a loop's, but for a socket's. Those of secure are taken before its
// socket's, in the order writing, tls.Conn's own, mu.
package front
