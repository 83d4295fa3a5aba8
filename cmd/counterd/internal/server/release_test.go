package server

import "testing"

var ballast []byte

// TestReleaser: what the heap grew by is given back after a time of load has ended, not during it.
func TestReleaser(t *testing.T) {
	const size = 64 << 20
	var r releaser
	r.look(0)
	r.look(0) // at rest: the base is known
	ballast = make([]byte, size)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	ballast = nil
	for range 3 {
		r.look(quietCommands)
	}
	under := heapHeld()
	if under < size {
		t.Fatalf("the heap holds %d bytes under load, want them kept", under)
	}
	r.look(0)
	r.look(0)
	if held := heapHeld(); held > under-size/2 {
		t.Errorf("the heap holds %d bytes at rest, %d under load", held, under)
	}
}
