package numbered

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sorted returns names in order, as one text.
func sorted(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestHowto reads the list in each class for another library: it has every command that accepts a number, and no other.
// A class may leave out EXEC, where its library sends transactions past it.
func TestHowto(t *testing.T) {
	const howto = "../../counter/client/howto/"
	entries, err := os.ReadDir(howto)
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, entry := range entries {
		if entry.Name() == "README.md" {
			continue
		}
		// The list begins behind the word CHANGES and ends with its bracket. Each language has it in string literals.
		wants, known := map[string]struct {
			list *regexp.Regexp
			exec bool
		}{
			"counterd_redis.py":     {regexp.MustCompile(`(?s)\nCHANGES = frozenset\((.*?)\.split\(`), false},
			"counterd_ioredis.js":   {regexp.MustCompile(`(?s)\nconst CHANGES = new Set\((.*?)\.split\(`), true},
			"CountingExecutor.java": {regexp.MustCompile(`(?s) CHANGES = Set\.of\((.*?)\);`), false},
		}[entry.Name()]
		if !known {
			t.Errorf("%s: this test does not know how to read it", entry.Name())
			continue
		}
		text, err := os.ReadFile(howto + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		found := wants.list.FindSubmatch(text)
		if found == nil {
			t.Errorf("%s has no list of commands", entry.Name())
			continue
		}
		got := regexp.MustCompile(`[A-Z][A-Z.]*`).FindAllString(strings.ToUpper(string(found[1])), -1)
		want := Names()
		if !wants.exec {
			want = slices.DeleteFunc(want, func(name string) bool { return name == "EXEC" })
		}
		if sorted(got) != sorted(want) {
			t.Errorf("%s numbers\n\t%s, want\n\t%s", entry.Name(), sorted(got), sorted(want))
		}
		read[entry.Name()] = true
	}
	if len(read) != 3 {
		t.Errorf("read %d classes, want 3", len(read))
	}
}

// TestPage reads the sentence of docs/concepts/exactly-once.md that lists the commands.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/concepts/exactly-once.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "- `IDMP producer seq [EPOCH n]` comes last, behind ")
	list, _, ended := strings.Cut(after, ":")
	if !found || !ended {
		t.Fatal("the page does not list the commands that accept a number")
	}
	if got := regexp.MustCompile(`[A-Z][A-Z.]+`).FindAllString(list, -1); sorted(got) != sorted(Names()) {
		t.Errorf("the page lists\n\t%s, want\n\t%s", sorted(got), sorted(Names()))
	}
}

// TestAccepts: a command is asked for in lower case.
func TestAccepts(t *testing.T) {
	for _, name := range Names() {
		if !Accepts(strings.ToLower(name)) || Accepts(name) {
			t.Errorf("%s: want it in lower case, and in no other", name)
		}
	}
	if Accepts("get") || Accepts("") {
		t.Error("a command that accepts no number is in the table")
	}
}
