package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/console"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/persist/vfs"
)

// statusOf asks the page of a server for its figures.
func statusOf(t *testing.T, s *Server, path string, into any) *http.Response {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.web.Addr().String()+path, nil)
	r.SetBasicAuth("default", s.config.Get().RequirePass)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if into != nil && res.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s: %v: %.200s", path, err, text)
		}
	}
	return res
}

// TestStatusIsInfo: the page says what INFO says.
func TestStatusIsInfo(t *testing.T) {
	s := wireServeStore(t, t.TempDir(), counter.Options{BlockItems: 64, SnapshotGrowth: -1}, func(c *config.Config) {
		c.MetricsAddr, c.SlowlogSlower, c.ReadonlyPort = "127.0.0.1:0", 0, freePort(t)
	})
	c := wireDial(t, s, 2)
	c.want("CLIENT SETNAME <b>x</b>&\"'", "+OK")
	c.want("ADD COUNTER other", "+OK")
	c.want("ADD COLUMN other v hint=8 max=32 suffix=v", "+OK")
	for i := range 1000 {
		c.want(fmt.Sprintf("SET %d.cntcm %d", i*7, i), "+OK")
		c.want(fmt.Sprintf("SET other:%d.v 7", i*3), "+OK")
	}
	for i := range 5 {
		c.want(fmt.Sprintf("COUNTER.DEMOTE weibo %d", i*1000), "+OK")
		c.want(fmt.Sprintf("INCR %d.cntcm", i*1001), fmt.Sprintf(":%d", i*143+1))
	}
	c.do("GET nosuch.")
	c.do("INCR 5")
	c.want("CONFIG SET appendfsync always", "+OK")
	c.want("INCR 7.cntcm", ":2")
	c.want("SAVE", "+OK")
	idle := wireDial(t, s, 2)

	var st console.Status
	var blocks console.Map
	var info map[string]string
	// Both are asked until they tell of the same moment: syncs and looks at the disk go on.
	var differ []string
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		info, _ = infoFields(t, c.do("INFO everything").Text)
		st, blocks = console.Status{}, console.Map{}
		statusOf(t, s, "/map.json", &blocks)
		statusOf(t, s, "/status.json", &st)
		differ = nil
		if v := &st.Vitals; st.Tiers == nil || len(st.Details.Largest) != 2 {
			differ = []string{"the page knows no blocks or clients yet"}
		} else {
			tiers := st.Tiers
			for field, got := range map[string]any{
				"run_id": v.RunID, "maxclients": v.Clients.Max, "connected_clients": v.Clients.Connected, "readonly_clients": v.Clients.Readers,
				"readonly_maxclients": v.Clients.ReadersMax, "rejected_connections": v.Clients.Rejected, "evicted_clients": v.Clients.Evicted,
				"log_position": v.Disk.LogEnd, "log_durable": v.Disk.LogDurable, "log_first": v.Disk.LogFirst, "log_segments": v.Disk.Segments,
				"log_bytes": v.Disk.LogBytes, "log_disk_bytes": v.Disk.LogDisk, "log_sync_errors": v.Disk.SyncErrors, "disk_total_bytes": v.Disk.Total, "log_max_sync_usec": v.Disk.MaxSync.Microseconds(),
				"snapshot_generation": v.Snapshot.Generation, "snapshot_bytes": v.Snapshot.Bytes, "snapshot_blocks": v.Snapshot.Blocks,
				"connected_slaves": len(v.Replicas), "panics_total": v.Panics, "counterd_diverged_files": v.Diverged, "cache_bytes": v.Memory.Cache,
				"hot_items": tiers.HotPosts, "hot_blocks": tiers.HotBlocks, "hot_bytes": tiers.HotBytes, "cold_items": tiers.ColdPosts, "cold_blocks": tiers.ColdBlocks,
				"cold_bytes": tiers.ColdBytes, "cold_index_bytes": tiers.IndexBytes, "overlay_items": tiers.OverlayRows, "overlay_bytes": tiers.OverlayBytes,
				"counters": st.Details.Counters, "columns": st.Details.Columns, "idmp_producers": st.Details.Producers, "total_system_memory": v.Memory.System,
			} {
				if want, ok := info[field]; !ok || fmt.Sprint(got) != want {
					differ = append(differ, fmt.Sprintf("%s: the page has %v, INFO %q", field, got, want))
				}
			}
		}
		if len(differ) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, d := range differ {
		t.Error(d)
	}
	tiers := st.Tiers
	if tiers.ColdBlocks != 5 || tiers.OverlayRows == 0 {
		t.Errorf("tiers %+v", tiers)
	}
	if rows := blocks.Rows; len(rows) != 2 || rows[0].Counter != "weibo" || strconv.FormatInt(rows[0].Posts+rows[1].Posts, 10) != info["items"] ||
		strconv.Itoa(rows[0].Blocks+rows[1].Blocks) != info["blocks"] {
		t.Errorf("rows %+v", rows)
	}
	for _, cmd := range st.Details.Commands {
		stat, latency := info["cmdstat_"+cmd.Name], info["latency_percentiles_usec_"+cmd.Name]
		if cmd.Name == "info" {
			continue // itself
		}
		if want := fmt.Sprintf("calls=%d,", cmd.Calls); !strings.HasPrefix(stat, want) {
			t.Errorf("%s: %s, want %s", cmd.Name, stat, want)
		}
		us := func(d time.Duration) float64 { return float64(d) / 1000 }
		if want := fmt.Sprintf("p50=%.3f,p99=%.3f,p99.9=%.3f", us(cmd.P50), us(cmd.P99), us(cmd.P999)); latency != want {
			t.Errorf("%s: %s, want %s", cmd.Name, latency, want)
		}
	}
	if len(st.Details.Commands) < 8 || len(st.Details.Slow) != 20 || len(st.Details.Restore.Points) != 1 || st.Details.Restore.Points[0].Offset == 0 {
		t.Errorf("%d commands, %d slow ones, %+v", len(st.Details.Commands), len(st.Details.Slow), st.Details.Restore)
	}
	if st.Verdict.Level != console.OK {
		t.Errorf("verdict %+v", st.Verdict)
	}
	// The busiest is the one that did all of it, and CLIENT LIST says the same of it.
	busy := st.Details.Busiest[0]
	if busy.Name != "<b>x</b>&\"'" || busy.Commands < 2000 {
		t.Errorf("the busiest is %+v", busy)
	}
	line := idle.do("CLIENT LIST ID " + strconv.FormatInt(busy.ID, 10)).Text
	for _, want := range []string{"name=" + busy.Name, "addr=" + busy.Addr, "cmd=info", "flags=" + busy.Flags} {
		if !strings.Contains(line, want+" ") {
			t.Errorf("CLIENT LIST: %s, want %s", line, want)
		}
	}
}

// TestStatusCommands: what a client has sent is counted exactly: planned, executed, in a transaction, refused.
func TestStatusCommands(t *testing.T) {
	s := wireServe(t, func(c *config.Config) { c.MetricsAddr = "127.0.0.1:0" })
	c := wireDial(t, s, 2)
	before := s.commands.Calls()
	var out []byte
	for i := range 700 {
		out = resptest.Append(out, "INCR", fmt.Sprintf("%d.cntcm", i%3))
		if i%100 == 0 {
			out = resptest.Append(out, "PING")
			out = resptest.Append(out, "NOSUCH")
		}
	}
	out = resptest.Append(resptest.Append(resptest.Append(out, "MULTI"), "INCR", "1.cntcm"), "EXEC")
	if _, err := c.conn.Write(out); err != nil {
		t.Fatal(err)
	}
	for range 700 + 2*7 + 3 {
		c.read()
	}
	until(t, "the connection tells", func() bool {
		_, busiest, _ := (&status{Server: s}).clients(3)
		return len(busiest) == 1 && busiest[0].Commands == s.commands.Calls()-before
	})
	if n := s.commands.Calls() - before; n != 700+7+3 {
		t.Errorf("%d commands", n)
	}
}

// TestStatusPassword: with a password nobody sees the page, or what it shows, without.
func TestStatusPassword(t *testing.T) {
	s := wireServe(t, func(c *config.Config) { c.MetricsAddr, c.RequirePass = "127.0.0.1:0", "s3cret" })
	for _, path := range []string{"/", "/status.json", "/history.json", "/map.json"} {
		res, err := http.Get("http://" + s.web.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized || res.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %s", path, res.Status)
		}
		if res := statusOf(t, s, path, nil); res.StatusCode != http.StatusOK && (path != "/map.json" || res.StatusCode != http.StatusNoContent) {
			t.Errorf("%s with the password: %s", path, res.Status)
		}
	}
}

// TestStatusRights: a user sees of the page what he may see by commands.
func TestStatusRights(t *testing.T) {
	s := wireServe(t, func(c *config.Config) { c.MetricsAddr, c.RequirePass, c.SlowlogSlower = "127.0.0.1:0", "s3cret", 0 })
	c := wireDial(t, s, 2)
	c.want("AUTH s3cret", "+OK")
	c.want("CLIENT SETNAME somebody", "+OK")
	c.want("SET 5.cntcm 1", "+OK")
	for _, u := range []struct {
		name, rights, hidden string
		status               int
	}{
		{"all", "+@all", "", http.StatusOK}, {"figures", "+info", "slowlog clients posts", http.StatusOK}, {"slow", "+info +slowlog|get", " clients posts", http.StatusOK},
		{"clients", "+info +client|list", "slowlog posts", http.StatusOK}, {"posts", "+info +counter.hot", "slowlog clients", http.StatusOK}, {"none", "+get", "", http.StatusForbidden},
	} {
		c.want("ACL SETUSER "+u.name+" on >pw ~* "+u.rights, "+OK")
		for _, path := range []string{"/", "/status.json", "/history.json", "/map.json"} {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.web.Addr().String()+path, nil)
			r.SetBasicAuth(u.name, "pw")
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != u.status && (path != "/map.json" || res.StatusCode != http.StatusNoContent) {
				t.Errorf("%s: %s: %s", u.name, path, res.Status)
			}
			if path != "/status.json" || u.status != http.StatusOK {
				continue
			}
			var st console.Status
			if err := json.Unmarshal(text, &st); err != nil {
				t.Fatal(err)
			}
			clients, slow := !strings.Contains(u.hidden, "clients"), !strings.Contains(u.hidden, "slowlog")
			if st.Hidden != u.hidden || (len(st.Details.Largest)+len(st.Details.Busiest) > 0) != clients || (len(st.Details.Slow) > 0) != slow ||
				!clients && !slow && strings.Contains(string(text), "somebody") {
				t.Errorf("%s: hidden %q: %s", u.name, st.Hidden, text)
			}
		}
	}
}

// TestStatusTrouble: a disk that fails is told of in words while it fails, and no longer.
func TestStatusTrouble(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.OS())
	s := wireServeStore(t, t.TempDir(), counter.Options{FS: faulty, SnapshotGrowth: -1}, func(c *config.Config) { c.MetricsAddr = "127.0.0.1:0" })
	t.Cleanup(faulty.Clear)
	c := wireDial(t, s, 2)
	c.want("SET 1.cntcm 5", "+OK")
	faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: syscall.ENOSPC})
	until(t, "changes are refused", func() bool { return strings.HasPrefix(c.do("INCR 1.cntcm").String(), "-MISCONF ") })
	var st console.Status
	until(t, "the page says so", func() bool {
		statusOf(t, s, "/status.json", &st)
		return st.Verdict.Level == console.Bad && st.Verdict.Text == "Changes are refused: the disk takes no writes" && strings.Contains(st.Verdict.Problems[0].Hint, "no space left")
	})
	faulty.Clear()
	until(t, "the page says that it is well again", func() bool {
		st = console.Status{}
		statusOf(t, s, "/status.json", &st)
		return st.Verdict.Level == console.OK
	})
}

// TestSlowText: what cannot be seen in a slow command is escaped, and long ones are cut.
func TestSlowText(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "888888.cntcm"}, "get 888888.cntcm"}, {[]string{"set", "", "a b"}, `set "" "a b"`}, {[]string{"x", "a\x00\n\u202e\xff"}, `x "a\x00\n\u202e\xff"`},
		{[]string{"<script>alert(1)</script>", "é"}, "<script>alert(1)</script> é"}, {[]string{strings.Repeat("é", 200)}, strings.Repeat("é", 150) + "…"},
	} {
		if got := slowText(c.args); got != c.want {
			t.Errorf("%q: got %s, want %s", c.args, got, c.want)
		}
	}
}
