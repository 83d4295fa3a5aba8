package harness

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
)

// GoRedis returns a client of the server in the given version of the protocol; 0 means the library's own choice.
func GoRedis(t testing.TB, s *Server, protocol int) *redis.Client {
	t.Helper()
	// A retried INCR whose reply was lost counts twice: exact tests must not retry.
	c := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: protocol, MaxRetries: -1,
		DialTimeout: IoTimeout, ReadTimeout: IoTimeout, WriteTimeout: IoTimeout})
	t.Cleanup(func() { c.Close() })
	return c
}

// EachProtocol runs a test with go-redis as it comes, which is RESP3, and with RESP2.
func EachProtocol(t *testing.T, test func(t *testing.T, ctx context.Context, c *redis.Client)) {
	for _, p := range []struct {
		name     string
		protocol int
	}{{"default", 0}, {"RESP2", 2}} {
		t.Run(p.name, func(t *testing.T) {
			s := Start(t)
			RunScript(t, s.Dial(t), SchemaScript+PlainScript)
			test(t, t.Context(), GoRedis(t, s, p.protocol))
		})
	}
}

// Same fails when a call did not answer exactly what it should.
func Same[T comparable](t *testing.T, what string, got T, err error, want T) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("%s: got %v, error %v; want %v", what, got, err, want)
	}
}
