package vfs

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// Crash returns the file system as it may look after a power failure now, with nothing open or locked. All of it is
// durable.
//
// Of what was not synced each part survives with a chance of keep percent: a sector of a file, the size of a file, a
// change of a directory (create, rename, remove, mkdir). A part that was changed several times survives in its
// newest state with that chance and otherwise in any older one. At 0 exactly the durable state is left, at
// 100 all of it. The draws depend on seed alone and are independent of each other: a size may survive without the
// bytes (they read as zeros, or as what a truncate was to cut) and a rename without the content of the file. A
// rename is there wholly or not at all.
func (s *Sim) Crash(seed uint64, keep int) *Sim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fork(func(n *node) *node { return n.crash("", lottery{seed: seed, keep: keep}, nil) })
}

// CrashNames returns the file system after the power failure that is worst for names, with nothing open or locked: each
// name that was given and not synced is lost, also by a rename, each removal is done, and of bytes the durable ones are left.
// A file whose directory should have been synced is missing then, and no old file or log is there in its place.
func (s *Sim) CrashNames() *Sim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fork(func(n *node) *node { return n.crash("", lottery{removals: true}, nil) })
}

// ExplainCrash writes what Crash with the same arguments keeps and loses, a line for each part not synced.
func (s *Sim) ExplainCrash(w io.Writer, seed uint64, keep int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(w, "crash seed %d keep %d after %d operations:\n", seed, keep, s.ops)
	s.root.crash("", lottery{seed: seed, keep: keep}, func(format string, args ...any) {
		fmt.Fprintf(w, "\t"+format+"\n", args...)
	})
}

// Kill returns the file system as the next process finds it after kill -9: every operation is visible, nothing that
// was not durable has become so, nothing is open or locked. It is also the way to fork a prepared file system.
func (s *Sim) Kill() *Sim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fork(func(n *node) *node { return n.fork(make(map[*node]*node)) })
}

func (s *Sim) fork(root func(*node) *node) *Sim {
	f := &Sim{nextIno: s.nextIno}
	f.init(root(s.root))
	return f
}

// fork copies the tree. done maps nodes to their copies: an unsynced rename leaves a node reachable twice.
func (n *node) fork(done map[*node]*node) *node {
	if f, ok := done[n]; ok {
		return f
	}
	f := &node{ino: n.ino}
	done[n] = f
	if !n.isDir() {
		f.file = n.file.fork()
		return f
	}
	copyEntries := func(entries map[string]*node) map[string]*node {
		if entries == nil {
			return nil
		}
		c := make(map[string]*node, len(entries))
		for name, child := range entries {
			c[name] = child.fork(done)
		}
		return c
	}
	f.entries, f.durable = copyEntries(n.entries), copyEntries(n.durable)
	f.pending = slices.Clone(n.pending)
	for i := range f.pending {
		f.pending[i].node = f.pending[i].node.fork(done)
	}
	return f
}

// crash returns the tree after a power failure. name is the path of n, report (may be nil) is told each draw.
func (n *node) crash(name string, lot lottery, report func(format string, args ...any)) *node {
	lot.ino = n.ino
	c := &node{ino: n.ino}
	if !n.isDir() {
		fileReport := report
		if report != nil {
			fileReport = func(format string, args ...any) { report(name+": "+format, args...) }
		}
		c.file = n.file.crash(lot, fileReport)
		return c
	}
	entries := n.entries
	if n.durable != nil {
		entries = maps.Clone(n.durable)
	}
	for i, change := range n.pending {
		fate := "lost"
		if lot.pick(1, uint64(i)) == 1 || lot.removals && change.kind == entryRemove {
			fate = "kept"
			change.apply(entries)
		}
		if report != nil {
			report("%s/: %s %s", name, change, fate)
		}
	}
	c.entries = make(map[string]*node, len(entries))
	if report == nil {
		for base, child := range entries {
			c.entries[base] = child.crash("", lot, nil)
		}
		return c
	}
	for _, base := range slices.Sorted(maps.Keys(entries)) {
		c.entries[base] = entries[base].crash(name+"/"+base, lot, report)
	}
	return c
}

// lottery draws what survives. Each draw is a hash of the seed, the node and the part, not the next number of a
// stream: the order of asking does not matter, and ExplainCrash repeats it.
type lottery struct {
	seed     uint64
	keep     int  // percent
	removals bool // all of them survive
	ino      uint64
}

// pick returns how many of n changes of a part survive: all of them with a chance of keep percent, else any
// smaller number.
func (l lottery) pick(n int, part uint64) int {
	switch {
	case l.keep <= 0 || n == 0:
		return 0
	case l.keep >= 100:
		return n
	}
	r := mix(mix(mix(l.seed)+l.ino) + part)
	if r%100 < uint64(l.keep) {
		return n
	}
	return int((r >> 32) % uint64(n))
}

// mix is the finaliser of SplitMix64: every bit of x changes half of the bits of the result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
