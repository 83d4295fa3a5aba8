package weave

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
)

// A Tree is woven: it compiles tests of packages, each once.
type Tree struct {
	root, temp string
	overlay    string            // the file for the flag -overlay
	programs   map[string]string // compiled tests, by tags and package

	// LinkFlags are flags of the linker.
	LinkFlags string
}

// New weaves versions of the tree at root, which is not changed. temp is a directory for the files that it makes. The error says so if the
// versions do not compile.
func New(root, temp string, all []Version) (*Tree, error) {
	t := &Tree{root: root, temp: temp, programs: map[string]string{}}
	woven, err := files(root, all)
	if err != nil {
		return nil, err
	}
	replace, packages := map[string]string{}, map[string]bool{}
	for file, text := range woven {
		name := filepath.Join(temp, fmt.Sprintf("%d-%s", len(replace), filepath.Base(file)))
		packages["./"+path.Dir(file)] = true
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return nil, err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = name
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return nil, err
	}
	t.overlay = filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(t.overlay, list, 0o600); err != nil {
		return nil, err
	}
	if out, err := t.command(append([]string{"build", "-gcflags=-e"}, slices.Collect(maps.Keys(packages))...)...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the mistakes do not compile:\n%s", out)
	}
	return t, nil
}

// command is one of the go command, which reads the woven files.
func (t *Tree) command(args ...string) *exec.Cmd {
	cmd := exec.Command("go", slices.Insert(args, 1, "-trimpath", "-overlay", t.overlay)...)
	cmd.Dir = t.root
	cmd.Env = append(os.Environ(), "PWD="+t.root)
	return cmd
}

// compile returns the program with the tests of a package, such as ./persist.
func (t *Tree) compile(tags, pkg string) (program string, err error) {
	key := tags + " " + pkg
	if program := t.programs[key]; program != "" {
		return program, nil
	}
	program = filepath.Join(t.temp, fmt.Sprintf("%d.test", len(t.programs)))
	if out, err := t.command("test", "-c", "-vet=off", "-tags", tags, "-ldflags="+t.LinkFlags, "-o", program, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not compile with mistakes:\n%s", pkg, out)
	}
	t.programs[key] = program
	return program, nil
}

// Test is the tests of a package in a version: a process that the caller runs. args are flags of the test binary.
func (t *Tree) Test(version int, tags, pkg string, args ...string) (*exec.Cmd, error) {
	program, err := t.compile(tags, pkg)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = filepath.Join(t.root, filepath.FromSlash(pkg))
	cmd.Env = append(os.Environ(), "PWD="+cmd.Dir, fmt.Sprintf("%s=%d", Variable, version))
	return cmd, nil
}
