package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRecord: results are read again at the same state of the tree, and at no other. Half a line at the end of the file is cut off.
func TestRecord(t *testing.T) {
	name := filepath.Join(t.TempDir(), "bin", "faults.jsonl")
	open := func(state string, want int) *record {
		t.Helper()
		r, err := openRecord(name, state)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.got) != want {
			t.Errorf("%d results of %s, want %d", len(r.got), state, want)
		}
		return r
	}
	add := func(r *record, n int) {
		t.Helper()
		if err := r.add(Result{N: n, Shown: hangs, By: "TestX"}); err != nil {
			t.Fatal(err)
		}
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
	}
	add(open("a", 0), 7)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(text, text[:len(text)/2]...), 0o644); err != nil {
		t.Fatal(err)
	}
	add(open("b", 0), 8)
	r := open("a", 1)
	if got := r.got[7]; got.Shown != hangs || got.By != "TestX" {
		t.Errorf("got %v", got)
	}
	add(r, 9)
	if err := open("a", 2).close(); err != nil {
		t.Fatal(err)
	}
}
