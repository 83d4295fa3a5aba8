package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/rdb"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
	"github.com/counterd/counterd/schema"
)

// snapshotFile was written by Redis 7.0; package rdb's tests say what is in it.
const snapshotFile = "../rdb/testdata/redis-7.0.rdb"

func snapshotRules(t *testing.T) *mapping.Rules {
	sch, err := schema.ParseScript(strings.NewReader("add counter c\nadd column c likes hint=8 max=32\nadd column c comments hint=8 max=63\nadd column c rank hint=8 max=63\n"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	rules, err := mapping.Parse([]string{"post:{mid}:likes=c.likes", "p:{mid}:c#comments=c.comments", "rank@{mid}=c.rank"}, sch)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// readDump reads all chunks of a file.
func readDump(t *testing.T, o DumpOptions, most uint64) (lines []string, keys uint64, skipped mapping.Tally, chunks int) {
	t.Helper()
	d, err := NewDump(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := d.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		c := transfer.Chunk{Most: most}
		err := s.Next(t.Context(), &c)
		for _, i := range c.Items {
			lines = append(lines, fmt.Sprintf("%s %d=%d", o.Rules.Columns()[i.Column].Name(), i.Mid, i.Value))
		}
		keys += c.Keys
		skipped.Merge(&c.Skipped)
		chunks++
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if s.Total() != keys {
		t.Errorf("%d keys read, want %d", keys, s.Total())
	}
	slices.Sort(lines)
	return lines, keys, skipped, chunks
}

func TestDump(t *testing.T) {
	file, err := os.ReadFile(snapshotFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, pack := range map[string]func(w io.Writer) io.WriteCloser{
		"dump.rdb.gz":  func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
		"dump.rdb.zst": func(w io.Writer) io.WriteCloser { p, _ := zstd.NewWriter(w); return p },
	} {
		var b bytes.Buffer
		w := pack(&b)
		if _, err := w.Write(file); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"c.comments 1=5", "c.likes 1=0", "c.likes 2=127", "c.likes 4=70000", "c.likes 7=77", "c.likes 8=88", "c.rank 100=1", "c.rank 300=3"}
	for _, path := range []string{snapshotFile, filepath.Join(dir, "dump.rdb.gz"), filepath.Join(dir, "dump.rdb.zst")} {
		for _, most := range []uint64{0, 1, 5} {
			lines, keys, skipped, chunks := readDump(t, DumpOptions{Path: path, Rules: snapshotRules(t)}, most)
			if !slices.Equal(lines, want) || keys != 21 || most > 0 && chunks < 21/int(most) {
				t.Errorf("%s, %d at a time: %d keys in %d chunks: %q, want %q", path, most, keys, chunks, lines, want)
			}
			if skipped.Count(mapping.NotANumber) != 2 || skipped.Count(mapping.Negative) != 1 || skipped.Count(mapping.TooWide) != 1 { // abc, 2.5; -129; 2^63-1
				t.Errorf("%s: %+v", path, skipped.List())
			}
		}
	}
	if lines, _, _, _ := readDump(t, DumpOptions{Path: snapshotFile, DB: 3, Rules: snapshotRules(t)}, 0); !slices.Equal(lines, []string{"c.likes 1=33"}) {
		t.Errorf("database 3: %q", lines)
	}
	var told []string
	if lines, _, _, _ := readDump(t, DumpOptions{Path: snapshotFile, DB: 1, Rules: snapshotRules(t), Log: func(text string) { told = append(told, text) }}, 0); len(lines) > 0 || len(told) != 1 || !strings.Contains(told[0], "map[0:21 3:1]") {
		t.Errorf("database 1: %q, told %q", lines, told)
	}
	for _, n := range []int{0, 5, 500, len(file) - 1} {
		torn := filepath.Join(dir, "torn.rdb")
		if err := os.WriteFile(torn, file[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := NewDump(t.Context(), DumpOptions{Path: torn, Rules: snapshotRules(t)}); !errors.Is(err, rdb.ErrTorn) || !strings.Contains(err.Error(), "nothing was imported") {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	if _, err := NewDump(t.Context(), DumpOptions{Path: dir, Rules: snapshotRules(t)}); err == nil {
		t.Error("a directory is no snapshot")
	}
}

// TestDumpExpired: expired keys are left out, as Redis leaves them out when it reads the file.
func TestDumpExpired(t *testing.T) {
	b := []byte("REDIS0004")
	for i, ms := range []uint64{1, 1 << 62, 0} {
		if ms > 0 {
			b = binary.LittleEndian.AppendUint64(append(b, 252), ms)
		}
		b = append(b, fmt.Sprintf("\x00\x0cpost:%d:likes\x017", i)...)
	}
	path := filepath.Join(t.TempDir(), "old.rdb")
	if err := os.WriteFile(path, append(b, 255), 0o600); err != nil {
		t.Fatal(err)
	}
	var told []string
	lines, _, skipped, _ := readDump(t, DumpOptions{Path: path, Rules: snapshotRules(t), Log: func(text string) { told = append(told, text) }}, 0)
	if !slices.Equal(lines, []string{"c.likes 1=7", "c.likes 2=7"}) || skipped.Count(mapping.Vanished) != 1 {
		t.Errorf("%q, %+v", lines, skipped.List())
	}
	if len(told) != 2 || !strings.Contains(told[0], "no checksum") || !strings.Contains(told[1], "1 keys are to expire") {
		t.Errorf("told %q", told)
	}
}

// TestDumpEnds: a reader that stops early leaves nothing running.
func TestDumpEnds(t *testing.T) {
	d, err := NewDump(t.Context(), DumpOptions{Path: snapshotFile, Rules: snapshotRules(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for n := range 3 {
		s, err := d.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := s.Next(t.Context(), &transfer.Chunk{Most: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
