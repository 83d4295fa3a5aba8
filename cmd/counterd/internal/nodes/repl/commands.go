package repl

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// Watch sends the changes of a store as Redis commands, from now on. redis-cli --replica prints them. The answer to
// SYNC announces a snapshot of 0 bytes. It is for people: a Redis that follows is refused before.
//
//	a column      SET <key> <value>, HSET <key of the item> <column> <value> where the column has no suffix
//	an item       DEL <key of the item>
//	a range       COUNTER.DROPRANGE <counter> <from> <to>
//	all           FLUSHALL
//	the schema    SCHEMA <script>
//
// Feed's rules hold: it reads the log's files, and the connection is read for acknowledgements.
func (p *Peer) Watch(store *counter.Store) error {
	log := store.Replication()
	reader, err := log.NewFollower(log.Visible())
	if err != nil {
		return err
	}
	p.reader = reader
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	p.peers.add(p)
	go p.watch(ctx, store.Schema())
	return nil
}

func (p *Peer) watch(ctx context.Context, s *schema.Schema) {
	defer close(p.done)
	defer p.conn.Close()
	// A snapshot of no bytes that ends where its mark, 40 bytes of the sender's choice, appears: redis-cli takes a
	// length of 0 for this form.
	mark := strings.Repeat("=", 40)
	out := []byte("$EOF:" + mark + "\r\n" + mark)
	if _, err := p.conn.Write(out); err != nil {
		return
	}
	// redis-cli sees the mark only where a read ends, answers it by REPLCONF ACK, and takes the first command for the
	// answer to that.
	began := p.acked.Load()
	for deadline := time.Now().Add(pingEvery); p.acked.Load() == began && time.Now().Before(deadline) && ctx.Err() == nil; {
		time.Sleep(10 * time.Millisecond)
	}
	p.watching.Store(true)
	out = wire.AppendCommand(out[:0], "PING")
	var rec format.Record
	for nextPing := time.Now().Add(10 * pingEvery); ctx.Err() == nil; {
		if len(out) > 0 {
			_ = p.conn.SetWriteDeadline(time.Now().Add(p.peers.timeout()))
			if _, err := p.conn.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
		wait, cancel := context.WithDeadline(ctx, nextPing)
		f, err := p.reader.Next(wait)
		cancel()
		if f == nil {
			if wait.Err() == nil {
				p.peers.logger.Debug("log stream to a client ended", "error", err)
				return
			}
			out = wire.AppendCommand(out, "PING")
			nextPing = time.Now().Add(10 * pingEvery)
			continue
		}
		err = f.Records(&rec, f.Start, func(_ uint64, rec *format.Record) error {
			if rec.Kind == format.KindSchema {
				next, err := schema.ParseDurable(rec.Text)
				if err == nil {
					s = next
				}
				out = wire.AppendCommand(out, "SCHEMA", s.String())
				return nil
			}
			out = appendChange(out, s, rec)
			return nil
		})
		if err != nil {
			p.peers.logger.Error("cannot stream the log to a client", "error", err)
			return
		}
	}
}

// appendChange appends the command that makes the same change. Changes of counters and columns that the schema no
// longer has are left out.
func appendChange(dst []byte, s *schema.Schema, rec *format.Record) []byte {
	if rec.Kind == format.KindFlush {
		return wire.AppendCommand(dst, "FLUSHALL")
	}
	def := s.CounterByID(rec.Counter)
	if def == nil || def.IsSpace() {
		return dst
	}
	if rec.Kind == format.KindDropRange {
		return wire.AppendCommand(dst, "COUNTER.DROPRANGE", def.Name, strconv.FormatUint(rec.Mid, 10), strconv.FormatUint(rec.Value, 10))
	}
	set := func(column uint16, v uint64) {
		c := def.Index(column)
		if c < 0 {
			return
		}
		value := strconv.FormatUint(v, 10)
		if def.Columns[c].Suffix == "" {
			dst = wire.AppendCommand(dst, "HSET", string(s.AppendKey(nil, def, -1, rec.Mid)), def.Columns[c].Name, value)
			return
		}
		dst = wire.AppendCommand(dst, "SET", string(s.AppendKey(nil, def, c, rec.Mid)), value)
	}
	switch rec.Kind {
	case format.KindSet:
		set(rec.Column, rec.Value)
	case format.KindSetItem:
		for _, c := range rec.Columns {
			set(c.Column, c.Value)
		}
	case format.KindDelete:
		dst = wire.AppendCommand(dst, "DEL", string(s.AppendKey(nil, def, -1, rec.Mid)))
	}
	return dst
}

// SyncRefusal tells why SYNC is not answered; empty: it is.
func (p *Peer) SyncRefusal() string {
	if p.port != 0 {
		return p.Refusal()
	}
	return ""
}

// SnapshotOnly tells whether an archive of the data is wanted and nothing behind it: redis-cli --rdb.
func (p *Peer) SnapshotOnly() bool { return p.snapshotOnly }

// TakesEnd tells whether an archive may be sent that ends at a mark.
func (p *Peer) TakesEnd() bool { return p != nil && p.takesEnd }
