package manual

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func example() *Program {
	own := pflag.NewFlagSet("tool", pflag.ContinueOnError)
	own.String("size", "", "how much")
	own.Lookup("size").Annotations = map[string][]string{ArgAnnotation: {"small|large"}}
	own.StringP("file", "f", "a.txt", `file to read, "quoted" and [in brackets]: it's \fine`)
	run := pflag.NewFlagSet("run", pflag.ContinueOnError)
	run.Bool("fast", false, "be quick")
	run.Var(&choice{}, "mode", "which way")
	first := pflag.NewFlagSet("first", pflag.ContinueOnError)
	first.Bool("only", false, "of the first")
	return &Program{Name: "tool", Summary: "does things.", Section: 1, Description: "One\nparagraph.\n\n\ttool run   as it is\n\n.dot 'quote'", Flags: own,
		Groups: []Group{{"Sizes", []string{"size"}}},
		Commands: []Command{{"run", "FILE", "run it", "Runs -- it.\n\n  indented", run},
			{"group first", "", "it's the first", "Of two words.", first}, {"group second", "", "the second", "Of two words.", nil}}, Notes: []Note{{"Files", "/etc/tool"}}, SeeAlso: []string{"other(1)"}}
}

type choice struct{ v string }

func (c *choice) String() string     { return c.v }
func (c *choice) Set(s string) error { c.v = s; return nil }
func (c *choice) Type() string       { return "yes|no" }

func TestMan(t *testing.T) {
	var out strings.Builder
	if err := example().Man(&out, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{`.TH TOOL 1 "" "tool 1.2.3" "counterd manual"`, `tool \- does things`, ".B tool run\n[flags] FILE", `\fB\-f\fR, \fB\-\-file\fR \fIstring\fR`,
		"The default is a.txt.", `it's \efine`, "tool run   as it is", `\&.dot`, ".SH FILES", "other(1)", ".SS \"Sizes\"\n.TP\n\\fB\\-\\-size\\fR \\fIsmall|large\\fR", `.SS "run FILE"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in:\n%s", want, page)
		}
	}
	if man, err := exec.LookPath("groff"); err == nil { // it says what it does not understand
		c := exec.Command(man, "-man", "-Tutf8", "-ww", "-z")
		c.Stdin = strings.NewReader(page)
		if said, err := c.CombinedOutput(); err != nil || len(said) > 0 {
			t.Errorf("groff: %v\n%s", err, said)
		}
	}
}

// TestComplete has each shell that is here read its script, and bash complete words by it.
func TestComplete(t *testing.T) {
	p := example()
	for _, shell := range Shells {
		var out strings.Builder
		if err := p.Complete(&out, shell); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"run", "fast", "mode", "file", "yes no", "only", "second"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q", shell, want)
			}
		}
		if path, err := exec.LookPath(shell); err == nil {
			c := exec.Command(path, "-n")
			c.Stdin = strings.NewReader(out.String())
			if said, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", shell, err, said)
			}
		}
	}
	if err := p.Complete(&strings.Builder{}, "csh"); err == nil {
		t.Error("csh passes")
	}
	for line, want := range map[string]string{"tool r": "run", "tool run --f": "--fast", "tool run --mode y": "yes", "tool run --": "--fast --mode",
		"tool g": "group", "tool group s": "second", "tool group first --": "--only", "tool group second --": ""} {
		if got := complete(t, p.bash(), line); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

// complete returns the words that bash offers for the last word of line.
func complete(t *testing.T, script, line string) string {
	t.Helper()
	words := strings.Fields(line)
	run := script + "\nCOMP_WORDS=(" + strings.Join(words, " ") + "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _" + words[0] + "; echo \"${COMPREPLY[@]}\""
	said, err := exec.Command("bash", "-c", run).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return strings.TrimSpace(string(said))
}
