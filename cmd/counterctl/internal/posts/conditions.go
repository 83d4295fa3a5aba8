package posts

import (
	"slices"

	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/cmd/internal/query"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Conditions reads words as the commands by condition have them, for posts that no server is asked for:
//
//	[MID op mid {AND MID op mid} | MID IN mid ...] [WHERE column op n {AND column op n}]
func Conditions(c *schema.Counter, words []string) (counter.Query, error) {
	q, err := query.ParseConditions(c, words)
	if err != nil {
		err = cli.Misuse("conditions: %v", err)
	}
	return q, err
}

// Columns returns the places of columns that are named, or of all but derived ones, which nothing that is written can set again.
func Columns(c *schema.Counter, names []string) (columns []int, err error) {
	if names == nil {
		for i := range c.Columns {
			columns = append(columns, i)
		}
		return columns, nil
	}
	for _, name := range names {
		col, ok := c.Field([]byte(name))
		if !ok {
			return nil, cli.Misuse("no column %q in counter %s", name, c.Name)
		}
		if slices.Contains(columns, col) {
			return nil, cli.Misuse("column %q is named twice", name)
		}
		columns = append(columns, col)
	}
	return columns, nil
}
