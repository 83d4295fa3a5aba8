package role

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/counter"
)

// patience is for what takes no time: a machine may be busy.
const patience = 3 * time.Minute

// testHost is a server without connections, whose data is in memory.
type testHost struct{ store *counter.Store }

func (h *testHost) Store() *counter.Store { return h.store }
func (h *testHost) Opening() bool         { return false }
func (h *testHost) Reopen(func(dir string) error) error {
	return errors.New("it cannot be opened again")
}
func (h *testHost) Machine() Machine                                 { return Machine{} }
func (h *testHost) LinkTLS(string) (*tls.Config, error)              { return nil, nil }
func (h *testHost) Publish(shard bool, channel string, words []byte) {}
func (h *testHost) GiveWay()                                         {}

func newTestRole(t *testing.T, change func(*config.Config)) *Role {
	t.Helper()
	store, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conf := config.Default()
	if change != nil {
		change(&conf)
	}
	n := New(&testHost{store}, config.NewLive(conf), "run", slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := errors.Join(n.Close(context.Background()), store.Close()); err != nil {
			t.Error(err)
		}
		n.Wait()
	})
	return n
}

// TestIsMe compares addresses with the node's own. Names are looked up: with a resolver that does not answer whoever
// gives up does not wait.
func TestIsMe(t *testing.T) {
	n := newTestRole(t, func(c *config.Config) { c.Port, c.AnnounceIP, c.AnnouncePort = 7001, "my.name", 7002 })
	for _, c := range []struct {
		host string
		port int
		want bool
	}{
		{"127.0.0.1", 7001, true}, {"localhost", 7001, true}, {"127.0.0.1", 7002, true}, {"my.name", 7002, true}, {"my.name", 7001, true},
		{"127.0.0.1", 7003, false}, {"192.0.2.1", 7001, false},
	} {
		if got := n.isMe(t.Context(), repl.Address{Host: c.host, Port: c.port}); got != c.want {
			t.Errorf("%s %d: %t, want %t", c.host, c.port, got, c.want)
		}
	}
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	n.names = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		asked <- struct{}{}
		if <-ctx.Done(); ctx.Err() == context.DeadlineExceeded { // the resolver's own, which must not help the test
			<-answer
		}
		return nil, ctx.Err()
	}}
	defer close(answer)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan bool)
	go func() { done <- n.isMe(ctx, repl.Address{Host: "nobody.example", Port: 7001}) }()
	<-asked
	cancel()
	select {
	case is := <-done:
		if is {
			t.Error("a name that nobody knows is this node's")
		}
	case <-time.After(patience):
		t.Error("a name is looked up by who has given up")
	}
}
