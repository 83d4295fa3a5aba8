package durable

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/producers"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// readProducers reads the image of a table of producers.
func readProducers(fsys vfs.FS, path string, limits producers.Limits) (info format.ImageInfo, t *producers.Table, err error) {
	img, err := snapfile.OpenImage(fsys, path)
	if err != nil {
		return info, nil, err
	}
	defer func() { err = errors.Join(err, img.Close()) }()
	info = img.ImageInfo
	if err := knownKind(path, info.Kind, info.Kind == producersImage); err != nil {
		return info, nil, err
	}
	buf := make([]byte, img.Length()) // the file's size vouches for it
	if err := img.ReadInto(buf); err != nil {
		return info, nil, err
	}
	t, err = producers.Load(buf, limits)
	switch {
	case errors.Is(err, producers.ErrNewerImage):
		return info, nil, fmt.Errorf("%s: %w: %w", path, format.ErrUnsupportedFormat, err)
	case err == nil && uint64(t.Len()) != info.Items:
		err = fmt.Errorf("%d", t.Len())
	}
	if err != nil {
		return info, nil, &format.CorruptError{File: path, Want: fmt.Sprintf("an image of %d producers", info.Items), Got: err.Error(), Err: err}
	}
	return info, t, nil
}

// ImageProducers reads the image of a table of producers, and describes them all.
func ImageProducers(fsys vfs.FS, path string) ([]core.ProducerInfo, error) {
	_, t, err := readProducers(fsys, path, core.ProducerLimits{}.WithDefaults())
	if err != nil {
		return nil, err
	}
	return t.List(t.Len()), nil
}
