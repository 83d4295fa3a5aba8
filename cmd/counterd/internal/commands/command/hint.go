package command

import (
	"strings"

	"github.com/counterd/counterd/cmd/internal/spelling"
)

// Hints are texts that the server adds, in brackets, to Redis's texts of errors. Clients recognize an error by the text
// before the hint, so that text stays as Redis writes it.

// WrongNumber is the error for a wrong number of arguments. It ends with the command's syntax.
func (cmd *Row[C]) WrongNumber() string {
	usage := strings.ToUpper(strings.ReplaceAll(cmd.Name, "|", " "))
	switch {
	case cmd.Syntax != "":
		usage += " " + cmd.Syntax
	case cmd.Sub != nil:
		usage += " subcommand [argument ...]"
	}
	return "ERR wrong number of arguments for '" + cmd.Name + "' command (usage: " + usage + ")"
}

// Suggest returns the command that an unknown name was probably meant to be, in capitals, or an empty string. The name
// may be in any case.
func (t *Table[C]) Suggest(name []byte) string { return suggest(t.List, name, "") }

// Suggest returns the subcommand that an unknown name was probably meant to be, in capitals and with the name of its
// container, or an empty string.
func (cmd *Row[C]) Suggest(name []byte) string { return suggest(cmd.Sub, name, cmd.Name+"|") }

// suggest finds the row whose name, behind the prefix, is nearest to name.
func suggest[C any](rows []*Row[C], name []byte, prefix string) string {
	if len(name) > MaxName {
		return ""
	}
	best := spelling.Nearest(strings.ToLower(string(name)), func(yield func(string) bool) {
		for _, cmd := range rows {
			if !yield(cmd.Name[len(prefix):]) {
				return
			}
		}
	})
	if best == "" {
		return ""
	}
	return strings.ToUpper(strings.ReplaceAll(prefix+best, "|", " "))
}
