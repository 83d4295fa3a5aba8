package source

import (
	"context"
	"fmt"
	"io"
	"os"
)

// spool copies what can be read only once to a temporary file, which has no name any more when it returns.
func spool(ctx context.Context, src io.Reader) (f *os.File, err error) {
	f, err = os.CreateTemp("", "counterctl-*")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name())
	if err := copyUntil(ctx, f, src); err != nil {
		f.Close()
		return nil, fmt.Errorf("copying to a temporary file: %w", err)
	}
	return f, nil
}

// copyUntil copies to the end of src or of ctx. A read that waits goes on then, and is left to the end of the process.
func copyUntil(ctx context.Context, dst io.Writer, src io.Reader) error {
	type chunk struct {
		data []byte
		err  error
	}
	chunks, free := make(chan chunk), make(chan []byte, 2)
	free <- make([]byte, 256<<10)
	free <- make([]byte, 256<<10)
	go func() {
		for {
			var buf []byte
			select {
			case buf = <-free:
			case <-ctx.Done():
				return
			}
			n, err := src.Read(buf[:cap(buf)])
			select {
			case chunks <- chunk{buf[:n], err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case c := <-chunks:
			if _, err := dst.Write(c.data); err != nil {
				return err
			}
			if c.err == io.EOF {
				return nil
			} else if c.err != nil {
				return c.err
			}
			free <- c.data
		}
	}
}
