package serving

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// fixedRegistry is an etcd with one map. asked is called when it was read; nil: nothing is.
type fixedRegistry struct {
	registry.Registry
	m     topology.Map
	asked func()
}

func (r fixedRegistry) Load(context.Context) (*topology.Map, error) {
	if r.asked != nil {
		r.asked()
	}
	return &r.m, nil
}

// roleHost is a server that opens its store.
type roleHost struct {
	role.Host
	store *counter.Store // a placeholder
}

func (roleHost) Machine() role.Machine   { return role.Machine{} }
func (h roleHost) Store() *counter.Store { return h.store }

// TestNewNodeDamaged: a node whose files were damaged before it had a part in the cluster is opened as a new node if its directory holds
// nothing. It waited for a person: etcd did not know it. The same holds for a free node. A node that may have the only copy of its
// data waits, keeps its files as they are, and its log names the steps for a person: a free node with data of no cluster, of another one, or newer than etcd
// set them aside. A node that the cluster has released copies another node's.
func TestNewNodeDamaged(t *testing.T) {
	_, placeholder := bareMember(t)
	const unknown = "etcd does not know this node. If etcd"
	for _, c := range []struct {
		name    string
		history bool   // both files are damaged, too
		data    bool   // that clients made
		joined  string // the cluster that the directory is of
		free    uint64 // etcd knows the node, and this start of it; the directory has start 2
		heals   bool   // its files are set aside
		waits   string // for a person, as the log says
	}{
		{name: "the log"},
		{name: "the log and HISTORY", history: true},
		{name: "a log with data, and HISTORY", history: true, data: true, waits: unknown},
		{name: "the log of a node of a cluster", joined: "abc", waits: unknown},
		{name: "the log of a free node", free: 2},
		{name: "a log with data, of a free node of no cluster", data: true, free: 2, waits: "has never had a part in a cluster. No other node is known to have its data"},
		{name: "a log with data, of a free node of another cluster", data: true, joined: "other", free: 2, waits: "is of cluster other, and etcd has"},
		{name: "a log with data, of a free node, and an older etcd", data: true, joined: "abc", free: 1, waits: "etcd was restored from an older backup"},
		{name: "a log with data, of a node that was released", data: true, joined: "abc", free: 2, heals: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := config.Default()
			conf.Dir = t.TempDir()
			open := func() (*counter.Store, error) { return counter.Open(conf.Dir, counter.Options{Elected: !c.data}) }
			store, err := open()
			if err == nil && c.data { // it was a single server's
				err = errors.Join(store.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"), store.Set("1.n", 7))
			}
			if err := errors.Join(err, store.Close()); err != nil {
				t.Fatal(err)
			}
			home, err := cluster.OpenDirectory(vfs.OS(), conf.Dir)
			if err == nil && c.joined != "" {
				err = home.Join(c.joined)
			}
			if err == nil && c.free != 0 {
				err = home.SetStarts([]topology.Start{{Count: 2, Token: "b"}})
			}
			if err != nil {
				t.Fatal(err)
			}
			damaged := []string{filepath.Join(format.LogDirName, format.SegmentName(0))}
			if c.history {
				damaged = append(damaged, format.HistoryName, format.HistoryName+vfs.CopySuffix)
			}
			for _, name := range damaged {
				b, err := os.ReadFile(filepath.Join(conf.Dir, name))
				if err == nil {
					clear(b[:min(len(b), 64)])
					err = os.WriteFile(filepath.Join(conf.Dir, name), b, 0o640)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			var told strings.Builder
			log := slog.New(slog.NewTextHandler(&told, nil))
			n := role.New(roleHost{store: placeholder}, config.NewLive(conf), "run", log)
			m := New(nil, n, config.NewLive(conf), log)
			var etcd fixedRegistry
			if c.free != 0 {
				node := &topology.Node{ID: home.Node(), Start: topology.Start{Count: c.free, Token: "b"}}
				etcd.m = topology.Map{Cluster: topology.Cluster{ID: "abc"}, Nodes: map[topology.NodeID]*topology.Node{node.ID: node}}
			}
			if c.waits != "" { // until its process ends
				etcd.asked = n.EndOpening
			}
			m.UseRegistry(etcd)
			store, err = n.Open(open)
			_, aside := os.Stat(filepath.Join(conf.Dir, format.DamagedName(format.LogDirName, 1)))
			if c.waits != "" {
				if err == nil || aside == nil || !strings.Contains(told.String(), c.waits) {
					t.Errorf("%v; aside: %v; told %q, want %q", err, aside, told.String(), c.waits)
				}
				return
			}
			if err != nil || aside != nil || c.heals != (n.Replication().Healing() != nil) {
				t.Fatalf("%v; aside: %v; healing %v; told %q", err, aside, n.Replication().Healing(), told.String())
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
