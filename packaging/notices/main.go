// Command notices prints the licences of all modules that packages are built from, and Go's own: their texts have to go
// with the programs. Files called LICENSE, LICENCE, COPYING or NOTICE at the root of a module count.
//
//	notices ./cmd/counterd ./cmd/counterctl > NOTICES
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: notices PACKAGE...")
		os.Exit(2)
	}
	modules, err := built(os.Args[1:])
	if err == nil {
		err = write(os.Stdout, modules)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// module is what is used and where its source lies.
type module struct{ name, dir string }

// built returns the modules that packages are built from, without the one that they are of, and Go.
func built(packages []string) ([]module, error) {
	list := func(args ...string) (string, error) {
		cmd := exec.Command("go", args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
		return string(bytes.TrimSpace(out)), nil
	}
	out, err := list("env", "GOVERSION", "GOROOT")
	if err != nil {
		return nil, err
	}
	version, root, _ := strings.Cut(out, "\n")
	modules := []module{{"Go " + strings.TrimPrefix(version, "go"), root}}
	out, err = list(append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"}, packages...)...)
	if err != nil {
		return nil, err
	}
	lines := strings.Fields(strings.ReplaceAll(out, " ", "@"))
	for i := 0; i+1 < len(lines); i += 2 {
		modules = append(modules, module{strings.ReplaceAll(lines[i], "@", " "), lines[i+1]})
	}
	slices.SortFunc(modules[1:], func(a, b module) int { return strings.Compare(a.name, b.name) })
	return slices.Compact(modules), nil
}

var licence = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice)([.-](txt|md|[a-z0-9-]*))?$`)

// write prints the texts. A module without one is an error: it could not be given to anybody.
func write(w io.Writer, modules []module) error {
	fmt.Fprintln(w, "counterd contains the following software. Each part is under its own licence.")
	for _, m := range modules {
		entries, err := os.ReadDir(m.dir)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || filepath.Ext(e.Name()) == ".go" || !licence.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(m.dir, e.Name()))
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			found = true
			fmt.Fprintf(w, "\n%s\n%s, %s\n%[1]s\n\n%[4]s\n", strings.Repeat("=", 80), m.name, e.Name(), bytes.TrimSpace(text))
		}
		if !found {
			return fmt.Errorf("%s: no licence in %s", m.name, m.dir)
		}
	}
	return nil
}
