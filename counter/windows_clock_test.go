// Scenario: windows of time at clocks that are far from right.

package counter

import (
	"testing"
	"time"
)

// TestWindowsSince1970: a machine without a clock of its own begins at 1970, when less time has passed than a window lasts. A read of the window ended the
// server.
func TestWindowsSince1970(t *testing.T) {
	now := int64(30)
	s := openDir(t, t.TempDir(), Options{Manual: true, Now: func() time.Time { return time.Unix(now, 0) }}, "")
	defer s.Close()
	if err := s.repl.AdmitCursors(); err != nil {
		t.Fatal(err)
	}
	if err := s.AlterScript("add counter a\nadd column a v hint=2 max=20 suffix=v\nadd column a w window=60d/1d of=v"); err != nil {
		t.Fatal(err)
	}
	for day := range 100 {
		now = int64(day)*24*60*60 + 30
		if err := s.Windows().Tick(time.Unix(now, 0), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Windows().Sweep(&s.Schema().Counter("a").Derived[0], nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Incr("7.v", 1); err != nil {
			t.Fatal(err)
		}
		if v, _, err := s.Get("7.w"); v != uint64(min(day+1, 60)) || err != nil {
			t.Fatalf("on day %d the window has %d additions, %v", day, v, err)
		}
	}
}
