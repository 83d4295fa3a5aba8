package cluster

import (
	"bytes"
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
	"github.com/counterd/counterd/persist/format"
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

// HomeName is the file in a data directory that holds it. HomeCopyName is a copy, which is written first: it takes the place
// of a file that is damaged or gone. Where both are gone, the directory is a new node's.
const (
	HomeName     = "node.json"
	HomeCopyName = HomeName + vfs.CopySuffix
)

// maxNote is far more than a note has.
const maxNote = 1 << 20

// homeFormat is the version that this program writes. A higher one is refused.
const homeFormat = 1

// note is the file's content: one line of JSON, whose last member is the crc32c of all bytes before that member:
//
//	{"format":1,"node":"<id>","cluster":"<id>","starts":[...],"crc32c":"<8 hex digits>"}
//
// A file of an older program has no crc32c and is read too. A damaged name of that member makes the file look like one of
// an older program; all other members are whole then, as it is the only damage.
type note struct {
	Format  int             `json:"format"`
	Node    topology.NodeID `json:"node"`
	Cluster string          `json:"cluster,omitempty"`
	// Starts are Home's. A directory of an older program has none.
	Starts []topology.Start `json:"starts,omitempty"`
}

// noteSum begins the last member.
const noteSum = `,"crc32c":"`

// text is the content of the file.
func (n *note) text() ([]byte, error) {
	b, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	return sealNote(b[:len(b)-1]), nil // without the brace that ends it
}

// sealNote appends the last member, the brace and the end of the line.
func sealNote(b []byte) []byte {
	return fmt.Appendf(b, "%s%08x\"}\n", noteSum, format.Checksum(b))
}

// parseNote is the inverse of text. A damaged text gives an error that matches format.ErrCorrupt.
func parseNote(text []byte) (n note, err error) {
	damaged := func(want string, got any) (note, error) {
		return note{}, fmt.Errorf("want %s, got %v: %w; without the file the directory is that of a new node", want, got, format.ErrCorrupt)
	}
	if i := bytes.LastIndex(text, []byte(noteSum)); i >= 0 {
		if want := sealNote(bytes.Clone(text[:i])); !bytes.Equal(text, want) {
			return damaged(fmt.Sprintf("%q at the end", want[i+1:]), fmt.Sprintf("%q", text[i+1:]))
		}
	}
	if err := json.Unmarshal(text, &n); err != nil {
		return damaged("one line of JSON", err)
	}
	if n.Format > homeFormat || n.Format < 1 {
		return note{}, fmt.Errorf("got format %d, want %d at most: %w", n.Format, homeFormat, errNewer)
	}
	if err := n.Node.Check(); err != nil {
		return damaged("the id of a node", err)
	}
	return n, nil
}

// Directory is the Home of a data directory. It is safe for concurrent use.
type Directory struct {
	fs         vfs.FS
	path, copy string // of the two files

	writing sync.Mutex // held while the file is written, which a disk that hangs does not end
	told    bool       // Verify has said that neither file is this node's; under writing
	mu      sync.Mutex // guards note; a leaf
	note    note
}

var _ Home = (*Directory)(nil)

// OpenDirectory reads the note of a data directory, and makes one where there is none. The directory must be locked. One whole
// file is enough: a disk that takes no writes does not prevent a start, and the next change writes both files.
func OpenDirectory(fsys vfs.FS, dir string) (*Directory, error) {
	d := &Directory{fs: fsys, path: filepath.Join(dir, HomeName), copy: filepath.Join(dir, HomeCopyName)}
	var err error
	if d.note, err = readNote(fsys, d.path); errors.Is(err, errNewer) {
		return nil, err
	}
	second, cerr := readNote(fsys, d.copy)
	switch {
	case errors.Is(cerr, errNewer): // a newer program writes it first
		return nil, cerr
	case err == nil && cerr == nil:
		return d, nil
	case err == nil:
		return d, d.writeBoth()
	case cerr == nil:
		d.note = second
		return d, d.writeBoth()
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case !errors.Is(cerr, fs.ErrNotExist):
		return nil, cerr
	}
	var id [20]byte
	_, _ = rand.Read(id[:]) // never fails
	return d, d.change(func(n *note) { n.Format, n.Node = homeFormat, topology.NodeID(hex.EncodeToString(id[:])) })
}

// NodeOf is the id of the node of a data directory. It changes nothing.
func NodeOf(fsys vfs.FS, dir string) (topology.NodeID, error) {
	n, err := eitherNote(fsys, dir)
	return n.Node, err
}

// eitherNote reads one of the two files: the copy where the other one is damaged or gone.
func eitherNote(fsys vfs.FS, dir string) (note, error) {
	n, err := readNote(fsys, filepath.Join(dir, HomeName))
	if err != nil && !errors.Is(err, errNewer) {
		if second, cerr := readNote(fsys, filepath.Join(dir, HomeCopyName)); cerr == nil {
			n, err = second, nil
		}
	}
	return n, err
}

// Started tells whether a data directory is that of a node that has taken part in its cluster. It changes nothing.
func Started(fsys vfs.FS, dir string) bool {
	n, err := eitherNote(fsys, dir)
	return err == nil && len(n.Starts) > 0
}

// NeverJoined tells whether a data directory is that of a node that has never had a part in a cluster: no other node counts on its data. It changes
// nothing.
func NeverJoined(fsys vfs.FS, dir string) bool {
	n, err := eitherNote(fsys, dir)
	return err == nil && n.Cluster == "" && len(n.Starts) == 0
}

// Newest returns the id of the node of a data directory, unless the map says that the directory is an older copy (starts), or does not
// know the node. It changes nothing.
func Newest(fsys vfs.FS, dir string, m *topology.Map) (topology.NodeID, error) {
	n, err := eitherNote(fsys, dir)
	switch {
	case err != nil:
		return n.Node, err
	case m.Nodes[n.Node] == nil:
		return n.Node, fmt.Errorf("etcd does not know node %s", n.Node)
	case outdated(m.Nodes[n.Node].Start, n.Starts):
		return n.Node, errors.New("the directory is an older copy")
	}
	return n.Node, nil
}

// Released returns nil if the cluster counts on nothing that the directory of a free node has: the data is of the map's cluster, and the map
// is not older than the directory. Otherwise the error says why the directory may hold the only copy of its data. It changes nothing.
func Released(fsys vfs.FS, dir string, m *topology.Map) error {
	n, err := eitherNote(fsys, dir)
	switch {
	case err != nil:
		return err
	case n.Cluster == "":
		return errors.New("this node has never had a part in a cluster")
	case n.Cluster != m.Cluster.ID:
		return fmt.Errorf("this node's directory is of cluster %s, and etcd has %q", n.Cluster, m.Cluster.ID)
	case m.Nodes[n.Node] == nil:
		return fmt.Errorf("etcd does not know node %s", n.Node)
	case len(n.Starts) > 0 && m.Nodes[n.Node].Start.Count < n.Starts[0].Count:
		return fmt.Errorf("etcd has start %d of this node, and the directory has %d: etcd was restored from an older backup", m.Nodes[n.Node].Start.Count, n.Starts[0].Count)
	}
	return nil
}

var errNewer = errors.New("a newer counterd wrote it")

// readNote reads one of the two files.
func readNote(fsys vfs.FS, path string) (note, error) {
	text, err := vfs.ReadFile(fsys, path, maxNote)
	if err != nil {
		return note{}, err
	}
	n, err := parseNote(text)
	if err != nil {
		return note{}, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// writeBoth writes the note as it is, where one of its files is damaged or gone. A disk that takes no writes is no error.
func (d *Directory) writeBoth() error {
	if err := d.change(func(*note) {}); err != nil && !vfs.IsTrouble(err) {
		return err
	}
	return nil
}

// Verify compares both files with memory, and writes them again where one is damaged or gone: damage is the difference, and err the
// reason why it could not. Where neither is this node's any more, another directory may stand at the path: nothing is written, and that
// is said once.
func (d *Directory) Verify() (damage, err error) {
	d.writing.Lock()
	now, own := d.read(), 0
	for _, path := range []string{d.path, d.copy} {
		n, err := readNote(d.fs, path)
		switch {
		case errors.Is(err, errNewer):
			d.writing.Unlock()
			return nil, nil // a newer program has come, and reads it
		case err != nil:
			damage = errors.Join(damage, err)
		case n.Node == now.Node:
			own++
		}
		if err == nil && !n.same(&now) {
			damage = errors.Join(damage, fmt.Errorf("%s: got %+v, want %+v: %w", path, n, now, format.ErrCorrupt))
		}
	}
	told := d.told
	d.told = own == 0
	d.writing.Unlock() // change takes it
	switch {
	case damage == nil || own == 0 && told:
		return nil, nil
	case own == 0:
		return damage, errors.New("neither node.json nor its copy is this node's: is another directory there?")
	}
	return damage, d.change(func(*note) {})
}

// same tells whether two notes say the same.
func (n *note) same(of *note) bool {
	return n.Node == of.Node && n.Cluster == of.Cluster && slices.Equal(n.Starts, of.Starts)
}

// change writes the note with a change; behind an error it is as before.
func (d *Directory) change(f func(*note)) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	next := d.read()
	f(&next)
	text, err := next.text()
	if err != nil {
		return err
	}
	if err := vfs.WriteTwice(d.fs, d.path, text); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note = next
	return nil
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
