package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
	"github.com/counterd/counterd/internal/wire"
)

const (
	scanCount = "1000" // keys a SCAN looks at, and fields an HSCAN; of one the server is busy for 0.2 ms
	// pageKeys is how many large hashes or sorted sets are begun in one round trip: each may answer with a page.
	pageKeys = 16
	// getMax is how much of a value is read by GETRANGE where one was too large for MGET.
	getMax = 64 << 10
	// keysMax is how many keys a chunk looks at where few of them map, so that progress is seen and kept.
	keysMax = 200_000
	// chunkTime is how long a chunk is filled, for the same reason.
	chunkTime = time.Second
)

// scanner is the state for reading batches, kept from one batch to the next.
type scanner struct {
	glob    string // of SCAN's MATCH; "": none
	out     []byte
	matches []mapping.Match
	silent  []mapping.Match // keys that answered nothing
	found   [][]byte        // keys of the SCAN under way
	cursor  string
	ranged  bool // strings are read by GETRANGE
	single  int  // so many keys are read one by one, as one of them is too large
}

// Next fills a chunk.
func (r *Redis) Next(ctx context.Context, c *transfer.Chunk) (err error) {
	start := time.Now()
	for !c.Full() && c.Keys < keysMax && time.Since(start) < chunkTime {
		if r.pos.Node == len(r.nodes) || enough(c) && r.pos.Next == len(r.pos.Keys) {
			break
		}
		if err := r.step(ctx, c); err != nil {
			return err
		}
	}
	if c.Position, err = r.pos.text(); err == nil && r.pos.Node == len(r.nodes) {
		err = io.EOF
	}
	return err
}

// step reads the next keys, and with the last of a SCAN makes the next one.
func (r *Redis) step(ctx context.Context, c *transfer.Chunk) error {
	p := &r.pos
	if p.Next == len(p.Keys) && p.Begun && p.Cursor == "" { // this node is read
		r.Close()
		*p = position{Node: p.Node + 1}
		return nil
	}
	if p.Within != "" {
		return r.tooLarge(c, r.attempt(ctx, c, func() error { return r.pages(c, 1) }))
	}
	if p.Next < len(p.Keys) && r.paged(p.Keys[p.Next]) {
		n := 1
		for n < pageKeys && p.Next+n < len(p.Keys) && r.paged(p.Keys[p.Next+n]) {
			n++
		}
		err := r.attempt(ctx, c, func() error { return r.pages(c, n) })
		if errors.Is(err, wire.ErrProtocol) && n > 1 { // of one of them; alone it is known which
			err = r.attempt(ctx, c, func() error { return r.pages(c, 1) })
		}
		return r.tooLarge(c, err)
	}
	n := 0
	for p.Next+n < len(p.Keys) && !r.paged(p.Keys[p.Next+n]) {
		n++
	}
	if r.scan.single > 0 {
		n = min(n, 1)
		r.scan.single -= n
	}
	err := r.attempt(ctx, c, func() error { return r.batch(c, n) })
	if errors.Is(err, wire.ErrProtocol) && n > 0 && !r.scan.ranged {
		r.scan.ranged, r.scan.single = true, n
		return nil
	}
	if r.scan.single == 0 {
		r.scan.ranged = false
	}
	return r.tooLarge(c, err)
}

// tooLarge takes away the next key, if an error is that what it holds was too large to be read.
func (r *Redis) tooLarge(c *transfer.Chunk, err error) error {
	p := &r.pos
	if !errors.Is(err, wire.ErrProtocol) || p.Next == len(p.Keys) {
		return err
	}
	c.Skipped.Skip(mapping.Malformed, p.Keys[p.Next], nil, []byte("a value of over 16 MiB"))
	p.Next, p.Within = p.Next+1, ""
	return nil
}

// enough tells whether no more keys are wanted.
func enough(c *transfer.Chunk) bool { return c.Most > 0 && c.Keys >= c.Most }

// attempt runs f with retries; additions of a failed try to the chunk are taken back.
func (r *Redis) attempt(ctx context.Context, c *transfer.Chunk, f func() error) error {
	items, keys, skipped, examples := len(c.Items), c.Keys, c.Skipped, len(c.Examples)
	return r.withRetries(ctx, func() error {
		err := f()
		if err != nil {
			c.Items, c.Keys, c.Skipped, c.Examples = c.Items[:items], keys, skipped, c.Examples[:examples]
		}
		return err
	})
}

// paged tells whether a key has fields that no rule names, so that it is read by pages.
func (r *Redis) paged(key []byte) bool {
	m, ok := r.o.Rules.Find(key)
	return ok && m.Shape() != mapping.String && m.Fields() == nil
}

// batch reads the next n keys and makes the next SCAN, if it is time for one, in one round trip.
func (r *Redis) batch(c *transfer.Chunk, n int) error {
	p, s := &r.pos, &r.scan
	scans := p.Next+n == len(p.Keys) && (!p.Begun || p.Cursor != "") && !s.ranged && !enough(c) // ranged: then the large value is known
	s.out = s.out[:0]
	if scans {
		s.appendScan(p.Cursor)
	}
	s.matches, s.silent = s.matches[:0], s.silent[:0]
	for _, key := range p.Keys[p.Next : p.Next+n] {
		if m, ok := r.o.Rules.Key(key, &c.Skipped); ok {
			s.matches = append(s.matches, m)
		}
	}
	groups := r.appendReads()
	if err := r.conn.Send(s.out); err != nil {
		return err
	}
	if scans {
		if err := r.readScan(c); err != nil {
			return fmt.Errorf("SCAN: %w", err)
		}
	}
	if err := r.readValues(c, groups); err != nil {
		return err
	}
	if err := r.askTypes(c); err != nil {
		return err
	}
	p.Next += n
	if scans {
		p.Begun, p.Cursor, p.Keys, p.Next = true, s.cursor, s.found, 0
		s.found = nil
	}
	return nil
}

func (s *scanner) appendScan(cursor string) {
	args := []string{"SCAN", cursor, "COUNT", scanCount}
	if cursor == "" {
		args[1] = "0"
	}
	if s.glob != "" {
		args = append(args, "MATCH", s.glob)
	}
	s.out = wire.AppendCommand(s.out, args...)
}

// appendReads appends the commands that read the matched keys: strings first. It returns how many strings each MGET reads.
func (r *Redis) appendReads() (groups []int) {
	s := &r.scan
	texts := 0
	for i, m := range s.matches {
		if m.Shape() == mapping.String {
			s.matches[texts], s.matches[i] = s.matches[i], s.matches[texts]
			texts++
		}
	}
	switch {
	case s.ranged:
		for _, m := range s.matches[:texts] {
			s.out = wire.AppendArray(s.out, 4)
			s.out = wire.AppendArg(s.out, "GETRANGE")
			s.out = wire.AppendBytes(s.out, m.Key())
			s.out = wire.AppendArg(s.out, "0")
			s.out = wire.AppendUint(s.out, getMax-1)
		}
	case r.cluster:
		for _, m := range s.matches[:texts] {
			s.out = wire.AppendArray(s.out, 2)
			s.out = wire.AppendArg(s.out, "GET")
			s.out = wire.AppendBytes(s.out, m.Key())
		}
	default:
		const most = 500
		for rest := s.matches[:texts]; len(rest) > 0; {
			n := min(most, len(rest))
			s.out = wire.AppendArray(s.out, 1+n)
			s.out = wire.AppendArg(s.out, "MGET")
			for _, m := range rest[:n] {
				s.out = wire.AppendBytes(s.out, m.Key())
			}
			rest, groups = rest[n:], append(groups, n)
		}
	}
	for _, m := range s.matches[texts:] {
		fields := m.Fields()
		s.out = wire.AppendArray(s.out, 2+len(fields))
		s.out = wire.AppendArg(s.out, "HMGET")
		s.out = wire.AppendBytes(s.out, m.Key())
		for _, f := range fields {
			s.out = wire.AppendBytes(s.out, f)
		}
	}
	return groups
}

// readScan reads the reply to SCAN: the keys with a rule are the next to be read.
func (r *Redis) readScan(c *transfer.Chunk) error {
	s := &r.scan
	if n, _, err := r.conn.ReadArray(); err != nil {
		return err
	} else if n != 2 {
		return wire.ErrProtocol
	}
	cursor, _, err := r.conn.ReadBulk()
	if err != nil {
		return err
	}
	if s.cursor = string(cursor); s.cursor == "0" {
		s.cursor = ""
	} else if !validCursor(s.cursor) {
		return fmt.Errorf("%w: cursor %.40q", wire.ErrProtocol, s.cursor)
	}
	n, _, err := r.conn.ReadArray()
	if err != nil {
		return err
	}
	s.found = make([][]byte, 0, n)
	var arena []byte // of keys, so that a batch's take a few allocations
	for range n {
		key, ok, err := r.conn.ReadBulk()
		if err != nil || !ok {
			return errors.Join(err, wire.ErrProtocol)
		}
		c.Keys++
		if _, ok := r.o.Rules.Key(key, &c.Skipped); !ok {
			continue
		}
		if cap(arena)-len(arena) < len(key) {
			arena = make([]byte, 0, max(len(key), 16<<10))
		}
		arena = append(arena, key...)
		s.found = append(s.found, arena[len(arena)-len(key):len(arena):len(arena)])
	}
	return nil
}

// readValues reads what the matched keys hold.
func (r *Redis) readValues(c *transfer.Chunk, groups []int) error {
	s := &r.scan
	left, group := 0, 0
	for _, m := range s.matches {
		if m.Shape() != mapping.String {
			if err := r.readFields(c, m); err != nil {
				return fmt.Errorf("HMGET: %w", err)
			}
			continue
		}
		if !s.ranged && !r.cluster && left == 0 {
			n, _, err := r.conn.ReadArray()
			if err != nil {
				return fmt.Errorf("MGET: %w", err)
			} else if n != groups[group] {
				return wire.ErrProtocol
			}
			left, group = n, group+1
		}
		left--
		value, ok, err := r.conn.ReadBulk()
		switch {
		case wrongType(err):
			s.silent = append(s.silent, m)
		case err != nil:
			return fmt.Errorf("reading strings: %w", err)
		case !ok, s.ranged && len(value) == 0:
			s.silent = append(s.silent, m)
		default:
			r.value(c, m, value)
		}
	}
	return nil
}

// value notes the value of a string.
func (r *Redis) value(c *transfer.Chunk, m mapping.Match, value []byte) {
	from := len(c.Items)
	c.Items = m.Value(c.Items, value, &c.Skipped)
	r.explain(c, from, m.Key(), nil, value)
}

// pair notes the value of a field, or the score of a member.
func (r *Redis) pair(c *transfer.Chunk, m mapping.Match, field, value []byte) {
	from := len(c.Items)
	c.Items = m.Pair(c.Items, field, value, &c.Skipped)
	r.explain(c, from, m.Key(), field, value)
}

// wrongType tells whether a command was refused because of the key's type.
func wrongType(err error) bool {
	var answer *wire.ServerError
	return errors.As(err, &answer) && len(answer.Text) > 9 && answer.Text[:9] == "WRONGTYPE"
}

// readFields reads the reply to HMGET.
func (r *Redis) readFields(c *transfer.Chunk, m mapping.Match) error {
	n, _, err := r.conn.ReadArray()
	fields := m.Fields()
	switch {
	case wrongType(err):
		r.scan.silent = append(r.scan.silent, m)
		return nil
	case err != nil:
		return err
	case n != len(fields):
		return wire.ErrProtocol
	}
	any := false
	for _, field := range fields {
		value, ok, err := r.conn.ReadBulk()
		if err != nil {
			return err
		}
		if ok {
			any = true
			r.pair(c, m, field, value)
		}
	}
	if !any {
		r.scan.silent = append(r.scan.silent, m)
	}
	return nil
}

// askTypes finds out why keys answered nothing.
func (r *Redis) askTypes(c *transfer.Chunk) error {
	s := &r.scan
	if len(s.silent) == 0 {
		return nil
	}
	s.out = s.out[:0]
	for _, m := range s.silent {
		s.out = wire.AppendArray(s.out, 2)
		s.out = wire.AppendArg(s.out, "TYPE")
		s.out = wire.AppendBytes(s.out, m.Key())
	}
	if err := r.conn.Send(s.out); err != nil {
		return err
	}
	for _, m := range s.silent {
		line, err := r.conn.ReadLine()
		if err != nil {
			return fmt.Errorf("TYPE: %w", err)
		}
		switch name := line[1:]; name {
		case "none":
			m.Vanished(&c.Skipped)
		case m.Shape().String(): // a hash without those fields; a string that is empty, or came meanwhile
			if s.ranged && m.Shape() == mapping.String {
				r.value(c, m, []byte{})
			}
		default:
			m.Wrong(name, &c.Skipped)
		}
	}
	return nil
}
