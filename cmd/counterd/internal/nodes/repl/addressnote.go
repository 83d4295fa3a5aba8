package repl

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// A replica keeps its primary's address in its directory, so that it goes on to follow after a restart whether or not a
// configuration file holds it: Sentinel repairs a replica without a primary only after failover-timeout, 3 minutes, and
// answers are stale until then. The file counts while the log is a replica's. It is written before the node takes
// changes of a new primary, and removed when the log is a primary's. A copy stands beside it (vfs.WriteTwice).

// primaryName is the file: see addressNote.
const primaryName = "PRIMARY"

// addressNote is the content of the files PRIMARY and HANDOVER, so that a restart does not forget them:
//
//	counterd note 1
//	address <port> <host>      a host may hold spaces
//	forced                     HANDOVER alone, or the line is missing
//	end crc32c <8 hex digits>
//
// A file of an older program has the port and the host in its first line, and perhaps forced in its second. It is read too.
type addressNote struct {
	Address
	forced bool
}

const (
	noteTitle      = "counterd note 1\n"
	noteForced     = "forced\n"
	maxAddressNote = 1 << 10
)

// text is the content of the file.
func (n addressNote) text() []byte {
	b := fmt.Appendf([]byte(noteTitle), "address %d %s\n", n.Port, n.Host)
	if n.forced {
		b = append(b, noteForced...)
	}
	return fmt.Appendf(b, "end crc32c %08x\n", format.Checksum(b))
}

// parseAddressNote is the inverse of text. Its errors match format.ErrCorrupt.
func parseAddressNote(text []byte) (addressNote, error) {
	lines, titled := bytes.CutPrefix(text, []byte(noteTitle))
	if titled {
		lines = bytes.TrimPrefix(lines, []byte("address "))
	}
	line, rest, _ := bytes.Cut(lines, []byte("\n"))
	digits, host, _ := bytes.Cut(line, []byte(" "))
	port, err := strconv.Atoi(string(digits))
	n := addressNote{Address{Host: string(host), Port: port}, bytes.HasPrefix(rest, []byte(noteForced))}
	switch {
	case err != nil || port < 0 || port > 65535 || len(host) == 0:
		return addressNote{}, fmt.Errorf("want a port and a host, got %q: %w", text, format.ErrCorrupt)
	case titled && !bytes.Equal(n.text(), text):
		return addressNote{}, fmt.Errorf("want %q, got %q: %w", n.text(), text, format.ErrCorrupt)
	case !titled && len(rest) > 0 && string(rest) != noteForced:
		return addressNote{}, fmt.Errorf("want %q or nothing behind the address, got %q: %w", noteForced, rest, format.ErrCorrupt)
	}
	return n, nil
}

// remember notes the primary, durably. An unchanged note is not written again: a replica that starts on a full disk
// goes on to follow.
func (n *Node) remember(a Address) error {
	if store := n.host.Store(); store.Replica() {
		if noted, err := n.noted(primaryName); err == nil && noted.Address == a {
			return n.fs.SyncDir(store.Path()) // its writer may not have come so far
		}
	}
	return n.note(primaryName, addressNote{Address: a})
}

// forget removes the note.
func (n *Node) forget() error { return n.unnote(primaryName) }

func (n *Node) notePath(name string) string { return notePath(n.host.Store().Path(), name) }

func notePath(dir, name string) string { return filepath.Join(dir, name) }

// note writes an address into a file and its copy, durably.
func (n *Node) note(name string, note addressNote) error {
	path := n.notePath(name)
	err := vfs.WriteTwice(n.fs, path, note.text())
	if err != nil {
		_ = vfs.RemoveIfThere(n.fs, path+vfs.CopySuffix) // it must not count alone: the change of roles does not take place
	}
	return err
}

// unnote removes such a file and its copy, if one is there.
func (n *Node) unnote(name string) error {
	path := n.notePath(name)
	_, err := n.fs.Stat(path)
	_, cerr := n.fs.Stat(path + vfs.CopySuffix)
	if isNotExist(err) && isNotExist(cerr) {
		return nil
	}
	if err := vfs.RemoveTwice(n.fs, path); err != nil {
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
	note, err := n.noted(primaryName)
	return note.Address, err
}

// noted reads a note; the zero value if there is none.
func (n *Node) noted(name string) (addressNote, error) { return readAddress(n.fs, n.notePath(name)) }

// readAddress reads a note, of its file or else of its copy. Where the file is gone and the copy is damaged too, there is no note.
func readAddress(fs vfs.FS, path string) (addressNote, error) {
	note, err := readAddressFile(fs, path)
	if err == nil && note != (addressNote{}) {
		return note, nil
	}
	if second, cerr := readAddressFile(fs, path+vfs.CopySuffix); cerr == nil && second != (addressNote{}) {
		return second, nil
	}
	return note, err
}

func readAddressFile(fs vfs.FS, path string) (addressNote, error) {
	text, err := vfs.ReadFile(fs, path, maxAddressNote)
	if isNotExist(err) {
		return addressNote{}, nil
	}
	if err != nil {
		return addressNote{}, err
	}
	note, err := parseAddressNote(text)
	if err != nil {
		return addressNote{}, fmt.Errorf("%s: %w", path, err)
	}
	return note, nil
}
