package repl

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// fetched are the files of a primary's snapshot that a link copies. NOT safe for concurrent use.
//
// Each has a name here that no other file can have: of a random number that each link draws for itself, and a count.
// Nothing that the primary says goes into it, its names least of all: two primaries, and this node's own snapshots,
// which may hold files of an earlier copy, may have one name for different files, and files that a manifest here
// names must never be written to nor removed.
//
// A link that was cut off comes again, and what it has whole is not asked for again. So the files are pinned from
// before they are made until they are installed. Another snapshot, and the link's end, remove what is of no more use.
type fetched struct {
	link  string // random
	made  int
	files map[wanted]*fetchedFile
	pin   *counter.Pin
}

// wanted is the entry of a file in a primary's manifest, with all that counter.CheckBlockFile compares. A file found
// whole is whole for every manifest with the same entry. The block's Offset, which may rise while the file stays, is
// 0.
type wanted struct {
	counter uint32
	block   format.BlockFile
}

// fetchedFile is one of them.
type fetchedFile struct {
	theirs string // its name at the primary
	ours   string // and here
	whole  bool   // it was read, and agrees with the manifest
	lost   bool   // the primary cannot read it either, and it was taken as it is
	cold   bool   // a cold file: the primary gives it as it is
	good   bool   // of a cold file: the primary has read all of it
	bad    bool   // of a cold file: the primary cannot read all of it
}

// rename gives the files of a manifest their names here, and pins them in the store. It returns them in the order of
// Blocks, and removes copies of another snapshot's files.
func (f *fetched) rename(fsys vfs.FS, store *counter.Store, m *format.Manifest) (files []*fetchedFile) {
	if f.link == "" {
		f.link = rand.Text()
	}
	now := make(map[wanted]*fetchedFile)
	var names []string
	_ = m.Files(func(c *format.CounterFiles, b *format.BlockFile) error { // fn returns nil
		w := wanted{c.ID, *b}
		w.block.Offset = 0
		file := f.files[w]
		if file == nil {
			f.made++
			file = &fetchedFile{theirs: b.Name, ours: format.CopyName(b.Tier, f.link, f.made), cold: b.Tier == format.TierCold}
		}
		delete(f.files, w)
		now[w], b.Name = file, file.ours
		files, names = append(files, file), append(names, file.ours)
		return nil
	})
	f.remove(fsys, store.Path())
	before := f.pin
	f.files, f.pin = now, store.Pins().PinNames(names)
	if before != nil {
		before.Release() // not earlier: a snapshot between the two would take the files that stay for orphans
	}
	return files
}

// remove removes the files there are.
func (f *fetched) remove(fsys vfs.FS, dir string) {
	for w, file := range f.files {
		w.block.Name = file.ours
		_ = fsys.Remove(w.block.Path(dir)) // it may never have come; a file that stays is removed by the next snapshot, as no manifest names it
	}
}

// installed tells that the files are the store's now.
func (f *fetched) installed() {
	f.files = nil
	if f.pin != nil {
		f.pin.Release()
		f.pin = nil
	}
}

// discard removes files that were copied for nothing.
func (f *fetched) discard(fsys vfs.FS, dir string) {
	f.remove(fsys, dir)
	f.installed()
}

// fetch copies one file. It gets its name when it is all there and durable.
func (s *session) fetch(path, tier, name string, b *format.BlockFile, buf []byte) (err error) {
	if err := s.tell("REPLCONF", "fetch", tier, name); err != nil {
		return err
	}
	n, err := s.readBulk()
	if err != nil {
		return err
	}
	if n != int64(b.Bytes) {
		return fmt.Errorf("%w: file %s of %d bytes, the manifest says %d", ErrProtocol, name, n, b.Bytes)
	}
	fs := s.node.fs
	temp := path + vfs.TempSuffix
	if err := fs.Remove(temp); err != nil && !isNotExist(err) {
		return err
	}
	if err := fs.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	file, err := fs.Create(temp)
	if err != nil {
		return err
	}
	for at := int64(0); at < n && err == nil; {
		s.deadline()
		part := buf[:min(int64(len(buf)), n-at)]
		if _, err = io.ReadFull(s.conn, part); err == nil {
			_, err = file.WriteAt(part, at)
			at += int64(len(part))
			s.progress(int64(len(part)))
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = fs.Rename(temp, path)
	}
	if err != nil {
		_ = fs.Remove(temp)
		return err
	}
	var end [2]byte
	if _, err := io.ReadFull(s.conn, end[:]); err != nil || string(end[:]) != "\r\n" {
		return fmt.Errorf("%w: CRLF is missing behind file %s", errors.Join(ErrProtocol, err), name)
	}
	return nil
}

// readBulk reads the head of a bulk string.
func (s *session) readBulk() (int64, error) {
	s.deadline()
	line, err := s.conn.ReadLine()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(line[1:], 10, 64)
	if line[0] != '$' || err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %q, want a bulk string", ErrProtocol, line)
	}
	return n, nil
}
