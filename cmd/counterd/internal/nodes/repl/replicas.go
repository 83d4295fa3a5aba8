package repl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"sync"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// A primary outside of a cluster remembers its replicas, so that a start that meets damage knows the other nodes with its data. The
// file REPLICAS is text:
//
//	counterd replicas 1
//	history <40 hex digits>    the term of the log that they follow
//	address <port> <host>      of a recent replica; up to maxReplicas of them
//	end crc32c <8 hex digits>
//
// It is a hint: without it, a damaged primary refuses its start. So there is a copy, REPLICAS.copy, and both are verified while the node
// serves. A person removes REPLICAS while the node serves to have the node forget its replicas: those that follow at that moment are noted again.
type replicas struct {
	node   *Node
	mu     sync.Mutex   // held while the file is written, which a disk that hangs does not end
	closed bool         // the directory may be another process's
	known  ReplicasNote // content of the file, since it was read whole or written; without a list: nothing is known
}

// ReplicasNote is the content of REPLICAS.
type ReplicasNote struct {
	History format.ReplID
	List    []Address
}

const (
	replicasName  = "REPLICAS"
	replicasTitle = "counterd replicas 1\n"
	maxReplicas   = 8
	maxNoted      = 8 << 10 // bytes of the file
)

func (n *ReplicasNote) text() []byte {
	b := fmt.Appendf([]byte(replicasTitle), "history %s\n", n.History)
	for _, a := range n.List {
		b = fmt.Appendf(b, "address %d %s\n", a.Port, a.Host)
	}
	return fmt.Appendf(b, "end crc32c %08x\n", format.Checksum(b))
}

// parseReplicas is the inverse of text.
func parseReplicas(text []byte) (n ReplicasNote, ok bool) {
	rest, _ := bytes.CutPrefix(text, []byte(replicasTitle))
	for line := range bytes.SplitSeq(rest, []byte("\n")) {
		word, value, _ := bytes.Cut(line, []byte(" "))
		switch string(word) {
		case "history":
			n.History, _ = format.ParseReplID(string(value)) // damage is found below
		case "address":
			digits, host, _ := bytes.Cut(value, []byte(" "))
			port, _ := strconv.Atoi(string(digits))
			n.List = append(n.List, Address{Host: string(host), Port: port})
		}
	}
	return n, bytes.Equal(n.text(), text)
}

// ReadReplicas reads REPLICAS in a directory, or else its copy; without a whole file the list is empty.
func ReadReplicas(fsys vfs.FS, dir string) ReplicasNote {
	n, err := readReplicas(fsys, notePath(dir, replicasName))
	if err != nil {
		n, _ = readReplicas(fsys, notePath(dir, replicasName)+vfs.CopySuffix)
	}
	return n
}

// readReplicas reads one of the two files. With an error the list is empty.
func readReplicas(fsys vfs.FS, path string) (ReplicasNote, error) {
	text, err := vfs.ReadFile(fsys, path, maxNoted)
	if err != nil {
		return ReplicasNote{}, err
	}
	n, ok := parseReplicas(text)
	if !ok {
		return ReplicasNote{}, &format.CorruptError{File: path, Want: "the replicas and their checksum", Got: "others"}
	}
	return n, nil
}

// note brings REPLICAS up to date when a replica has come: those that follow now, and then those noted before.
func (r *replicas) note() {
	n := r.node
	if n.Healing() != nil {
		return
	}
	r.change(n.host.Store(), r.withThoseHere)
}

// withThoseHere are the replicas that follow now, and then those noted before.
func (r *replicas) withThoseHere(was []Address) (now []Address) {
	for _, i := range r.node.peers.Infos() {
		if i.Online && !i.Watching && i.Port != 0 {
			now = append(now, Address{Host: i.IP, Port: i.Port})
		}
	}
	for _, a := range was {
		if !slices.Contains(now, a) {
			now = append(now, a)
		}
	}
	return now[:min(len(now), maxReplicas)]
}

// renew notes the term of a store that begins to lead. Replicas that have not come since do not know it, and their log
// may not be the beginning of this node's: they may have frames that a power failure took from it. Taking theirs would mix the two.
func (r *replicas) renew(store *counter.Store) {
	r.change(store, func(was []Address) []Address { return was })
}

// change notes replicas in the term of a store, if it is a primary's outside of a cluster and there are some.
func (r *replicas) change(store *counter.Store, change func(was []Address) []Address) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.notes(store) {
		return
	}
	was, err := readReplicas(r.node.fs, notePath(store.Path(), replicasName))
	switch {
	case err == nil:
	case len(r.known.List) == 0: // the start has not read them yet
		was = ReadReplicas(r.node.fs, store.Path())
	case !errors.Is(err, fs.ErrNotExist):
		was = ReplicasNote{List: r.known.List} // damaged since
	}
	lineage := store.Replication().Lineage()
	r.known = ReplicasNote{History: lineage.Current().ReplID, List: change(was.List)}
	if len(r.known.List) == 0 || err == nil && r.known.History == was.History && slices.Equal(r.known.List, was.List) {
		return // a missing copy is written by verify
	}
	if err := r.write(store); err != nil {
		r.node.logger.Warn("cannot note the replicas: a damaged file could not be healed from them", "error", err)
	}
}

// verify looks at REPLICAS and its copy.
func (r *replicas) verify() (damage, err error) {
	store := r.node.host.Store()
	if r.node.Healing() != nil {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known.List) == 0 || !r.notes(store) {
		return nil, nil
	}
	path := notePath(store.Path(), replicasName)
	if damage = persist.CompareTwice(r.node.fs, path, r.known.text()); damage == nil {
		return nil, nil
	}
	if _, err := r.node.fs.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if r.known.List = r.withThoseHere(nil); len(r.known.List) == 0 {
			return nil, vfs.RemoveTwice(r.node.fs, path)
		}
	}
	return damage, r.write(store)
}

// notes tells whether the replicas of a store are noted. REQUIRES: mu.
func (r *replicas) notes(store *counter.Store) bool {
	return !r.closed && r.node.settings().NodeID == "" && store.Durable() && !store.Replica()
}

// write writes the known replicas. REQUIRES: mu.
func (r *replicas) write(store *counter.Store) error {
	return vfs.WriteTwice(r.node.fs, notePath(store.Path(), replicasName), r.known.text())
}

// close ends the writing.
func (r *replicas) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}
