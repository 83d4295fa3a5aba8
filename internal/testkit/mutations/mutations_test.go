package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/programs"
)

// TestMutations: each row of the table still applies: its old text stands once in its function, and the new text is Go.
func TestMutations(t *testing.T) {
	root, err := programs.Root()
	if err != nil {
		t.Fatal(err)
	}
	all, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Errorf("the table has %d mutations, want 100 at least", len(all))
	}
	seen := map[string]int{}
	for i := range all {
		m := &all[i]
		text, err := m.Apply(root)
		if err != nil {
			t.Errorf("mutation %d: %v. Write the row anew, for the code as it is: make mutants N=%d", m.N, err, m.N)
			continue
		}
		if before := seen[string(text)]; before > 0 {
			t.Errorf("mutations %d and %d are the same", before, m.N)
		}
		seen[string(text)] = m.N
		if !strings.HasSuffix(m.Breaks, ".") || m.Reason != "" && !strings.HasSuffix(m.Reason, ".") {
			t.Errorf("mutation %d: want sentences: %q, %q", m.N, m.Breaks, m.Reason)
		}
		for _, r := range m.Kills {
			if r.Tests == "" {
				t.Errorf("mutation %d: %s: which test finds it?", m.N, r)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(r.Package))); err != nil {
				t.Errorf("mutation %d: %v", m.N, err)
			}
		}
	}
}

// TestApply: a mutation is made in its function alone, and refused where its text stands there never or twice, or is no Go.
func TestApply(t *testing.T) {
	const source = "package x\n\nfunc a() int { return 1 }\n\nfunc (t *T) a(n int) int {\n\tif n < 1 {\n\t\treturn 1\n\t}\n\treturn n\n}\n"
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "x.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ function, old, new, want string }{
		{"a", "return 1", "return 2", strings.Replace(source, "return 1", "return 2", 1)},
		{"T.a", `if n < 1 {\nreturn 1\n}`, "", strings.Replace(source, "if n < 1 {\n\t\treturn 1\n\t}", "", 1)},
		{"T.a", "n < 1", "n <= 1", strings.Replace(source, "n < 1", "n <= 1", 1)},
		{"T.a", "return", "panic", ""},
		{"T.a", "n > 1", "n", ""},
		{"a", "return 1", "return )", ""},
		{"b", "return 1", "return 2", ""},
	} {
		m := Mutation{File: "x.go", Function: c.function, Old: c.old, New: c.new}
		got, err := m.Apply(root)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v makes %q, %v; want %q", m, got, err, c.want)
		}
	}
}

// TestPlant: a mutation may be found by the tests or survive them, it may not compile, or its tests may not exist. These outcomes are
// told apart.
func TestPlant(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module x\n\ngo 1.24\n",
		"x.go":      "package x\n\ntype T int\n\nfunc (T) double(n int, _ ...string) (sum int) { return n + n }\n",
		"x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestDouble(t *testing.T) {\n\tif T(0).double(2) != 4 {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		new, test, by, err string
		hangs, hung        bool
	}{
		{new: "n - n", test: "TestDouble", by: "TestDouble"},
		{new: "n * n", test: "TestDouble"},
		{new: "m", test: "TestDouble", err: "do not compile"},
		{new: "n * n", test: "TestTriple", err: "no such tests"},
		{new: "func() int { for {} }()", test: "TestDouble", by: "TestDouble", hung: true},
		{new: "func() int { for {} }()", test: "TestDouble", by: "TestDouble", hangs: true},
	} {
		p := planter{root: root, temp: t.TempDir(), timeout: patience}
		if c.hung || c.hangs {
			p.timeout = 100 * time.Millisecond
		}
		m := Mutation{N: 1, File: "x.go", Function: "T.double", Old: "n + n", New: c.new, Kills: []Run{{Package: ".", Tests: c.test, Hangs: c.hangs}}}
		other := Mutation{N: 2, File: "x.go", Function: "T.double", Old: "n + n", New: "0"}
		err := p.prepare([]*Mutation{&other, &m})
		by, hung := "", false
		if err == nil {
			by, hung, err = p.plant(&m)
		}
		if by != c.by || hung != c.hung || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q is found by %q, hung %v, %v; want %+v", c.new, by, hung, err, c)
		}
	}
}

// TestTable: a row that is not as the others is refused, and numbers are chosen as they are written.
func TestTable(t *testing.T) {
	const row = "\n1\tx.go\ta\tb\tc\tWhy.\t./x TestX; noepoll ./y TestY|TestZ\t"
	all, err := parse(header + row + "\n")
	if err != nil || len(all) != 1 || len(all[0].Kills) != 2 || all[0].Kills[1] != (Run{Tags: "noepoll", Package: "./y", Tests: "TestY|TestZ"}) {
		t.Errorf("got %+v, %v", all, err)
	}
	for _, text := range []string{"", "n\tx\n", header + "\n1\tx.go\ta\tb\tc\tWhy.\t\t\n", header + row + "Nobody sees it.\n", header + "\n2" + row[2:] + "\n",
		header + "\n1\tx.go\ta\tb\tb\tWhy.\t./x TestX\t\n", header + "\n1\tx.go\ta\tb\tc\tWhy.\t./x TestX more words\t\n"} {
		if got, err := parse(text); err == nil {
			t.Errorf("%q is %+v, want an error", text, got)
		}
	}
	wanted, err := chosen("3, 10-12")
	if err != nil || wanted(1) || !wanted(3) || wanted(4) || !wanted(10) || !wanted(12) || wanted(13) {
		t.Errorf("3, 10-12: %v", err)
	}
	if _, err := chosen("some"); err == nil {
		t.Error("a word is no number")
	}
}
