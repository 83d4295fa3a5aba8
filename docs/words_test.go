// Scenario: pages name options, commands and metrics that exist, in words that are not retired.

package docs

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/programs"
)

var (
	option  = regexp.MustCompile(`(?:^|[ ` + "`" + `(])(--[a-z][a-z0-9-]+)`)
	counter = regexp.MustCompile(`\bCOUNTER\.[A-Z]+`)
	metric  = regexp.MustCompile(`\bcounterd_[a-z0-9_]+`)
)

// others are options of other programs: of redis-cli, sha256sum, systemctl, etcdutl.
var others = map[string]bool{"--cluster": true, "--replica": true, "--check": true, "--ignore-missing": true, "--now": true, "--bump-revision": true}

// retired are words that meant several things, or that only this project used, with what to write. They are written as
// patterns that do not match themselves.
var retired = map[string]string{
	"group[e]d":     "by group of hash slots, or --cluster",
	"figur[e]s?":    "metrics, results or measurements",
	"status[ ]page": "console",
	"change group":  "change set",
	"who does not":  "a whole sentence with a subject",
	"what that":     "a whole sentence with a subject",
}

// TestOptions: each option that a page names is one of the three programs, whose manual pages have all of them.
func TestOptions(t *testing.T) {
	known := map[string]bool{"--help": true}
	for name, args := range map[string]string{"counterd": "--man", "counterctl": "man", "counterbench": "man"} {
		program, err := programs.Path(name)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(program, args).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`--[a-z][a-z0-9-]+`).FindAllString(strings.ReplaceAll(string(out), `\-`, "-"), -1) {
			known[found] = true
		}
	}
	if len(known) < 100 {
		t.Fatalf("the manual pages name %d options only", len(known))
	}
	eachLine(t, func(page string, line int, text string) {
		for _, m := range option.FindAllStringSubmatch(text, -1) {
			if !known[m[1]] && !others[m[1]] {
				t.Errorf("%s:%d names the option %s, which no program has", page, line, m[1])
			}
		}
	})
}

// TestCommandsAndMetrics: what pages name of them is in the reference, which is made of the server's tables.
func TestCommandsAndMetrics(t *testing.T) {
	commands := strings.Join(read(t, "docs/reference/commands.md"), "\n")
	metrics := strings.Join(read(t, "docs/reference/metrics.md"), "\n")
	eachLine(t, func(page string, line int, text string) {
		for _, name := range counter.FindAllString(text, -1) {
			if !strings.Contains(commands, "# "+name) {
				t.Errorf("%s:%d names %s, which is not in docs/reference/commands.md", page, line, name)
			}
		}
		for _, name := range metric.FindAllString(text, -1) {
			if !strings.Contains(metrics, name) {
				t.Errorf("%s:%d names %s, which is not in docs/reference/metrics.md", page, line, name)
			}
		}
	})
}

// TestRetiredWords: pages use the words of the glossary.
func TestRetiredWords(t *testing.T) {
	for _, page := range pages(t) {
		for i, text := range prose(read(t, page)) {
			for word, instead := range retired {
				if regexp.MustCompile(`(?i)\b` + word + `\b`).MatchString(text) {
					t.Errorf("%s:%d says %q: write %s", page, i+1, word, instead)
				}
			}
		}
	}
}

// eachLine calls fn for each line of each page, blocks of code included.
func eachLine(t *testing.T, fn func(page string, line int, text string)) {
	t.Helper()
	for _, page := range pages(t) {
		for i, text := range read(t, page) {
			fn(page, i+1, text)
		}
	}
}
