package facts_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
	"github.com/counterd/counterd/cmd/counterd/internal/testkit/factstest"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist"
)

func everything(string) bool { return true }

// shown is all that a State shows: INFO, JSON and metrics.
func shown(t *testing.T, s *facts.State) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.SplitSeq(facts.Info(s, everything), "\r\n") {
		if !regexp.MustCompile(`^(uptime_in_seconds|server_time_usec):`).MatchString(line) { // which go on by themselves
			b.WriteString(line + "\n")
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	b.Write(text)
	table := facts.Table()
	for i := range table {
		f := &table[i]
		switch {
		case f.Metric == "":
		case f.Type == facts.Histogram:
			f.Buckets(s, func(h facts.Buckets, labels ...string) { fmt.Fprintln(&b, f.Metric, labels, h) })
		default:
			f.Series(s, func(v float64, labels ...string) { fmt.Fprintln(&b, f.Metric, labels, v) })
		}
	}
	return b.String()
}

// TestRows: each fact stands once, has a meaning, is shown somewhere, and its names follow the rules.
func TestRows(t *testing.T) {
	s := factstest.Full()
	info := "\r\n" + facts.Info(s, everything) + facts.Info(factstest.Loading(), everything)
	var tree map[string]any
	var text []byte
	for _, s := range []*facts.State{factstest.Loading(), s} {
		var err error
		if text, err = json.Marshal(s); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &tree); err != nil { // into the same map: it has the fields of both
			t.Fatalf("%v: %s", err, text)
		}
	}
	fields, series, paths, types := make(map[string]bool), make(map[string]bool), make(map[string]bool), make(map[string]string)
	table := facts.Table()
	for i := range table {
		f := &table[i]
		name := f.Info + "|" + f.Metric + "|" + f.JSON
		if !regexp.MustCompile(`^[A-Z"a-z0-9].*\.$`).MatchString(f.Help) || strings.ContainsAny(f.Help, "|\n") || len(f.Help) > 260 {
			t.Errorf("%s: the meaning %q is not a sentence for a table", name, f.Help)
		}
		if f.Info == "" && f.Metric == "" && f.JSON == "" {
			t.Errorf("row %d is shown nowhere", i)
		}
		if f.Info != "" {
			key := f.Section + "/" + f.Info
			if fields[key] || f.Section == "" {
				t.Errorf("INFO has %s twice, or in no section", key)
			}
			fields[key] = true
			if !strings.Contains(f.Info, "*") && !strings.Contains(info, "\r\n"+f.Info+":") {
				t.Errorf("INFO does not show %s, though all is known", f.Info)
			}
		}
		if f.Metric != "" {
			key := f.Metric + "{" + f.Label + "}"
			if series[key] {
				t.Errorf("%s has two rows", key)
			}
			series[key] = true
			if was, ok := types[f.Metric]; ok && was != fmt.Sprint(f.Type, f.Labels) || f.Type == "" {
				t.Errorf("%s has rows of different types or labels, or of none", f.Metric)
			}
			types[f.Metric] = fmt.Sprint(f.Type, f.Labels)
			if (f.Type == facts.Counter) != strings.HasSuffix(f.Metric, "_total") && f.Type != facts.Histogram {
				t.Errorf("%s, a %s: only counters end in _total", f.Metric, f.Type)
			}
			for word, unit := range map[string]string{"bytes": "_bytes", "duration": "_seconds", "timestamp": "_seconds"} {
				if strings.Contains(f.Metric, word) && !strings.Contains(f.Metric, unit) {
					t.Errorf("%s lacks its unit %s", f.Metric, unit)
				}
			}
		}
		if f.JSON != "" {
			if paths[f.JSON] {
				t.Errorf("the JSON has %s twice", f.JSON)
			}
			paths[f.JSON] = true
			var at any = tree
			for step := range strings.SplitSeq(f.JSON, ".") {
				step, list := strings.CutSuffix(step, "[]")
				object, _ := at.(map[string]any)
				at = object[step]
				if items, ok := at.([]any); list && ok && len(items) > 0 {
					at = items[0]
				}
			}
			if at == nil {
				t.Errorf("the JSON does not show %s, though all is known: %s", f.JSON, text)
			}
		}
		if f.Same != "" && !fields[f.Section+"/"+f.Same] && !regexp.MustCompile(`"?\b`+f.Same+`:`).MatchString(info) {
			t.Errorf("%s is the same as %s, which is not there", f.Info, f.Same)
		}
	}
}

// TestAllShown: whatever the server fills in is shown. Each number and text of a State is changed, and INFO, the JSON or a
// metric has to change with it.
func TestAllShown(t *testing.T) {
	s := factstest.Full()
	before := shown(t, s)
	// Fields that decide something and are shown by other means.
	hidden := map[string]bool{"State.Filled": true, "State.Process.ClusterEnabled": true, "State.Process.Started": true, "State.Replicas[0].Watching": true, "State.Replicas[1].Watching": true,
		"State.Agent.Troubles[0].Severe": true, "State.Clients.Buffered": false, "State.Replicas[0].Host": false}
	changed := 0
	var walk func(path string, v reflect.Value)
	check := func(path string, restore func()) {
		if hidden[path] {
			restore()
			return
		}
		changed++
		if shown(t, s) == before {
			t.Errorf("%s is not shown", path)
		}
		restore()
	}
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() && v.Type() != reflect.TypeFor[*stats.Histogram]() {
				walk(path, v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
			}
		case reflect.Struct:
			if at, ok := v.Addr().Interface().(*time.Time); ok {
				old := *at
				*at = at.Add(time.Hour)
				check(path, func() { *at = old })
				return
			}
			switch v.Type() { // they have numbers that nobody shows
			case reflect.TypeFor[counter.TierStats](), reflect.TypeFor[counter.SnapshotStats](), reflect.TypeFor[persist.Stats](), reflect.TypeFor[counter.ProducerStats]():
				return
			}
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case reflect.Bool:
			old := v.Bool()
			v.SetBool(!old)
			check(path, func() { v.SetBool(old) })
		case reflect.Int, reflect.Int64:
			old := v.Int()
			v.SetInt(old + int64(10*time.Second))
			check(path, func() { v.SetInt(old) })
		case reflect.Uint64:
			old := v.Uint()
			v.SetUint(old + 1e10)
			check(path, func() { v.SetUint(old) })
		case reflect.Float64:
			old := v.Float()
			v.SetFloat(2000 + 2*old)
			check(path, func() { v.SetFloat(old) })
		case reflect.String:
			old := v.String()
			v.SetString(old + "x")
			check(path, func() { v.SetString(old) })
		case reflect.Uint32:
		default:
			t.Fatalf("%s: %v", path, v.Kind())
		}
	}
	walk("State", reflect.ValueOf(s).Elem())
	if changed < 150 {
		t.Errorf("only %d fields were changed", changed)
	}
}

// TestUnknown: unknown facts are left out in all three places, and not shown as 0.
func TestUnknown(t *testing.T) {
	table := facts.Table()
	for _, c := range []struct {
		what   string
		change func(s *facts.State)
		fields string // of INFO
	}{
		{"free space is not known", func(s *facts.State) { s.Disk.Free = counter.FreeUnknown }, "disk_free_bytes"},
		{"the file system is not known", func(s *facts.State) { s.Disk.Total = 0 }, "disk_free_bytes disk_total_bytes"},
		{"data is in memory only", func(s *facts.State) { s.Disk.Durable = false }, "log_position log_syncs snapshot_bytes disk_low"},
		{"the machine's memory is not known", func(s *facts.State) { s.Limits.System = 0 }, "total_system_memory"},
		{"a primary", func(s *facts.State) { s.Role, s.Link = "primary", nil }, "master_host counterd_behind_bytes master_sync_total_bytes master_link_down_since_seconds"},
		{"no cluster", func(s *facts.State) { s.Cluster = nil }, "cluster_shard cluster_slots_served"},
	} {
		s := factstest.Full()
		c.change(s)
		info := "\r\n" + facts.Info(s, everything)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var tree map[string]map[string]any
		_ = json.Unmarshal(text, &tree) // fields that are no objects are left out
		for name := range strings.FieldsSeq(c.fields) {
			found := false
			for i := range table {
				f := &table[i]
				if f.Info != name {
					continue
				}
				found = true
				if strings.Contains(info, "\r\n"+name+":") {
					t.Errorf("%s: INFO shows %s", c.what, name)
				}
				if f.Metric != "" && f.Type != facts.Histogram {
					f.Series(s, func(v float64, _ ...string) { t.Errorf("%s: %s is %v", c.what, f.Metric, v) })
				}
				f.Buckets(s, func(facts.Buckets, ...string) { t.Errorf("%s: %s is shown", c.what, f.Metric) })
				if object, field, ok := strings.Cut(f.JSON, "."); ok && tree[object][field] != nil {
					t.Errorf("%s: the JSON has %s", c.what, f.JSON)
				}
			}
			if !found {
				t.Errorf("there is no row %s", name)
			}
		}
	}
}

// TestParts: rows of parts that were not filled are left out of the JSON, and INFO requests the parts that its sections
// read.
func TestParts(t *testing.T) {
	s := factstest.Full()
	s.Filled = facts.PartMemory
	text, err := json.Marshal(s)
	if err != nil || !strings.Contains(string(text), `"rss":`) || strings.Contains(string(text), `"tiers":`) || strings.Contains(string(text), `"commands":`) {
		t.Errorf("%v: %s", err, text)
	}
	if p := facts.InfoParts(func(title string) bool { return title == "Server" }); p != facts.PartProcess {
		t.Errorf("INFO server reads parts %b", p)
	}
	if p := facts.InfoParts(func(title string) bool { return title == "Memory" }); !p.Has(facts.PartMemory) || p.Has(facts.PartUsage) || p.Has(facts.PartConnections) {
		t.Errorf("INFO memory reads parts %b", p)
	}
	if p := facts.InfoParts(everything); p != facts.AllParts&^facts.PartHot {
		t.Errorf("INFO everything reads parts %b of %b", p, facts.AllParts)
	}
}
