package migration

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/programs"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// TestImportFile: files of posts, in every form.
func TestImportFile(t *testing.T) {
	t.Parallel()
	rng, _ := harness.Random(t)
	m := moved{}
	var tsv, csv bytes.Buffer
	fmt.Fprint(&tsv, "# mid\trepost\t-\tattitude\n")
	fmt.Fprint(&csv, "attitude,title,id,cntrn\r\n")
	for range harness.Scaled(20_000) {
		mid := rng.Uint64N(1 << 40)
		if _, ok := m[mid]; ok {
			continue
		}
		m[mid] = [3]int64{0, rng.Int64N(10), rng.Int64N(100_000)}
		fmt.Fprintf(&tsv, "%d\t%d\ttext\t%d\n", mid, m[mid][repost], m[mid][attitude])
		fmt.Fprintf(&csv, "%d,\"a \"\"b\"\",\nc\",%d,%d\r\n", m[mid][attitude], mid, m[mid][repost])
	}
	dir := t.TempDir()
	write := func(name string, pack func(w io.Writer) io.WriteCloser, text []byte) string {
		t.Helper()
		var b bytes.Buffer
		w := pack(&b)
		_, err := w.Write(text)
		if err := errors.Join(err, w.Close(), os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o600)); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	plain := func(w io.Writer) io.WriteCloser { return nopCloser{w} }
	gz := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	zst := func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	s := importTarget(t)
	cs := s.Dial(t)
	defer cs.Close()
	for _, test := range []struct {
		path string
		args []string
	}{
		{write("a.tsv", plain, tsv.Bytes()), nil},
		{write("a.tsv.gz", gz, tsv.Bytes()), []string{"--resume", filepath.Join(dir, "state")}},
		{write("a.zst", zst, tsv.Bytes()), []string{"--rate", "2000000"}},
		{write("a.csv", plain, csv.Bytes()), []string{"--columns", "attitude,-,mid,repost"}},
		{write("a.csv.zst", zst, bytes.ReplaceAll(csv.Bytes(), []byte("title"), nil)), nil},
		{write("b.txt", plain, bytes.ReplaceAll(csv.Bytes()[len("attitude,title,id,cntrn\r\n"):], []byte(","), []byte(";"))), []string{"--separator", ";", "--columns", "cntan,-,post,repost", "--id", "post"}},
	} {
		cs.Want("+OK\r\n", "FLUSHALL")
		harness.WantCtl(t, 0, append([]string{"import", test.path, "--to", s.Addr, "--counter", "weibo"}, test.args...), " rows read", "verified: number and sum")
		m.want(t, test.path, s)
	}
	path, err := programs.Path("counterctl")
	if err != nil {
		t.Fatal(err)
	}
	cs.Want("+OK\r\n", "FLUSHALL")
	cmd := exec.Command(path, "import", "-", "--to", s.Addr)
	cmd.Stdin = &tsv
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "standard input into "+s.Addr) {
		t.Errorf("%v: %s", err, out)
	}
	m.want(t, "standard input", s)

	cs.Want("+OK\r\n", "FLUSHALL")
	bad := write("bad.tsv", plain, []byte("# mid\trepost\n1\t5\n2\tx\n3\t4294967296\n4\t6\n"))
	harness.WantCtl(t, 1, []string{"import", bad, "--to", s.Addr}, `bad.tsv:3: column 2 "repost": "x" is not a whole number 0..4294967295 (nothing was imported; --keep-going`)
	moved{}.want(t, "after a file that was refused", s)
	harness.WantCtl(t, 1, []string{"import", bad, "--to", s.Addr, "--keep-going"}, "4 rows read", "skipped: 2: ", "verified: number and sum")
	moved{1: {0, 5, 0}, 4: {0, 6, 0}}.want(t, "beside bad lines", s)
	harness.WantCtl(t, 0, []string{"import", write("c.tsv", plain, []byte("id\tlikes\n1\t5\n1\t5\n")), "--to", s.Addr, "--columns", "mid,repost", "--add", "--resume", filepath.Join(dir, "add")}, "verified")
	moved{1: {0, 15, 0}, 4: {0, 6, 0}}.want(t, "after an import that adds", s)
	for want, args := range map[string][]string{
		"want --to":                            {bad},
		"no column \"likes\"":                  {write("d.tsv", plain, []byte("id\tlikes\n1\t5\n")), "--to", s.Addr},
		"ADD COLUMN weibo likes hint=8 max=32": {filepath.Join(dir, "d.tsv"), "--to", s.Addr},
		"is it a dump of Redis or Valkey?":     {bad, "--to", s.Addr, "--map", "x:{mid}=weibo.repost"},
		"no such file":                         {filepath.Join(dir, "none.tsv"), "--to", s.Addr},
		"no counter \"x\"":                     {bad, "--to", s.Addr, "--counter", "x"},
		"--add wants --resume":                 {bad, "--to", s.Addr, "--add"},
		"want one character":                   {bad, "--to", s.Addr, "--separator", "ab"},
	} {
		if out, status := harness.Counterctl(t, append([]string{"import"}, args...)...); status == 0 || !strings.Contains(out, want) {
			t.Errorf("%q: status %d, want %q: %s", args, status, want, out)
		}
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
