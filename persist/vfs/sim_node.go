package vfs

import (
	"io/fs"
	"maps"
	"time"
)

// node is a file or a directory of a Sim: what Unix calls an inode. A node sits under at most one name.
//
// Invariant of a directory: durable is nil exactly if pending is empty, and entries == durable + all of pending.
type node struct {
	ino  uint64       // never reused within a Sim and what is forked from it
	file *fileContent // nil for a directory

	entries map[string]*node // what a running process sees
	durable map[string]*node // what the last SyncDir made durable, nil if that is entries
	pending []entryChange    // changes since, oldest first

	locked bool // FS.Lock holds it
}

func newFile(ino uint64) *node { return &node{ino: ino, file: &fileContent{}} }

func newDir(ino uint64) *node { return &node{ino: ino, entries: make(map[string]*node)} }

func (n *node) isDir() bool { return n.file == nil }

// bytes is what the files in the tree take.
func (n *node) bytes() (sum int64) {
	if !n.isDir() {
		return n.file.size
	}
	for _, child := range n.entries {
		sum += child.bytes()
	}
	return sum
}

// entryKind is the kind of an entryChange.
type entryKind uint8

const (
	entrySet    entryKind = iota // create, mkdir
	entryRemove                  // remove
	entryRename                  // rename: both names at once, so that it is atomic
)

// entryChange is one change of a directory, the unit that survives a crash or does not.
type entryChange struct {
	kind entryKind
	name string // the name set or removed
	old  string // the former name of a rename
	node *node  // the node set or removed
}

func (c entryChange) String() string {
	switch c.kind {
	case entrySet:
		return "new entry " + c.name
	case entryRemove:
		return "removal of " + c.name
	default:
		return "rename of " + c.old + " to " + c.name
	}
}

// apply does the change to entries, in which changes before it may be missing.
func (c entryChange) apply(entries map[string]*node) {
	switch c.kind {
	case entrySet:
		entries[c.name] = c.node
	case entryRemove:
		// A name that a lost rename would have filled holds another node: that one was not removed.
		if entries[c.name] == c.node {
			delete(entries, c.name)
		}
	case entryRename:
		// With an earlier rename lost the node sits under a third name: it has only one, so leave that.
		maps.DeleteFunc(entries, func(_ string, n *node) bool { return n == c.node })
		entries[c.name] = c.node
	}
}

// change does c and remembers that it is not durable.
func (n *node) change(c entryChange) {
	if n.durable == nil {
		n.durable = maps.Clone(n.entries)
	}
	n.pending = append(n.pending, c)
	c.apply(n.entries)
}

// sync makes all entries durable.
func (n *node) sync() { n.durable, n.pending = nil, nil }

// simInfo is the fs.FileInfo of a node.
type simInfo struct {
	name string
	size int64
	mode fs.FileMode
	ino  uint64
}

func (i simInfo) Name() string       { return i.name }
func (i simInfo) Size() int64        { return i.size }
func (i simInfo) Mode() fs.FileMode  { return i.mode }
func (i simInfo) ModTime() time.Time { return time.Time{} }
func (i simInfo) IsDir() bool        { return i.mode.IsDir() }
func (i simInfo) Sys() any           { return nil }
