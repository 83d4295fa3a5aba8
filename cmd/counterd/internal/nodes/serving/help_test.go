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

// emptyRegistry is an etcd without any node, or with one free node. When it was asked for another one, the node's process ends.
type emptyRegistry struct {
	registry.Registry
	free  topology.NodeID
	asked func()
}

func (r emptyRegistry) Load(context.Context) (*topology.Map, error) {
	if r.free != "" {
		return &topology.Map{Nodes: map[topology.NodeID]*topology.Node{r.free: {ID: r.free}}}, nil
	}
	r.asked()
	return &topology.Map{}, nil
}

// roleHost is a server that opens its store.
type roleHost struct {
	role.Host
	store *counter.Store // a placeholder
}

func (roleHost) Machine() role.Machine   { return role.Machine{} }
func (h roleHost) Store() *counter.Store { return h.store }

// TestNewNodeDamaged: a node whose files were damaged before it had a part in the cluster is opened as a new node if its directory holds
// nothing. It waited for a person: etcd did not know it. The same holds for a free node: it healed, and could not be the first primary of a shard. A node that may have data waits, keeps its files as they are, and its log names the steps for a person.
func TestNewNodeDamaged(t *testing.T) {
	_, placeholder := bareMember(t)
	for _, c := range []struct {
		name    string
		history bool // both files are damaged, too
		data    bool
		joined  bool
		free    bool // etcd knows the node
		opens   bool
	}{
		{name: "the log", opens: true},
		{name: "the log and HISTORY", history: true, opens: true},
		{name: "a log with data, and HISTORY", history: true, data: true},
		{name: "the log of a node of a cluster", joined: true},
		{name: "the log of a free node", free: true, opens: true},
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
			if err == nil && c.joined {
				err = home.Join("abc")
			}
			if err == nil && c.free {
				err = home.SetStarts([]topology.Start{{Count: 1, Token: "a"}})
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
			etcd := emptyRegistry{asked: n.EndOpening}
			if c.free {
				etcd.free = home.Node()
			}
			m.UseRegistry(etcd)
			store, err = n.Open(open)
			_, aside := os.Stat(filepath.Join(conf.Dir, format.DamagedName(format.LogDirName, 1)))
			if !c.opens {
				if err == nil || aside == nil || !strings.Contains(told.String(), "etcd does not know this node. If etcd") {
					t.Errorf("%v; aside: %v; told %q", err, aside, told.String())
				}
				return
			}
			if err != nil || aside != nil || n.Replication().Healing() != nil {
				t.Fatalf("%v; aside: %v; healing %v; told %q", err, aside, n.Replication().Healing(), told.String())
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
