// Scenario: what pages link to and name exists.

package docs

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	anchorID = regexp.MustCompile(`<a id="([^"]+)">`)
	quoted   = regexp.MustCompile("`([^`]+)`")
	testName = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z]\w+$`)
	makes    = regexp.MustCompile(`(?:^|[$ ` + "`" + `])make ([a-z][a-z0-9-]*)`)
	rooted   = regexp.MustCompile(`^[\w.*-]+(/[\w.*-]+)+/?$`)
)

// prose are the lines of a page that are not in a block of code. Their numbers are kept: lines of code are empty.
func prose(lines []string) []string {
	out := make([]string, len(lines))
	code := false
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		} else if !code {
			out[i] = line
		}
	}
	return out
}

// targets are those of the links of a page.
func targets(lines []string) (found []string) {
	for _, line := range prose(lines) {
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			found = append(found, m[1])
		}
	}
	return found
}

// resolve makes a path from the root of one that is relative to a page.
func resolve(page, target string) string {
	return path.Join(path.Dir(page), target)
}

// slug is the anchor that a heading has where Markdown is shown.
func slug(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// anchors are all places of a page that a link can name.
func anchors(lines []string) map[string]bool {
	found := map[string]bool{}
	for _, line := range prose(lines) {
		if strings.HasPrefix(line, "#") {
			heading := strings.TrimSpace(strings.TrimLeft(line, "#"))
			found[slug(link.ReplaceAllString(strings.NewReplacer("`", "", "[", "").Replace(heading), ""))] = true
		}
		for _, m := range anchorID.FindAllStringSubmatch(line, -1) {
			found[m[1]] = true
		}
	}
	return found
}

// TestLinks: each relative link leads to a file of the repository, and each anchor to a place in it.
func TestLinks(t *testing.T) {
	checked := 0
	for _, page := range append(pages(t), "docs/llms.txt", "bench/README.md", "counter/client/howto/README.md") {
		for _, target := range targets(read(t, page)) {
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			checked++
			file, anchor, hasAnchor := strings.Cut(target, "#")
			name := page
			if file != "" {
				name = resolve(page, file)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				t.Errorf("%s links to %s: %v", page, target, err)
			} else if hasAnchor && !anchors(read(t, name))[anchor] {
				t.Errorf("%s links to %s, and %s has no such heading", page, target, name)
			}
		}
	}
	if checked < 50 {
		t.Errorf("checked %d links only", checked)
	}
}

// TestNames: what a page names in backticks exists: a path of the repository, a test, a target of make.
func TestNames(t *testing.T) {
	tops := map[string]bool{}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		tops[entry.Name()] = entry.IsDir()
	}
	makefile := "\n" + strings.Join(read(t, "Makefile"), "\n")
	for _, page := range pages(t) {
		for i, line := range prose(read(t, page)) {
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				name := m[1]
				top, _, _ := strings.Cut(name, "/")
				if testName.MatchString(name) && !declared(t, name) {
					t.Errorf("%s:%d names %s, which no test file declares", page, i+1, name)
				}
				// bin and dist are made by builds.
				if !rooted.MatchString(name) || !tops[top] || top == "bin" || top == "dist" {
					continue
				}
				if found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(name))); err != nil || len(found) == 0 {
					t.Errorf("%s:%d names %s, which does not exist", page, i+1, name)
				}
			}
		}
		for i, line := range read(t, page) {
			for _, m := range makes.FindAllStringSubmatch(line, -1) {
				if code := strings.HasPrefix(line, "make ") || strings.HasPrefix(line, "$ make ") || strings.Contains(line, "`make "); code && !strings.Contains(makefile, "\n"+m[1]+":") {
					t.Errorf("%s:%d names make %s, which the Makefile does not have", page, i+1, m[1])
				}
			}
		}
	}
}

// declared says whether a test file of the repository has the function.
func declared(t *testing.T, name string) bool {
	t.Helper()
	cmd := exec.Command("grep", "-rqE", "--include=*_test.go", "^func "+name+"\\(", "cmd", "counter", "coldstore", "persist", "schema", "internal", "bench", "packaging", "docs")
	cmd.Dir = root
	return cmd.Run() == nil
}

// TestArchitecture: each package of the module is named on the page about the architecture, or a folder above it is.
func TestArchitecture(t *testing.T) {
	named := map[string]bool{}
	for _, line := range prose(read(t, "docs/internals/architecture.md")) {
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			named[m[1]] = true
		}
	}
	cmd := exec.Command("go", "list", "-f", "{{.ImportPath}}", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		name := strings.TrimPrefix(pkg, "github.com/counterd/counterd/")
		folder := name
		for !named[folder] && strings.Contains(folder, "/") {
			folder = path.Dir(folder)
		}
		// The folder of a program stands for its package main alone.
		if program := path.Dir(folder) == "cmd" && folder != "cmd/internal" && folder != name; program || !named[folder] && !strings.HasPrefix(name, "docs") {
			t.Errorf("docs/internals/architecture.md does not name the package %s", name)
		}
	}
}
