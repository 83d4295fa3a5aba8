package main

import (
	"fmt"
	"strings"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// names are the names of counters and columns by id. Ids are never used again, so names learnt from any schema of the
// directory hold for all of its files. Producers' numbers are used again: theirs hold up to the next define.
type names struct {
	counters  map[uint32]string
	columns   map[uint64]string // counter id << 16 | column id
	producers map[uint32]defined
}

// defined is the log's last define record of a number.
type defined struct {
	id   string
	base uint64
}

// define learns from a define.
func (n *names) define(number uint32, id []byte, base uint64) {
	if n.producers == nil {
		n.producers = map[uint32]defined{}
	}
	n.producers[number] = defined{string(id), base}
}

// once names a producer and its sequence number. If the define record stands before the printed range: the number and
// the rest of the record.
func (n *names) once(number uint32, seq uint64) string {
	if p, ok := n.producers[number]; ok {
		return fmt.Sprintf("%q %d", p.id, p.base+seq)
	}
	return fmt.Sprintf("producer#%d base+%d", number, seq)
}

// learnAll learns from manifests.
func (n *names) learnAll(manifests []*format.Manifest) {
	for _, m := range manifests {
		_ = n.learn(strings.Join(m.Schema, "\n") + "\n") // names that are not known are printed as numbers
	}
}

// learn learns from the text of a schema.
func (n *names) learn(text string) error {
	s, err := schema.ParseDurable([]byte(text))
	if err != nil {
		return err
	}
	if n.counters == nil {
		n.counters, n.columns = map[uint32]string{}, map[uint64]string{}
	}
	for _, c := range s.All() {
		n.counters[c.ID] = c.Name
		for i := range c.Columns {
			n.columns[uint64(c.ID)<<16|uint64(c.Columns[i].ID)] = c.Columns[i].Name
		}
	}
	return nil
}

func (n *names) counter(id uint32) string {
	if name, ok := n.counters[id]; ok {
		return name
	}
	return fmt.Sprintf("counter#%d", id)
}

func (n *names) column(counter uint32, id uint16) string {
	if name, ok := n.columns[uint64(counter)<<16|uint64(id)]; ok {
		return name
	}
	return fmt.Sprintf("column#%d", id)
}

// values writes columns as comment=5 repost=0.
func (n *names) values(counter uint32, columns []format.ColumnValue) string {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%d", n.column(counter, c.Column), c.Value)
	}
	return b.String()
}
