package cluster

import (
	"bytes"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/testkit/damagetest"
	"github.com/counterd/counterd/internal/testkit/filetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestDirectoryDamage: any damage of node.json is found, or the note is the same. A flipped bit of the id would make the
// directory another node's.
func TestDirectoryDamage(t *testing.T) {
	disk := filetest.NewFS(t)
	d, err := OpenDirectory(disk, filetest.Dir)
	filetest.Must(t, err)
	filetest.Must(t, d.Join("abc"))
	filetest.Must(t, d.SetStarts([]topology.Start{{Count: 1, Token: "a"}, {Count: 2, Token: "b"}}))
	path := filepath.Join(filetest.Dir, HomeName)
	whole, err := vfs.ReadFile(disk, path, maxNote)
	filetest.Must(t, err)
	same := errors.New("the note is the same")
	found := func(err error) bool { return errors.Is(err, format.ErrCorrupt) || err == same }
	damagetest.AllFound(t, whole, found, func(b []byte) error {
		filetest.Put(t, disk, path, b)
		if err := vfs.RemoveIfThere(disk, path+".copy"); err != nil {
			return err
		}
		again, err := OpenDirectory(disk, filetest.Dir)
		switch {
		case err != nil:
			return err
		case bytes.Equal(b, whole):
			return nil
		case !reflect.DeepEqual(again.note, d.note):
			t.Errorf("%q reads as %+v", b, again.note)
		}
		return same
	})
}

// TestDirectoryWithoutSum: a note of an older program, without a checksum, is read, and gets one when it changes.
func TestDirectoryWithoutSum(t *testing.T) {
	disk := filetest.NewFS(t)
	path := filepath.Join(filetest.Dir, HomeName)
	old := []byte(`{"format":1,"node":"0123456789012345678901234567890123456789","cluster":"abc"}` + "\n")
	filetest.Must(t, vfs.WriteFileAtomic(disk, path, old))
	d, err := OpenDirectory(disk, filetest.Dir)
	filetest.Must(t, err)
	if d.Cluster() != "abc" {
		t.Errorf("got cluster %q", d.Cluster())
	}
	filetest.Must(t, d.Join("def"))
	if text, err := vfs.ReadFile(disk, path, maxNote); err != nil || !bytes.Contains(text, []byte(noteSum)) {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestDirectoryCopy: no damage of one of the two files takes a node's id or its starts, and both are whole behind it.
func TestDirectoryCopy(t *testing.T) {
	disk := filetest.NewFS(t)
	d, err := OpenDirectory(disk, filetest.Dir)
	filetest.Must(t, err)
	filetest.Must(t, d.Join("abc"))
	filetest.Must(t, d.SetStarts([]topology.Start{{Count: 7, Token: "a"}}))
	paths := []string{filepath.Join(filetest.Dir, HomeName), filepath.Join(filetest.Dir, HomeCopyName)}
	whole, err := vfs.ReadFile(disk, paths[0], maxNote)
	filetest.Must(t, err)
	flipped := bytes.Clone(whole)
	flipped[bytes.Index(whole, []byte(d.Node()))] ^= 1
	for _, path := range paths {
		for _, bad := range [][]byte{nil, {}, make([]byte, len(whole)), whole[:len(whole)/2], flipped} {
			if bad != nil {
				filetest.Put(t, disk, path, bad)
			} else {
				filetest.Must(t, disk.Remove(path))
			}
			again, err := OpenDirectory(disk, filetest.Dir)
			if err != nil || !reflect.DeepEqual(again.note, d.note) {
				t.Fatalf("%s as %q: %v", path, bad, err)
			}
			for _, path := range paths {
				if text, err := vfs.ReadFile(disk, path, maxNote); err != nil || !bytes.Equal(text, whole) {
					t.Fatalf("%s is %q behind it, %v", path, text, err)
				}
			}
		}
	}
	for _, path := range paths { // then it is no new node's directory
		filetest.Put(t, disk, path, flipped)
	}
	if again, err := OpenDirectory(disk, filetest.Dir); !errors.Is(err, format.ErrCorrupt) {
		t.Fatalf("%+v, %v, want ErrCorrupt", again, err)
	}
}

// TestDirectoryVerified: a file that is damaged while the node serves is written again from memory. Files of another node are left
// alone.
func TestDirectoryVerified(t *testing.T) {
	disk := filetest.NewFS(t)
	d, err := OpenDirectory(disk, filetest.Dir)
	filetest.Must(t, err)
	filetest.Must(t, d.SetStarts([]topology.Start{{Count: 7, Token: "a"}}))
	paths := []string{filepath.Join(filetest.Dir, HomeName), filepath.Join(filetest.Dir, HomeCopyName)}
	whole, err := vfs.ReadFile(disk, paths[0], maxNote)
	filetest.Must(t, err)
	if damage, err := d.Verify(); damage != nil || err != nil {
		t.Fatalf("whole files: %v, %v", damage, err)
	}
	older, err := (&note{Format: 1, Node: d.Node(), Starts: []topology.Start{{Count: 6, Token: "a"}}}).text()
	filetest.Must(t, err)
	for _, path := range paths {
		for _, bad := range [][]byte{nil, {}, whole[:len(whole)/2], older} {
			if bad != nil {
				filetest.Put(t, disk, path, bad)
			} else {
				filetest.Must(t, disk.Remove(path))
			}
			if damage, err := d.Verify(); damage == nil || err != nil {
				t.Errorf("%s as %q: %v, %v", path, bad, damage, err)
			}
			for _, path := range paths {
				if text, err := vfs.ReadFile(disk, path, maxNote); err != nil || !bytes.Equal(text, whole) {
					t.Fatalf("%s is %q behind it, %v", path, text, err)
				}
			}
		}
	}
	other, err := (&note{Format: 1, Node: topology.NodeID(strings.Repeat("a", 40))}).text()
	filetest.Must(t, err)
	filetest.Put(t, disk, paths[0], other)
	filetest.Must(t, disk.Remove(paths[1]))
	if damage, err := d.Verify(); damage == nil || err == nil {
		t.Errorf("another node's: %v, %v", damage, err)
	}
	if damage, err := d.Verify(); damage != nil || err != nil {
		t.Errorf("another node's again: %v, %v", damage, err)
	}
	if text, err := vfs.ReadFile(disk, paths[0], maxNote); err != nil || !bytes.Equal(text, other) {
		t.Errorf("another node's file is %q, %v", text, err)
	}
}

// TestDirectoryFullDisk: where one of the two files is damaged or gone and the disk takes no writes, the other one is enough for
// a start, as the file of an older program is, which has no copy. The next change writes both.
func TestDirectoryFullDisk(t *testing.T) {
	paths := []string{filepath.Join(filetest.Dir, HomeName), filepath.Join(filetest.Dir, HomeCopyName)}
	for _, lost := range paths {
		disk := filetest.NewFS(t)
		d, err := OpenDirectory(disk, filetest.Dir)
		filetest.Must(t, err)
		filetest.Must(t, d.Join("abc"))
		filetest.Must(t, disk.Remove(lost))
		full := vfs.NewFaulty(disk)
		full.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.ENOSPC})
		again, err := OpenDirectory(full, filetest.Dir)
		if err != nil || !reflect.DeepEqual(again.note, d.note) {
			t.Fatalf("without %s on a full disk: %v", lost, err)
		}
		full.Clear()
		filetest.Must(t, again.SetStarts([]topology.Start{{Count: 1, Token: "a"}}))
		for _, path := range paths {
			if n, err := readNote(disk, path); err != nil || !reflect.DeepEqual(n, again.note) {
				t.Errorf("%s is %+v behind a change, %v", path, n, err)
			}
		}
	}
	full := vfs.NewFaulty(filetest.NewFS(t))
	full.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.ENOSPC})
	if _, err := OpenDirectory(full, filetest.Dir); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a new node's directory on a full disk: %v", err)
	}
}

// TestDirectoryNewer: a node.json of a newer program is refused, although the copy can be read.
func TestDirectoryNewer(t *testing.T) {
	disk := filetest.NewFS(t)
	d, err := OpenDirectory(disk, filetest.Dir)
	filetest.Must(t, err)
	newer := note{Format: homeFormat + 1, Node: d.Node()}
	text, err := newer.text()
	filetest.Must(t, err)
	path := filepath.Join(filetest.Dir, HomeName)
	filetest.Put(t, disk, path, text)
	if _, err := OpenDirectory(disk, filetest.Dir); !errors.Is(err, errNewer) {
		t.Errorf("got %v, want that a newer program wrote it", err)
	}
	if left, err := vfs.ReadFile(disk, path, maxNote); err != nil || !bytes.Equal(left, text) {
		t.Errorf("the file is %q, %v", left, err)
	}
}

// TestDirectoryNewerCopy: a newer program that ended between its two files has written the copy. It stays as it is.
func TestDirectoryNewerCopy(t *testing.T) {
	disk := filetest.NewFS(t)
	if _, err := OpenDirectory(disk, filetest.Dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filetest.Dir, HomeCopyName)
	newer := sealNote([]byte(`{"format":2,"node":"of a newer program"`))
	filetest.Must(t, vfs.WriteFileAtomic(disk, path, newer))
	if _, err := OpenDirectory(disk, filetest.Dir); !errors.Is(err, errNewer) {
		t.Errorf("got %v, want errNewer", err)
	}
	if text, err := vfs.ReadFile(disk, path, maxNote); err != nil || !bytes.Equal(text, newer) {
		t.Errorf("the newer copy is %q, %v", text, err)
	}
}
