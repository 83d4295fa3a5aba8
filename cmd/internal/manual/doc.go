// Package manual prints what a program's own tables say of it, its commands, flags and texts, as a manual page (man(7))
// and as completion for bash, zsh and fish. So they are never behind the program.
package manual

import "github.com/spf13/pflag"

// Program is what is to be described.
type Program struct {
	Name        string
	Summary     string // what it does, in one line
	Section     int    // of the manual: 1 for a user's command, 8 for a server
	Args        string // behind the name, beside flags; may be empty
	Description string
	Flags       *pflag.FlagSet // the program's own
	Commands    []Command
	Notes       []Note // sections behind all that
	SeeAlso     []string
}

// Command is one of a program's commands.
type Command struct {
	Name, Args, Summary, Details string
	Flags                        *pflag.FlagSet
}

// Note is a section with a title of its own.
type Note struct{ Title, Text string }

// Shells are those that Complete knows.
var Shells = []string{"bash", "zsh", "fish"}
