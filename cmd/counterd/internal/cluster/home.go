package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/atomicfile"
)

// Home is what a node's directory says of it. What it is told is durable on return.
type Home interface {
	// Node is the node's id, for as long as the directory lives.
	Node() topology.NodeID
	// Cluster is the id of the cluster that the data is of; empty: of none yet.
	Cluster() string
	// Join says that the data is of a cluster from now on.
	Join(cluster string) error
	// Behind tells whether the log may lack what it acknowledged, as the machine went down under it.
	Behind() bool
	// CaughtUp ends that.
	CaughtUp() error
}

// HomeName is the file in a data directory that holds it.
const HomeName = "node.json"

// homeFormat is the one that this program writes. A higher one is refused.
const homeFormat = 1

// note is the file's content.
type note struct {
	Format  int             `json:"format"`
	Node    topology.NodeID `json:"node"`
	Cluster string          `json:"cluster,omitempty"`
	// Boot is the machine's boot id under which a process has the directory in use; empty behind a clean end. Every
	// acknowledged change was durable meanwhile if Durable is set (appendfsync always).
	Boot    string `json:"boot,omitempty"`
	Durable bool   `json:"durable,omitempty"`
	Behind  bool   `json:"behind,omitempty"`
}

// Directory is the Home of a data directory. It is safe for concurrent use.
type Directory struct {
	path string

	mu   sync.Mutex
	note note
}

var _ Home = (*Directory)(nil)

// OpenDirectory reads the note of a data directory, and makes one where there is none. durable tells whether changes are
// acknowledged when they are durable (appendfsync always). The directory must be locked, and its Close called behind the
// log's.
func OpenDirectory(dir string, durable bool) (*Directory, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("which boot of the machine this is: %w", err)
	}
	return openDirectory(dir, strings.TrimSpace(string(boot)), durable)
}

func openDirectory(dir, boot string, durable bool) (*Directory, error) {
	d := &Directory{path: filepath.Join(dir, HomeName)}
	text, err := os.ReadFile(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		var id [20]byte
		_, _ = rand.Read(id[:]) // never fails
		d.note.Node = topology.NodeID(hex.EncodeToString(id[:]))
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(text, &d.note); err != nil {
			return nil, fmt.Errorf("%s: %w", d.path, err)
		}
		if d.note.Format > homeFormat || d.note.Format < 1 {
			return nil, fmt.Errorf("%s: got format %d, want %d at most: a newer counterd wrote it", d.path, d.note.Format, homeFormat)
		}
		if err := d.note.Node.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", d.path, err)
		}
	}
	return d, d.change(func(n *note) {
		n.Behind = n.Behind || n.Boot != "" && n.Boot != boot && !n.Durable
		n.Format, n.Boot, n.Durable = homeFormat, boot, durable
	})
}

// change writes the note with a change; behind an error it is as before.
func (d *Directory) change(f func(*note)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.note
	f(&next)
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	err = atomicfile.Replace(d.path, 0o644, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err == nil {
		d.note = next
	}
	return err
}

func (d *Directory) read() note {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.note
}

// Node is Home's.
func (d *Directory) Node() topology.NodeID { return d.read().Node }

// Cluster is Home's.
func (d *Directory) Cluster() string { return d.read().Cluster }

// Behind is Home's.
func (d *Directory) Behind() bool { return d.read().Behind }

// Join is Home's.
func (d *Directory) Join(cluster string) error {
	return d.change(func(n *note) { n.Cluster = cluster })
}

// CaughtUp is Home's.
func (d *Directory) CaughtUp() error { return d.change(func(n *note) { n.Behind = false }) }

// Fsync says that appendfsync has changed. A directory that was not durable for a moment stays so until the process ends.
func (d *Directory) Fsync(durable bool) error {
	if durable || !d.read().Durable {
		return nil
	}
	return d.change(func(n *note) { n.Durable = false })
}

// Close notes a clean end: all that was acknowledged is durable.
func (d *Directory) Close() error { return d.change(func(n *note) { n.Boot = "" }) }
