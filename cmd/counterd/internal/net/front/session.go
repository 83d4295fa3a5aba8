package front

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// Session is a connection that is served: its socket, the bytes read from it, and its present owner. The commands' side
// makes one part of its own type and binds it to that. Only the loop it is in, or the goroutine that it is away with, may
// use it, but for the methods that say otherwise.
type Session struct {
	front   *Front
	handler Handler
	conn    socket
	rd      *resp.Reader
	out     *resp.Replies // the handler's: replies not sent yet
	scratch *scratch      // nil while the connection waits, and then out has no memory

	Activity Activity
	Muting   Muting

	// Closing makes the session end after its replies are sent: nothing more is executed.
	Closing bool

	moved      bool     // the bytes read last had complete commands
	answering  bool     // its replies wait for the end of the loop's round
	hup        bool     // epoll says that the stream ends after the bytes to be read
	waits      bool     // the next command may wait, which it must not do in the loop
	committing bool     // all that was read is executed, and its loop asks whether it can be answered
	held       bool     // its replies wait in the loop: see HoldReplies
	missed     bool     // something came meanwhile
	kept       bool     // its replies are in the memory of scratch meanwhile
	crowded    bool     // it waits outside of the loop until others give back memory
	cut        bool     // its turn ended before all that was read was executed
	shared     bool     // others write to the connection too
	postponed  [][]byte // the command that waits
	outlet     Outlet   // where replies go; nil: to the connection
	room       int      // bytes that the last read left free
	read       int      // bytes that it brought
	written    int      // bytes that Write has written since it let others have their turn

	loop  *loop
	shift *shift       // between BeginDiskWait and EndDiskWait, in a loop
	where atomic.Int32 // inLoop, away or ended

	seat seat // its loop's

	id   int64
	lane int  // see Lane
	port Port // the listener by which it came

	notified atomic.Bool // Wake was called, and Notices was not yet
	parking  sync.Mutex  // guards parked; held by the sender while the owner waits
	parked   bool        // the owner waits in Block

	trusted atomic.Bool // see Trust
	account account
	unread  unread
}

// Handler is the commands' side of one session: it knows the meaning of the bytes. The session calls it, in one goroutine
// at a time, but for Standing.
type Handler interface {
	// Attach gives it memory to work in, which Detach of any session has given back; nil: there is none yet.
	Attach(memory any)
	// Command executes a command, or plans it to be executed together with others. Where it cannot go on without
	// waiting, and the session is in a loop, it calls Postpone and returns; then it is called again, elsewhere.
	Command(args [][]byte)
	// Joins tells how many commands Join takes, if they have the name of the last command and one argument as that, or differ from it in the second and
	// the last argument alone.
	Joins() int
	// Join is Command for so many commands at once: keys are their arguments, one of each command, or the second ones, and lasts the last ones then.
	// It returns how many it has taken: the others come by Command.
	Join(keys, lasts [][]byte) (taken int)
	// Malformed answers bytes that are no command; the session ends.
	Malformed(err error)
	// Flush executes the planned operations, or calls LeaveLoop.
	Flush()
	// Asking tells whether commands of the turn wait for answers of other servers. Then the session keeps their arguments, and the memory
	// that the handler works in, until Commit has answered them. In a loop alone.
	Asking() bool
	// Committed tells whether the replies can be sent, or Commit has to make their changes durable first.
	Committed() bool
	// Commit executes the planned operations and commits the changes that the replies confirm, or calls LeaveLoop.
	Commit()
	// Detach gives the memory back, as everything was executed.
	Detach() (memory any)
	// Notices appends what others had Wake called for, behind the replies to everything that was executed.
	Notices()
	// Publish lets others see how the session is now: all is answered, or it has to wait.
	Publish()
	// Locked tells whether it holds a lock that others need: after a panic the process cannot go on then.
	Locked() bool
	// Disconnected forgets the session, and waits for others that write to it. reusable tells whether its memory is as it
	// should be.
	Disconnected() (reusable bool)
	// Exemptions returns the properties of a session that limits of time and memory depend on. Anybody may call it, but for
	// those who hold a lock of the handler's.
	Exemptions() Exemptions
}

// Exemptions are the properties of a session that the janitor knows besides its activity.
type Exemptions struct {
	Quiet   bool   // it may be idle for as long as it likes
	Overdue string // why it is to be closed now; empty: it is not
	Keep    bool   // it is not closed for its memory
	Free    int64  // bytes that it may hold uncounted
	Unread  int64  // bytes that it holds beside: messages that it does not read
}

// Outlet takes replies in the place of the connection, as others write to it too. Push never waits, and keeps nothing
// of p.
type Outlet interface {
	Push(p []byte) error
}

// Bind makes s the session of a handler, whose replies are in out.
func (s *Session) Bind(h Handler, out *resp.Replies) { s.handler, s.out, s.Muting.out = h, out, out }

// Handler returns the handler that s is bound to. Anybody may call it.
func (s *Session) Handler() Handler { return s.handler }

// ID is the number of the session: none is given twice. Anybody may call it.
func (s *Session) ID() int64 { return s.id }

// Lane is the number of its loop: counters that loops add to all the time have a part for each (stats.Sum).
func (s *Session) Lane() int { return s.lane }

// Port is the listener by which it came. Anybody may call it.
func (s *Session) Port() Port { return s.port }

// Conn is the connection, to be written to past the replies, and to be closed: reads and writes fail then, and the
// session ends. Anybody may call it.
func (s *Session) Conn() net.Conn { return &s.conn }

// Secure tells whether it came by TLS.
func (s *Session) Secure() bool { return s.conn.secure != nil }

// Descriptor is the number of the socket, -1 when it is closed. Anybody may call it.
func (s *Session) Descriptor() int { return s.conn.descriptor() }

// Buffered is the number of bytes of a command that is not complete, and how many are free behind them.
func (s *Session) Buffered() (bytes, free int) { return s.rd.Buffered(), s.room }

// Trust tells whether the other side has shown that it may be here: else its commands are small and its time is short.
func (s *Session) Trust(yes bool) {
	s.trusted.Store(yes)
	if yes {
		s.rd.SetLimits(resp.DefaultLimits())
	} else {
		s.rd.SetLimits(resp.PreAuthLimits())
	}
}

// Divert makes replies go to an outlet from now on, for good.
func (s *Session) Divert(o Outlet) { s.outlet, s.shared = o, true }

// Share tells that others write to the connection too from now on: its end is waited for outside of the loop.
func (s *Session) Share() { s.shared = true }
