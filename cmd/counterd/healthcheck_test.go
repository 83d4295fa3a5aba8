package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
)

// TestClientAddress: a health check goes to the first address that serves clients, by TLS only where there is no other.
func TestClientAddress(t *testing.T) {
	for _, c := range []struct {
		change func(*config.Config)
		want   string
		secure bool
	}{
		{func(*config.Config) {}, "127.0.0.1:6379", false},
		{func(c *config.Config) { c.Bind, c.Port = []string{"*"}, 7000 }, "127.0.0.1:7000", false},
		{func(c *config.Config) { c.Bind = []string{"10.0.0.5", "127.0.0.1"} }, "10.0.0.5:6379", false},
		{func(c *config.Config) { c.Bind = []string{"-::1"} }, "[::1]:6379", false},
		{func(c *config.Config) { c.Bind = []string{"::*"} }, "[::1]:6379", false},
		{func(c *config.Config) { c.TLS.Port = 6390 }, "127.0.0.1:6379", false},
		{func(c *config.Config) { c.Port, c.TLS.Port = 0, 6390 }, "127.0.0.1:6390", true},
		{func(c *config.Config) { c.Port, c.UnixSocket = 0, "/run/s" }, "/run/s", false},
		{func(c *config.Config) { c.Port = 0 }, "", false},
	} {
		conf := config.Default()
		c.change(&conf)
		if addr, secure := clientAddress(&conf); addr != c.want || secure != c.secure {
			t.Errorf("%v port %d: got %q, %v, want %q, %v", conf.Bind, conf.Port, addr, secure, c.want, c.secure)
		}
	}
}

// TestHealthCheckPipe: settings that came through a pipe are refused, and not waited for.
func TestHealthCheckPipe(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("port 7001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if conf, err := settingsIn(dir, []string{"counterd", "--config", "file"}); err != nil || conf.Port != 7001 {
		t.Errorf("a file: got port %d, %v", conf.Port, err)
	}
	if _, err := settingsIn(dir, []string{"counterd", pipe}); err == nil || !strings.Contains(err.Error(), "use counterctl ping") {
		t.Errorf("a pipe: got %v", err)
	}
}
