package replica

import (
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
)

// Groups are the posts of a store by groups of hash slots (package slot): which of them clients may touch. In a cluster
// a node serves those its shard owns; clients do not see posts of other groups, which are on their way in or out.
//
// All methods are safe for concurrent use.
type Groups struct {
	s    *core.Data
	repl *Replication
	term uint64 // of In; 0: any
}

// NewGroups returns the groups of s, whose side of replication is repl.
func NewGroups(s *core.Data, repl *Replication) Groups { return Groups{s: s, repl: repl} }

// In returns the groups as the primary of an epoch changes them: Import, Accept and Drop, and the records of an import,
// are refused with a *TermError once the store does not lead in that epoch.
func (g Groups) In(epoch uint64) Groups { return Groups{s: g.s, repl: g.repl, term: epoch} }

// leads refuses a change in the name of an epoch in which the store does not lead. REQUIRES Data.Gate held.
func (g Groups) leads() error {
	if r := g.repl; g.term != 0 && !r.Leads(g.term) {
		return &TermError{Got: g.term, Want: r.Epoch()}
	}
	return nil
}

// GroupStats is the number and the size of the posts of a group of hash slots.
type GroupStats struct {
	Posts int64 // of all counters
	Bytes int64 // memory of blocks, and files of cold ones
}

// Stats counts a group. Of a store that is not made of groups it is a 256th of everything, as hash slots spread posts
// evenly.
func (g Groups) Stats(group uint8) (st GroupStats) {
	s := g.s
	for n := 0; ; n++ {
		s.Gate.RLock()
		ks, more := s.KeyspaceAt(n)
		if ks != nil && (!s.SlotGroups || ks.Group == group) {
			for lo := uint64(0); lo < hot.EndMid; {
				b := ks.Lock(lo)
				st.Posts += int64(b.Items())
				st.Bytes += int64(len(b.Span.Data))
				if b.Cold != nil {
					st.Bytes += b.Cold.File.Stat().Bytes
				}
				lo = b.Hi
				b.Mu.Unlock()
			}
		}
		s.Gate.RUnlock()
		if more {
			continue
		}
		if !s.SlotGroups {
			st.Posts, st.Bytes = st.Posts/slot.Groups, st.Bytes/slot.Groups
		}
		return st
	}
}

// Own says which groups clients may touch from now on, a bit each: group g is bit g%64 of set[g/64]. At first it is all
// of them. It returns when no batch is at work on others any more, so it must not be called while one is open.
//
// An operation on another group's post gets a *NotOwnedError, a change of several posts (see Batch.ChangeSet) is refused
// whole, and the number of a Once is not used up. Operations that list and count posts pass over those of other groups:
// Scan, Find, Top, Aggregate, Update, Items, Digests. Records of the log, from a primary or at the start, are applied in
// any case.
func (g Groups) Own(set slot.Set) {
	s := g.s
	s.Gate.Lock()
	defer s.Gate.Unlock()
	for i, owned := range set {
		s.Disowned[i] = ^owned
	}
	s.HideGroups()
}

// Owned are the groups that clients may touch: see Own.
func (g Groups) Owned() (set slot.Set) {
	g.s.Gate.RLock()
	defer g.s.Gate.RUnlock()
	for i, foreign := range g.s.Own.Foreign {
		set[i] = ^foreign
	}
	return set
}
