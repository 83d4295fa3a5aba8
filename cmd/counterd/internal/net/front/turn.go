package front

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

const (
	// readSize is the least room for one read.
	readSize = 4 << 10
	// maxOut is when replies are sent although more commands are waiting.
	maxOut = 64 << 10
	// maxCommands is how many commands a turn executes: a buffer of INCRs has 190, but 64 KiB, which are read where a
	// command was large, may hold 10,000.
	maxCommands = 512
)

// The place of a session decides which goroutine may use it.
const (
	inLoop = iota // its loop, which never waits
	away          // a goroutine of its own
	ended
)

// errHeld says that the replies of a session wait for Resume.
var errHeld = errors.New("the replies have to wait")

// errWaits says that a session cannot go on in its loop, as that might have to wait.
var errWaits = errors.New("the connection has to wait")

// InLoop tells whether the session is in its loop: nothing may wait.
func (s *Session) InLoop() bool { return s.where.Load() == inLoop }

// LeaveLoop makes the session go on outside of its loop, where it may wait. REQUIRES InLoop.
func (s *Session) LeaveLoop() { s.waits = true }

// LeavingLoop tells whether LeaveLoop was called.
func (s *Session) LeavingLoop() bool { return s.waits }

// MayHoldReplies tells whether HoldReplies may be called: in Commit, in a loop, when all that was read has been executed.
func (s *Session) MayHoldReplies() bool { return s.committing }

// HoldsReplies tells whether HoldReplies was called, and Resume not yet.
func (s *Session) HoldsReplies() bool { return s.held }

// HoldReplies has the replies wait in the loop until Resume is called, and Commit then called again. Nothing is read
// meanwhile. It costs less than LeaveLoop, and is for waits that other goroutines end. REQUIRES MayHoldReplies, and that Resume
// will be called, once.
func (s *Session) HoldReplies() { s.held = true }

// Postpone is LeaveLoop for a command that was not executed: the session goes on with it.
func (s *Session) Postpone(args [][]byte) { s.postponed, s.waits = args, true }

// received executes the n bytes that were read. Their replies are in out when it returns, unless it fails.
func (s *Session) received(n, free int) error {
	s.read, s.room = n, free
	s.rd.Filled(n)
	s.front.totals.InBytes.Add(s.Lane(), int64(n))
	s.front.totals.Reads.Add(s.Lane(), 1)
	s.Activity.lastRead.Store(s.front.clock.Load())
	return s.goOn()
}

// goOn executes what a turn left, as it was cut.
func (s *Session) goOn() error {
	if err := s.process(); err != nil {
		return err
	}
	s.processed()
	return nil
}

// process executes every complete command that has been read, or as many as a turn may, and then s.cut is set. In a loop
// it may stop with errWaits: called again elsewhere, it goes on.
func (s *Session) process() error {
	s.cut = false
	n := 0
	for ; !s.Closing; n++ {
		if n >= maxCommands {
			if s.InLoop() {
				s.cut = true
				break
			}
			s.handler.Flush() // or a batch would be open meanwhile
			s.front.GiveWay() // as often: away it may have a pipeline of any length
			n = 0
		}
		if !s.InLoop() && s.conn.closed() { // later commands must not be executed, as the client cannot know
			s.Closing = true
			break
		}
		args := s.postponed
		var err error
		if args == nil {
			args, err = s.rd.Next()
		} else {
			s.postponed = nil
		}
		if err == resp.ErrIncomplete {
			break
		}
		s.moved = true
		if err != nil {
			if s.handler.Commit(); s.waits {
				return errWaits
			}
			s.handler.Malformed(err)
			s.Closing = true
			break
		}
		s.handler.Command(args)
		if !s.waits {
			n += join(s, maxCommands-1-n)
		}
		if s.waits {
			return errWaits
		}
		if s.out.Len() >= maxOut {
			if err := s.sendAll(); err != nil {
				return err
			}
		}
	}
	s.seat.large = s.read >= inputSize/2 && n*wideCommand <= s.read
	if s.handler.Flush(); s.waits {
		return errWaits
	}
	return nil
}

// join executes the commands of s that follow the last one and are like it, at most so many. It returns how many they are.
func join(s *Session, most int) int {
	if s.rd.Followed() {
		if most = min(most, s.handler.Joins()); most > 0 {
			keys, lasts := s.rd.Series(most)
			if len(keys) == 0 {
				return 0
			}
			taken := s.handler.Join(keys, lasts)
			if taken < len(keys) {
				s.rd.Return(keys[taken:], lasts[min(taken, len(lasts)):])
			}
			return taken
		}
	}
	return 0
}

// processed notes the rest of the bytes read: the beginning of a command, or nothing.
func (s *Session) processed() {
	if !s.rd.Partial() {
		s.Activity.partialSince.Store(0)
	} else {
		s.Activity.arrived.Store(int64(s.rd.Buffered()))
		if s.moved || s.Activity.partialSince.Load() == 0 { // a pipeline that goes on for long always ends within a command, each time another
			s.Activity.partialSince.Store(s.front.clock.Load())
		}
	}
	s.moved = false
	most := resp.MaxRetained
	if wide(s) {
		most = wideInput
	}
	if s.read > most && !s.handler.Asking() { // or their arguments would be cleared
		s.rd.Shrink()
	}
}

// panicked logs and counts a panic, which closes this connection alone, unless it came with a lock that others need:
// then the process must not go on with data it cannot trust.
func (s *Session) panicked(p any) {
	if s.handler.Locked() {
		panic(p)
	}
	s.scratch = nil // whatever state it is in
	s.front.totals.Panics.Add(1)
	s.front.log.Error("panic in a connection", "client", s.id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
}

// lastReplies is how long a connection is kept for replies that a client is slow to take when the server ends.
const lastReplies = time.Second

// close closes the connection, when everything that is to be answered was sent.
func (s *Session) close(err error) {
	f := s.front
	defer f.done.Done()
	if !s.handler.Disconnected() {
		s.scratch = nil
	}
	if t := s.conn.secure; t != nil && !s.conn.closed() {
		t.bye()
	}
	if f.ending() {
		s.conn.linger(lastReplies)
	}
	s.conn.free()
	f.remove(s)
	s.release()
	s.account.set(0)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
		f.log.Debug("connection ended", "client", s.id, "error", err)
	}
}
