package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/counterd/counterd/persist/vfs"
)

// Fetch makes the directory to, which must not exist, of a backup's files. Each is compared with its checksum: a file
// that differs or is missing gives ErrDamaged with its name. After an error the caller must remove the files written so
// far. With to empty everything is read and compared, and nothing is written.
func Fetch(ctx context.Context, s Store, x *Index, to string, progress func(done, total uint64)) error {
	return fetchAll(ctx, s, x, to, progress, vfs.OS().SyncDir)
}

// fetchAll is Fetch with the function that makes the names in a directory durable.
func fetchAll(ctx context.Context, s Store, x *Index, to string, progress func(done, total uint64), sync func(dir string) error) error {
	raw, _ := x.Bytes()
	made := map[string]bool{}
	if to != "" {
		if err := os.Mkdir(to, 0o750); err != nil {
			return err
		}
		made[to], made[filepath.Dir(to)] = true, true // the name of to is in its parent
		for _, f := range x.Files {
			dir := filepath.Dir(filepath.Join(to, filepath.FromSlash(f.Path)))
			if err := os.MkdirAll(dir, 0o750); err != nil {
				return err
			}
			made[dir] = true
		}
	}
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for _, f := range x.Files {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fetch(ctx, s, f, to); err != nil {
				return fmt.Errorf("%s: backup %s: %s: %w", s, x.Name, f.Path, err)
			}
			if n := done.Add(f.Bytes); progress != nil {
				progress(uint64(n), uint64(raw))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for dir := range made {
		if err := sync(dir); err != nil {
			return err
		}
	}
	return nil
}

func fetch(ctx context.Context, s Store, f File, to string) error {
	r, err := s.Get(ctx, object(f.SHA256))
	if errors.Is(err, ErrNone) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return err
	}
	defer r.Close()
	h := sha256.New()
	out := io.Writer(h)
	if to != "" {
		file, err := os.OpenFile(filepath.Join(to, filepath.FromSlash(f.Path)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
		if err != nil {
			return err
		}
		defer file.Close()
		out = io.MultiWriter(h, file)
		defer func() { _ = file.Close() }()
		if err := unpack(out, r, f); err != nil {
			return err
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return err
		}
	} else if err := unpack(out, r, f); err != nil {
		return err
	}
	if got := sumOf(h); got != f.SHA256 {
		return fmt.Errorf("%w: got checksum %s, want %s", ErrDamaged, got, f.SHA256)
	}
	return nil
}

// unpack decompresses r, no more than the file has: a wrong size in a damaged object takes no memory.
func unpack(w io.Writer, r io.Reader, f File) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return err
	}
	defer z.Close()
	n, err := io.Copy(w, io.LimitReader(z, f.Bytes+1))
	var disk *os.PathError
	if errors.As(err, &disk) { // the writer's
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if n != f.Bytes {
		return fmt.Errorf("%w: got %d bytes or more, want %d", ErrDamaged, n, f.Bytes)
	}
	return nil
}
