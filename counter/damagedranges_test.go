package counter

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/persist/format"
)

// TestRegainRange: a cold file is damaged, and the same file is among those that a healing has set aside. Its posts are there again, with all changes
// since, and with a column that was added since. If the file that was set aside is damaged, too, it is not used.
func TestRegainRange(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true, SnapshotGrowth: -1, BlockItems: 1 << 10}, seedScript)
	mids := fill(t, s, 4_000, 3)
	must(t, s.Admin().Demote("weibo", mids[0]))
	key := func(i int) string { return fmt.Sprintf("%d.cntcm", mids[i]) }
	must(t, s.Set(key(2), 22))
	must(t, s.AlterScript("add column weibo late hint=8 max=8 default=7 suffix=late\n"))
	want := dump(t, s)
	ks := s.data.Spaces[s.Schema().Counter("weibo").ID][0]
	r := PostRange{Counter: ks.ID, Lo: 0, Hi: ks.Dir.Load().Blocks[0].Hi}
	file := ks.Dir.Load().Blocks[0].Cold.File
	text, err := os.ReadFile(file.Name())
	must(t, err)
	aside := filepath.Join(dir, format.DamagedName(format.ColdDirName, 1))
	must(t, errors.Join(os.Mkdir(aside, 0o750), os.WriteFile(filepath.Join(aside, "1-1.cold"), text, 0o640)))
	flip(t, filepath.Join(aside, "1-1.cold"), 200)
	for i := range file.Pages() {
		flip(t, file.Name(), int64(i<<12+200))
	}
	must(t, s.Set(key(3), 33)) // its other columns cannot be read
	if _, err := RegainRange(s, r); !errors.Is(err, ErrNotAside) {
		t.Errorf("with a damaged file set aside: %v, want ErrNotAside", err)
	}
	must(t, os.WriteFile(filepath.Join(aside, "2-1.cold"), text, 0o640))
	if posts, err := RegainRange(s, r); posts == 0 || err != nil {
		t.Fatalf("%d posts, %v", posts, err)
	}
	if found := DamagedRanges(s); len(found) != 0 {
		t.Errorf("still damaged: %+v", found)
	}
	if v, _, err := s.Get(key(3)); v != 33 || err != nil {
		t.Errorf("a post that was set meanwhile: %d, %v", v, err)
	}
	post := fmt.Sprintf("weibo:%d", mids[3])
	got := dump(t, s)
	if got[post] == want[post] {
		t.Errorf("%s is still %s", post, got[post])
	}
	delete(got, post)
	delete(want, post)
	if !maps.Equal(got, want) {
		t.Errorf("%d posts, want %d as they were", len(got), len(want))
	}
	must(t, s.Close())
}
