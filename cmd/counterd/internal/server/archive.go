package server

import (
	"fmt"
	"time"
)

// sendArchive answers SYNC, or PSYNC behind a line of its own, of redis-cli --rdb: an archive of the data as a bulk
// string without its CRLF, straight from the files. Nobody else waits. A file that turns out to be damaged ends the
// connection: the client knows how many bytes it lacks.
func (c *client) sendArchive(psync bool) {
	store := c.srv.store()
	a, err := store.Archive()
	if err != nil {
		c.StoreError(err)
		return
	}
	defer a.Close() // only read
	if psync {
		past := store.Replication().Lineage()
		c.Out.Status(fmt.Sprintf("FULLRESYNC %s %d", past.Current().ReplID, a.End()))
	}
	c.Out.BulkHead(a.Size())
	if c.send() != nil {
		c.closed = true
		return
	}
	began := time.Now()
	n, err := a.WriteTo(pacedWriter{c})
	if err != nil {
		c.srv.log.Error("the download of a snapshot was broken off", "bytes", n, "of", a.Size(), "error", err)
		c.closed = true
		c.conn.Close() // a part was announced as the whole
		return
	}
	c.srv.log.Info("a snapshot was downloaded", "offset", a.End(), "bytes", n, "took", time.Since(began).Round(time.Millisecond))
}

// pacedWriter writes to a client's connection, past its buffer. A write of one piece may take as long as that of a
// reply.
type pacedWriter struct{ c *client }

func (w pacedWriter) Write(b []byte) (int, error) {
	w.c.writingSince.Store(w.c.srv.clock.Load())
	n, err := w.c.conn.Write(b)
	w.c.writingSince.Store(0)
	w.c.srv.stats.OutBytes.Add(int64(n))
	return n, err
}
