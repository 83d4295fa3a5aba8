package repl

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/counterd/counterd/persist/vfs"
)

// A replica keeps its primary's address in its directory, so that it goes on to follow after a restart whether or not a
// configuration file holds it: Sentinel repairs a replica without a primary only after failover-timeout, 3 minutes, and
// answers are stale until then. The file counts while the log is a replica's. It is written before the node takes
// changes of a new primary, and removed when the log is a primary's.

// primaryName is the file: "port host", as a host may hold spaces.
const primaryName = "PRIMARY"

// remember notes the primary, durably. What is noted already is not written again: a replica that starts on a full disk
// goes on to follow.
func (n *Node) remember(a Address) error {
	if store := n.host.Store(); store.Replica() {
		if noted, _, err := n.noted(primaryName); err == nil && noted == a {
			return n.fs.SyncDir(store.Path()) // who wrote it may not have come so far
		}
	}
	return n.note(primaryName, a)
}

// forget removes the note.
func (n *Node) forget() error { return n.unnote(primaryName) }

func (n *Node) notePath(name string) string { return filepath.Join(n.host.Store().Path(), name) }

// note writes an address into a file, and more lines, durably.
func (n *Node) note(name string, a Address, more ...string) error {
	text := strconv.Itoa(a.Port) + " " + a.Host + "\n"
	for _, line := range more {
		text += line + "\n"
	}
	return vfs.WriteFileAtomic(n.fs, n.notePath(name), []byte(text))
}

// unnote removes such a file, if it is there.
func (n *Node) unnote(name string) error {
	path := n.notePath(name)
	if _, err := n.fs.Stat(path); isNotExist(err) {
		return nil
	}
	if err := n.fs.Remove(path); err != nil {
		return err
	}
	return n.fs.SyncDir(filepath.Dir(path))
}

// Remembered is the primary that a replica followed when it ended; the zero value if there is none. A primary forgets
// by this whom it followed once.
func (n *Node) Remembered() (Address, error) {
	store := n.host.Store()
	if !store.Durable() {
		return Address{}, nil
	}
	if !store.Replica() {
		return Address{}, n.forget()
	}
	a, _, err := n.noted(primaryName)
	return a, err
}

// noted reads a note, and the lines behind the address; the zero value if there is none.
func (n *Node) noted(name string) (a Address, more string, err error) {
	path := n.notePath(name)
	data, err := vfs.ReadFile(n.fs, path, 1<<10)
	if isNotExist(err) {
		return Address{}, "", nil
	}
	if err != nil {
		return Address{}, "", err
	}
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	digits, host, _ := bytes.Cut(line, []byte(" "))
	port, err := strconv.Atoi(string(digits))
	if err != nil || port < 0 || port > 65535 || len(host) == 0 {
		return Address{}, "", fmt.Errorf("%s: got %q, want a port and a host", path, data)
	}
	return Address{Host: string(host), Port: port}, string(bytes.TrimSuffix(rest, []byte("\n"))), nil
}
