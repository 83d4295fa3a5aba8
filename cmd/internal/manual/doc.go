// Package manual prints what a program's own tables say of it, its commands, flags and texts, as a manual page (man(7))
// and as completion for bash, zsh and fish. So they are never behind the program.
package manual

import "github.com/spf13/pflag"

// Program describes a program.
type Program struct {
	Name        string
	Summary     string // what it does, in one line
	Section     int    // of the manual: 1 for a user's command, 8 for a server
	Args        string // behind the name, beside flags; may be empty
	Description string
	Flags       *pflag.FlagSet // the program's own
	Groups      []Group        // headings for some of Flags; may be empty
	Commands    []Command
	Notes       []Note // sections behind all that
	SeeAlso     []string
}

// Command is one of a program's commands.
type Command struct {
	Name, Args, Summary, Details string
	Flags                        *pflag.FlagSet
}

// Group is some of a program's flags, which the manual page shows under a heading of their own.
type Group struct {
	Title string
	Flags []string // names
}

// ArgAnnotation names the annotation of a flag that has the placeholder of its value, as PATH. A placeholder such as
// yes|no lists all values. Without it the flag's type is the placeholder.
const ArgAnnotation = "arg"

// argOf is the placeholder of a flag's value. It is empty for a flag that takes none.
func argOf(f *pflag.Flag) string {
	if arg := f.Annotations[ArgAnnotation]; len(arg) == 1 {
		return arg[0]
	}
	kind, _ := pflag.UnquoteUsage(f)
	return kind
}

// Note is a section with a title of its own.
type Note struct{ Title, Text string }

// Shells are those that Complete knows.
var Shells = []string{"bash", "zsh", "fish"}
