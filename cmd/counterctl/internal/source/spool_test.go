package source

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// TestSpoolInterrupted: a pipe that nobody writes to holds up no signal.
func TestSpoolInterrupted(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := copyUntil(ctx, io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestSpool: a pipe's bytes are all there, and the file leaves nothing behind.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		defer w.Close()
		for range 100_000 {
			_, _ = io.WriteString(w, "0123456789")
		}
	}()
	f, err := spool(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); size != 1_000_000 || err != nil {
		t.Errorf("%d bytes, %v, want 1,000,000", size, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}
