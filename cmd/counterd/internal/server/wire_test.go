package server

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// A server and clients that read its replies strictly: every byte must be as the protocol has it.

const wireSchema = "add counter weibo\nadd column weibo mid hint=64 max=64 primarykey\nadd column weibo comment hint=16 max=32 suffix=cntcm\n" +
	"add column weibo repost hint=16 max=32 suffix=cntrn\n"

// wireServe starts a server with an empty store in memory on a unix socket.
func wireServe(t testing.TB, change func(*config.Config)) *Server {
	t.Helper()
	return wireServeStore(t, "", counter.Options{}, change)
}

// wireServeStore starts a server with a new store in dir. On the machine's own disk, the log is not synced unless change says so: other tests keep that disk
// busy, a sync of two seconds makes the store refuse changes, and a client that has turned replies off does not learn of a refusal.
func wireServeStore(t testing.TB, dir string, options counter.Options, change func(*config.Config)) *Server {
	t.Helper()
	s := startServer(t, serverStart{change: func(c *config.Config) {
		if dir != "" && options.FS == nil {
			c.AppendFsync = "no"
		}
		if change != nil {
			change(c)
		}
	}, open: func(*Server) (*counter.Store, error) { return counter.Open(dir, options) }, schema: wireSchema})
	t.Cleanup(func() { stopServer(t, s) })
	return s
}

// serverStart says how a test starts a server in its own process. All servers of the tests of this package start by startServer.
type serverStart struct {
	change func(*config.Config)                        // of the default configuration, which has a unix socket and no port; may be nil
	log    *slog.Logger                                // nil: what the server logs is dropped
	made   func(s *Server)                             // called before the server listens; may be nil
	listen func(s *Server)                             // called when the server listens, and has no store yet; may be nil
	open   func(s *Server) (*counter.Store, error)     // opens the store; nil: a store in memory
	schema string                                      // of the store, unless the node is a replica
	serve  func(s *Server, store *counter.Store) error // called before the store is served; may be nil
}

// startServer starts a server. stopServer stops it.
func startServer(t testing.TB, start serverStart) *Server {
	t.Helper()
	conf := config.Default()
	conf.Port, conf.UnixSocket = 0, filepath.Join(t.TempDir(), "s")
	if start.change != nil {
		start.change(&conf)
	}
	if start.log == nil {
		start.log = slog.New(slog.DiscardHandler)
	}
	if start.open == nil {
		start.open = func(*Server) (*counter.Store, error) { return counter.Open("", counter.Options{}) }
	}
	s, err := New(conf, start.log, new(slog.LevelVar))
	if err != nil {
		t.Fatal(err)
	}
	if start.made != nil {
		start.made(s)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if start.listen != nil {
		start.listen(s)
	}
	store, err := start.open(s)
	if err != nil {
		t.Fatal(err)
	}
	if start.schema != "" && !store.Replica() {
		if err := store.AlterScript(start.schema); err != nil {
			t.Fatal(err)
		}
	}
	if start.serve != nil {
		if err := start.serve(s, store); err != nil {
			t.Fatal(err)
		}
	}
	s.Serve(store)
	return s
}

// stopServer ends a server, unless the test has ended it, and closes its store.
func stopServer(t testing.TB, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil && err != counter.ErrClosed {
		t.Error(err)
	}
	if err := s.Store().Close(); err != nil {
		t.Error(err)
	}
}

// wireClient is a connection to a server under test.
type wireClient struct {
	t     testing.TB
	conn  net.Conn
	r     *bufio.Reader
	proto int
}

// patience is how long a test waits for what must come: a lost reply fails the test instead of stopping it. It is far
// above what the race detector needs on a machine whose processors are all busy.
const patience = 3 * time.Minute

// wireDial connects and chooses the protocol.
func wireDial(t testing.TB, s *Server, proto int) *wireClient {
	t.Helper()
	conn, err := net.Dial("unix", s.config.Get().UnixSocket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := &wireClient{t: t, conn: conn, r: bufio.NewReader(conn), proto: proto}
	if proto == 3 {
		c.do("HELLO 3")
	}
	return c
}

// giveTime gives the next step all its time: a test of many steps takes long on a busy machine.
func (c *wireClient) giveTime() { _ = c.conn.SetDeadline(time.Now().Add(patience)) }

// send sends one command, its words parted by spaces.
func (c *wireClient) send(command string) {
	c.t.Helper()
	c.giveTime()
	if _, err := c.conn.Write(resptest.Append(nil, strings.Fields(command)...)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *wireClient) read() resptest.Value {
	c.t.Helper()
	c.giveTime()
	v, err := resptest.Read(c.r, c.proto)
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

// do sends one command and reads its reply.
func (c *wireClient) do(command string) resptest.Value {
	c.t.Helper()
	c.send(command)
	return c.read()
}

// want checks the reply to a command; see resptest.Value.
func (c *wireClient) want(command, reply string) {
	c.t.Helper()
	if got := c.do(command).String(); got != reply {
		c.t.Errorf("RESP%d %s: got %s, want %s", c.proto, command, got, reply)
	}
}

// save makes a snapshot. Beside a snapshot that the server makes by itself, such as for a replica that copies its data, SAVE is
// refused: then it is sent again.
func (c *wireClient) save() {
	c.t.Helper()
	var got string
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if got = c.do("SAVE").String(); got != "-ERR Background save already in progress" || time.Now().After(deadline) {
			break
		}
	}
	if got != "+OK" {
		c.t.Errorf("SAVE: got %s", got)
	}
}

// ended checks that the server has closed the connection.
func (c *wireClient) ended() {
	c.t.Helper()
	c.giveTime()
	if b, err := c.r.ReadByte(); err == nil {
		c.t.Errorf("got byte %q, want the end of the connection", b)
	}
}
