// Scenario: the log that a replica needs is damaged a few frames behind its end.

package server

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestDamageBehindWhatIsFed: the log that a replica needs is damaged a few frames behind its end. It gets the frames before, and then a
// full copy: no other node has the bad one.
func TestDamageBehindWhatIsFed(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	w := a.dial()
	w.want("SET 1.cntcm 1", "+OK")
	same(t, a, b)
	b.stop()
	for range 10 {
		w.do("INCR 1.cntcm")
	}
	at, err := strconv.Atoi(a.info("master_repl_offset"))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		w.do("INCR 1.cntcm")
	}
	f, err := os.OpenFile(filepath.Join(a.dir, "log", "00000000000000000000.aof"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const header = 64 // of a segment
	if _, err := f.WriteAt([]byte{0xff, 0xff}, int64(header+at-3)); err != nil {
		t.Fatal(err)
	}
	b.start(a.addr())
	same(t, a, b)
	b.dial().want("GET 1.cntcm", `"21"`)
}
