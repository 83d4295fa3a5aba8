package node

import (
	"fmt"
	"time"
)

// sendArchive answers SYNC, or PSYNC behind a line of its own, of redis-cli --rdb: an archive of the data as a bulk
// string without its CRLF, straight from the files. Nobody else waits. A file that turns out to be damaged ends the
// connection: the client knows how many bytes it lacks.
func (n *Node) sendArchive(c PeerConn, psync bool) {
	out, store := &c.Call().Out, n.host.Store()
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
	out.BulkHead(a.Size())
	if c.Send() != nil {
		c.End()
		return
	}
	began := time.Now()
	sent, err := a.WriteTo(c.Raw())
	if err != nil {
		n.log.Error("the download of a snapshot was broken off", "bytes", sent, "size", a.Size(), "error", err)
		c.End()
		c.Socket().Close() // a part was announced as the whole
		return
	}
	n.log.Info("a snapshot was downloaded", "offset", a.End(), "bytes", sent, "took", time.Since(began).Round(time.Millisecond))
}
