package reference

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// printed is a reply of RESP2 in the form of redis-cli.
func printed(v resptest.Value) string {
	switch {
	case v.Null:
		return "(nil)"
	case v.Kind == '+':
		return v.Text
	case v.Kind == '-':
		return "(error) " + v.Text
	case v.Kind == ':':
		return fmt.Sprintf("(integer) %d", v.N)
	case v.Kind == '$' && strings.Contains(v.Text, "\n"): // a text such as SCHEMA's, which redis-cli prints as it is in a pipe
		return strings.TrimRight(v.Text, "\n")
	case v.Kind == '$':
		return strconv.Quote(v.Text)
	case len(v.List) == 0:
		return "(empty array)"
	}
	var out strings.Builder
	width := len(strconv.Itoa(len(v.List)))
	for i, element := range v.List {
		indent := strings.Repeat(" ", width+2)
		fmt.Fprintf(&out, "%*d) %s\n", width, i+1, strings.ReplaceAll(printed(element), "\n", "\n"+indent))
	}
	return strings.TrimRight(out.String(), "\n")
}

// words splits a command line as redis-cli does. Quotes hold words with spaces.
func words(line string) (list []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] == '"' {
			word, rest, _ := strings.Cut(line[1:], `"`)
			list, line = append(list, word), rest
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		list, line = append(list, word), rest
	}
	return list
}
