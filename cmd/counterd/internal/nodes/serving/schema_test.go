package serving

import (
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
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
	touch func() // nil: nothing is watched
}

func (h storeHost) Store() *counter.Store { return h.store }

func (h storeHost) TouchAll() {
	if h.touch != nil {
		h.touch()
	}
}

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

// TestTouchedBeforeSeen: a batch that finds the new schema of the cluster finds the clients that watch marked. EXEC is one.
func TestTouchedBeforeSeen(t *testing.T) {
	store, err := counter.Open("", counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	one, err := schema.ParseScript(strings.NewReader("add counter c"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	var marked atomic.Bool
	seen := make(chan bool, 1) // whether they were marked
	touch := func() {
		select { // until a batch has found the schema, if one can
		case was := <-seen:
			seen <- was
		case <-time.After(100 * time.Millisecond):
		}
		marked.Store(true)
	}
	go func() {
		for b := store.NewBatch(); ; runtime.Gosched() {
			if err := b.BeginExclusive(); err != nil {
				t.Error(err)
				close(seen)
				return
			}
			is, was := b.Schema().Counter("c") != nil, marked.Load()
			b.End()
			if is {
				seen <- was
				return
			}
		}
	}()
	c := &clusterSchema{m: &Member{host: storeHost{store: store, touch: touch}}}
	if err := c.putInForce(topology.Schema{Revision: 7, Text: string(one.AppendText(nil))}); err != nil {
		t.Fatal(err)
	}
	if !<-seen {
		t.Error("a batch found the new schema, and clients that watch were not marked")
	}
}
