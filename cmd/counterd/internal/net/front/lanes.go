package front

import "math"

// lanes says whose turn is next in a loop, and when replies are sent. It does not know how a loop learns which sessions
// are ready.
//
// A client that sends one command and waits for its answer must not wait for others' thousands. So there are two lanes:
// the short one, of sessions whose turns bring little, and the long one. The average size of a session's last turns
// decides its lane, as the number of bytes waiting in a socket is unknown before it is read. Each is a queue: first
// come, first served. A loop goes in cycles:
//
//	look      who has come goes to its lane
//	short     all of the short lane has turns, a pass at most
//	answer    if somebody had one: theirs are sent first, and the write of the log is for all who had turns so far
//	long      the long lane has turns, a slice at most
//	answer    if nobody is left there, or too much waits: without short ones there is one answer for many cycles
//
// So a short command waits for the slice that it comes in, 0.1 ms, however many others flood. Nobody starves: behind
// each pass of the short lane there is a slice of the long one, and each lane is served in order.
type lanes struct {
	short, long queue
	passed      int  // by the short lane in this cycle, see cost
	spent       int  // by the long one
	turns       int  // since the last answer
	owed        bool // of those one of the short lane
	inLong      bool // the last turn was the long lane's
}

const (
	// maxTurns is how many turns wait for an answer: the changes of the first wait for those of the last.
	maxTurns = 128
	// slice is the cost of the long lane's turns in a cycle: two buffers of INCRs, 0.1 ms. To look takes 0.4 us.
	slice = 2 * inputSize
	// pass is the cost of the short lane's turns in a cycle: maxTurns of a command each, 0.3 ms.
	pass = maxTurns * turnCost
	// turnCost is the fixed cost of a turn besides its bytes, for reading and sending: 2 us are 12 INCRs.
	turnCost = 512
	// shortLoad is the most that turns of the short lane bring on average: 48 INCRs, or a page of 80 posts.
	shortLoad = 2 << 10
	// shortRoom is the most bytes of one of them: a session with more bytes goes on in the long lane.
	shortRoom = 2 * shortLoad
)

// step is the next step of a loop.
type step uint8

const (
	stepTurn   step = iota // a session has its turn: see lanes.took
	stepAnswer             // all replies are sent: see lanes.answered
	stepLook               // the cycle is over
)

// beginCycle begins a cycle: the loop has looked.
func (q *lanes) beginCycle() { q.passed, q.spent = 0, 0 }

// push lets s have a turn. REQUIRES that the loop is told when more comes for it: it is pushed once for that.
func (q *lanes) push(s *Session) {
	switch {
	case s.seat.queued:
		return
	case s.seat.short():
		q.short.push(s)
	default:
		q.long.push(s)
	}
	s.seat.queued = true
}

// idle tells whether nobody is to have a turn.
func (q *lanes) idle() bool { return q.short.len() == 0 && q.long.len() == 0 }

// next says what the loop does next. A session that waits for an answer has no turn before it.
func (q *lanes) next() (step, *Session) {
	var from *queue
	switch {
	case q.short.len() > 0 && q.passed < pass && q.spent == 0:
		from = &q.short
	case q.owed, q.turns >= maxTurns, q.turns > 0 && q.long.len() == 0:
		return stepAnswer, nil
	case q.long.len() == 0, q.spent >= slice:
		return stepLook, nil
	default:
		from = &q.long
	}
	if from.first().answering {
		return stepAnswer, nil
	}
	s := from.pop()
	s.seat.queued, q.inLong = false, from == &q.long
	q.owed = q.owed || !q.inLong
	q.turns++
	return stepTurn, s
}

// room is how much the turn of s may bring: a buffer, and more only of a large command that is arriving.
func (q *lanes) room(s *Session) int {
	if !q.inLong {
		return shortRoom
	}
	if arrived, _ := s.Buffered(); arrived >= inputSize {
		return math.MaxInt
	}
	if wide(s) {
		return wideInput
	}
	return inputSize
}

// took notes that the turn of s brought n bytes.
func (q *lanes) took(s *Session, n int) {
	cost := turnCost + n
	if q.inLong {
		q.spent += cost
	} else {
		q.passed += cost
	}
	if s.seat.load += (n - s.seat.load) / 4; !q.inLong && n == shortRoom {
		s.seat.load = shortRoom
	}
}

// answered notes that nobody waits for an answer.
func (q *lanes) answered() { q.turns, q.owed = 0, false }

// seat is a session's place in the lanes.
type seat struct {
	queued bool // it is to have a turn
	load   int  // bytes that a turn brings, on average
	large  bool // the commands of the last turn that brought much had wideCommand bytes or more
}

// short tells whether it is in the short lane.
func (s *seat) short() bool { return s.load <= shortLoad }

// queue is a list of sessions, first in, first out. It is emptied often, and then begins anew.
type queue struct {
	list []*Session
	head int
}

func (q *queue) len() int { return len(q.list) - q.head }

func (q *queue) push(s *Session) {
	if q.head > 0 && len(q.list) == cap(q.list) { // or it would grow for ever behind those that left
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, s)
}

// first is the first. REQUIRES len() > 0.
func (q *queue) first() *Session { return q.list[q.head] }

// pop takes the first. REQUIRES len() > 0.
func (q *queue) pop() *Session {
	s := q.list[q.head]
	q.list[q.head] = nil
	if q.head++; q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	return s
}
