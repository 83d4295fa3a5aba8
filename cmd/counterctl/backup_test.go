package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
)

// TestBackup goes through a year of an operator: backups, a list, a drill, a moment within reach, a moment out of
// reach, old ones removed, damage.
func TestBackup(t *testing.T) {
	dir, place := t.TempDir(), filepath.Join(t.TempDir(), "place")
	store, err := counter.Open(dir, counter.Options{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=4 max=32 suffix=c\nadd column weibo week window=7d/1d of=comment suffix=w\nadd column weibo heat decay=366d of=comment*2 suffix=h top=2"); err != nil {
		t.Fatal(err)
	}
	if err := store.Windows().Tick(time.Unix(1_800_000_000, 0), nil); err != nil { // additions before the first one do not count
		t.Fatal(err)
	}
	do := func(status int, words []string, args ...string) string {
		t.Helper()
		out, text, got := ctl(t, args...)
		if got != status {
			t.Errorf("%q: status %d, want %d\n%s%s", args, got, status, out, text)
		}
		for _, w := range words {
			if !strings.Contains(out+text, w) {
				t.Errorf("%q: no %q in\n%s%s", args, w, out, text)
			}
		}
		return out
	}
	do(1, []string{"has no backups"}, "backups", place)
	do(2, nil, "backup", dir)
	do(2, []string{"want a place elsewhere"}, "backup", dir, dir)
	do(2, []string{"want a place elsewhere"}, "backup", dir, dir+"/backups")
	do(1, []string{"no data directory"}, "backup", t.TempDir(), place)
	var names, ends []string
	for range 3 {
		if _, err := store.Incr("7.c", 5); err != nil {
			t.Fatal(err)
		}
		out := do(0, []string{"it restores from the very beginning to offset"}, "backup", dir, place)
		names = append(names, regexp.MustCompile(`backup (\S+):`).FindStringSubmatch(out)[1])
		ends = append(ends, regexp.MustCompile(`to offset (\d+)`).FindStringSubmatch(out)[1])
	}
	do(0, append([]string{"there"}, names...), "backups", place)
	do(0, []string{"counter=weibo items=1 digest=", "the backup can be restored"}, "drill", place)
	do(0, []string{names[0], "can be restored"}, "drill", place, "--backup", names[0], "--scratch", t.TempDir())
	value := func(dir string) [3]uint64 { // a post, its window and its sum that decays
		t.Helper()
		s, err := counter.Open(dir, counter.Options{Manual: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		values, err := s.MGet("7.c", "7.w", "7.h")
		if err != nil {
			t.Fatal(err)
		}
		return [3]uint64{values[0].N, values[1].N, values[2].N}
	}
	to := t.TempDir()
	do(0, []string{"restored the state at offset " + ends[2]}, "restore", place, "--out", to+"/newest")
	do(0, nil, "restore", place, "--to", ends[0], "--out", to+"/first")
	do(0, nil, "restore", place, "--backup", names[1], "--out", to+"/named")
	for name, want := range map[string]uint64{"newest": 15, "first": 5, "named": 10} {
		if got := value(to + "/" + name); got != [3]uint64{want, want, 2 * want} {
			t.Errorf("%s: got %d, want %d of both, and twice that", name, got, want)
		}
	}
	do(1, []string{"is there already"}, "restore", place, "--out", to+"/first")
	do(1, []string{"no backup of", "reaches offset 999999"}, "restore", place, "--to", "999999", "--out", to+"/far")
	do(1, []string{"has no backup \"x\""}, "restore", place, "--backup", "x", "--out", to+"/x")
	do(2, []string{"--backup is for a PLACE"}, "restore", dir, "--backup", "x", "--out", to+"/x")
	do(0, []string{"removed " + names[0], "removed " + names[1]}, "prune", place, "--keep", "1")
	do(0, []string{"nothing to remove"}, "prune", place, "--keep", "1")
	do(2, nil, "prune", place)
	do(0, []string{"removed " + names[2]}, "backup", dir, place, "--keep", "1")
	do(0, []string{"can be restored"}, "drill", place)
	objects, err := filepath.Glob(place + "/objects/*/*.zst")
	if err != nil || len(objects) == 0 {
		t.Fatal(objects, err)
	}
	for _, path := range objects {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do(1, []string{"damaged"}, "drill", place)
	do(1, []string{"damaged"}, "restore", place, "--out", to+"/damaged")
	if left, err := filepath.Glob(to + "/*fetched*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	do(0, nil, "backup", dir, place, "--full")
	do(0, []string{"can be restored"}, "drill", place)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
