package counter

import (
	"errors"
	"testing"
	"time"
)

// TestScrubAsked: files are verified when that is asked for, and what rotted since is found.
func TestScrubAsked(t *testing.T) {
	s := openDir(t, t.TempDir(), Options{SnapshotGrowth: -1, BlockItems: 4 << 10}, seedScript)
	mids := fill(t, s, 16_000, 3)
	if err := s.Admin().Demote("weibo", mids[0]); err != nil {
		t.Fatal(err)
	}
	round := func() TierStats {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			switch err := s.Admin().Scrub(); {
			case err == nil:
			case errors.Is(err, ErrScrubbing) && time.Now().Before(end): // that of the start
				continue
			default:
				t.Fatal(err)
			}
			break
		}
		for end := time.Now().Add(time.Minute); s.Admin().TierCounts().Scrubbing; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the round does not end")
			}
		}
		return s.Admin().TierCounts()
	}
	for range 2 {
		before := s.Admin().TierCounts()
		if st := round(); st.Scrubs < before.Scrubs+1 || st.ScrubErrors != 0 {
			t.Fatalf("%d files verified, %d damaged; before %d", st.Scrubs, st.ScrubErrors, before.Scrubs)
		}
	}
	flip(t, s.scrubber.files()[0].Name(), 5000)
	if st := round(); st.ScrubErrors != 1 {
		t.Errorf("%d damaged files found, want 1", st.ScrubErrors)
	}
	if err := s.data.Log.Sync(); err != nil {
		t.Fatal(err)
	}
	flip(t, s.data.Log.Segments().List()[0].Path, 100)
	if st := round(); st.ScrubErrors != 3 { // the cold file again, and the log
		t.Errorf("%d damaged files found, want 3", st.ScrubErrors)
	}
}

func TestScrubTwice(t *testing.T) {
	s := openDir(t, t.TempDir(), Options{Manual: true}, seedScript) // nobody takes what is asked for
	if err := s.Admin().Scrub(); err != nil {
		t.Error(err)
	}
	if err := s.Admin().Scrub(); !errors.Is(err, ErrScrubbing) {
		t.Errorf("%v, want ErrScrubbing", err)
	}
}
