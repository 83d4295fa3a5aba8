package vfs

import (
	"fmt"
	"io"
	"slices"
)

// maxTrace is the number of operations remembered: far more than a crash test makes, and under 3 MB.
const maxTrace = 10_000

// op is one mutating operation of a Sim.
type op struct {
	num     int // -1 for a note
	kind    Op
	name    string
	newname string // of a rename
	off     int64  // of a write
	len     int64  // of a write; the size of a truncate and preallocate
	crashed bool
	percent int // how much was done when crashed
	text    string
}

// String returns the operation as "op 17: write log/000.aof [512,1024)".
func (o op) String() string {
	if o.num < 0 {
		return "note: " + o.text
	}
	s := fmt.Sprintf("op %d: %s %s", o.num, o.kind, o.name)
	switch o.kind {
	case OpWrite:
		s += fmt.Sprintf(" [%d,%d)", o.off, o.off+o.len)
	case OpTruncate, OpPreallocate:
		s += fmt.Sprintf(" to %d", o.len)
	case OpRename:
		s += " to " + o.newname
	}
	if o.crashed {
		s += fmt.Sprintf(" -- crash, %d %% done", o.percent)
	}
	return s
}

// trace remembers the last maxTrace operations, and up to twice as many in between.
type trace struct {
	ops     []op
	dropped int
}

func (t *trace) add(o op) {
	if len(t.ops) == 2*maxTrace {
		t.ops = slices.Delete(t.ops, 0, maxTrace)
		t.dropped += maxTrace
	}
	t.ops = append(t.ops, o)
}

// note adds a line that is no operation.
func (t *trace) note(format string, args ...any) {
	t.add(op{num: -1, text: fmt.Sprintf(format, args...)})
}

// WriteTrace writes the mutating operations since the Sim was made or forked, a line each, at least the last 10,000.
func (s *Sim) WriteTrace(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trace.dropped > 0 {
		fmt.Fprintf(w, "(%d earlier lines dropped)\n", s.trace.dropped)
	}
	for _, o := range s.trace.ops {
		fmt.Fprintln(w, o)
	}
}
