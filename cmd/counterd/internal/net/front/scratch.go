package front

import "github.com/counterd/counterd/cmd/counterd/internal/net/resp"

// scratch is the memory that a session works in. A waiting session has none: it takes a scratch when bytes arrive and
// gives it back when all is answered and no more bytes are there. So 10,000 idle connections hold no buffers, and those
// at work share a few that stay in the processor's cache: a loop's all use the same, 19 KB for a pipeline of 64.
type scratch struct {
	input  resp.Memory
	out    resp.Region // of a session that is away; in a loop replies are in the loop's
	memory any         // the handler's
}

// inputSize is the buffer that a scratch begins with: 190 INCRs. A flood of small commands outruns the collector with
// 16 KiB.
const inputSize = 8 << 10

// wideInput is how many bytes a turn reads at most where few are enough for much work: 64 pages of 20 posts are 27 KB, and take one
// turn, of 0.2 ms, instead of four, each with two system calls. Sessions on a forward port have such turns too: a turn waits for
// other shards, which takes ten system calls of all nodes.
const wideInput = 32 << 10

// wideCommand is the least average size of the commands in turns that read wideInput: a page of a dozen posts.
const wideCommand = 256

// wide tells whether turns of s read wideInput.
func wide(s *Session) bool { return (s.port == Forward || s.seat.large) && !s.seat.short() }

// space is where the next read goes.
func (s *Session) space() []byte {
	if s.scratch == nil {
		w := takeScratch(s)
		s.scratch = w
		s.rd.Attach(&w.input)
		s.handler.Attach(w.memory)
		if !s.InLoop() {
			s.out.TakeMemory(&w.out)
		}
	}
	if wide(s) {
		return s.rd.Space(wideInput)
	}
	return s.rd.Space(readSize)
}

// takeScratch takes for s the scratch that another session has given back, or makes one.
func takeScratch(s *Session) *scratch {
	if s.InLoop() {
		if w := s.loop.takeSpare(); w != nil {
			return w
		}
	}
	if w, _ := s.front.scratches.Get().(*scratch); w != nil {
		return w
	}
	return &scratch{input: resp.NewMemory(inputSize)}
}

// keepReplies moves the replies of a session that waits in its loop out of the memory that the loop's sessions share.
func keepReplies(s *Session) {
	if w := s.scratch; w != nil && !s.kept {
		s.out.OwnIn(&w.out)
		s.kept = true
		return
	}
	s.out.Own()
}

// giveReplies gives the memory of keepReplies back. REQUIRES that the replies were sent.
func giveReplies(s *Session) {
	if w := s.scratch; w != nil && s.kept && (s.out.Cap() <= retainOut || wide(s) && s.out.Cap() <= 4*wideInput) {
		s.out.GiveMemory(&w.out)
	}
	s.kept = false
}

// release gives the scratch back, unless it holds the beginning of a command. Everything read was executed.
func (s *Session) release() {
	w := s.scratch
	if w == nil || !s.rd.Release(&w.input) {
		return
	}
	w.memory = s.handler.Detach()
	s.scratch = nil
	place := s.where.Load()
	if place == away {
		s.out.GiveMemory(&w.out)
		s.account.set(s.holding())
	}
	n := w.input.Size()
	if n != inputSize && (n > 2*wideInput || !wide(s)) {
		return // it would stay as large as a command was
	}
	if place != inLoop || !s.loop.keepSpare(w) {
		s.front.scratches.Put(w)
	}
}
