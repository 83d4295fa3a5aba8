package facts

import (
	"strconv"
	"strings"
)

// list is a set of facts that a server has once for each command, replica, ... Its columns are rows of the table.
type list[T any] struct {
	part   Part
	stored bool
	json   string // key of its array in the JSON
	name   string // key of the label there
	help   string // of the array
	items  func(s *State) []T
	series func(s *State) []T // those with series; nil: items
	labels []string
	label  func(item *T) string
}

// line is a line of INFO for each item.
type line[T any] struct {
	section  string
	prefix   string             // of its name
	numbered bool               // the rest of the name is a number, and not the label
	skip     func(item *T) bool // items without such a line; nil: none
	help     string
}

// column is a fact of each item of a list.
type column[T any] struct {
	Fact
	line *line[T] // nil: INFO does not have it
	key  string   // in the line
	json string   // key in the object; empty: the JSON does not have it
	of   func(item *T) Value
}

// rows returns the rows of the columns, each line in front of its columns.
func (l list[T]) rows(columns ...column[T]) (all []Fact) {
	for i, c := range columns {
		if c.line != nil && (i == 0 || columns[i-1].line != c.line) {
			all = append(all, l.row(c.line, columns))
		}
		f := c.Fact
		f.Section, f.part, f.stored = "", l.part, l.stored
		f.read = func(*State) Value { return Unknown } // it has one for each item
		f.column = true
		if c.line != nil {
			f.Section, f.Info = c.line.section, c.line.prefix+"*."+c.key
		}
		if c.json != "" {
			f.JSON = l.json + "[]." + c.json
		}
		if f.Metric != "" {
			f.Labels = l.labels
			items := l.series
			if items == nil {
				items = l.items
			}
			f.series = func(s *State, add func(v Value, labels ...string)) {
				list := items(s)
				for i := range list {
					add(c.of(&list[i]), l.label(&list[i]))
				}
			}
		}
		all = append(all, f)
	}
	if l.json != "" {
		all = append(all, Fact{JSON: l.json, Help: l.help, part: l.part, stored: l.stored, read: func(*State) Value { return Unknown }, array: l.array(columns)})
	}
	return all
}

// row is the row of a line.
func (l list[T]) row(ln *line[T], columns []column[T]) Fact {
	var keys []string
	var in []column[T]
	for _, c := range columns {
		if c.line == ln {
			keys, in = append(keys, c.key+"="), append(in, c)
		}
	}
	lines := func(s *State, add func(name, value string)) {
		items := l.items(s)
		var value []byte
		for i := range items {
			if ln.skip != nil && ln.skip(&items[i]) {
				continue
			}
			value = value[:0]
			for j := range in {
				if j > 0 {
					value = append(value, ',')
				}
				value = append(value, keys[j]...)
				value = in[j].of(&items[i]).appendInfo(value, infoUnit(in[j].key))
			}
			name := strconv.Itoa(i)
			if !ln.numbered {
				name = l.label(&items[i])
			}
			add(ln.prefix+name, string(value))
		}
	}
	return Fact{Section: ln.section, Info: ln.prefix + "*", Help: ln.help, part: l.part, stored: l.stored, lines: lines, read: func(*State) Value { return Unknown }}
}

// array appends the list as JSON.
func (l list[T]) array(columns []column[T]) func(s *State, out []byte) []byte {
	return func(s *State, out []byte) []byte {
		out = append(out, '[')
		items := l.items(s)
		for i := range items {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendQuoted(append(out, '{'), l.name), ':')
			out = appendQuoted(out, l.label(&items[i]))
			for j := range columns {
				if c := &columns[j]; c.json != "" {
					if v := c.of(&items[i]); v.kind != unknown {
						out = append(appendQuoted(append(out, ','), c.json), ':')
						out = v.appendJSON(out)
					}
				}
			}
			out = append(out, '}')
		}
		return append(out, ']')
	}
}

// MaxReplicas is how many replicas have series of their own.
const MaxReplicas = 64

// namedReplicas are the replicas that have series. A replica that reconnects is there twice for a moment: the connection
// that is further ahead counts. A replica chooses its name itself, so the name may be no text.
func namedReplicas(s *State) (list []Replica) {
	at := make(map[string]int, len(s.Replicas))
	for _, r := range s.Replicas {
		r.Addr = strings.ToValidUTF8(r.Addr, "?")
		i, ok := at[r.Addr]
		switch {
		case !ok && len(list) == MaxReplicas:
		case !ok:
			at[r.Addr] = len(list)
			list = append(list, r)
		case r.Behind < list[i].Behind:
			list[i] = r
		}
	}
	return list
}
