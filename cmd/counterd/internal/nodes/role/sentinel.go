package role

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/counter"
)

// Knowledge that a node gets from Sentinel's messages to others. Each Sentinel publishes, on every node it watches and
// each 2 s, who it is and who the primary is:
//
//	__sentinel__:hello  ip,port,runid,epoch,name,primary's ip,primary's port,primary's epoch
//
// A plain server that was killed as primary takes changes again as soon as it is back, until Sentinel makes it a
// replica: 10 s in trials, as long as after a stop of the process, a partition, or SENTINEL FAILOVER; and all of them
// are lost. So a node that Sentinel watched refuses changes after a restart until one names it, and a primary that was
// named refuses them as soon as it hears that another was named behind it, in a later epoch.

// HelloChannel is where Sentinels publish.
const HelloChannel = "__sentinel__:hello"

// Why a primary that Sentinel watches refuses changes.
const (
	ErrAwait   = "READONLY this node was monitored by Sentinel before its restart and waits for Sentinel to confirm that it is primary. REPLICAOF NO ONE makes it primary"
	ErrDeposed = "READONLY Sentinel reported another node as primary, and this node waits for REPLICAOF. REPLICAOF NO ONE makes it a primary"
)

// sentinelView is the newest word of Sentinel about who is the primary. An epoch has one primary, which most Sentinels
// agreed on.
type sentinelView struct {
	mu    sync.Mutex // guards the rest
	name  string     // of the group of nodes
	epoch uint64
	here  bool // this node

	// After this node was the primary and another was named: the Sentinels, by their run ids, that have said so; nil:
	// it was not.
	said map[string]bool
}

// hear takes a word. known is false if it is older than an earlier message; deposed is set if this node was the
// primary in an earlier epoch and another is now.
func (v *sentinelView) hear(name string, epoch uint64, here bool) (known, deposed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if name != v.name && v.here && !here { // of a group that this node does not lead
		return false, false
	}
	if name == v.name && (epoch < v.epoch || epoch == v.epoch && v.here) {
		return here && epoch == v.epoch, false
	}
	deposed = name == v.name && v.here && !here
	if deposed {
		v.said = make(map[string]bool)
	} else if here {
		v.said = nil
	}
	v.name, v.epoch, v.here = name, epoch, here
	return true, deposed
}

// moved tells, once for each Sentinel, that it names another primary now than this node, which was it before. A node
// that hands its role over knows so first, and closes nothing: a client that asked Sentinel then would be sent back
// here. Sentinel itself closes connections only of a node that it has to make a replica. Each Sentinel counts, as
// clients may ask any.
func (v *sentinelView) moved(sentinel, name string, epoch uint64, here bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.said == nil || here || name != v.name || epoch != v.epoch || v.said[sentinel] || len(v.said) >= maxSentinels {
		return false
	}
	v.said[sentinel] = true
	return true
}

// maxSentinels bounds sentinelView.said.
const maxSentinels = 64

// Values of Role.awaiting: why a primary refuses changes.
const (
	awaitNothing = iota
	awaitStarted // watched by Sentinel before, and not named since it started
	awaitDeposed // named before, and another was named since
)

// HeardSentinel takes a hello that was published on a connection.
func (n *Role) HeardSentinel(c Conn, hello string) {
	fields := strings.Split(hello, ",")
	if len(fields) != 8 {
		return
	}
	if n.host.Store().Durable() && !n.watched.Swap(true) {
		n.life.start(func() { // it waits for the disk, which a loop must not
			if err := n.host.Store().Replication().SetMonitored(); err != nil {
				n.watched.Store(false)
				n.log.Error("cannot record that Sentinel monitors this node", "error", err)
			}
		})
	}
	epoch, err := strconv.ParseUint(fields[7], 10, 64)
	if err != nil {
		return
	}
	here := n.isHere(c.LocalAddr(), fields[5], fields[6])
	defer func() {
		if n.view.moved(fields[2], fields[4], epoch, here) {
			closed := c.SendAway(func(name string) bool { return !fromSentinel(name) })
			n.log.Info("closing client connections so that clients ask Sentinel for the new primary", "number", closed)
		}
	}()
	switch known, deposed := n.view.hear(fields[4], epoch, here); {
	case deposed && n.host.Store().Durable() && !n.host.Store().Replica():
		n.awaiting.Store(awaitDeposed)
		n.RoleChanged()
		n.log.Warn("Sentinel reports another primary; refusing changes until this node is told its role", "primary", net.JoinHostPort(fields[5], fields[6]), "epoch", epoch)
	case known && here && n.awaiting.Swap(awaitNothing) != awaitNothing:
		n.RoleChanged()
		n.log.Info("Sentinel confirmed this node as primary; accepting changes", "epoch", epoch)
	}
}

// fromSentinel tells whether a connection is one of Sentinel's, by the name that it gave itself.
func fromSentinel(name string) bool { return strings.HasPrefix(name, "sentinel-") }

// isHere tells whether an address is this node's: as a connection reached it, or as it is announced.
func (n *Role) isHere(local net.Addr, host, port string) bool {
	conf := n.config.Get()
	own := conf.Listening()
	if conf.AnnouncePort != 0 {
		own = conf.AnnouncePort
	}
	if host == conf.AnnounceIP && host != "" {
		return port == strconv.Itoa(own)
	}
	here, reached, err := net.SplitHostPort(local.String())
	if err != nil {
		return false
	}
	ip, other := net.ParseIP(here), net.ParseIP(host)
	return port == reached && ip != nil && ip.Equal(other)
}

const (
	// aliveWithin is how fresh the primary's last word must be for it to be asked: it speaks each second.
	aliveWithin = 1500 * time.Millisecond
	// handOverWithin is how long a primary that is asked to hand over may take. Sentinel looks after a second whether
	// its replica leads, and then each second.
	handOverWithin = time.Second
)

// askForHandover lets the primary hand its role over before this node leads as Sentinel wants it. Sentinel tells only
// the replica. Where the primary lives (SENTINEL FAILOVER, or Sentinel was wrong about it) it would go on to take
// changes until it hears of it, a second or two, and the other replica would go on to acknowledge them: 568 increments
// that WAIT 1 had acknowledged were lost in a trial. So it is asked to hand over, as by FAILOVER, which loses nothing;
// and if it does not, the node leads as it is. It fails when the server ends.
func (n *Role) askForHandover() error {
	info, ok := n.repl.Link()
	if !ok || info.State != repl.LinkConnected || info.LastIO < 0 || info.LastIO > aliveWithin {
		return nil
	}
	if err := repl.AskFailover(n.life.ctx, info.Primary, n.settings(), handOverWithin); err != nil {
		n.log.Warn("the primary does not hand over; changes that it accepts from now on will be lost", "primary", info.Primary.String(), "error", err)
		return nil
	}
	for deadline := time.Now().Add(handOverWithin + handOverWithin/2); n.host.Store().Replica() && time.Now().Before(deadline); {
		select {
		case <-n.life.ctx.Done():
			return counter.ErrClosed
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}
