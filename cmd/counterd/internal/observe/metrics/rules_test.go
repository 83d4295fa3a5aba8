// Scenario: alerts, panels, runbooks and the documentation name only metrics that exist.

package metrics

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/cmd/counterd/internal/testkit/factstest"
)

// ruleFile is a rule file as Prometheus reads it; it refuses fields that it does not know, and so does this.
type ruleFile struct {
	Groups []struct {
		Name     string `yaml:"name"`
		Interval string `yaml:"interval"`
		Rules    []struct {
			Alert       string            `yaml:"alert"`
			Expr        string            `yaml:"expr"`
			For         string            `yaml:"for"`
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

// shownAtAll are the metrics of a node of which all is known, also while data is being loaded. Each is a row of the table.
func shownAtAll(t *testing.T) map[string]*dto.MetricFamily {
	all := read(t, scrape(t, factstest.Full()))
	for name, f := range read(t, scrape(t, factstest.Loading())) {
		if all[name] == nil {
			all[name] = f
		}
	}
	for name := range all {
		if strings.HasPrefix(name, facts.Namespace) && !hasRow(name) {
			t.Errorf("%s has no row", name)
		}
	}
	return all
}

// TestAlerts: the rules are read as Prometheus would, each names existing metrics, and has advice for a person.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	book, err := os.ReadFile("../../../../../docs/operate/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	var file ruleFile
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	all := shownAtAll(t)
	names := make(map[string]bool)
	seen := make(map[string]bool)
	format := template.FuncMap{"humanizeDuration": func(any) string { return "" }, "humanizePercentage": func(any) string { return "" }}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || !regexp.MustCompile(`^Counterd[A-Z][A-Za-z]+$`).MatchString(r.Alert) {
				t.Errorf("%q: want a name of its own that begins with Counterd", r.Alert)
			}
			seen[r.Alert] = true
			checkExpr(t, r.Alert, r.Expr, all, names)
			if r.For != "" {
				if _, err := model.ParseDuration(r.For); err != nil {
					t.Errorf("%s: for %v", r.Alert, err)
				}
			}
			if s := r.Labels["severity"]; len(r.Labels) != 1 || s != "critical" && s != "warning" {
				t.Errorf("%s: labels %v, want a severity, critical or warning", r.Alert, r.Labels)
			}
			for _, a := range []string{"summary", "description", "runbook"} {
				line := r.Annotations[a]
				if line == "" || a != "summary" && !strings.HasSuffix(line, ".") {
					t.Errorf("%s: the %s %q is no sentence", r.Alert, a, line)
				}
				if _, err := template.New(a).Funcs(format).Parse(`{{$labels := .}}{{$value := .}}` + line); err != nil {
					t.Errorf("%s: %s: %v", r.Alert, a, err)
				}
				for _, m := range regexp.MustCompile(`\bcounterd_[a-z_]+`).FindAllString(line, -1) {
					if !hasRow(m) && m != "counterd_link_error" { // which INFO has
						t.Errorf("%s: %s names %s, which is none", r.Alert, a, m)
					}
				}
			}
			_, anchor, ok := strings.Cut(r.Annotations["runbook_url"], "/docs/operate/runbooks.md#")
			_, section, _ := strings.Cut(string(book), `<a id="`+anchor+`"></a>`)
			_, section, _ = strings.Cut(section, "\n### ") // a section may have several anchors
			section, _, _ = strings.Cut(section, "\n<a id=")
			if !ok || !regexp.MustCompile(`(?m)^Alerts:.*\b`+r.Alert+`\b`).MatchString(section) {
				t.Errorf("%s: the runbook at %q does not name it", r.Alert, r.Annotations["runbook_url"])
			}
			if len(r.Annotations) != 4 {
				t.Errorf("%s has %d annotations, want 4", r.Alert, len(r.Annotations))
			}
		}
	}
	// The conditions that an operator must be told.
	for _, name := range []string{"loading", "link_up", "replica_lag_bytes", "disk_ready", "snapshot_last_success_timestamp_seconds", "posts_memory_bytes", "error_replies_total",
		"log_fsync_duration_seconds", "connections_rejected_total", "panics_total", "scrub_errors_total", "log_retained_bytes", "idmp_producers"} {
		if !names[facts.Namespace+name] {
			t.Errorf("no rule looks at %s", name)
		}
	}
}

// TestDashboard: Grafana can read the dashboard, and each panel queries existing metrics.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	type target struct{ Expr, RefID string }
	var dash struct {
		Title, UID    string
		SchemaVersion int
		Panels        []struct {
			ID          int
			Title, Type string
			Targets     []target
			GridPos     struct{ X, Y, W, H int }
		}
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Annotations struct{ List []target }
	}
	if err := json.Unmarshal(text, &dash); err != nil {
		t.Fatal(err)
	}
	if dash.Title == "" || dash.UID == "" || dash.SchemaVersion == 0 || len(dash.Panels) < 30 {
		t.Errorf("it is %q, %q, of version %d, with %d panels", dash.Title, dash.UID, dash.SchemaVersion, len(dash.Panels))
	}
	all := shownAtAll(t)
	names := make(map[string]bool)
	ids, taken := make(map[int]bool), make(map[[2]int]string)
	for _, p := range dash.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d, %q: want a number and a title of its own", p.ID, p.Title)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s: %+v is not on the grid", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("%s, a %s, has %d expressions", p.Title, p.Type, len(p.Targets))
		}
		for _, q := range p.Targets {
			checkExpr(t, p.Title, strings.ReplaceAll(q.Expr, "$__rate_interval", "5m"), all, names)
			if found, _ := selectors(strings.ReplaceAll(q.Expr, "$__rate_interval", "5m")); len(found) > 0 {
				for _, s := range found {
					if _, node := s.labels["instance"]; !node || s.labels["job"] != "$job" {
						t.Errorf("%s: %s is not of the nodes that were chosen", p.Title, s.metric)
					}
				}
			}
		}
	}
	for _, a := range dash.Annotations.List {
		checkExpr(t, "an annotation", a.Expr, all, names)
	}
	for _, v := range dash.Templating.List {
		if m := regexp.MustCompile(`counterd_[a-z_]+`).FindString(v.Definition); v.Definition != "" && all[m] == nil {
			t.Errorf("the variable %s asks for %q", v.Name, v.Definition)
		}
	}
	// A metric that no panel shows must be in this list: it is part of another that a panel shows, or for alerts alone.
	for name := range strings.FieldsSeq(`build_info loading_done_bytes loading_size_bytes slowlog_length readonly_clients max_readonly_clients tracking_prefixes
		memory_used_bytes memory_peak_bytes max_clients_memory_bytes overflow_values memory_refusals_total page_cache_limit_bytes cold_written_bytes_total scrubbed_files_total
		disk_size_bytes disk_low log_segments_dropped_early_total log_first_bytes log_segments log_compressed_segments log_fsync_errors_total log_rewrites_total snapshots_total snapshot_in_progress
		snapshot_last_ok snapshot_replay_bytes link_copying link_copied_bytes link_copy_size_bytes link_down_seconds diverged_files healing healing_waits healing_lost_bytes_total healing_seconds healed_total refilled_ranges_total refilled_posts_total refilled_log_segments_total refill_failures_total scrub_mended_total scrub_rounds_total log_segments_damaged idmp_entries idmp_numbers
		idmp_producers_forgotten_total compare_passes_total compare_differing_ranges`) {
		if names[facts.Namespace+name] {
			t.Errorf("a panel shows %s", name)
		}
		names[facts.Namespace+name] = true
	}
	for _, f := range facts.Table() {
		if f.Metric != "" && !names[facts.Namespace+f.Metric] {
			t.Errorf("no panel shows %s", f.Metric)
		}
	}
}

// TestDocuments: the documentation and the packages name only metrics, and fields of INFO, that the table has.
func TestDocuments(t *testing.T) {
	names := make(map[string]bool)
	for _, f := range facts.Table() {
		names[strings.TrimSuffix(f.Info, "*")] = true
		if f.Metric != "" {
			name := facts.Namespace + f.Metric
			names[name] = true
			if f.Type == facts.Histogram {
				names[name+"_sum"], names[name+"_count"], names[name+"_bucket"] = true, true, true
			}
		}
	}
	root, found := "../../../../..", 0
	for _, dir := range []string{"docs", "packaging", "README.md", "CONTRIBUTING.md"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if ext := filepath.Ext(path); err != nil || entry.IsDir() || ext == ".js" || ext == ".py" || ext == ".java" || ext == ".go" { // programs have names of their own
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range regexp.MustCompile(`\bcounterd_[a-z_]+[a-z]\b`).FindAllString(string(text), -1) {
				if found++; !names[m] {
					t.Errorf("%s names %s, which is none", strings.TrimPrefix(path, root+"/"), m)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 100 {
		t.Errorf("only %d names were found", found)
	}
}
