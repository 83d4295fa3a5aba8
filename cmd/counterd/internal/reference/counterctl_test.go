package reference

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/docpage"
	"github.com/counterd/counterd/internal/testkit/programs"
)

// listed is a line of counterctl --help that names a command.
var listed = regexp.MustCompile(`(?m)^ +(?:counterctl )?((?:cluster )?[a-z]+) {2,}`)

// TestReferenceCounterctl makes docs/reference/counterctl.md: the list of commands, and the help of each.
func TestReferenceCounterctl(t *testing.T) {
	program, err := programs.Path("counterctl")
	if err != nil {
		t.Fatal(err)
	}
	help := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(program, append(args, "--help")...).Output()
		if err != nil {
			t.Fatalf("counterctl %s --help: %v", strings.Join(args, " "), err)
		}
		return strings.TrimRight(string(out), "\n") + "\n"
	}
	all := help()
	var out strings.Builder
	fmt.Fprintf(&out, "```\n%s```\n", all)
	names := listed.FindAllStringSubmatch(all, -1)
	if len(names) < 25 {
		t.Fatalf("counterctl --help lists %d commands, which is too few:\n%s", len(names), all)
	}
	for _, m := range names {
		fmt.Fprintf(&out, "\n## %s\n\n```\n%s```\n", m[1], help(strings.Fields(m[1])...))
	}
	docpage.Check(t, "docs/reference/counterctl.md", "counterctl", out.String())
}
