package vfs

import (
	"path"
	"strings"
	"time"
)

// Rule tells a Faulty which calls to disturb, and how. The zero value fails nothing: give Err, Short, Delay or Until.
//
// A rule counts the calls that match Ops and Glob. It lets the first Skip of them through, disturbs the next one,
// and with Every > 0 each Every-th after it too.
type Rule struct {
	Ops  Op     // the kinds of calls, 0 for OpAll
	Glob string // path.Match pattern on the base name, or on the whole name if it has a slash; "" for every name

	Skip  int // matching calls to let through first
	Every int // 0: disturb one call; 1: all from there on; n: every n-th from there on

	Err   error         // what the call returns, wrapped with operation and name; the file system is not asked
	Short bool          // for OpWrite: write the first half of the bytes, then fail with Err (io.ErrShortWrite if nil)
	Delay time.Duration // sleep before the call

	Until <-chan struct{} // the call hangs until this channel is closed, and then goes on; nil: it does not hang

	calls int // matching calls so far, under Faulty.mu
}

// matches reports whether the rule concerns a call on name (a rename has two names).
func (r *Rule) matches(kind Op, names ...string) bool {
	ops := r.Ops
	if ops == 0 {
		ops = OpAll
	}
	if ops&kind == 0 {
		return false
	}
	if r.Glob == "" {
		return true
	}
	for _, name := range names {
		if !strings.Contains(r.Glob, "/") {
			name = path.Base(name)
		}
		if ok, _ := path.Match(r.Glob, name); ok { // Inject checked the pattern
			return true
		}
	}
	return false
}

// due counts a matching call and reports whether it is one to disturb.
func (r *Rule) due() bool {
	n := r.calls - r.Skip
	r.calls++
	return n == 0 || n > 0 && r.Every > 0 && n%r.Every == 0
}
