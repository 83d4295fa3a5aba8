package cluster

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/etcdtest"
	"github.com/counterd/counterd/internal/testkit/tlstest"
)

// replacePair puts a certificate and its key in the place of others, as a tool that renews certificates does.
func replacePair(t *testing.T, to, from tlstest.Pair) {
	t.Helper()
	for old, path := range map[string]string{to.CertFile: from.CertFile, to.KeyFile: from.KeyFile} {
		text, err := os.ReadFile(path)
		if err == nil {
			if err = os.WriteFile(old+".new", text, 0o600); err == nil {
				err = os.Rename(old+".new", old)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestClusterEtcdTLS runs a node whose etcd wants TLS, a client's certificate, a user and a password. Certificates of both sides
// are replaced while the node runs. With a bad one the node and counterctl say why; with a good one the node goes on by itself.
func TestClusterEtcdTLS(t *testing.T) {
	t.Parallel()
	if _, ok := harness.Tool(t, "etcd"); !ok {
		return
	}
	ca, otherCA := tlstest.NewCA(t), tlstest.NewCA(t)
	server, client, admin := ca.Pair("server"), ca.Pair("client"), ca.Pair("admin")
	expire := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	reach := ca.Client(admin)
	reach.InsecureSkipVerify = true // this test starts etcd with certificates that nobody should believe
	etcd := etcdtest.Start(t, etcdtest.Options{TLS: reach, Args: []string{"--cert-file", server.CertFile, "--key-file", server.KeyFile,
		"--trusted-ca-file", ca.File, "--client-cert-auth", "--bcrypt-cost", "4"}})
	c, err := clientv3.New(clientv3.Config{Endpoints: etcd.Endpoints, TLS: reach, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	for _, step := range []func() error{
		func() error { _, err := c.RoleAdd(ctx, "counterd"); return err },
		func() error {
			_, err := c.RoleGrantPermission(ctx, "counterd", "/counterd/", clientv3.GetPrefixRangeEnd("/counterd/"), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := c.UserAdd(ctx, "root", "root secret"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := c.UserAdd(ctx, "counterd", "a secret"); return err },
		func() error { _, err := c.UserGrantRole(ctx, "counterd", "counterd"); return err },
		func() error { _, err := c.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("a secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := strings.Join(etcd.Endpoints, ",")
	node := harness.Start(t, "--cluster-enabled", "yes", "--cluster-name", "weibo", "--cluster-etcd", url, "--cluster-node-timeout", "2000", "--cluster-announce-ip", "127.0.0.1",
		"--cluster-etcd-cacert", ca.File, "--cluster-etcd-cert", client.CertFile, "--cluster-etcd-key", client.KeyFile, "--cluster-etcd-user", "counterd", "--cluster-etcd-password-file", password)
	options := []string{"--etcd", url, "--name", "weibo", "--etcd-cacert", ca.File, "--etcd-cert", client.CertFile, "--etcd-key", client.KeyFile, "--etcd-user", "counterd", "--etcd-pass-file", password}
	ctl := func(words ...string) []string { return slices.Concat([]string{"cluster"}, words, options) }
	harness.WantCtl(t, 0, ctl("create", "--shards", "1", "--replicas", "0", "--yes", node.Addr), "the cluster weibo serves")
	conn := node.Dial(t)
	harness.RunScript(t, conn, clusterSchema)
	conn.Want(":1\r\n", "INCR", "{7}.n")
	serves := func() bool { return harness.Ask(node.Addr, "GET", "{7}.n") == "$1\r\n1\r\n" }

	for _, bad := range []struct {
		name  string
		place tlstest.Pair
		by    tlstest.Pair
		says  []string // one of them
	}{
		{"the node's certificate has expired", client, ca.Signed("client-expired", expire), []string{"expired certificate", "bad certificate"}},
		{"etcd's certificate is of another CA", server, otherCA.Pair("server-other"), []string{"signed by unknown authority"}},
	} {
		said := func(text string) bool {
			return slices.ContainsFunc(bad.says, func(word string) bool { return strings.Contains(text, word) })
		}
		good := ca.Pair("good-" + strings.ReplaceAll(bad.name, " ", "-"))
		from := node.Log.Size()
		replacePair(t, bad.place, bad.by)
		etcd.Stop()
		etcd.Start()
		harness.Eventually(t, time.Minute, bad.name+": reads are refused", func() bool { return !serves() })
		harness.Eventually(t, time.Minute, bad.name+": the node says why", func() bool { return said(node.Log.From(from)) })
		harness.Eventually(t, time.Minute, bad.name+": counterctl says why", func() bool {
			out, status := harness.Counterctl(t, ctl("status")...)
			return status == 1 && said(out) // or that the connection broke before etcd said why
		})
		replacePair(t, bad.place, good)
		harness.Eventually(t, time.Minute, bad.name+": the node goes on with a new certificate", serves)
	}
	conn = node.Dial(t)
	conn.Want(":2\r\n", "INCR", "{7}.n")
}
