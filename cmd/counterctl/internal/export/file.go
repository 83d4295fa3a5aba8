package export

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/counterd/counterd/internal/atomicfile"
)

// File is a file that is there as a whole or not at all: it is written under another name in the same directory, and
// takes its own, even where a file of that name was, once all of it is on the disk. .gz and .zst are compressed.
type File struct {
	name    string
	temp    *os.File
	buffer  *bufio.Writer
	packing io.WriteCloser // nil: plain
}

// Create begins a file. Those who may read it are those whom the umask lets.
func Create(name string) (*File, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is there, and no file", name)
	}
	temp, err := createTemp(name)
	if err != nil {
		return nil, err
	}
	f := &File{name: name, temp: temp, buffer: bufio.NewWriterSize(temp, 256<<10)}
	f.packing, err = packer(name, f.buffer)
	if err != nil {
		f.Abort()
		return nil, err
	}
	return f, nil
}

// createTemp creates a file that nobody has in the directory of name.
func createTemp(name string) (*os.File, error) {
	dir, base := filepath.Split(name)
	for n := 0; ; n++ {
		f, err := os.OpenFile(fmt.Sprintf("%s.%s.%d-%d.tmp", dir, base, os.Getpid(), n), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, os.ErrExist) || n == 100 {
			return f, err
		}
	}
}

// packer compresses what a file with that name is to hold; nil where it is to hold it as it is.
func packer(name string, w io.Writer) (io.WriteCloser, error) {
	switch {
	case strings.HasSuffix(name, ".gz"):
		return gzip.NewWriterLevel(w, gzip.DefaultCompression)
	case strings.HasSuffix(name, ".zst"):
		return zstd.NewWriter(w)
	}
	return nil, nil
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	if f.packing != nil {
		return f.packing.Write(p)
	}
	return f.buffer.Write(p)
}

// Commit gives the file its name, once it is on the disk. After an error nothing of it is left.
func (f *File) Commit() error {
	err := f.finish()
	if err != nil {
		f.Abort()
		return err
	}
	if err = os.Rename(f.temp.Name(), f.name); err != nil {
		f.Abort()
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(f.name))
}

// finish brings all that was written to the disk.
func (f *File) finish() error {
	if f.packing != nil {
		if err := f.packing.Close(); err != nil {
			return err
		}
	}
	if err := f.buffer.Flush(); err != nil {
		return err
	}
	if err := f.temp.Sync(); err != nil {
		return err
	}
	return f.temp.Close()
}

// Abort removes the file. Behind Commit it does nothing that matters.
func (f *File) Abort() {
	_ = f.temp.Close()
	_ = os.Remove(f.temp.Name())
}
