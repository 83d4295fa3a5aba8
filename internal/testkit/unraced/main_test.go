package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestUnraced(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go": "package a\nfunc TestNot() { racetest.Skip(nil, ``) }\n",
		"a_test.go": `package a
func TestSame(t *testing.T)     { t.Log(count) }
func TestSkips(t *testing.T)    { racetest.Skip(t, "it starts no goroutine") }
func TestShorter(t *testing.T)  { if testing.Short() { return } }
func TestCalls(t *testing.T)    { helper(t) }
func TestMethod(t *testing.T)   { new(kind).run() }
func TestConstant(t *testing.T) { t.Log(rounds) }
func TestOther(t *testing.T)    { other.Short() }
var count = 3
var rounds = map[bool]int{true: 1, false: 10}[racetest.Enabled]
func helper(t *testing.T)  { deeper(t) }
func deeper(t *testing.T)  { TestSkips(t) }
type kind struct{}
func (k *kind) run() { _ = racetest.Enabled }
`,
		"b_test.go": "//go:build !race\n\npackage a\n\nfunc TestAlone(t *testing.T) {}\nconst items = 1000\n",
		"c_test.go": "package a\n\nfunc FuzzItems(f *testing.F) { f.Log(items) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := unraced(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if want := []string{"FuzzItems", "TestAlone", "TestCalls", "TestConstant", "TestMethod", "TestShorter", "TestSkips"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "d_test.go"), []byte("package"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := unraced(dir); err == nil {
		t.Errorf("got %q of a file that cannot be parsed", got)
	}
}
