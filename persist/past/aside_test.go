package past

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestAside: a file that was set aside, or copied aside, is there behind a power failure that loses unsynced names and bytes. Files that were
// set aside before keep their names.
func TestAside(t *testing.T) {
	for _, tt := range []struct {
		name  string
		aside func(fsys vfs.FS, path string, say func(string)) error
		stays bool // under its own name too
	}{{"set", SetAside, false}, {"copied", CopyAside, true}} {
		t.Run(tt.name, func(t *testing.T) {
			disk := persisttest.NewFS(t)
			path := filepath.Join(persisttest.Dir, format.ManifestName(7))
			said := 0
			for n := 1; n <= 2; n++ {
				persisttest.Must(t, vfs.WriteFileAtomic(disk, path, []byte{byte(n)}))
				persisttest.Must(t, tt.aside(disk, path, func(string) { said++ }))
			}
			left := disk.CrashNames()
			for n, name := range []string{path, path + format.AsideInfix + "1", path + format.AsideInfix + "2"} {
				text, err := vfs.ReadFile(left, name, 1<<10)
				if n == 0 && !tt.stays {
					if !vfs.IsNotExist(err) {
						t.Errorf("%s: %q, %v, want no such file", name, text, err)
					}
					continue
				}
				if want := byte(n); n > 0 && (err != nil || !bytes.Equal(text, []byte{want})) {
					t.Errorf("%s: %q, %v, want the file of turn %d", name, text, err, n)
				}
			}
			if said != 2 || !IsAside(path+format.AsideInfix+"1") || IsAside(path) {
				t.Errorf("%d lines were said, want 2", said)
			}
		})
	}
}
