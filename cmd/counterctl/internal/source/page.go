package source

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
	"github.com/counterd/counterd/internal/wire"
)

// pages reads a page of each of the next n keys, which are large hashes and sorted sets, and takes away those that are
// read to their end. Where the first one goes on, the position is within it; where another one does, it is begun again.
func (r *Redis) pages(c *transfer.Chunk, n int) error {
	p, s := &r.pos, &r.scan
	s.out, s.matches, s.silent = s.out[:0], s.matches[:0], s.silent[:0]
	for i, key := range p.Keys[p.Next : p.Next+n] {
		m, ok := r.o.Rules.Key(key, &c.Skipped)
		if !ok {
			return fmt.Errorf("the position holds %s, which fits no rule", mapping.Quote(key))
		}
		s.matches = append(s.matches, m)
		cursor := "0"
		if i == 0 && p.Within != "" {
			cursor = p.Within
		}
		command := "HSCAN"
		if m.Shape() == mapping.SortedSet {
			command = "ZSCAN"
		}
		s.out = wire.AppendArray(s.out, 5)
		s.out = wire.AppendArg(s.out, command)
		s.out = wire.AppendBytes(s.out, key)
		s.out = wire.AppendArg(s.out, cursor)
		s.out = wire.AppendArg(s.out, "COUNT")
		s.out = wire.AppendArg(s.out, scanCount)
	}
	if err := r.conn.Send(s.out); err != nil {
		return err
	}
	done, within := 0, ""
	var discard transfer.Chunk
	for i, m := range s.matches {
		into := c
		if within != "" { // behind a key that goes on
			discard = transfer.Chunk{}
			into = &discard
		}
		silent := len(s.silent)
		cursor, err := r.readPage(into, m)
		if err != nil {
			return fmt.Errorf("reading %s: %w", mapping.Quote(m.Key()), err)
		}
		if into != c {
			s.silent = s.silent[:silent]
		} else if within = cursor; within == "" {
			done = i + 1
		}
	}
	if err := r.askTypes(c); err != nil {
		return err
	}
	p.Next += done
	p.Within = within
	return nil
}

// readPage reads the reply to HSCAN or ZSCAN. The cursor is "" at the end.
func (r *Redis) readPage(c *transfer.Chunk, m mapping.Match) (cursor string, err error) {
	n, _, err := r.conn.ReadArray()
	if wrongType(err) {
		r.scan.silent = append(r.scan.silent, m)
		return "", nil
	} else if err != nil {
		return "", err
	} else if n != 2 {
		return "", wire.ErrProtocol
	}
	text, _, err := r.conn.ReadBulk()
	if err != nil {
		return "", err
	}
	if cursor = string(text); !validCursor(cursor) {
		return "", wire.ErrProtocol
	}
	n, _, err = r.conn.ReadArray()
	if err != nil || n%2 != 0 {
		return "", errors.Join(err, wire.ErrProtocol)
	}
	var field []byte
	for range n / 2 {
		b, _, err := r.conn.ReadBulk()
		if err != nil {
			return "", err
		}
		field = append(field[:0], b...)
		value, _, err := r.conn.ReadBulk()
		if err != nil {
			return "", err
		}
		r.pair(c, m, field, value)
	}
	if cursor == "0" {
		cursor = ""
	}
	return cursor, nil
}
