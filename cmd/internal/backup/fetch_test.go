package backup

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/counterd/counterd/cmd/internal/backup/place"
	"github.com/counterd/counterd/persist/vfs"
)

// TestFetchIsDurable: the names of all that a fetch makes are synced, that of the directory itself in its parent too. Else a power failure
// behind a restore that was reported as done takes it all.
func TestFetchIsDurable(t *testing.T) {
	s := newSource(t)
	_, err := s.store.Incr("1.n", 1)
	s.must(err)
	s.must(s.store.Snapshot())
	store, err := place.OpenDir(t.TempDir())
	s.must(err)
	x, err := NewMaker(store, Options{Source: "here"}).Make(t.Context(), vfs.OS(), s.dir)
	s.must(err)
	s.must(s.store.Close())
	parent := t.TempDir()
	to := filepath.Join(parent, "to")
	var synced []string
	s.must(fetchAll(t.Context(), store, x, to, nil, func(dir string) error {
		synced = append(synced, dir)
		return vfs.OS().SyncDir(dir)
	}))
	for _, dir := range []string{parent, to, filepath.Join(to, "log"), filepath.Join(to, "rdb")} {
		if !slices.Contains(synced, dir) {
			t.Errorf("%s is not synced: %q", dir, synced)
		}
	}
}
