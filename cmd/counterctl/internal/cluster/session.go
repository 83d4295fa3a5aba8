package cluster

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/counterd/counterd/cmd/counterctl/internal/node"
	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
)

type (
	command = cli.Command
	action  = cli.Action
	output  = cli.Output
)

// errReported ends a command with status 1 after it has said all itself.
var errReported = cli.ErrReported

// misuse returns the error of a command line that cannot be run.
func misuse(format string, args ...any) error { return cli.Misuse(format, args...) }

// flagsOf are those of every command of a cluster.
type flagsOf struct {
	etcd registry.EtcdConfig
	urls string
	name string
	wait time.Duration
	yes  bool
	json bool
	node *connect.Flags // how the nodes are reached, where a command asks one
}

const (
	etcdVariable = "COUNTERD_ETCD"
	nameVariable = "COUNTERD_CLUSTER"
)

const commonHelp = `
The environment variables ` + etcdVariable + ` and ` + nameVariable + ` can take the place of --etcd and --name. A NODE is given as
HOST:PORT, or by its id or the first digits of it.`

// addFlags declares them. changes: the command asks before it changes something.
func addFlags(flags *pflag.FlagSet, changes bool) *flagsOf {
	f := &flagsOf{}
	flags.StringVar(&f.urls, "etcd", "", "`URLs` of the etcd members, separated by commas: http://HOST:2379")
	flags.StringVar(&f.name, "name", "", "name of the cluster")
	flags.StringVar(&f.etcd.User, "etcd-user", "", "user name for etcd")
	flags.StringVar(&f.etcd.PasswordFile, "etcd-pass-file", "", "file whose first line is the password for etcd")
	flags.StringVar(&f.etcd.CACert, "etcd-cacert", "", "file of the CA certificates that sign those of etcd (default: those of the system)")
	flags.StringVar(&f.etcd.Cert, "etcd-cert", "", "file of the client certificate for etcd")
	flags.StringVar(&f.etcd.Key, "etcd-key", "", "file of the private key of that certificate")
	flags.BoolVar(&f.etcd.Insecure, "etcd-insecure", false, "accept any certificate of etcd, which permits interception")
	flags.DurationVar(&f.wait, "wait", time.Minute, "how long to wait until the cluster has the requested state")
	if changes {
		flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask for confirmation")
	} else {
		flags.BoolVar(&f.json, "json", false, "print the result as JSON")
	}
	return f
}

// session is a command's sight of a cluster.
type session struct {
	registry.Registry
	flags *flagsOf
	out   output
}

// openRegistry is another in tests.
var openRegistry = registry.OpenEtcd

// withCluster makes an action of a function on a cluster.
func withCluster(f *flagsOf, run func(ctx context.Context, s *session, args []string) error) action {
	return func(ctx context.Context, out output, args []string) error {
		if f.urls == "" {
			f.urls = os.Getenv(etcdVariable)
		}
		if f.name == "" {
			f.name = os.Getenv(nameVariable)
		}
		if f.urls == "" || f.name == "" {
			return misuse("want --etcd URL[,URL] and --name NAME, or %s and %s in the environment", etcdVariable, nameVariable)
		}
		f.etcd.Endpoints = strings.Split(f.urls, ",")
		r, err := openRegistry(f.etcd, f.name)
		if err != nil {
			return misuse("%v", err)
		}
		defer r.Close()
		return run(ctx, &session{r, f, out}, args)
	}
}

// load reads the map of a cluster that is there.
func (s *session) load(ctx context.Context) (*topology.Map, error) {
	m, err := s.Load(ctx)
	if err == nil && !m.Created() {
		err = fmt.Errorf("etcd has no cluster %s, but %d nodes that wait for one (create it with counterctl cluster create)", s.flags.name, len(m.Nodes))
	}
	return m, err
}

// say prints the progress.
func (s *session) say(format string, args ...any) { fmt.Fprintf(s.out.Stderr, format+"\n", args...) }

// stdin is where an answer comes from; nil: from nobody. Tests put their own.
var stdin = func() io.Reader {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return os.Stdin
	}
	return nil
}

// confirm asks whether to execute the printed plan.
func (s *session) confirm() error {
	if s.flags.yes {
		return nil
	}
	in := stdin()
	if in == nil {
		return misuse("want --yes, because there is no terminal to ask: nothing was changed")
	}
	fmt.Fprint(s.out.Stderr, "Do this? Type yes: ")
	line, err := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(line) != "yes" {
		return errors.Join(errors.New("nothing was changed"), ignoreEOF(err))
	}
	return nil
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// change makes a change of the newest map, again where somebody else was quicker. An empty one is done already.
func (s *session) change(ctx context.Context, make func(m *topology.Map) (topology.Change, error)) (*topology.Map, error) {
	for range 100 {
		m, err := s.Load(ctx)
		if err != nil {
			return nil, err
		}
		c, err := make(m)
		if err != nil || len(c.Put)+len(c.Delete) == 0 {
			return m, err
		}
		switch err = s.Commit(ctx, c); {
		case err == nil:
			return s.Load(ctx)
		case errors.Is(err, registry.ErrUnknown):
			return nil, fmt.Errorf("%w (counterctl cluster status shows it; the command can be given again)", err)
		case !errors.Is(err, registry.ErrConflict):
			return nil, err
		}
	}
	return nil, errors.New("the cluster is changed by others all the time: try again")
}

// until waits until a map is as wanted: missing says what it lacks yet, empty for nothing. It prints the missing
// condition each time it changes.
func (s *session) until(ctx context.Context, what string, missing func(m *topology.Map) string) (*topology.Map, error) {
	limited, cancel := context.WithTimeout(ctx, s.flags.wait)
	defer cancel()
	last := ""
	for m := range s.Watch(limited) {
		now := missing(m)
		if now == "" {
			return m, nil
		}
		if now != last {
			s.say("%s", now)
			last = now
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if last == "" {
		last = "etcd did not answer"
	}
	return nil, fmt.Errorf("%s: not done within %s: %s (--wait sets a longer limit; what was started continues)", what, s.flags.wait, last)
}

// find is the node that a word means.
func find(m *topology.Map, word string) (*topology.Node, error) {
	var found []*topology.Node
	for _, id := range slices.Sorted(maps.Keys(m.Nodes)) {
		n := m.Nodes[id]
		if len(word) >= 4 && strings.HasPrefix(string(id), word) || slices.Contains(addresses(m, n), word) {
			found = append(found, n)
		}
	}
	if len(found) == 0 {
		if host, port, err := net.SplitHostPort(word); err == nil { // by another name of its
			found = resolve(m, host, port)
		}
	}
	switch len(found) {
	case 0:
		return nil, &unknownNode{word}
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%s is %d nodes, %s and %s among them", word, len(found), found[0].ID, found[1].ID)
}

// unknownNode says that no node has registered itself that a word could mean.
type unknownNode struct{ word string }

func (e *unknownNode) Error() string {
	return fmt.Sprintf("no node %s is registered in etcd under this cluster name (counterctl cluster status lists the registered nodes)", e.word)
}

func addresses(m *topology.Map, n *topology.Node) (list []string) {
	for _, port := range []int{n.Port, n.TLSPort} {
		if port != 0 {
			list = append(list, net.JoinHostPort(n.Host, strconv.Itoa(port)))
		}
	}
	if live := m.Live[n.ID]; live != nil {
		list = append(list, live.Address)
	}
	return list
}

func resolve(m *topology.Map, host, port string) (found []*topology.Node) {
	mine, err := net.LookupHost(host)
	if err != nil {
		return nil
	}
	for _, n := range m.Nodes {
		if strconv.Itoa(n.Port) != port && strconv.Itoa(n.TLSPort) != port {
			continue
		}
		theirs, _ := net.LookupHost(n.Host)
		if slices.ContainsFunc(theirs, func(ip string) bool { return slices.Contains(mine, ip) }) {
			found = append(found, n)
		}
	}
	return found
}

// address is how the tool reaches a node.
func (s *session) address(n *topology.Node) (string, error) {
	port := n.Port
	if s.flags.node.TLS {
		port = n.TLSPort
	}
	if port == 0 {
		return "", fmt.Errorf("node %s has the ports %d and %d for TLS: want --tls, or not", n.ID, n.Port, n.TLSPort)
	}
	return net.JoinHostPort(n.Host, strconv.Itoa(port)), nil
}

// ask sends one command to a node.
func (s *session) ask(ctx context.Context, n *topology.Node, args ...string) ([]string, error) {
	addr, err := s.address(n)
	if err != nil {
		return nil, err
	}
	c, err := node.Dial(ctx, addr, s.flags.node)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(args...)
}

// label is a node for people.
func label(m *topology.Map, id topology.NodeID) string {
	if n := m.Nodes[id]; n != nil {
		return n.Addr(false)
	}
	return string(id[:min(len(id), 8)])
}

func labels(m *topology.Map, ids []topology.NodeID) string {
	var list []string
	for _, id := range ids {
		list = append(list, label(m, id))
	}
	return strings.Join(list, ", ")
}

// randomID is the id of a move or a cluster.
func randomID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// shardArg reads a shard's number.
func shardArg(m *topology.Map, word string) (*topology.Shard, error) {
	n, err := strconv.Atoi(word)
	if err != nil {
		return nil, misuse("got shard %q, want a number", word)
	}
	if s := m.Shard(topology.ShardID(n)); s != nil {
		return s, nil
	}
	var ids []string
	for _, s := range m.Shards {
		ids = append(ids, strconv.Itoa(int(s.ID)))
	}
	return nil, fmt.Errorf("there is no shard %d, but %s", n, strings.Join(ids, ", "))
}
