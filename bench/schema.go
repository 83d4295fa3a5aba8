package bench

import (
	"fmt"
	"strconv"
	"strings"
)

// Column is one number of each post.
type Column struct {
	Name   string // as in HGETALL
	Suffix string // of the key that names this column alone, MID.suffix
	Bits   int    // the column holds 0 to 2^Bits-1
}

// Max returns the largest value that the column holds, never above 2^63-1, where Redis's integers end.
func (c Column) Max() uint64 { return 1<<min(c.Bits, 63) - 1 }

// Schema is a counter: what every post has.
type Schema struct {
	Counter string
	First   bool // the server's first counter, whose items a plain MID names
	Columns []Column
}

// WeiboSchema is the schema of generated posts: the marginals of three counters of a real network are known.
func WeiboSchema() Schema {
	return Schema{Counter: "weibo", First: true, Columns: []Column{
		{Name: "comment", Suffix: "cntcm", Bits: 32},
		{Name: "repost", Suffix: "cntrn", Bits: 32},
		{Name: "attitude", Suffix: "cntan", Bits: 32},
	}}
}

// WeiboScript makes WeiboSchema on a counterd. Running it again changes nothing.
var WeiboScript = []string{
	"ADD COUNTER weibo",
	"ADD COLUMN weibo comment hint=16 max=32 default=0 suffix=cntcm",
	"ADD COLUMN weibo repost hint=16 max=32 suffix=cntrn",
	"ADD COLUMN weibo attitude hint=8 max=32 suffix=cntan",
}

// Names returns the columns' names.
func (s Schema) Names() []string {
	names := make([]string, len(s.Columns))
	for i, col := range s.Columns {
		names[i] = col.Name
	}
	return names
}

// Select returns the schema with just the named columns, in that order. A suffix is a name too.
func (s Schema) Select(names []string) (Schema, error) {
	selected := s
	selected.Columns = nil
next:
	for _, name := range names {
		for _, col := range s.Columns {
			if name == col.Name || name == col.Suffix {
				selected.Columns = append(selected.Columns, col)
				continue next
			}
		}
		return Schema{}, fmt.Errorf("counter %q has no column %q; it has %s", s.Counter, name, strings.Join(s.Names(), ", "))
	}
	return selected, nil
}

// ParseSchemas reads the reply to SCHEMA: the script that makes the server's counters.
func ParseSchemas(script string) ([]Schema, error) {
	var schemas []Schema
	index := func(counter string) int {
		for i := range schemas {
			if schemas[i].Counter == counter {
				return i
			}
		}
		schemas = append(schemas, Schema{Counter: counter, First: len(schemas) == 0})
		return len(schemas) - 1
	}
	for _, line := range strings.Split(script, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case len(words) >= 3 && strings.EqualFold(words[0], "add") && strings.EqualFold(words[1], "counter"):
			index(words[2])
		case len(words) >= 4 && strings.EqualFold(words[0], "add") && strings.EqualFold(words[1], "column"):
			col, isKey, err := parseColumn(words[3:])
			if err != nil {
				return nil, fmt.Errorf("SCHEMA: line %.80q: %w", line, err)
			}
			if i := index(words[2]); !isKey {
				schemas[i].Columns = append(schemas[i].Columns, col)
			}
		default:
			return nil, fmt.Errorf("SCHEMA: line %.80q is not understood", line)
		}
	}
	return schemas, nil
}

// parseColumn reads what follows "add column COUNTER". Attributes that do not matter here are passed over.
func parseColumn(words []string) (col Column, isKey bool, err error) {
	col = Column{Name: words[0], Bits: 64}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch strings.ToLower(key) {
		case "primarykey":
			isKey = true
		case "suffix":
			col.Suffix = value
		case "max":
			if col.Bits, err = strconv.Atoi(value); err != nil || col.Bits < 1 || col.Bits > 64 {
				return col, false, fmt.Errorf("max=%s is not 1..64 bits", value)
			}
		}
	}
	return col, isKey, nil
}
