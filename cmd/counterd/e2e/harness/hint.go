package harness

import (
	"regexp"
)

// hint is what counterd adds, in brackets, to Redis's texts of two errors.
var hint = regexp.MustCompile(`( command) \(usage: [^\r\n]*\)(\r\n)|(: |' |HELP\.) ?\(did you mean [A-Z. ]*\?\)(\r\n)`)

// WithoutHint is what counterd answers as Redis would.
func WithoutHint(raw string) string { return hint.ReplaceAllString(raw, "$1$2$3$4") }
