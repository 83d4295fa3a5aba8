package main

import (
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
