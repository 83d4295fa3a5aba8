// Scenario: expressions of PromQL are read, as far as alerts and panels need it.

package metrics

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/cmd/counterd/internal/testkit/factstest"
)

// selector is the series of one metric that an expression of PromQL selects.
type selector struct {
	metric string
	labels map[string]string // those that must be equal to something
	calls  []string          // functions that it stands in, the innermost last
	ranged bool              // [5m]
	by     []string          // labels of by (...) around it
}

var (
	exprToken = regexp.MustCompile("^(?:[a-zA-Z_:$][a-zA-Z0-9_:]*|\"(?:[^\"\\\\]|\\\\.)*\"|[0-9.]+(?:e[0-9]+)?[smhd]?|[=!]~|[=!<>]=|[-+*/%^<>=(){}\\[\\],]|\\s+)")
	byLabels  = regexp.MustCompile(`by \(([a-z_, ]*)\)`)
)

// selectors finds what an expression names. It knows as much of PromQL as is used here: an error is a token that is
// none, brackets that do not match, or two operands without an operator.
func selectors(expr string) (found []selector, err error) {
	var tokens []string
	for rest := expr; rest != ""; {
		t := exprToken.FindString(rest)
		if t == "" {
			return nil, fmt.Errorf("%q begins with nothing that is known", rest)
		}
		if strings.TrimSpace(t) != "" {
			tokens = append(tokens, t)
		}
		rest = rest[len(t):]
	}
	at := func(i int) string {
		if i < len(tokens) {
			return tokens[i]
		}
		return ""
	}
	var open []string // brackets, and the functions before round ones
	closing := map[string]string{")": "(", "]": "[", "}": "{"}
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch {
		case t == "(" || t == "[" || t == "{":
			name := ""
			if t == "(" && i > 0 && isWord(tokens[i-1]) {
				name = tokens[i-1]
			}
			open = append(open, t+name)
		case closing[t] != "":
			if len(open) == 0 || open[len(open)-1][:1] != closing[t] {
				return nil, fmt.Errorf("%q: %s closes nothing", expr, t)
			}
			open = open[:len(open)-1]
		case t == "by" || t == "on" || t == "ignoring" || t == "group_left":
			for i++; at(i) != ")" && i < len(tokens); i++ {
			}
		case strings.HasPrefix(t, facts.Namespace) || strings.HasPrefix(t, "go_") || strings.HasPrefix(t, "process_") || t == "up":
			s := selector{metric: t, labels: make(map[string]string)}
			for _, o := range open {
				if len(o) > 1 {
					s.calls = append(s.calls, o[1:])
				}
			}
			if at(i+1) == "{" {
				for i += 2; at(i) != "}"; i += 4 {
					label, op, value := at(i), at(i+1), at(i+2)
					if !isWord(label) || value == "" || value[0] != '"' || at(i+3) != "," && at(i+3) != "}" {
						return nil, fmt.Errorf("%q: the labels of %s", expr, t)
					}
					s.labels[label] = ""
					if op == "=" {
						s.labels[label] = strings.Trim(value, `"`)
					}
					if at(i+3) == "}" {
						i += 3
						break
					}
				}
			}
			s.ranged = at(i+1) == "["
			found = append(found, s)
		}
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("%q: %v is not closed", expr, open)
	}
	for i := range found {
		for _, m := range byLabels.FindAllStringSubmatch(expr, -1) {
			for _, l := range strings.Split(m[1], ",") {
				found[i].by = append(found[i].by, strings.TrimSpace(l))
			}
		}
	}
	return found, nil
}

func isWord(t string) bool {
	return t != "" && (t[0] == '_' || t[0] >= 'a' && t[0] <= 'z') && !slices.Contains([]string{"and", "or", "unless", "by", "bool"}, t)
}

// complainer receives the errors of a check.
type complainer interface {
	Helper()
	Errorf(format string, args ...any)
}

// complaints counts them.
type complaints int

func (c *complaints) Helper()               {}
func (c *complaints) Errorf(string, ...any) { *c++ }

// checkExpr looks whether what an expression names is shown, with such labels, and whether counters stand where only
// counters make sense. names gets the metrics.
func checkExpr(t complainer, where, expr string, all map[string]*dto.MetricFamily, names map[string]bool) {
	t.Helper()
	found, err := selectors(expr)
	if err != nil || len(found) == 0 {
		t.Errorf("%s: %s: %v, %d metrics", where, expr, err, len(found))
	}
	grouping := make(map[string]bool) // labels of all metrics of the expression
	for _, s := range found {
		if s.metric == "up" {
			continue
		}
		f := all[s.metric]
		part := ""
		if f == nil {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if h := all[strings.TrimSuffix(s.metric, suffix)]; h != nil && strings.HasSuffix(s.metric, suffix) && h.GetType() == dto.MetricType_HISTOGRAM {
					f, part = h, suffix
				}
			}
		}
		if f == nil {
			t.Errorf("%s: there is no metric %s", where, s.metric)
			continue
		}
		names[f.GetName()] = true
		inner := ""
		if len(s.calls) > 0 {
			inner = s.calls[len(s.calls)-1]
		}
		grows := f.GetType() == dto.MetricType_COUNTER || part != ""
		rate := inner == "rate" || inner == "increase"
		switch {
		case grows && !rate && !strings.Contains(where, "Damaged files"):
			t.Errorf("%s: %s is a counter: want its rate or increase in %q", where, s.metric, expr)
		case !grows && rate:
			t.Errorf("%s: %s is no counter, and %s is asked of it", where, s.metric, inner)
		case s.ranged != (rate || inner == "changes" || inner == "predict_linear"):
			t.Errorf("%s: %s stands in %s with a range: %v", where, s.metric, inner, s.ranged)
		case part == "" && f.GetType() == dto.MetricType_HISTOGRAM:
			t.Errorf("%s: %s is a histogram: want its _bucket, _sum or _count", where, s.metric)
		}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				grouping[l.GetName()] = true
			}
		}
		if !slices.ContainsFunc(f.Metric, func(m *dto.Metric) bool { return fits(m, s.labels) }) {
			t.Errorf("%s: no series of %s has the labels %v", where, s.metric, s.labels)
		}
	}
	for _, s := range found {
		for _, l := range s.by {
			if !grouping[l] && l != "job" && l != "instance" && (l != "le" || !strings.HasSuffix(s.metric, "_bucket")) {
				t.Errorf("%s: by %s: no metric of %q has this label", where, l, expr)
			}
		}
	}
}

// fits tells whether a series has labels, but for those that Prometheus adds.
func fits(m *dto.Metric, labels map[string]string) bool {
	for name, want := range labels {
		if name == "job" || name == "instance" {
			continue
		}
		if !slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == name && (want == "" || l.GetValue() == want) }) {
			return false
		}
	}
	return true
}

// TestSelectors: errors of an expression are found, else the tests of rules and panels would show nothing.
func TestSelectors(t *testing.T) {
	for _, wrong := range []string{"sum(counterd_x", "counterd_x)", "counterd_x{a=}", "counterd_x{a=\"b\"", "counterd_x{a \"b\"}", "counterd_x # y", "rate(counterd_x[5m)", "\"open"} {
		if found, err := selectors(wrong); err == nil {
			t.Errorf("%s: got %v", wrong, found)
		}
	}
	got, err := selectors(`sum by (job, le) (rate(counterd_a_bucket{job="$job",le!="1"}[5m])) > 64e6 and on (job) up == 0`)
	if err != nil || len(got) != 2 {
		t.Fatalf("%v %v", got, err)
	}
	if a := got[0]; a.metric != "counterd_a_bucket" || !a.ranged || a.labels["job"] != "$job" || a.labels["le"] != "" || a.calls[len(a.calls)-1] != "rate" ||
		!slices.Equal(a.by, []string{"job", "le"}) {
		t.Errorf("%+v", a)
	}
	if got[1].metric != "up" || len(got[1].calls) != 0 {
		t.Errorf("%+v", got[1])
	}
	all := read(t, scrape(t, factstest.Full()))
	for _, wrong := range []string{`counterd_no_such`, `counterd_commands_total`, `rate(counterd_loading[5m])`, `rate(counterd_commands_total{no="x"}[5m])`,
		`counterd_posts{tier="warm"}`, `sum by (tear) (counterd_posts)`, `rate(counterd_commands_total)`, `counterd_command_duration_seconds`,
		`rate(counterd_posts_bucket[5m])`, `1 > 0`} {
		var n complaints
		if checkExpr(&n, "it", wrong, all, make(map[string]bool)); n == 0 {
			t.Errorf("%s passes", wrong)
		}
	}
}
