package serving

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// storeHost is a server that is a store and nothing else.
type storeHost struct {
	Host
	store *counter.Store
}

func (h storeHost) Store() *counter.Store { return h.store }
func (h storeHost) TouchAll()             {}

// TestSchemaOfNewEpoch: a node whose log had the newest schema as a replica, and lost it to another primary's log, puts it
// in force when it leads.
func TestSchemaOfNewEpoch(t *testing.T) {
	store, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	m := &Member{host: storeHost{store: store}, log: slog.New(slog.DiscardHandler), news: make(chan struct{})}
	m.joined = &joined{host: newAgentHost(m)}
	c := &m.joined.host.schema
	one, err := schema.ParseScript(strings.NewReader("add counter c"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	st := &cluster.Standing{Primary: true, Map: &topology.Map{Schema: topology.Schema{Revision: 7, Text: string(one.AppendText(nil))}}, Shard: &topology.Shard{ID: 1, Epoch: 2}}
	c.has, c.epoch = 7, 1 // as if its log had it, in the epoch before
	c.adoptNewer(st)
	for end := time.Now().Add(3 * time.Minute); store.Schema().Counter("c") == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the schema is not in force")
		}
	}
	for c.revision() != 7 {
		time.Sleep(time.Millisecond)
	}
}
