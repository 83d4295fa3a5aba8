package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
)

// A server and clients that read its replies strictly: every byte must be as the protocol has it.

// wireValue is one reply.
type wireValue struct {
	kind byte // + - : $ * _ % ~ , # = >; $ and * with null set are RESP2's nulls
	text string
	n    int64
	null bool
	list []wireValue // of maps: key, value, key, value
}

// wireRead reads one reply, as of RESP2 or RESP3.
func wireRead(r *bufio.Reader, proto int) (v wireValue, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return v, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' || strings.ContainsRune(line[:len(line)-2], '\r') {
		return v, fmt.Errorf("line %q does not end in CRLF", line)
	}
	v.kind, v.text = line[0], line[1:len(line)-2]
	if proto == 2 && !strings.ContainsRune("+-:$*", rune(v.kind)) {
		return v, fmt.Errorf("line %q in RESP2", line)
	}
	switch v.kind {
	case '+', '-', ',':
		return v, nil
	case '_':
		v.null = true
		if v.text != "" {
			err = fmt.Errorf("null %q", line)
		}
		return v, err
	case '#':
		if v.text != "t" && v.text != "f" {
			err = fmt.Errorf("boolean %q", line)
		}
		return v, err
	}
	if v.n, err = strconv.ParseInt(v.text, 10, 64); err != nil {
		return v, err
	}
	switch v.kind {
	case ':':
		return v, nil
	case '$', '=':
		if v.n == -1 && proto == 2 {
			v.null = true
			return v, nil
		}
		if v.n < 0 {
			return v, fmt.Errorf("length in %q", line)
		}
		body := make([]byte, v.n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return v, err
		}
		if body[v.n] != '\r' || body[v.n+1] != '\n' {
			return v, fmt.Errorf("string of %d bytes is longer: %q", v.n, body)
		}
		v.text = string(body[:v.n])
		if v.kind == '=' {
			if !strings.HasPrefix(v.text, "txt:") {
				return v, fmt.Errorf("verbatim string %q", v.text)
			}
			v.text = v.text[4:]
		}
		return v, nil
	case '*', '~', '>', '%':
		if v.n == -1 && proto == 2 {
			v.null = true
			return v, nil
		}
		n := v.n
		if v.kind == '%' {
			n *= 2
		}
		for range n {
			e, err := wireRead(r, proto)
			if err != nil {
				return v, err
			}
			v.list = append(v.list, e)
		}
		return v, nil
	}
	return v, fmt.Errorf("line %q", line)
}

// String writes a reply in one line: +OK :1 "bulk" [array] {set} (map) nil.
func (v wireValue) String() string {
	switch {
	case v.null:
		return "nil"
	case v.kind == '$':
		return strconv.Quote(v.text)
	case v.kind == '=':
		return "txt" + strconv.Quote(v.text)
	case v.list != nil || strings.IndexByte("*~%>", v.kind) >= 0:
		parts := make([]string, len(v.list))
		for i := range v.list {
			parts[i] = v.list[i].String()
		}
		brackets := map[byte]string{'*': "[]", '~': "{}", '%': "()", '>': "><"}[v.kind]
		return brackets[:1] + strings.Join(parts, " ") + brackets[1:]
	}
	return string(v.kind) + v.text
}

// get finds a value in a map, or in the array that is one in RESP2.
func (v wireValue) get(t *testing.T, key string) wireValue {
	t.Helper()
	if len(v.list)%2 != 0 || v.kind != '*' && v.kind != '%' {
		t.Fatalf("%v is no map", v)
	}
	for i := 0; i < len(v.list); i += 2 {
		if v.list[i].text == key {
			return v.list[i+1]
		}
	}
	t.Fatalf("no %q in %v", key, v)
	return wireValue{}
}

const wireSchema = "add counter weibo\nadd column weibo mid hint=64 max=64 primarykey\nadd column weibo comment hint=16 max=32 suffix=cntcm\n" +
	"add column weibo repost hint=16 max=32 suffix=cntrn\n"

// wireServe starts a server with an empty store in memory on a unix socket.
func wireServe(t testing.TB, change func(*config.Config)) *Server {
	t.Helper()
	return wireServeStore(t, "", counter.Options{}, change)
}

// wireServeStore starts a server with a new store in dir.
func wireServeStore(t testing.TB, dir string, options counter.Options, change func(*config.Config)) *Server {
	t.Helper()
	store, err := counter.Open(dir, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.AlterScript(wireSchema); err != nil {
		t.Fatal(err)
	}
	conf := config.Default()
	conf.Port, conf.UnixSocket = 0, filepath.Join(t.TempDir(), "s")
	if change != nil {
		change(&conf)
	}
	s, err := New(conf, slog.New(slog.DiscardHandler), new(slog.LevelVar))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Serve(store)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && err != counter.ErrClosed {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// wireClient is a connection to a server under test.
type wireClient struct {
	t     testing.TB
	conn  net.Conn
	r     *bufio.Reader
	proto int
}

// patience is how long a test waits for what must come: a lost reply fails the test instead of stopping it. It is far above what the race
// detector needs on a machine whose processors are all busy.
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

// send sends one command, its words parted by spaces.
func (c *wireClient) send(command string) {
	c.t.Helper()
	words := strings.Fields(command)
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := io.WriteString(c.conn, b.String()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *wireClient) read() wireValue {
	c.t.Helper()
	v, err := wireRead(c.r, c.proto)
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

// do sends one command and reads its reply.
func (c *wireClient) do(command string) wireValue {
	c.t.Helper()
	c.send(command)
	return c.read()
}

// want checks the reply to a command; see wireValue.String.
func (c *wireClient) want(command, reply string) {
	c.t.Helper()
	if got := c.do(command).String(); got != reply {
		c.t.Errorf("RESP%d %s: got %s, want %s", c.proto, command, got, reply)
	}
}

// ended checks that the server has closed the connection.
func (c *wireClient) ended() {
	c.t.Helper()
	if b, err := c.r.ReadByte(); err == nil {
		c.t.Errorf("got byte %q, want the end of the connection", b)
	}
}
