package follow

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

func TestJournal(t *testing.T) {
	dir := t.TempDir()
	open := func() *journal {
		j, err := openJournal(dir, "a job")
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := open()
	write := func(n note) {
		t.Helper()
		if err := j.write(n, true); err != nil {
			t.Fatal(err)
		}
	}
	one, two, window, after := 1, 0, uint64(150), uint64(190)
	write(note{Stale: [][]byte{[]byte("from before the copy")}})
	write(note{Copying: true})
	if _, err := openJournal(dir, "a job"); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opened twice: %v", err)
	}
	j.close()
	if j = open(); j.state.copied || !j.state.copying {
		t.Error("half of a copy is taken for one, or for none")
	}
	write(note{Copied: true, Offset: 100, Replid: "r", Producer: "p"})
	if _, _, _, err := j.state.resume(0, false); err != errLost {
		t.Errorf("a target that does not know of the copy: %v", err)
	}
	write(note{DB: &one, Offset: 100})
	write(note{DB: &two, Offset: 170, Stale: [][]byte{[]byte("a"), {0xff, 0}}})
	write(note{Window: &window})
	write(note{Fresh: [][]byte{[]byte("a")}})
	write(note{After: &after, Offset: 500})
	for range 2 { // as it was written, and compacted
		j.close()
		j = open()
		s := j.state
		if !s.copied || s.start != 100 || s.replid != "r" || s.producer != "p" || s.window != 150 || s.idle != [2]uint64{190, 500} || !slices.Equal(slices.Collect(maps.Keys(s.stale)), []ref{"\xff\x00"}) {
			t.Errorf("%+v", s)
		}
		for _, c := range []struct {
			last    uint64
			known   bool
			applied uint64
			err     error
		}{{180, true, 180, nil}, {190, true, 500, nil}, {149, true, 0, errLost}, {0, false, 0, errLost}} {
			from, applied, db, err := s.resume(c.last, c.known)
			if err != c.err || applied != c.applied || err == nil && (from != 150 || db != 1) {
				t.Errorf("%d %v: from %d, applied %d, database %d, %v", c.last, c.known, from, applied, db, err)
			}
		}
	}
	j.close()
	if _, err := openJournal(dir, "another job"); err == nil || !strings.Contains(err.Error(), "belongs to another job, a job") {
		t.Errorf("another job: %v", err)
	}

	text, err := os.ReadFile(j.path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(text) { // a crash while it was written
		if s := (&state{stale: map[ref]bool{}}); s.read(text[:n]) != nil {
			t.Errorf("cut after %d bytes: it is damaged", n)
		}
	}
	text[bytes.IndexByte(text, '\n')+3] = 0
	if err := os.WriteFile(j.path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openJournal(dir, "a job"); !errors.Is(err, errJournal) {
		t.Errorf("damaged: %v", err)
	}
}

// TestJournalCopied: wherever a crash ends the journal, a copy that is complete says which database is selected.
func TestJournalCopied(t *testing.T) {
	j, err := openJournal(t.TempDir(), "a job")
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if err := j.copied(fullCopy{replid: "r", offset: 100}, "p", 3); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(j.path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(text) + 1 {
		s := &state{stale: map[ref]bool{}}
		if err := s.read(text[:n]); err != nil || s.copied != (n == len(text)) {
			t.Fatalf("cut after %d bytes: copied is %v, %v", n, s.copied, err)
		}
		if _, _, db, err := s.resume(100, true); s.copied && (db != 3 || err != nil) {
			t.Errorf("cut after %d bytes: database %d, %v", n, db, err)
		}
	}
}

// TestJournalStaysSmall: notes that say nothing new any more do not stay.
func TestJournalStaysSmall(t *testing.T) {
	racetest.Skip(t, "one goroutine writes a long journal")
	j, err := openJournal(t.TempDir(), "a job")
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if err := errors.Join(j.write(note{Copying: true}, false), j.write(note{Copied: true, Offset: 1, Replid: "r", Producer: "p"}, false)); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(9_000) {
		key := []byte(fmt.Sprintf("%0500d", i))
		if err := errors.Join(j.write(note{Window: &i, Stale: [][]byte{key}}, false), j.write(note{Fresh: [][]byte{key}}, false)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(j.path)
	if err != nil || info.Size() > compactAt+1000 || len(j.state.stale) > 0 {
		t.Errorf("%d bytes, %v, %d keys", info.Size(), err, len(j.state.stale))
	}
	if last := j.state.window; last != 8_999 {
		t.Errorf("window %d", last)
	}
}
