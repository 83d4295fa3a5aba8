package snapfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// Images writes image files, and syncs many small ones at the same time. A sync takes 3 to 6 ms, however little there is to
// write, because the file system commits its journal; syncs at the same time share one commit. A snapshot of changes that
// are spread over thousands of cold ranges consists nearly of syncs alone.
//
// An image has its name once it is synced: see Flush. The zero value with FS and Dir is ready. It is not safe for
// concurrent use.
type Images struct {
	FS   vfs.FS
	Dir  string // the data directory
	Rest func() // called behind each 64 KB that are written, to let other work run; nil: it is not

	waiting []waitingImage
	bytes   int64 // of those
}

// waitingImage is an image that was written, and is neither synced nor named.
type waitingImage struct {
	file       vfs.File
	temp, name string
	err        error
}

const (
	imagesAtOnce = 16
	// imageBytesAtOnce bounds what is synced at once: the syncs of the log wait behind it.
	imageBytesAtOnce = 512 << 10
)

// Write writes the concatenation of parts as an image. Few large parts are faster than many small. On an error no file
// with its name was made or changed.
func (w *Images) Write(h format.ImageHeader, parts ...[]byte) (info format.ImageInfo, err error) {
	one := waitingImage{name: format.ImageName(h.Block, h.Offset)}
	for i := range w.waiting {
		if w.waiting[i].name == one.name { // it is to be replaced
			if err := w.Flush(); err != nil {
				return info, err
			}
			break
		}
	}
	one.temp = filepath.Join(format.ImageDir(w.Dir), one.name) + format.TempSuffix
	if err := vfs.RemoveIfThere(w.FS, one.temp); err != nil {
		return info, err
	}
	if one.file, err = w.FS.Create(one.temp); err != nil {
		return info, err
	}
	to := imageWriter{file: one.file, rest: w.Rest}
	if to.write(h, parts); to.err != nil {
		one.err = to.err
		return info, w.publishFile(&one)
	}
	w.waiting = append(w.waiting, one)
	if w.bytes += to.off; len(w.waiting) >= imagesAtOnce || w.bytes >= imageBytesAtOnce {
		if err := w.Flush(); err != nil {
			return info, err
		}
	}
	return format.ImageInfo{ImageHeader: h, Name: one.name, Bytes: uint64(to.off), CRC: to.crc}, nil
}

// Flush returns when all images that were written are synced and have their names. The names are durable after the sync of
// the directory, which WriteManifest does. After an error the images without a name are removed.
func (w *Images) Flush() error {
	var syncs sync.WaitGroup
	for i := range w.waiting {
		one := &w.waiting[i]
		syncs.Go(func() { one.err = one.file.Sync() })
	}
	syncs.Wait()
	var errs []error
	for i := range w.waiting {
		if err := w.publishFile(&w.waiting[i]); err != nil {
			errs = append(errs, err)
		}
	}
	w.waiting, w.bytes = w.waiting[:0], 0
	return errors.Join(errs...)
}

// Abort removes the images that have no name yet.
func (w *Images) Abort() {
	for i := range w.waiting {
		_ = w.waiting[i].file.Close()
		_ = w.FS.Remove(w.waiting[i].temp) // leftovers go at the next start
	}
	w.waiting, w.bytes = w.waiting[:0], 0
}

// publishFile closes a file and gives it its name, or removes it if there was an error.
func (w *Images) publishFile(one *waitingImage) error {
	err := errors.Join(one.err, one.file.Close())
	if err == nil {
		err = w.FS.Rename(one.temp, filepath.Join(format.ImageDir(w.Dir), one.name))
	}
	if err != nil {
		_ = w.FS.Remove(one.temp) // the first error is the one to tell; leftovers go at the next start
		return fmt.Errorf("write image %s: %w", one.name, err)
	}
	return nil
}

// WriteImage writes one image: see Images.
func WriteImage(fsys vfs.FS, dir string, h format.ImageHeader, parts ...[]byte) (format.ImageInfo, error) {
	w := Images{FS: fsys, Dir: dir}
	info, err := w.Write(h, parts...)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return format.ImageInfo{}, err
	}
	return info, nil
}
