package durability

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestCompressedLog: a replica that was away while the log was compressed comes back and goes on in the middle of it;
// the tools read it, every moment of it can be restored, and INFO tells what it takes on disk.
func TestCompressedLog(t *testing.T) {
	t.Parallel()
	const posts, changes = 3000, 240_000
	args := []string{"--aof-retain", "64mb", "--auto-aof-rewrite-min-size", "0"}
	a := harness.Start(t, args...)
	c := a.Dial(t)
	harness.RunScript(t, c, harness.SchemaScript)
	b := harness.Start(t, append(args, "--replicaof", fmt.Sprintf("127.0.0.1 %d", a.Port))...)
	caughtUp := func(b *harness.Server) {
		t.Helper()
		harness.Eventually(t, 60*time.Second, "the replica has the log", func() bool {
			return harness.ReplicationField(b, "master_link_status") == "up" && harness.ReplicationField(b, "slave_repl_offset") == harness.ReplicationField(a, "master_repl_offset")
		})
	}
	incr := func(n int) {
		t.Helper()
		w := a.Dial(t)
		defer w.Close()
		if err := harness.Bulk(w, n, func(dst []byte, i int) []byte {
			return harness.AppendCall(dst, "INCR", "", uint64(3624660127841467+i*i%posts*4000), ".cntrn", -1)
		}, func(i int, reply []byte) error {
			if reply[0] != ':' {
				return fmt.Errorf("%q", reply)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	incr(20_000)
	caughtUp(b)
	b.Kill()
	away := harness.InfoNumber(t, c, "persistence", "log_position")
	moment, then := uint64(away), c.Do("COUNTER.DIGEST").Raw
	incr(changes)
	c.Save()
	harness.Eventually(t, 60*time.Second, "the log is compressed", func() bool {
		return harness.InfoNumber(t, c, "persistence", "log_compressed_bytes") > away
	})
	logged, disk := harness.InfoNumber(t, c, "persistence", "log_bytes"), harness.InfoNumber(t, c, "persistence", "log_disk_bytes")
	packed, on := harness.InfoNumber(t, c, "persistence", "log_compressed_bytes"), harness.InfoNumber(t, c, "persistence", "log_compressed_disk_bytes")
	if on*3 > packed || disk >= logged || harness.InfoNumber(t, c, "persistence", "aof_current_size") != disk {
		t.Errorf("%d bytes of log take %d; %d that are compressed take %d", logged, disk, packed, on)
	}
	b = harness.StartIn(t, b.Dir, append(args, "--replicaof", fmt.Sprintf("127.0.0.1 %d", a.Port))...)
	caughtUp(b)
	if got := b.Log.From(0); strings.Contains(got, "copied the snapshot of the primary") || !strings.Contains(got, "resumed replication from the primary's log") {
		t.Errorf("the replica took a full copy:\n%s", got)
	}
	if got, want := b.Dial(t).Do("COUNTER.DIGEST").Raw, c.Do("COUNTER.DIGEST").Raw; got != want {
		t.Errorf("the replica's digest is %q, want %q", got, want)
	}
	c.Want("+OK\r\n", "CONFIG", "SET", "aof-compress", "no")
	harness.WantCtl(t, 0, []string{"check", a.Dir}, "nothing is damaged")
	harness.WantCtl(t, 0, []string{"dump", "--only", "log", "--to", "100", a.Dir}, "compressed")
	out := filepath.Join(t.TempDir(), "restored")
	harness.WantCtl(t, 0, []string{"restore", "--to", fmt.Sprint(moment), "--out", out, a.Dir}, "restored the state at offset")
	if got := harness.StartIn(t, out).Dial(t).Do("COUNTER.DIGEST").Raw; got != then {
		t.Errorf("restored to %d: digest %q, want %q", moment, got, then)
	}
	a.Kill()
	a = harness.StartIn(t, a.Dir, args...)
	if got, want := a.Dial(t).Do("COUNTER.DIGEST").Raw, b.Dial(t).Do("COUNTER.DIGEST").Raw; got != want {
		t.Errorf("after a restart the digest is %q, want %q", got, want)
	}
}
