package cluster

import (
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// rec is one change in a log: key is raised by one.
type rec struct {
	epoch uint64
	id    int64 // of the client's operation
	key   int
}

type term struct {
	epoch uint64
	start int
}

// machine is a computer with a disk, on which processes run one after another. world.mu guards it.
type machine struct {
	w    *world
	id   topology.NodeID
	zone string

	log     []rec
	at      []time.Time // when each was written
	durable int
	terms   []term // of the log, rising
	running bool   // from the disk: a process did not end cleanly under this boot
	behind  bool
	// unwritten are changes of its process that are not in the log yet.
	unwritten int
	healing   bool          // its data was damaged, and is set aside
	hangs     bool          // its disk: it takes neither changes nor a role
	lazy      bool          // it syncs only when it is asked to, as with appendfsync no
	failed    bool          // its disk takes nothing, and this is known
	unsynced  bool          // its disk syncs nothing, and nobody judges that, as with appendfsync no
	syncs     time.Duration // how long a sync that was asked for takes; 0: some milliseconds
	cluster   string
	starts    []topology.Start // of its note
	stale     bool             // its directory is an older copy, which has not caught up with a primary yet
	copied    bool             // it is another machine with a copy of the directory of the one with the same id

	images []image

	confirmation

	up      bool // has power
	stuck   time.Time
	proc    *proc         // nil: none runs
	changed chan struct{} // closed when the log has grown
	skew    time.Duration // of its clock, against leases
}

// confirmation is the offset that a machine's directory has as confirmed in its shard: the node does not cut its log
// below it.
type confirmation struct {
	shard      topology.ShardID
	confirmed  int    // records
	confirmedE uint64 // epoch
}

func (m *machine) epoch() uint64 {
	if len(m.terms) == 0 {
		return 0
	}
	return m.terms[len(m.terms)-1].epoch
}

// cut shortens the log.
func (m *machine) cut(n int) {
	m.log, m.at, m.durable = m.log[:n:n], m.at[:n:n], min(m.durable, n)
	for len(m.terms) > 0 && m.terms[len(m.terms)-1].start > n {
		m.terms = m.terms[:len(m.terms)-1]
	}
}

// confirm is told that the log is confirmed up to n.
func (m *machine) confirm(epoch uint64, n int) {
	if n > m.confirmed {
		m.confirmed, m.confirmedE = n, epoch
	}
}

func (m *machine) append(r rec) {
	m.log, m.at = append(m.log, r), append(m.at, time.Now())
	m.grown()
}

func (m *machine) grown() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// image is a machine's disk at a moment.
type image struct {
	log     []rec
	at      []time.Time
	durable int
	terms   []term
	behind  bool
	stale   bool
	cluster string
	starts  []topology.Start
	confirmation
}

// keep takes an image of the machine's disk, running or not. world.mu is held.
func (m *machine) keep() {
	m.images = append(m.images, image{slices.Clone(m.log), slices.Clone(m.at), m.durable, slices.Clone(m.terms), m.behind, m.stale, m.cluster, m.starts, m.confirmation})
}

// rollBack puts an image back that was taken before etcd had the node's newest start; false: there is none. No process
// runs, and world.mu is held.
func (m *machine) rollBack(has topology.Start) bool {
	m.images = slices.DeleteFunc(m.images, func(i image) bool { return slices.Contains(i.starts, has) })
	if len(m.images) == 0 || has.Count == 0 {
		return false
	}
	i := m.images[m.w.rng.IntN(len(m.images))]
	m.images = nil
	m.log, m.at, m.durable, m.terms, m.behind, m.cluster, m.starts = i.log, i.at, i.durable, i.terms, i.behind, i.cluster, i.starts
	m.confirmation = i.confirmation
	m.stale = true
	return true
}

func (m *machine) has(id int64) bool {
	return slices.ContainsFunc(m.log, func(r rec) bool { return r.id == id })
}

// Node, Cluster and Join make it a Home.
func (m *machine) Node() topology.NodeID { return m.id }
func (m *machine) Cluster() string {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.cluster
}
func (m *machine) Join(cluster string) error {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.cluster = cluster
	return nil
}

func (m *machine) Starts() []topology.Start {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.starts
}

func (m *machine) SetStarts(list []topology.Start) error {
	time.Sleep(time.Duration(1+m.w.random(4)) * time.Millisecond)
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.starts = list
	return nil
}
