package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/console"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/persist/vfs"
)

// statusOf asks the console of a server for its data.
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

// TestConsoleIsInfo: the console shows what INFO shows.
func TestConsoleIsInfo(t *testing.T) {
	s := wireServeStore(t, t.TempDir(), counter.Options{BlockItems: 64, SnapshotGrowth: -1}, func(c *config.Config) {
		c.MetricsAddr, c.SlowlogSlower, c.ReadonlyPort = "127.0.0.1:0", 0, freeport.Take(t)
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
	c.save()
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
		if all := shownFacts(t, st.Facts); all["tiers.hotPosts"] == nil || len(st.Details.Largest) != 2 {
			differ = []string{"the console knows no blocks or clients yet"}
		} else {
			for name := range strings.FieldsSeq(`run_id maxclients connected_clients readonly_clients readonly_maxclients rejected_connections evicted_clients blocked_clients
				log_position log_durable log_first log_segments log_bytes log_disk_bytes log_sync_errors disk_total_bytes disk_reserve_bytes disk_low aof_enabled durability
				snapshot_generation snapshot_bytes snapshot_blocks panics_total counterd_diverged_files cache_bytes maxmemory memory_refusing_writes
				hot_items hot_blocks hot_bytes cold_items cold_blocks cold_bytes cold_index_bytes overlay_items overlay_bytes cold_read_errors scrub_errors
				counters columns idmp_producers idmp_memory total_system_memory pubsub_clients`) {
				i := slices.IndexFunc(facts.Table(), func(f facts.Fact) bool { return f.Info == name })
				if i < 0 || facts.Table()[i].JSON == "" {
					t.Fatalf("no row of the table has %s in INFO and in the JSON", name)
				}
				got := fmt.Sprint(all[facts.Table()[i].JSON])
				if got = strings.NewReplacer("true", "1", "false", "0").Replace(got); got != info[name] {
					differ = append(differ, fmt.Sprintf("%s: the console has %v, INFO %q", name, got, info[name]))
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
	all := shownFacts(t, st.Facts)
	if all["tiers.coldBlocks"] != json.Number("5") || all["tiers.overlayRows"] == json.Number("0") {
		t.Errorf("tiers %v %v", all["tiers.coldBlocks"], all["tiers.overlayRows"])
	}
	if rows := blocks.Rows; len(rows) != 2 || rows[0].Counter != "weibo" || strconv.FormatInt(rows[0].Posts+rows[1].Posts, 10) != info["items"] ||
		strconv.Itoa(rows[0].Blocks+rows[1].Blocks) != info["blocks"] {
		t.Errorf("rows %+v", rows)
	}
	var lists struct {
		Commands []struct {
			Name           string
			Calls          int64
			P50, P99, P999 time.Duration
		}
	}
	if err := json.Unmarshal(st.Facts, &lists); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range lists.Commands {
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
	if len(lists.Commands) < 8 || len(st.Details.Slow) != 20 || len(st.Details.Restore.Points) != 1 || st.Details.Restore.Points[0].Offset == 0 {
		t.Errorf("%d commands, %d slow ones, %+v", len(lists.Commands), len(st.Details.Slow), st.Details.Restore)
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

// TestConsoleCommands: what a client has sent is counted exactly: planned, executed, in a transaction, refused.
func TestConsoleCommands(t *testing.T) {
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
		_, busiest := (&consoleSource{srv: &s.shared}).clients(3)
		return len(busiest) == 1 && busiest[0].Commands == s.commands.Calls()-before
	})
	if n := s.commands.Calls() - before; n != 700+7+3 {
		t.Errorf("%d commands", n)
	}
}

// TestConsolePassword: with a password nobody sees the page, or what it shows, without.
func TestConsolePassword(t *testing.T) {
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

// TestConsoleRights: a user sees of the page what he may see by commands.
func TestConsoleRights(t *testing.T) {
	s := wireServe(t, func(c *config.Config) { c.MetricsAddr, c.RequirePass, c.SlowlogSlower = "127.0.0.1:0", "s3cret", 0 })
	c := wireDial(t, s, 2)
	c.want("AUTH s3cret", "+OK")
	c.want("CLIENT SETNAME somebody", "+OK")
	c.want("SET 5.cntcm 1", "+OK")
	for _, u := range []struct {
		name, rights, hidden string
		status               int
	}{
		{"all", "+@all", "", http.StatusOK}, {"facts", "+info", "slowlog clients posts", http.StatusOK}, {"slow", "+info +slowlog|get", " clients posts", http.StatusOK},
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

// TestConsoleTrouble: a disk that fails is told of in words while it fails, and no longer.
func TestConsoleTrouble(t *testing.T) {
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
		return st.Verdict.Level == console.Bad && st.Verdict.Text == "Changes are refused: the disk does not accept writes" && strings.Contains(st.Verdict.Problems[0].Hint, "no space left")
	})
	faulty.Clear()
	until(t, "the page says that it is well again", func() bool {
		st = console.Status{}
		statusOf(t, s, "/status.json", &st)
		return st.Verdict.Level == console.OK
	})
}

// shownFacts are the facts of the console by their paths; lists are left out.
func shownFacts(t *testing.T, text []byte) map[string]any {
	t.Helper()
	all := make(map[string]any)
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if object, ok := v.(map[string]any); ok {
			for name, field := range object {
				walk(strings.TrimPrefix(path+"."+name, "."), field)
			}
			return
		}
		all[path] = v
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	walk("", tree)
	return all
}
