package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCompressedLog: a replica that was away while the log was compressed comes back and goes on in the middle of it;
// the tools read it, every moment of it can be restored, and INFO tells what it takes on disk.
func TestCompressedLog(t *testing.T) {
	t.Parallel()
	const posts, changes = 3000, 240_000
	args := []string{"--aof-retain", "64mb", "--auto-aof-rewrite-min-size", "0"}
	a := start(t, args...)
	c := a.dial(t)
	runScript(t, c, schemaScript)
	b := start(t, append(args, "--replicaof", fmt.Sprintf("127.0.0.1 %d", a.port))...)
	caughtUp := func(b *server) {
		t.Helper()
		eventually(t, 60*time.Second, "the replica has the log", func() bool {
			return replicationField(b, "master_link_status") == "up" && replicationField(b, "slave_repl_offset") == replicationField(a, "master_repl_offset")
		})
	}
	incr := func(n int) {
		t.Helper()
		w := a.dial(t)
		defer w.close()
		if err := bulk(w, n, func(dst []byte, i int) []byte {
			return appendCall(dst, "INCR", "", uint64(3624660127841467+i*i%posts*4000), ".cntrn", -1)
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
	b.kill()
	away := infoNumber(t, c, "persistence", "log_position")
	moment, then := uint64(away), c.do("COUNTER.DIGEST").Raw
	incr(changes)
	c.want("+OK\r\n", "SAVE")
	eventually(t, 60*time.Second, "the log is compressed", func() bool {
		return infoNumber(t, c, "persistence", "log_compressed_bytes") > away
	})
	logged, disk := infoNumber(t, c, "persistence", "log_bytes"), infoNumber(t, c, "persistence", "log_disk_bytes")
	packed, on := infoNumber(t, c, "persistence", "log_compressed_bytes"), infoNumber(t, c, "persistence", "log_compressed_disk_bytes")
	if on*3 > packed || disk >= logged || infoNumber(t, c, "persistence", "aof_current_size") != disk {
		t.Errorf("%d bytes of log take %d; %d that are compressed take %d", logged, disk, packed, on)
	}
	b = startIn(t, b.dir, append(args, "--replicaof", fmt.Sprintf("127.0.0.1 %d", a.port))...)
	caughtUp(b)
	if got := b.log.from(0); strings.Contains(got, "snapshot has been copied") || !strings.Contains(got, "goes on from the primary's log") {
		t.Errorf("the replica took a full copy:\n%s", got)
	}
	if got, want := b.dial(t).do("COUNTER.DIGEST").Raw, c.do("COUNTER.DIGEST").Raw; got != want {
		t.Errorf("the replica's digest is %q, want %q", got, want)
	}
	c.want("+OK\r\n", "CONFIG", "SET", "aof-compress", "no")
	wantCtl(t, 0, []string{"check", a.dir}, "nothing is damaged")
	wantCtl(t, 0, []string{"dump", "--only", "log", "--to", "100", a.dir}, "compressed")
	out := filepath.Join(t.TempDir(), "restored")
	wantCtl(t, 0, []string{"restore", "--to", fmt.Sprint(moment), "--out", out, a.dir}, "restored the state at offset")
	if got := startIn(t, out).dial(t).do("COUNTER.DIGEST").Raw; got != then {
		t.Errorf("restored to %d: digest %q, want %q", moment, got, then)
	}
	a.kill()
	a = startIn(t, a.dir, args...)
	if got, want := a.dial(t).do("COUNTER.DIGEST").Raw, b.dial(t).do("COUNTER.DIGEST").Raw; got != want {
		t.Errorf("after a restart the digest is %q, want %q", got, want)
	}
}
