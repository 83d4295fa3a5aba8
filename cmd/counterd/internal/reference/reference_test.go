package reference

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/server"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/errclass"
	"github.com/counterd/counterd/internal/testkit/docpage"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// schema is that of the examples.
const schema = "add counter weibo\nadd column weibo comment hint=16 max=32 suffix=cntcm\n" +
	"add column weibo repost hint=16 max=32 suffix=cntrn\nadd column weibo attitude hint=8 max=32 suffix=cntan\n"

// serve starts a server with that schema and returns the path of its socket.
func serve(t *testing.T) (socket string) {
	t.Helper()
	store, err := counter.Open(t.TempDir(), counter.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.AlterScript(schema); err != nil {
		t.Fatal(err)
	}
	conf := config.Default()
	conf.Port, conf.UnixSocket = 0, filepath.Join(t.TempDir(), "s")
	s, err := server.New(conf, slog.New(slog.DiscardHandler), new(slog.LevelVar))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Serve(store)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return conf.UnixSocket
}

// client is a connection in RESP2.
type client struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func dial(t *testing.T, socket string) *client {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) do(args ...string) resptest.Value {
	c.t.Helper()
	if _, err := c.conn.Write(resptest.Append(nil, args...)); err != nil {
		c.t.Fatal(err)
	}
	v, err := resptest.Read(c.r, 2)
	if err != nil {
		c.t.Fatalf("%q: %v", args, err)
	}
	return v
}

// TestReferenceSettings makes docs/reference/settings.md.
func TestReferenceSettings(t *testing.T) {
	var out strings.Builder
	for _, section := range config.Describe() {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n", section.Title, section.About)
		for i := range section.Settings {
			setting(&out, &section.Settings[i])
		}
	}
	docpage.Check(t, "docs/reference/settings.md", "settings", out.String())
}

func setting(out *strings.Builder, d *config.Description) {
	fmt.Fprintf(out, "\n### %s\n\n", d.Name)
	for _, text := range []string{d.Usage, d.Detail} {
		if text != "" {
			fmt.Fprintf(out, "%s\n\n", text)
		}
	}
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(out, "- %s: %s\n", name, value)
		}
	}
	code := func(s string) string {
		if s == "" {
			return ""
		}
		return "`" + s + "`"
	}
	if !d.Flag {
		row("Value", code(`"`+d.Default+`"`))
		return
	}
	row("Value", code(d.Arg))
	row("Unit", d.Unit)
	row("Valid", d.Values)
	if d.Default == "" {
		row("Default", "empty")
	} else {
		row("Default", code(d.Default))
	}
	switch {
	case d.Runtime:
		row("At run time", "`CONFIG SET` changes it")
	case d.Config:
		row("At run time", "`CONFIG GET` shows it; a change needs a restart")
	default:
		row("At run time", "`CONFIG GET` does not show it; a change needs a restart")
	}
	row("Old name", code(d.OldName))
	if d.Secret {
		row("Secret", "logs, `SLOWLOG` and `MONITOR` never show the value")
	}
}

// TestReferenceErrors makes the table of docs/reference/errors.md.
func TestReferenceErrors(t *testing.T) {
	var out strings.Builder
	out.WriteString("| Error | Class | Meaning |\n|---|---|---|\n")
	for _, row := range errclass.Table() {
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", row.Code, row.Class, row.Means)
	}
	docpage.Check(t, "docs/reference/errors.md", "errors", out.String())
}
