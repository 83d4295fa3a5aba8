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

// forwardInput is how many bytes a turn of a session on a forward port reads at most, where its turns bring much. Each turn waits for other shards, which
// takes ten system calls of all nodes: 64 pages of 20 posts are 21 KB, and take one turn instead of three.
const forwardInput = 32 << 10

// space is where the next read goes.
func (s *Session) space() []byte {
	if s.scratch == nil {
		w, _ := s.front.scratches.Get().(*scratch)
		if w == nil {
			w = &scratch{input: resp.NewMemory(inputSize)}
		}
		s.scratch = w
		s.rd.Attach(&w.input)
		s.handler.Attach(w.memory)
		if !s.InLoop() {
			s.out.TakeMemory(&w.out)
		}
	}
	if s.port == Forward && !s.seat.short() {
		return s.rd.Space(forwardInput)
	}
	return s.rd.Space(readSize)
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
	if w := s.scratch; w != nil && s.kept && s.out.Cap() <= retainOut {
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
	if s.where.Load() == away {
		s.out.GiveMemory(&w.out)
		s.account.set(s.holding())
	}
	if n := w.input.Size(); n == inputSize || s.port == Forward && n <= 2*forwardInput {
		s.front.scratches.Put(w)
	}
}
