package registry_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/etcdtest"
	"github.com/counterd/counterd/internal/testkit/tlstest"
)

var names atomic.Int64

// raw is a client of the test's own.
func raw(t *testing.T, etcd *etcdtest.Etcd) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func open(t *testing.T, conf registry.EtcdConfig, name string) registry.Registry {
	t.Helper()
	r, err := registry.OpenEtcd(conf, name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestConformance wants of etcd what registrytest wants of the one in memory.
func TestConformance(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	admin := raw(t, etcd)
	for _, c := range registrytest.Cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("case-%d", names.Add(1))
			conf := registry.EtcdConfig{Endpoints: etcd.Endpoints}
			c.Run(t, registrytest.Env{
				Open: func() registry.Registry { return open(t, conf, name) },
				Store: func() registry.Store {
					s, err := registry.OpenEtcdStore(conf, name)
					if err != nil {
						t.Fatal(err)
					}
					return s
				},
				Put: func(key string, value []byte) {
					if _, err := admin.Put(t.Context(), "/counterd/"+name+"/"+key, string(value)); err != nil {
						t.Fatal(err)
					}
				},
				Compact: func() {
					at, err := admin.Get(t.Context(), "x")
					if err == nil {
						_, err = admin.Compact(t.Context(), at.Header.Revision)
					}
					if err != nil && !errors.Is(err, context.Canceled) {
						t.Fatal(err)
					}
				},
			})
		})
	}
}

// TestNoSpace wants of etcd under its alarm NOSPACE what registrytest wants of the one in memory.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	admin := raw(t, etcd)
	registrytest.NoSpace.Run(t, registrytest.Env{
		Open: func() registry.Registry { return open(t, registry.EtcdConfig{Endpoints: etcd.Endpoints}, "full") },
		Full: func(full bool) {
			t.Helper()
			st, err := admin.Status(t.Context(), etcd.Endpoints[0])
			if err != nil {
				t.Fatal(err)
			}
			action := pb.AlarmRequest_DEACTIVATE
			if full {
				action = pb.AlarmRequest_ACTIVATE
			}
			if _, err := pb.NewMaintenanceClient(admin.ActiveConnection()).Alarm(t.Context(), &pb.AlarmRequest{Action: action, MemberID: st.Header.MemberId,
				Alarm: pb.AlarmType_NOSPACE}); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func id(i int) topology.NodeID { return topology.NodeID(fmt.Sprintf("%040x", i)) }

func newCluster(t *testing.T, r registry.Registry) {
	t.Helper()
	for _, change := range []func(m *topology.Map) (topology.Change, error){
		func(m *topology.Map) (topology.Change, error) {
			return topology.CreateCluster(m, "an id", time.Now(), 0, 1)
		},
		func(m *topology.Map) (topology.Change, error) {
			return topology.RegisterNode(m, topology.Node{ID: id(1), Host: "h", Port: 1})
		},
		func(m *topology.Map) (topology.Change, error) {
			return topology.AddShard(m, []topology.NodeID{id(1)}, slot.AllGroups())
		},
		func(m *topology.Map) (topology.Change, error) { return topology.Promote(m, 1, id(1)) },
	} {
		m, err := r.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c, err := change(m)
		if err == nil {
			err = r.Commit(t.Context(), c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestEtcdAway stops etcd in the middle: a commit that is not answered is unknown and happens later, a second one of the
// same keys conflicts and so tells. Watches go on from where they were, also behind a restart and a compaction.
func TestEtcdAway(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	conf := registry.EtcdConfig{Endpoints: etcd.Endpoints}
	a, b := open(t, conf, "away"), open(t, conf, "away")
	defer a.Close()
	defer b.Close()
	newCluster(t, a)
	maps := b.Watch(t.Context())
	m := <-maps
	for m.Shard(1) == nil || m.Shard(1).Epoch != 1 {
		m = <-maps
	}

	etcd.Signal(syscall.SIGSTOP)
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	c, err := topology.Promote(m, 1, id(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(short, c); !errors.Is(err, registry.ErrUnknown) || errors.Is(err, registry.ErrConflict) {
		t.Fatalf("got %v, want ErrUnknown", err)
	}
	etcd.Signal(syscall.SIGCONT)
	// One of the two has been made, whichever came first.
	touch, err := topology.Touch(m, 1)
	if err != nil {
		t.Fatal(err)
	}
	settled := a.Commit(t.Context(), touch)
	now, err := a.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	switch epoch := now.Shard(1).Epoch; {
	case settled == nil && epoch == 1, errors.Is(settled, registry.ErrConflict) && epoch == 2:
		t.Logf("epoch %d: %v", epoch, settled)
	default:
		t.Fatalf("got epoch %d and %v, want one of the two", epoch, settled)
	}

	etcd.Stop()
	short, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := a.Commit(short, c); !errors.Is(err, registry.ErrUnknown) {
		t.Fatalf("got %v, want ErrUnknown of an etcd that is gone", err)
	}
	etcd.Start()
	admin := raw(t, etcd)
	for range 3 {
		if now, err = a.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c, err = topology.Promote(now, 1, id(1)); err == nil {
			err = a.Commit(t.Context(), c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.Compact(t.Context(), now.Revision); err != nil {
		t.Fatal(err)
	}
	want := now.Shard(1).Epoch + 1
	for timeout := time.After(time.Minute); m.Shard(1).Epoch != want; {
		select {
		case next := <-maps:
			if next.Revision <= m.Revision {
				t.Fatalf("got revision %d behind %d", next.Revision, m.Revision)
			}
			m = next
		case <-timeout:
			t.Fatalf("got epoch %d, want %d: %v", m.Shard(1).Epoch, want, b.Err())
		}
	}
	if err := b.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestEtcdUsers wants a user's name, password and certificate to be used, and their lack to be told. etcd may be away when
// it is opened.
func TestEtcdUsers(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewCA(t)
	server, client := ca.Pair("server"), ca.Pair("client")
	conf := registry.EtcdConfig{CACert: ca.File, Cert: client.CertFile, Key: client.KeyFile, User: "counterd"}
	config, err := registry.TLS(registry.EtcdConfig{Endpoints: []string{"https://127.0.0.1"}, CACert: ca.File, Cert: client.CertFile, Key: client.KeyFile})
	if err != nil {
		t.Fatal(err)
	}
	etcd := etcdtest.Start(t, etcdtest.Options{TLS: config, Args: []string{"--cert-file", server.CertFile,
		"--key-file", server.KeyFile, "--trusted-ca-file", ca.File, "--client-cert-auth", "--bcrypt-cost", "4"}})
	conf.Endpoints = etcd.Endpoints
	admin, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints, TLS: config, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	ctx := t.Context()
	steps := []func() error{
		func() error { _, err := admin.RoleAdd(ctx, "counterd"); return err },
		func() error {
			_, err := admin.RoleGrantPermission(ctx, "counterd", "/counterd/users/", clientv3.GetPrefixRangeEnd("/counterd/users/"),
				clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := admin.UserAdd(ctx, "root", "root secret"); return err },
		func() error { _, err := admin.UserAdd(ctx, "counterd", "a secret"); return err },
		func() error { _, err := admin.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := admin.UserGrantRole(ctx, "counterd", "counterd"); return err },
		func() error { _, err := admin.AuthEnable(ctx); return err },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	file := t.TempDir() + "/password"
	if err := os.WriteFile(file, []byte("a secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	conf.PasswordFile = file
	etcd.Stop()
	r := open(t, conf, "users")
	defer r.Close()
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := r.Load(short); err == nil {
		t.Fatal("got a map from no etcd")
	}
	etcd.Start()
	newCluster(t, r)
	maps := r.Watch(ctx)
	lease, err := r.Register(ctx, id(1), 6*time.Second, topology.Live{Process: "one"}) // renewed after a third of it
	if err != nil {
		t.Fatal(err)
	}
	for first := lease.Deadline(); !lease.Deadline().After(first); time.Sleep(10 * time.Millisecond) {
		select {
		case <-lease.Lost():
			t.Fatal("the lease is lost")
		default:
		}
	}
	for m := range maps {
		if m.Live[id(1)] != nil {
			break
		}
	}
	if err := lease.Close(ctx); err != nil {
		t.Fatal(err)
	}

	wrong := conf
	wrong.PasswordFile, wrong.Password = "", "another"
	noCert := conf
	noCert.Cert, noCert.Key = "", ""
	for name, c := range map[string]registry.EtcdConfig{"users": wrong, "others": conf, "nocert": noCert} {
		r := open(t, c, map[string]string{"users": "users", "others": "others", "nocert": "users"}[name])
		limit := time.Minute // an etcd on a busy machine answers late
		if name == "nocert" {
			limit = time.Second // a connection that fails is tried again until then
		}
		short, cancel := context.WithTimeout(ctx, limit)
		_, err := r.Load(short)
		cancel()
		r.Close()
		want := map[string]string{"users": "authentication failed", "others": "permission denied", "nocert": ""}[name]
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error that says %s", name, err, want)
		}
	}
}

func TestEtcdConfig(t *testing.T) {
	dir := t.TempDir()
	public := dir + "/public"
	if err := os.WriteFile(public, []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	http, https := []string{"http://h:1"}, []string{"https://h:1"}
	for name, conf := range map[string]registry.EtcdConfig{
		"no endpoints":         {},
		"no scheme":            {Endpoints: []string{"h:2379"}},
		"two schemes":          {Endpoints: []string{"http://h:1", "https://h:2"}},
		"certificate for http": {Endpoints: http, CACert: "x"},
		"no such file":         {Endpoints: https, CACert: dir + "/none"},
		"no certificate":       {Endpoints: https, CACert: public},
		"certificate alone":    {Endpoints: https, Cert: public},
		"user alone":           {Endpoints: http, User: "u"},
		"password alone":       {Endpoints: http, Password: "p"},
		"public password":      {Endpoints: http, User: "u", PasswordFile: public},
	} {
		if _, err := registry.OpenEtcd(conf, "name"); err == nil {
			t.Errorf("%s: got no error", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"", "a/b", "a b", "ä", string(make([]byte, 101))} {
		if _, err := registry.OpenEtcd(registry.EtcdConfig{Endpoints: http}, bad); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}
