package facts

import (
	"fmt"
	"strings"
)

// reference is the reference page of all facts, in Markdown.
func reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("\n## INFO\n\nEach section is shown below its title. A field that is marked *fixed* has the same value always: tools for Redis expect it.\n" +
		"A field with a `*` stands for several lines, and `*.key` for a key of such a line.\n")
	for i := range Sections {
		sec := &Sections[i]
		if len(sec.rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n", sec.Title)
		if sec.Asked {
			fmt.Fprintf(&b, "Shown only by `INFO %s`, `INFO ALL` and `INFO EVERYTHING`.\n\n", strings.ToLower(sec.Title))
		}
		b.WriteString("| field | meaning | unit | metric |\n|---|---|---|---|\n")
		for j := range table {
			f := &table[j]
			if f.Section != sec.Title {
				continue
			}
			name, help := "`"+f.Info+"`", f.Help
			if f.Human {
				name += ", `" + f.Info + "_human`"
			}
			if f.Redis {
				help = "*Fixed.* " + help
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, help, f.unit(), f.metricName())
		}
	}
	b.WriteString("\n## Metrics\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	shown := make(map[string]bool)
	for i := range table {
		f := &table[i]
		if f.Metric == "" || shown[f.Metric] {
			continue
		}
		shown[f.Metric] = true
		help := f.MetricHelp()
		for j := range table {
			if g := &table[j]; families[f.Metric] != "" && g.Metric == f.Metric {
				help += fmt.Sprintf(" `%s`: %s", g.Label, g.Help)
			}
		}
		fmt.Fprintf(&b, "| `%s%s` | %s | %s | %s |\n", Namespace, f.Metric, f.Type, strings.Join(f.Labels, ", "), help)
	}
	b.WriteString("\n## JSON of the console\n\n`/status.json` has these fields below `facts`. Times are milliseconds since 1970, and lengths of time nanoseconds. The document has further fields, for the lists of the console; " +
		"they may change with any release.\n\n| field | meaning | INFO |\n|---|---|---|\n")
	for i := range table {
		if f := &table[i]; f.JSON != "" {
			info := ""
			if f.Info != "" {
				info = "`" + f.Info + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.JSON, f.Help, info)
		}
	}
	return b.String()
}

const referenceHead = `# Metrics and INFO

This page is generated from the table of facts in the server; a test checks that it is current.
A fact that is not known, or does not apply, is left out everywhere. While data is being loaded, facts about posts, the log
and replication are left out of the metrics and of the JSON.

Prometheus reads the metrics at ` + "`/metrics`" + ` of ` + "`--metrics-addr`" + `:

` + "```yaml" + `
scrape_configs:
  - job_name: counterd
    static_configs: [{targets: ['10.0.0.1:9121', '10.0.0.2:9121']}]
` + "```" + `

[grafana.json](../../cmd/counterd/internal/observe/metrics/grafana.json) is a dashboard for Grafana, and
[alerts.yml](../../cmd/counterd/internal/observe/metrics/alerts.yml) has alerting rules for Prometheus. Both expect the nodes in the job
` + "`counterd`" + `. [Runbooks](../operate/runbooks.md) say what to do about each alert.

The metrics of the Go runtime (` + "`go_*`" + `) and of the process (` + "`process_*`" + `) are served too.
Counters start again at 0 with the process; those that INFO shows also with ` + "`CONFIG RESETSTAT`" + `.
`

// metricName is the name of the row's metric, with its label where it shares the metric with others.
func (f *Fact) metricName() string {
	switch {
	case f.Metric == "":
		return ""
	case f.Label != "" && len(f.Labels) > 0:
		return fmt.Sprintf("`%s%s{%s=%q}`", Namespace, f.Metric, f.Labels[len(f.Labels)-1], f.Label)
	}
	return "`" + Namespace + f.Metric + "`"
}

// unit is that of the field in INFO.
func (f *Fact) unit() string {
	if f.Unit != "" {
		return f.Unit
	}
	for _, u := range []struct{ suffix, unit string }{{"_usec", "microseconds"}, {"_msec", "milliseconds"}, {"_bytes", "bytes"}, {"_seconds", "seconds"}, {"_in_seconds", "seconds"},
		{"_time_sec", "seconds"}, {"_seconds_ago", "seconds"}} {
		if strings.HasSuffix(f.Info, u.suffix) {
			return u.unit
		}
	}
	return ""
}
