package client

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/schema"
)

// columns are a counter's columns as the server said them. They never change.
type columns struct {
	prefix   string // of keys: NAME: or nothing
	braces   bool   // mids are in braces: they decide who owns a key
	counter  string
	names    []string
	suffixes []string
	own      int            // so many, the first, are no derived ones: these can be set
	index    map[string]int // by name and by suffix; names win
	read     time.Time
}

// find is the place of a column, or -1.
func (cs *columns) find(column string) int {
	if cs == nil {
		return -1
	}
	for i, name := range cs.names { // a few: cheaper than to hash
		if i == 8 {
			break
		}
		if name == column {
			return i
		}
	}
	if i, ok := cs.index[column]; ok {
		return i
	}
	return -1
}

// some are the names of columns by their places.
func (cs *columns) some(list []int) []string {
	names := make([]string, len(list))
	for i, column := range list {
		names[i] = cs.names[column]
	}
	return names
}

// key is the key of a column of a post: NAME:MID.suffix, or NAME:{MID}.suffix where the key decides which server owns
// it: servers go by the mid alone, so that a post's columns, in all counters, are on one of them.
func (cs *columns) key(mid uint64, column int) string {
	var a [96]byte
	b := cs.appendPost(a[:0], mid)
	if suffix := cs.suffixes[column]; suffix != "" {
		b = append(append(b, '.'), suffix...)
	}
	return string(b)
}

// post is the key of a whole post: NAME:MID or NAME:{MID}.
func (cs *columns) post(mid uint64) string {
	var a [96]byte
	return string(cs.appendPost(a[:0], mid))
}

func (cs *columns) appendPost(b []byte, mid uint64) []byte {
	b = append(b, cs.prefix...)
	if !cs.braces {
		return strconv.AppendUint(b, mid, 10)
	}
	return append(strconv.AppendUint(append(b, '{'), mid, 10), '}')
}

// parseColumns finds a counter's columns in the reply to SCHEMA.
func parseColumns(script, counter string) (*columns, error) {
	s, err := schema.ParseScript(strings.NewReader(script), schema.Empty())
	if err != nil {
		return nil, fmt.Errorf("client: what SCHEMA answers: %w", err)
	}
	cs := &columns{counter: counter, index: make(map[string]int)}
	var def *schema.Counter
	if counter != "" {
		def, cs.prefix = s.Counter(counter), counter+":"
	} else if list := s.Counters(); len(list) > 0 {
		def = list[0]
	}
	if def == nil {
		return nil, &ColumnError{counter, ""}
	}
	cs.counter = def.Name
	cs.own = len(def.Columns)
	for i := range def.Width() {
		column := def.Col(i)
		cs.names = append(cs.names, column.Name)
		cs.suffixes = append(cs.suffixes, column.Suffix)
		cs.index[column.Suffix] = i
		if column.Suffix == "" {
			cs.prefix = def.Name + ":" // a number without a suffix is of no counter unless it says so
		}
	}
	for i, name := range cs.names {
		cs.index[name] = i
	}
	return cs, nil
}
