package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/persist/vfs"
)

// Home is the node's identity in its directory. Its setters are durable when they return.
type Home interface {
	// Node is the node's id, for as long as the directory lives.
	Node() topology.NodeID
	// Cluster is the id of the cluster that the data is of; empty: of none yet.
	Cluster() string
	// Join says that the data is of a cluster from now on.
	Join(cluster string) error
	// Starts are the starts that the directory knows of, rising: the start that etcd has, and those that it may still get. An older
	// copy of the directory has older ones: see starts.
	Starts() []topology.Start
	// SetStarts replaces them.
	SetStarts(list []topology.Start) error
}

// HomeName is the file in a data directory that holds it.
const HomeName = "node.json"

// maxNote is far more than a note has.
const maxNote = 1 << 20

// homeFormat is the one that this program writes. A higher one is refused.
const homeFormat = 1

// note is the file's content.
type note struct {
	Format  int             `json:"format"`
	Node    topology.NodeID `json:"node"`
	Cluster string          `json:"cluster,omitempty"`
	// Starts are Home's. A directory of an older program has none.
	Starts []topology.Start `json:"starts,omitempty"`
}

// Directory is the Home of a data directory. It is safe for concurrent use.
type Directory struct {
	fs   vfs.FS
	path string

	writing sync.Mutex // held while the file is written, which a disk that hangs does not end
	mu      sync.Mutex // guards note; a leaf
	note    note
}

var _ Home = (*Directory)(nil)

// OpenDirectory reads the note of a data directory, and makes one where there is none. The directory must be locked.
func OpenDirectory(fsys vfs.FS, dir string) (*Directory, error) {
	d := &Directory{fs: fsys, path: filepath.Join(dir, HomeName)}
	text, err := vfs.ReadFile(fsys, d.path, maxNote)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		var id [20]byte
		_, _ = rand.Read(id[:]) // never fails
		return d, d.change(func(n *note) { n.Format, n.Node = homeFormat, topology.NodeID(hex.EncodeToString(id[:])) })
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
	return d, nil
}

// change writes the note with a change; behind an error it is as before.
func (d *Directory) change(f func(*note)) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	next := d.read()
	f(&next)
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	err = vfs.WriteFileAtomic(d.fs, d.path, append(text, '\n'))
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
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

// Join is Home's.
func (d *Directory) Join(cluster string) error {
	return d.change(func(n *note) { n.Cluster = cluster })
}

// Starts is Home's.
func (d *Directory) Starts() []topology.Start { return d.read().Starts }

// SetStarts is Home's.
func (d *Directory) SetStarts(list []topology.Start) error {
	return d.change(func(n *note) { n.Starts = slices.Clone(list) })
}
