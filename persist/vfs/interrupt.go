package vfs

import "context"

// Interruptible returns fsys as it is until ctx ends: from then on no file is opened and no byte is read, and the error
// is ctx's. Tools read through it, so that a signal ends whatever takes long without every loop asking. Writes, renames
// and syncs go on: what was begun is finished up to the next read, or left as a crash would leave it.
func Interruptible(ctx context.Context, fsys FS) FS { return &interruptible{fsys, ctx} }

type interruptible struct {
	FS
	ctx context.Context
}

func (i *interruptible) Open(name string) (File, error) {
	if err := i.ctx.Err(); err != nil {
		return nil, err
	}
	return i.file(i.FS.Open(name))
}

func (i *interruptible) OpenRW(name string) (File, error) {
	if err := i.ctx.Err(); err != nil {
		return nil, err
	}
	return i.file(i.FS.OpenRW(name))
}

func (i *interruptible) Create(name string) (File, error) { return i.file(i.FS.Create(name)) }

func (i *interruptible) file(f File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return &interruptibleFile{f, i.ctx}, nil
}

type interruptibleFile struct {
	File
	ctx context.Context
}

func (f *interruptibleFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}
