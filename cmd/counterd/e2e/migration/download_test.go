package migration

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestDownload downloads a server's data by redis-cli --rdb, restores the file and starts a server from it: when it is
// idle, and while the server is written to.
func TestDownload(t *testing.T) {
	cli, ok := harness.Tool(t, "redis-cli")
	if !ok {
		return
	}
	r, _ := harness.Random(t)
	s := harness.Start(t)
	c := s.Dial(t)
	harness.RunScript(t, c, harness.ToolsScript)
	harness.Scribble(t, c, r, 1500)
	c.Save()
	harness.Scribble(t, c, r, 300)
	c.Save()
	harness.Scribble(t, c, r, 300)
	download := func(name string, flags ...string) (file, said string, err error) {
		file = filepath.Join(t.TempDir(), name)
		out, err := exec.Command(cli, append([]string{"-p", strconv.Itoa(s.Port), "--rdb", file}, flags...)...).CombinedOutput()
		return file, string(out), err
	}
	file, said, err := download("idle")
	if err != nil || !strings.Contains(said, "Transfer finished with success") {
		t.Fatalf("%v\n%s", err, said)
	}
	harness.WantCtl(t, 0, []string{"check", file}, "nothing is damaged")
	harness.WantCtl(t, 0, []string{"dump", "--only", "manifests,log", file}, "manifest MANIFEST-", "counter wide")
	out := filepath.Join(t.TempDir(), "restored")
	harness.WantCtl(t, 0, []string{"restore", file, "--out", out}, "restored the state at offset")
	harness.WantCtl(t, 0, []string{"check", out}, "nothing is damaged")
	other := harness.StartIn(t, out)
	oc := other.Dial(t)
	for _, name := range harness.ToolsCounters {
		if got, want := oc.Do("COUNTER.DIGEST", name).Raw, c.Do("COUNTER.DIGEST", name).Raw; got != want {
			t.Errorf("digest of %s: %q, want %q", name, got, want)
		}
	}
	harness.SameContents(t, "downloaded", harness.Contents(t, other, harness.ToolsCounters...), harness.Contents(t, s, harness.ToolsCounters...))
	other.Stop()

	// A client that wants to know the size before gets an archive that is not compressed, which is larger.
	old := s.Dial(t)
	old.Want("+OK\r\n", "REPLCONF", "rdb-only", "1")
	if err := old.TryWrite([]byte("*1\r\n$4\r\nSYNC\r\n")); err != nil {
		t.Fatal(err)
	}
	plain := readArchive(t, old)
	packed, err := os.ReadFile(file)
	if err != nil || len(packed)*10 > len(plain)*9 {
		t.Errorf("compressed %d bytes, else %d, %v", len(packed), len(plain), err)
	}
	was := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(was, plain, 0o600); err != nil {
		t.Fatal(err)
	}
	harness.WantCtl(t, 0, []string{"check", was}, "nothing is damaged")

	// While it is written to: the state of one moment, not before the download began.
	c.Want("+OK\r\n", "SET", "77.cntcm", "0")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		w := s.Dial(t)
		for {
			select {
			case <-stop:
				return
			default:
				w.Do("INCR", "77.cntcm")
			}
		}
	}()
	harness.Eventually(t, time.Minute, "some increments", func() bool { return harness.InfoNumber(t, c, "stats", "total_commands_processed") > 3000 })
	before := counterValue(t, c, "77.cntcm")
	file, said, err = download("busy")
	after := counterValue(t, c, "77.cntcm")
	close(stop)
	<-done
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	out = filepath.Join(t.TempDir(), "busy")
	harness.WantCtl(t, 0, []string{"restore", "--out", out, file}, "restored the state at offset")
	other = harness.StartIn(t, out)
	if got := counterValue(t, other.Dial(t), "77.cntcm"); got < before || got > after {
		t.Errorf("restored %d, want %d to %d", got, before, after)
	}
	other.Stop()

	// A file that is cut or damaged, or a moment outside it, makes nothing.
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(content []byte, words ...string) {
		t.Helper()
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "none")
		harness.WantCtl(t, 1, []string{"check", file}, words...)
		harness.WantCtl(t, 1, []string{"restore", file, "--out", out}, words...)
		if _, err := os.Stat(out); err == nil {
			t.Error("restored from a damaged file")
		}
	}
	refuse(whole[:len(whole)-1], "corrupt file", "busy at byte", "unexpected EOF")
	damaged := append([]byte(nil), whole...)
	damaged[len(damaged)/2] ^= 4
	refuse(damaged, "corrupt file", "busy at byte")
	refuse([]byte("REDIS0010..."), "magic", "REDIS001")
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	harness.WantCtl(t, 1, []string{"restore", file, "--to", "99999999999", "--out", out + "-2"}, "cannot be reached")
	harness.WantCtl(t, 2, []string{"restore", s.Dir, "--out", out + "-2"}, "want --to")
	harness.WantCtl(t, 2, []string{"repair", file}, "never changed")

	if out, err := exec.Command(cli, "-p", strconv.Itoa(s.Port), "--functions-rdb", file+"-f").CombinedOutput(); err == nil || !strings.Contains(string(out), "no functions") {
		t.Errorf("--functions-rdb: %v\n%s", err, out)
	}
}

// readArchive reads a bulk string without its CRLF.
func readArchive(t testing.TB, c *harness.Conn) []byte {
	t.Helper()
	line, err := c.Br.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.Trim(line, "$\r\n"))
	if err != nil {
		t.Fatalf("%q", line)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.Br, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// counterValue reads a number.
func counterValue(t testing.TB, c *harness.Conn, key string) int64 {
	t.Helper()
	raw := c.Do("GET", key).Raw
	lines := strings.Split(raw, "\r\n")
	n, err := strconv.ParseInt(lines[min(1, len(lines)-1)], 10, 64)
	if err != nil {
		t.Fatalf("GET %s: %q", key, raw)
	}
	return n
}
