// Scenario: damage empties a store that replicas are about to be fed from

package role

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// racingHost is a server whose store is opened again when its replicas are about to be fed from it.
type racingHost struct {
	Host
	before func()
}

func (h *racingHost) Store() *counter.Store {
	if f := h.before; f != nil {
		h.before = nil
		f()
	}
	return h.Host.Store()
}

// testPeerConn is the connection of a replica that keeps the replies.
type testPeerConn struct {
	Conn
	call   items.Call
	peer   *repl.Peer
	socket net.Conn
}

func (c *testPeerConn) Call() *items.Call    { return &c.call }
func (c *testPeerConn) Peer() *repl.Peer     { return c.peer }
func (c *testPeerConn) SetPeer(p *repl.Peer) { c.peer = p }
func (c *testPeerConn) Shared() bool         { return false }
func (c *testPeerConn) Confine()             {}
func (c *testPeerConn) CloseConnection()     {}
func (c *testPeerConn) Send() error          { return nil }
func (c *testPeerConn) Raw() io.Writer       { return io.Discard }
func (c *testPeerConn) Socket() net.Conn     { return c.socket }

// TestEmptiedFeedsNobody: a reopening finds damage and empties the store between the moment a replica's PSYNC or SYNC is let in
// and the moment it is answered. The replica must not take the emptied store for the data of its primary.
func TestEmptiedFeedsNobody(t *testing.T) {
	for _, command := range []string{"PSYNC", "SYNC"} {
		dir := t.TempDir()
		open := func() (*counter.Store, error) { return counter.Open(dir, counter.Options{}) }
		store, err := open()
		if err != nil {
			t.Fatal(err)
		}
		host := &testHost{store}
		n := New(host, config.NewLive(config.Default()), "run", slog.New(slog.DiscardHandler))
		n.HelpBy(func(context.Context) (repl.Address, error) { return repl.Address{}, nil }, nil, nil)
		here, there := net.Pipe()
		c := &testPeerConn{socket: here}
		words := func(text string) (list [][]byte) {
			for _, w := range strings.Fields(text) {
				list = append(list, []byte(w))
			}
			return list
		}
		if command == "PSYNC" {
			n.serves.replconf(c, words("REPLCONF listening-port 7 version counterd capa counterd1"))
		} else {
			n.serves.peerOf(c)
		}
		reopen := func() {
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{format.HistoryName, format.HistoryName + vfs.CopySuffix} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("counterd history 1\n"), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			if host.store, err = n.repl.Open(t.Context(), dir, newHelpSearch(n), open); err != nil {
				t.Fatal(err)
			}
		}
		n.serves.host = &racingHost{Host: host, before: reopen}
		if command == "PSYNC" {
			n.serves.psync(c, words("PSYNC ? -1"))
		} else {
			n.serves.sync(c, nil)
		}
		if n.repl.Healing() == nil {
			t.Fatal("the store was not emptied")
		}
		if got := string(c.call.Out.From(0)); !strings.Contains(got, "-NOMASTERLINK") && !strings.Contains(got, "-MASTERDOWN") {
			t.Errorf("%s is answered %.60q", command, got)
		}
		c.peer.Close()
		there.Close()
		if err := errors.Join(n.Close(t.Context()), host.store.Close()); err != nil {
			t.Error(err)
		}
	}
}
