package heap

import "testing"

var ballast []byte

// TestReleaser: the growth of the heap is given back after a time of load has ended, not at once during it.
func TestReleaser(t *testing.T) {
	const size = 64 << 20
	var r Releaser
	r.Look(0)
	r.Look(0) // at rest: the base is known
	ballast = make([]byte, size)
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	ballast = nil
	for range busyLooks - 1 {
		r.Look(quietCommands)
	}
	under := held()
	if under < size {
		t.Fatalf("the heap holds %d bytes under load, want them kept", under)
	}
	r.Look(0)
	r.Look(0)
	if now := held(); now > under-size/2 {
		t.Errorf("the heap holds %d bytes at rest, %d under load", now, under)
	}
}

// TestReleaserUnderLoad: the memory of one large command is given back although the load goes on, and less often if
// the load takes it again and again.
func TestReleaserUnderLoad(t *testing.T) {
	const size = 64 << 20
	var r Releaser
	r.Look(0)
	r.Look(0) // at rest: the base is known
	looks := func() (n int) {
		ballast = make([]byte, size)
		for i := 0; i < len(ballast); i += 4096 {
			ballast[i] = 1
		}
		ballast = nil
		for full := held(); held() > full-size/2; n++ {
			if r.Look(quietCommands); n > mostWait+busyLooks {
				t.Fatalf("the heap holds %d bytes after %d seconds of load, %d before", held(), n, full)
			}
		}
		return n
	}
	first, second := looks(), looks()
	if first > busyLooks || second <= first {
		t.Errorf("given back after %d and %d seconds, want at most %d and more", first, second, busyLooks)
	}
	for range mostWait {
		r.Look(quietCommands)
	}
	if n := looks(); n > busyLooks {
		t.Errorf("given back after %d seconds, a minute later, want at most %d", n, busyLooks)
	}
}
