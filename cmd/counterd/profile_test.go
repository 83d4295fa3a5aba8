package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"
)

// TestProfile reads the profile that programs are compiled with: it is small, and of functions that there are.
func TestProfile(t *testing.T) {
	packed, err := os.ReadFile("counterd.pgo")
	if err != nil {
		t.Fatal(err)
	}
	if len(packed) > 300<<10 {
		t.Errorf("%d bytes, want 300 KiB at most", len(packed))
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	profile, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cmd/counterd/internal/net/front.(*loop).turn", "cmd/counterd/internal/net/resp.(*Reader).Next", "cmd/counterd/internal/commands/items.(*Call).Answer",
		"counter/internal/core.(*Batch).apply", "counter/internal/hot.(*Table).FindAt", "persist/format.DecodeRecord"} {
		if !bytes.Contains(profile, []byte("github.com/counterd/counterd/"+name)) {
			t.Errorf("nothing of %s: make pgo", name)
		}
	}
}
