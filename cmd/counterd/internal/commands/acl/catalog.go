package acl

import (
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
)

// Catalog are the commands that rules may name. It never changes.
type Catalog struct {
	all    []*command.Access // subcommands are in their container
	byName map[string]*command.Access
	size   int // of all IDs
}

// NewCatalog makes a catalog of all commands, as command.Table.Access has them.
func NewCatalog(all []*command.Access) *Catalog {
	c := &Catalog{all: all, byName: make(map[string]*command.Access)}
	add := func(a *command.Access) {
		c.byName[a.Name] = a
		c.size = max(c.size, a.ID+1)
	}
	for _, a := range all {
		add(a)
		for _, sub := range a.Sub {
			add(sub)
		}
	}
	return c
}

// find looks a command up by its name in lower case, a subcommand as "config|get"; nil: there is none.
func (c *Catalog) find(name string) *command.Access { return c.byName[strings.ToLower(name)] }
