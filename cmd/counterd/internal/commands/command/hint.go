package command

import (
	"slices"
	"strings"
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
func (t *Table[C]) Suggest(name []byte) string { return suggest(t.List, name, 0) }

// Suggest returns the subcommand that an unknown name was probably meant to be, in capitals and with the name of its
// container, or an empty string.
func (cmd *Row[C]) Suggest(name []byte) string { return suggest(cmd.Sub, name, len(cmd.Name)+1) }

// suggest finds the row whose name, from byte skip on, differs from name by the fewest mistakes. One mistake is allowed
// in a name of three to seven bytes, and two in a longer one, and none in its first byte. Shorter names could mean anything.
func suggest[C any](rows []*Row[C], name []byte, skip int) string {
	if len(name) < 3 || len(name) > MaxName {
		return ""
	}
	wanted, most := strings.ToLower(string(name)), 1
	if len(name) > 7 {
		most = 2
	}
	best := ""
	for _, cmd := range rows {
		if cmd.Name[skip] != wanted[0] { // SET is no misspelt GET
			continue
		}
		if n := mistakes(wanted, cmd.Name[skip:], most); n <= most && (best == "" || n < most) {
			best, most = cmd.Name, n
		}
	}
	return strings.ToUpper(strings.ReplaceAll(best, "|", " "))
}

// mistakes is the number of bytes to insert, delete or replace, and of neighbours to exchange, that turn a into b. The
// result is more than most if the number is. REQUIRES that neither is longer than MaxName.
func mistakes(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most || len(b) > MaxName {
		return most + 1
	}
	// rows[i%3][j] is the number for a[:i] and b[:j].
	var rows [3][MaxName + 1]int
	for j := range len(b) + 1 {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row, above := &rows[i%3], &rows[(i-1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := above[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], rows[(i-2)%3][j-2]+1)
			}
		}
		if slices.Min(row[:len(b)+1]) > most {
			return most + 1
		}
	}
	return rows[len(a)%3][len(b)]
}
