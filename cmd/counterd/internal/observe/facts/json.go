package facts

import (
	"encoding/json"
	"slices"
	"strings"
)

// branch is an object of the JSON: its fields are rows, or further objects.
type branch struct {
	name     string
	fact     *Fact // nil: an object
	children []branch
}

// tree has the rows by their paths in the JSON.
var tree = func() (root branch) {
	for i := range table {
		f := &table[i]
		if f.JSON == "" || f.column {
			continue
		}
		at := &root
		path := strings.Split(f.JSON, ".")
		for _, name := range path[:len(path)-1] {
			n := slices.IndexFunc(at.children, func(b branch) bool { return b.name == name })
			if n < 0 {
				n = len(at.children)
				at.children = append(at.children, branch{name: name})
			}
			at = &at.children[n]
		}
		at.children = append(at.children, branch{name: path[len(path)-1], fact: f})
	}
	return root
}()

// MarshalJSON is the state as the console reads it: an object with the JSON fields of the table, without those that are
// unknown, or of parts that are not filled. An object without fields is left out.
func (s *State) MarshalJSON() ([]byte, error) {
	out, _ := tree.append(make([]byte, 0, 4<<10), s)
	return out, nil
}

// append appends the fields of an object. ok is false if it has none.
func (b *branch) append(out []byte, s *State) (_ []byte, ok bool) {
	out = append(out, '{')
	for i := range b.children {
		c := &b.children[i]
		begin := len(out)
		if ok {
			out = append(out, ',')
		}
		out = append(appendQuoted(out, c.name), ':')
		there := false
		switch f := c.fact; {
		case f == nil:
			out, there = c.append(out, s)
		case !s.Filled.Has(f.part) || f.stored && s.Loading != nil:
		case f.array != nil:
			out, there = f.array(s, out), true
		default:
			if v := f.read(s); v.kind != unknown && v.kind != never {
				out, there = v.appendJSON(out), true
			}
		}
		if !there {
			out = out[:begin]
		}
		ok = ok || there
	}
	return append(out, '}'), ok
}

// appendQuoted appends a text as JSON.
func appendQuoted(out []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // a string has no error
	return append(out, quoted...)
}
