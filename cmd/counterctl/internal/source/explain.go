package source

import (
	"fmt"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
)

// explain adds an example of a mapped key, if the chunk asks for one.
func (r *Redis) explain(c *transfer.Chunk, from int, key, field, value []byte) {
	if len(c.Examples) >= c.Explain || len(c.Items) == from {
		return
	}
	c.Examples = append(c.Examples, explained(r.o.Rules, c.Items[from:], key, field, value))
}

// explained says what something maps to.
func explained(rules *mapping.Rules, items []mapping.Item, key, field, value []byte) string {
	text := mapping.Quote(key)
	if field != nil {
		text += " " + mapping.Quote(field)
	}
	text += " = " + mapping.Quote(value) + "  ->"
	for _, i := range items {
		text += fmt.Sprintf("  %s of %d = %d", rules.Columns()[i.Column].Name(), i.Mid, i.Value)
	}
	return text
}
