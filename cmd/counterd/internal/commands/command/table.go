package command

import (
	"slices"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/idmp"
)

// Table is all commands by name. It is built once and then only read, but for the statistics of its rows.
type Table[C any] struct {
	List   []*Row[C] // in the order in which COMMAND lists them
	byName map[string]*Row[C]
	rows   []*Row[C] // by Access.ID
	access []*Access // of all, those that were taken out too: rules of users go on naming them
}

// NewTable makes a table of rows, which count the calls of one server.
func NewTable[C any](list []*Row[C]) *Table[C] {
	t := &Table[C]{List: list, byName: make(map[string]*Row[C])}
	id := 0
	for _, cmd := range t.List {
		t.byName[cmd.Name] = cmd
		cmd.Each(func(s *Row[C]) {
			s.hash, s.access = idmp.Begin(s.Name), s.makeAccess(id)
			t.rows = append(t.rows, s)
			id++
			if s != cmd {
				cmd.access.Sub = append(cmd.access.Sub, s.access)
			}
		})
		t.access = append(t.access, cmd.access)
	}
	return t
}

// Row is the row that an Access is of.
func (t *Table[C]) Row(a *Access) *Row[C] { return t.rows[a.ID] }

// Access is the rights that all commands need, subcommands in their container.
func (t *Table[C]) Access() []*Access { return t.access }

// Disable takes a command, or a subcommand as "config|set", out of the table, as if it had never been there. It is
// false for a name that is none's.
func (t *Table[C]) Disable(name string) bool {
	name = strings.ToLower(name)
	cmd := t.Lookup([]byte(name))
	if cmd == nil {
		return false
	}
	same := func(other *Row[C]) bool { return other == cmd }
	if container, _, sub := strings.Cut(name, "|"); sub {
		of := t.byName[container]
		of.Sub = slices.DeleteFunc(of.Sub, same)
		return true
	}
	t.List = slices.DeleteFunc(t.List, same)
	delete(t.byName, name)
	return true
}

// MaxName is longer than any command's name.
const MaxName = 32

// Find looks a command up in any case, without allocating.
func (t *Table[C]) Find(name []byte) *Row[C] {
	if len(name) > MaxName {
		return nil
	}
	var lower [MaxName]byte
	for i, ch := range name {
		if 'A' <= ch && ch <= 'Z' {
			ch |= 0x20
		}
		lower[i] = ch
	}
	return t.byName[string(lower[:len(name)])]
}

// Each calls f for all commands, subcommands behind their container.
func (t *Table[C]) Each(f func(*Row[C])) {
	for _, cmd := range t.List {
		cmd.Each(f)
	}
}

// Each calls f for the command and then its subcommands.
func (cmd *Row[C]) Each(f func(*Row[C])) {
	f(cmd)
	for _, s := range cmd.Sub {
		f(s)
	}
}

// Lookup finds a command, or a subcommand by "config|get", in any case.
func (t *Table[C]) Lookup(name []byte) *Row[C] {
	first, second, found := strings.Cut(string(name), "|")
	cmd := t.Find([]byte(first))
	if cmd != nil && found {
		return cmd.Subcommand([]byte(second))
	}
	return cmd
}

// Calls is how many commands were executed.
func (t *Table[C]) Calls() (n int64) {
	t.Each(func(cmd *Row[C]) { n += cmd.Calls() })
	return n
}

// keys finds the keys in a whole command; text is the error.
func (t *Table[C]) keys(args [][]byte) (cmd *Row[C], keys [][]byte, text string) {
	cmd = t.Find(args[0])
	if cmd != nil && cmd.Sub != nil && len(args) > 1 {
		cmd = cmd.Subcommand(args[1])
	}
	switch {
	case cmd == nil:
		return nil, nil, "ERR Invalid command specified"
	case !cmd.HasKeys():
		return nil, nil, "ERR The command has no key arguments"
	case !cmd.Takes(args):
		return nil, nil, "ERR Invalid number of arguments specified for command"
	}
	last := cmd.access.lastKey(args)
	for i := cmd.First; i <= last; i += cmd.Step {
		keys = append(keys, args[i])
	}
	return cmd, keys, ""
}
