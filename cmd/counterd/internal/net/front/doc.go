// Package front is the network side of a server: listeners, loops, sockets and sessions. It moves bytes and gives turns. The
// Handler knows the meaning of the bytes. The package has it as an interface alone: no command, no item and no store is
// named here.
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
// executes what was planned. Replies that tell of nothing which has to be made safe first (Handler.Committed) are sent at
// once. At the end of a round of turns Handler.Commit makes safe what the others tell of, which for the first of them is
// one write of the log for all, and then those are sent. The replies of a round lie in one resp.Arena.
//
// The border between the two sides is crossed by one call a command, or one for many of the same name and one argument each
// (Handler.Join), and six a turn. A turn without a command waiting
// costs no memory: buffers are lent to a session for the time it has something to do (scratch.go), and so is the
// memory that its handler works in (Handler.Attach, Detach).
//
// # What waits
//
// Nothing in a loop waits, for it would stop all connections of the loop; but for a write of the log, which takes some µs.
// If it takes 20 ms, the session leaves the loop together with the goroutine, and another goroutine goes on with the loop
// (Session.BeginDiskWait, relief_epoll.go). A session is in one of three states, which say who may use it:
//
//	in its loop  ──(it has to wait)──▶ away: a goroutine of its own goes on with it, by the same code; all may wait there
//	     ▲                              │
//	     └──(everything read is answered)
//	ended        closed, when what was to be answered is sent
//
// Where others see to what is waited for and tell when it is there, as replicas that must have a change before it is
// acknowledged, the replies of a turn wait in the loop (Session.HoldReplies) until Resume: a loop is told once of all that may
// go on, and no goroutine is needed. All else that waits leaves the loop.
//
// Answers of other servers are waited for in the same way. A loop reads the connections to them too (Front.Watch, trunk_epoll.go), and sessions
// that are resumed meanwhile go on before the loop sleeps. Such a session keeps its arguments and the memory of its handler
// (Handler.Asking).
//
// The handler says that it has to wait by Postpone, for a command that was not executed yet and is handed to it again
// elsewhere, or by LeaveLoop, in Flush and Commit. The session itself leaves when the connection does not take its replies.
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
// (memory.go). Where they hold too much, a turn of one that holds much leaves the loop unread, and waits for the janitor.
// Some sessions are treated in another way, as their Handler.Exemptions says.
//
// # What was tried
//
// One command deep, eight tenths of the processor time are the kernel's: a message received, one sent, and a client and a
// loop that sleep in between. Loops that did nothing but that were measured in turns beside Valkey at work, as was this
// server. Processor time of a GET, of Valkey's, by clients; means of two runs of 12 and 16 bursts each, which were up to
// 30 % apart with one client and 13 % with more:
//
//	                                                                1     8    64
//	epoll in the runtime's poller, as here                       1.09  0.77  0.84
//	epoll_wait(2) that waits in a system call                    1.20  1.13  1.15
//	the same past the runtime, which misses a processor then     1.07  1.19  1.23
//	io_uring: receives multishot into provided buffers, sends
//	and the wait by one io_uring_enter(2), registered files      1.00  0.95  0.84
//	the same, looking 200 times before it waits                  1.05  0.95  0.87
//	the same, replies by sendto(2)                               1.07  0.93  0.92
//	the same, replies by the ring, the wait past the runtime     0.85  0.79  0.78
//	this server, all included                                    1.18  0.87  0.95
//
// So io_uring saves 8 % with one client and nothing with more: a loop that waits in the kernel wakes for the first
// message of several, where the way through the runtime's poller takes so long that more have come. Past the runtime it
// would save 7 to 20 %, with a processor (P) that nobody else can have while the loop sleeps. To wait for eight messages
// or 8 µs costs twice the time. Nor does it pay to look again before sleeping or after waking, to leave out the first
// look, or to let others run only where nobody sleeps: within 6 %, either way. TCP sends the two segments of a command
// and its reply and no more, so there is nothing to put off; the collector runs once in 1.5 M commands.
//
// # Files
//
//	front.go listen.go         the front and its host; listeners, who is let in
//	descriptors.go             descriptors that connections leave to files
//	session.go turn.go         a session and its handler; what is done in a turn
//	activity.go                what a session does now, and since when
//	send.go muting.go          how replies are sent, and left out
//	replymode.go               CLIENT REPLY
//	wait.go                    how a command waits
//	wake.go                    how others have something told to a session
//	scratch.go                 the memory that sessions share
//	lanes.go                   whose turn it is, however a loop hears of who has come
//	trunk.go trunk_epoll.go    connections to other servers, which loops read
//	loop_*.go                  loops: by epoll, or portable; turns and their replies; sessions that are resumed
//	relief_epoll.go            a loop goes on although a session waits for the disk in it
//	socket_*.go sending.go     reading and writing without waiting, and with
//	handshake.go secure.go     TLS: who is let in, and its record layer
//	janitor.go                 limits of time
//	memory.go account.go       what all sessions hold together, and who is closed for it; what one holds
//	outputlimit.go             what one session may leave unread
//
// # Lock order
//
// Session.parking is held while notices are sent to a session that waits; the handler's locks and a socket's are taken
// inside. Under Front.mu the handler's locks are taken, by Standing, and a socket's. A socket's mutex may be taken under any
// lock of the handler's too, and is a leaf; so is a loop's, but for a socket's. Those of secure are taken before its
// socket's, in the order writing, tls.Conn's own, mu.
package front
