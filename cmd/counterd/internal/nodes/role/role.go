package role

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/restore"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/vfs"
)

// Host is the server around a node.
type Host interface {
	// Store is the one being served.
	Store() *counter.Store
	// Opening tells whether a store is being opened: Store then returns a placeholder.
	Opening() bool
	// Reopen closes the store, lets change work on its directory, and opens it again whatever change returned, which it
	// returns. Clients are answered LOADING meanwhile.
	Reopen(change func(dir string) error) error
	// Publish gives the subscribers of this node, and of its replicas, a message of the primary; shard: one of SPUBLISH.
	// It does not wait.
	Publish(shard bool, channel string, message []byte)
	// GiveWay lets others have their turn. Work that takes long calls it every 0.1 ms or so.
	GiveWay()
	// LinkTLS is how a connection to another node, at a host, is encrypted; nil: it is not.
	LinkTLS(host string) (*tls.Config, error)
	// Machine has the network and the file system.
	Machine() Machine
}

// Machine is the network and the file system of a node, where they are not the system's: tests simulate them. Fields that
// are nil are the system's.
type Machine struct {
	Listen  func(network, address string) (net.Listener, error)
	Connect wire.Connect
	FS      vfs.FS
	BootID  string // see counter.Options
	Crowded bool   // the process has other servers too: none of them keeps house with its memory
}

// Role is the role of a server as one of several nodes: primary or replica. All methods may be called concurrently.
type Role struct {
	Guard

	host   Host
	repl   *repl.Node
	config *config.Live
	log    *slog.Logger
	life   *life
	runID  string        // of the server
	names  *net.Resolver // looks up host names; nil is Go's own

	elected string     // of a cluster's node, its id: see Elect
	changed func()     // see Elect; nil: nobody is told
	roles   sync.Mutex // held while the role changes together with the setting that tells of it

	serves     peerServer // answers replicas
	waits      ackWaiter  // answers WAIT and WAITAOF
	handover   handover
	held       heldWrites
	awaiting   atomic.Uint32 // whether a primary waits for Sentinel's word: await...
	view       sentinelView
	watched    atomic.Bool     // the store knows that Sentinel watches
	opening    context.Context // ends when nobody waits for the store any more
	endOpening context.CancelFunc
	opened     atomic.Bool
	help       func(context.Context) (repl.Address, error) // see HelpBy; nil: the node is of no cluster
	members    func(context.Context) []repl.Address        // see HelpBy; may be nil
	inSync     func(context.Context) error                 // see HelpBy; may be nil
	told       toldHelp

	// wasReplica is the role to show while a store is being opened.
	wasReplica atomic.Bool
}

// New makes the Role of a server. Start decides which it is.
func New(host Host, conf *config.Live, runID string, log *slog.Logger) *Role {
	n := &Role{host: host, config: conf, log: log, life: newLife(), runID: runID}
	n.opening, n.endOpening = context.WithCancel(context.Background())
	n.repl = repl.NewNode(n, n.settings, log)
	n.repl.Peers().Pause = host.GiveWay
	n.serves = peerServer{host: host, repl: n.repl, log: log, feeds: n.handover.feeds, roleChanged: n.RoleChanged}
	n.waits = ackWaiter{host: host, peers: n.repl.Peers()}
	primary, _ := primaryOf(conf.Get()) // a configuration in force is valid
	n.wasReplica.Store(primary != repl.Address{})
	return n
}

// Close ends what the node does: the link to its primary, the connections of its replicas, a handover. It waits until that
// is done or ctx ends. In the second case it returns the error of ctx. Behind it Wait returns when all of it has ended.
func (n *Role) Close(ctx context.Context) error {
	n.endOpening()
	n.life.stop()
	return n.repl.Close(ctx)
}

// Wait waits until a closed node has finished its work.
func (n *Role) Wait() { n.life.running.Wait() }

// Elect makes the node one of a cluster: only the cluster's agent decides its role (Replication). changed is called when
// role or link may have changed; it must not wait. Call it before Start and before there is a link.
func (n *Role) Elect(id string, changed func()) {
	n.elected, n.changed = id, changed
	n.repl.OnEpoch(func(uint64) { changed() })
}

// Peers are the replicas that this node feeds.
func (n *Role) Peers() *repl.Peers { return n.repl.Peers() }

// Replication is the node's part in replication itself: its link, its peers, and its notes of roles.
func (n *Role) Replication() *repl.Node { return n.repl }

// Store is the host's: see repl.Host.
func (n *Role) Store() *counter.Store { return n.host.Store() }

// Reopen is the host's: see repl.Host.
func (n *Role) Reopen(change func(dir string) error) error {
	n.wasReplica.Store(n.host.Store().Replica())
	defer n.RoleChanged()
	return n.host.Reopen(change)
}

// Open opens a store in the directory of the configuration by open. A damaged directory is emptied where another node has
// the data: see repl.Node.Open. The guard knows so before anybody sees the store. At the start of the process the search for
// that node may last until EndOpening; later, reopenAsk at most.
func (n *Role) Open(open func() (*counter.Store, error)) (*counter.Store, error) {
	c := n.config.Get()
	dir := c.Dir
	if !c.AppendOnly {
		dir = ""
	}
	defer n.RoleChanged()
	ctx := n.opening
	if !n.opened.Load() && n.elected == "" && dir != "" {
		n.wasReplica.Store(c.ReplicaOf != "" || !n.repl.Healer().MayLead(dir)) // Sentinel takes a replica that says that it is a master for promoted
	}
	if n.opened.Load() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, reopenAsk)
		defer cancel()
	}
	store, err := n.repl.Open(ctx, dir, newHelpSearch(n), open)
	if err == nil && !n.opened.Swap(true) && c.HealFrom != "" && dir != "" {
		if err := restore.Clear(dir); err != nil {
			n.log.Warn("cannot remove what a healing left behind", "error", err)
		}
	}
	return store, err
}

// reopenAsk is how long a node that finds damage while it is running looks for another one with its data. It may be about to
// become primary, and others wait for it.
const reopenAsk = 5 * time.Second

// EndOpening ends the search for a node that has the data of a damaged directory: see Open.
func (n *Role) EndOpening() { n.endOpening() }

// Publish is the host's: see repl.Host.
func (n *Role) Publish(shard bool, channel string, message []byte) {
	n.host.Publish(shard, channel, message)
}

// Replica tells whether this node is one, also while a store is being opened. Sentinel, clients and people are told this
// role.
func (n *Role) Replica() bool {
	if n.host.Opening() {
		return n.wasReplica.Load()
	}
	_, linked := n.repl.Link() // it may wait for the disk to make the store a replica
	return linked || n.host.Store().Replica()
}

// Dial connects to another node, at host:port, as links do. When ctx ends so does the connection.
func (n *Role) Dial(ctx context.Context, address string, o wire.Options) (*wire.Conn, error) {
	to, err := repl.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	return n.settings().Dial(ctx, to, o)
}

// Settings are those of connections to other nodes.
func (n *Role) Settings() repl.Settings { return n.settings() }

// settings are the settings for package repl.
func (n *Role) settings() repl.Settings {
	c := n.config.Get()
	machine := n.host.Machine()
	return repl.Settings{MasterAuth: c.MasterAuth, MasterUser: c.MasterUser, Port: c.Listening(), AnnounceIP: c.AnnounceIP, AnnouncePort: c.AnnouncePort,
		NodeID:  n.elected,
		Timeout: time.Duration(c.ReplTimeout) * time.Second, CompareBudget: time.Duration(c.CompareCPU) * time.Microsecond, TLS: n.host.LinkTLS, Connect: machine.Connect, FS: machine.FS, BootID: machine.BootID}
}
