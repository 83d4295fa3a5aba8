package main

import (
	"fmt"
	"os"
	"strings"
)

// Page is the generated part of docs/internals/faults.md.
func Page(root string, faults []Fault) string {
	var b strings.Builder
	breaks := 0
	b.WriteString("| N | subject | what users saw | cause | mended in | tests |\n|---|---|---|---|---|---|\n")
	for _, f := range faults {
		n := fmt.Sprint(f.N)
		if hasPatch(root, f.N) {
			breaks++
			n += " *"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", n, f.Subject, escaped(f.Users), escaped(f.Cause), f.Mended, strings.Join(f.Tests, " "))
	}
	return fmt.Sprintf("%d faults. For %d of them, marked with *, `make fault N=n BREAK=1` shows that the tests fail without the mend.\n\n%s", len(faults), breaks, b.String())
}

func hasPatch(root string, n int) bool {
	_, err := os.Stat(patchFile(root, n))
	return err == nil
}

// escaped keeps angle brackets and stars of a cell from being Markdown.
func escaped(text string) string {
	return strings.NewReplacer("<", "&lt;", "*", `\*`).Replace(text)
}
