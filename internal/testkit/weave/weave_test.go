package weave

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	original = "package x\n\nimport \"fmt\"\n\n// T counts.\ntype T int\n\nfunc (t *T) add(n int, _ ...string) (sum int) {\n\treturn int(*t) + n\n}\n\n" +
		"type list[E any] []E\n\nfunc (l list[E]) size() int { return len(l) }\n\nfunc say(n int) { fmt.Print(n) }\n"
	tests = "package x\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif n := T(2); n.add(3) != 5 {\n\t\tt.Fail()\n\t}\n\tsay(1)\n}\n"
)

// tree writes the original and its tests.
func tree(t *testing.T) (root string) {
	root = t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.24\n", "x.go": original, "x_test.go": tests} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func changed(n int, old, text string) Version {
	return Version{N: n, Files: map[string][]byte{"x.go": []byte(strings.Replace(original, old, text, 1))}}
}

// TestCheck: versions that change bodies of functions are woven, and no others.
func TestCheck(t *testing.T) {
	root := tree(t)
	for _, c := range []struct {
		old, text     string
		outside, noGo bool
	}{
		{old: "+ n", text: "- n"},
		{old: "// T counts.", text: "// T does not."},
		{old: "+ n", text: "+ n)", noGo: true},
		{old: "n int, _", text: "m int, _", outside: true},
		{old: "type T int", text: "type T int64", outside: true},
		{old: "import \"fmt\"\n", text: "", outside: true},
		{old: "len(l)", text: "cap(l)", outside: true},
	} {
		err := Check(root, changed(1, c.old, c.text))
		if errors.Is(err, ErrOutside) != c.outside || (err != nil) != (c.outside || c.noGo) {
			t.Errorf("%q for %q: %v", c.text, c.old, err)
		}
	}
}

// TestTree: a program has all versions, of several functions each, and the original.
func TestTree(t *testing.T) {
	both := changed(2, "+ n", "+ n + 1")
	both.Files["x.go"] = []byte(strings.Replace(string(both.Files["x.go"]), "fmt.Print(n)", "fmt.Print(\"two\")", 1))
	woven, err := New(tree(t), t.TempDir(), []Version{changed(1, "fmt.Print(n)", "panic(\"one\")"), both})
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[int]string{0: "PASS", 1: "panic: one", 2: "two--- FAIL: TestAdd"} {
		cmd, err := woven.Test(version, "", ".", "-test.run", "TestAdd")
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if (err == nil) != (version == 0) || !strings.Contains(string(out), want) {
			t.Errorf("version %d says %q, %v; want %q", version, out, err, want)
		}
	}
	if _, err := New(tree(t), t.TempDir(), []Version{changed(1, "+ n", "+ m")}); err == nil || !strings.Contains(err.Error(), "do not compile") {
		t.Errorf("a version that does not compile: %v", err)
	}
}
