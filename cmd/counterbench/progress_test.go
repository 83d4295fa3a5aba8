package main

import (
	"bytes"
	"testing"
)

// TestProgressNote checks that plain lines come with the step they belong to, and not more often than they should.
func TestProgressNote(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, true, "measuring", "steps", 10)
	p.describe("load 127.0.0.1:1")
	p.note("too early")
	p.lines.next.Store(0)
	p.note("5 of 10 posts loaded")
	p.note("too early")
	if want := "load 127.0.0.1:1: 5 of 10 posts loaded\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	progress{}.note("off")
}
