package role

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"time"
)

// sendArchive answers SYNC, or PSYNC behind a line of its own, of redis-cli --rdb: an archive of the data, straight from
// the files. Nobody else waits. Clients that announce REPLCONF capa eof get it compressed, with an announced mark of 40
// bytes at its end; others, redis-cli before 7.0, as a bulk string without its CRLF. A file that turns out to be damaged
// ends the connection: the client knows that something is missing.
func (s *peerServer) sendArchive(c PeerConn, psync bool) {
	out, store := &c.Call().Out, s.host.Store()
	if s.repl.Healing() != nil { // it would be a backup of nothing
		out.Error(errHealing)
		return
	}
	a, err := store.Admin().Archive()
	if err != nil {
		c.Call().StoreError(err)
		return
	}
	defer a.Close() // only read
	if psync {
		past := store.Replication().Lineage()
		out.Status(fmt.Sprintf("FULLRESYNC %s %d", past.Current().ReplID, a.End()))
	}
	write, end := a.WriteTo, ""
	if c.Peer().TakesEnd() {
		var mark [20]byte
		_, _ = rand.Read(mark[:]) // it never fails
		write, end = a.WriteCompressed, hex.EncodeToString(mark[:])
		out.Raw([]byte("$EOF:" + end + "\r\n"))
	} else {
		out.BulkHead(a.Size())
	}
	if c.Send() != nil {
		c.CloseConnection()
		return
	}
	began := time.Now()
	sent, err := write(c.Raw())
	if err == nil {
		_, err = io.WriteString(c.Raw(), end)
	}
	if err != nil {
		s.log.Error("download of a snapshot was interrupted", "bytes", sent, "size", a.Size(), "error", err)
		c.CloseConnection()
		c.Socket().Close() // a part was announced as the whole
		return
	}
	s.log.Info("snapshot downloaded by a client", "offset", a.End(), "bytes", sent, "size", a.Size(), "took", time.Since(began).Round(time.Millisecond))
}
