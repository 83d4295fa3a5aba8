package server

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// observer fills States of package facts from a server.
type observer struct{ srv *shared }

// state fills the parts of a State, but for Usage and Posts, which their caller fills. It takes no lock for long, and does
// not wait for the disk.
func (o observer) state(parts facts.Part) *facts.State {
	s := o.srv
	conf, store := s.config.Get(), s.store()
	f := &facts.State{Filled: parts, Role: "primary", Process: facts.Process{Version: ServerVersion, RedisVersion: Version, RunID: s.runID,
		Port: cmp.Or(conf.Port, conf.TLS.Port), ReadonlyPort: conf.ReadonlyPort, ConfigFile: conf.ConfigFile, Started: s.started, Panics: s.stats.Panics.Load()}}
	if s.role.Replica() {
		f.Role = "replica"
	}
	_, f.Process.Certificate = s.tls.Certificate()
	if s.progress.active() {
		l := s.progress.state()
		f.Loading = &facts.Loading{Began: l.began, Done: l.done, Total: l.total, Left: l.eta}
	}
	f.Limits = facts.Limits{MaxMemory: int64(conf.MaxMemory), System: stats.SystemMemory(), Startup: s.startupMemory,
		MaxProducers: conf.IdmpMaxProducers, MaxProducerBytes: int64(conf.IdmpMaxMemory), MinIdle: conf.IdmpMinIdle, FeedRetain: conf.FeedRetain}
	if parts.Has(facts.PartClients) {
		o.clients(f)
	}
	if parts.Has(facts.PartConnections) {
		f.Connections = o.connections()
	}
	if parts.Has(facts.PartMemory) {
		f.Memory = s.memory()
	}
	if parts.Has(facts.PartCPU) {
		f.CPU, f.Waited = stats.UsedCPU()
	}
	if parts.Has(facts.PartCommands) {
		f.Commands, f.Errors = o.commands(), s.stats.Errors()
	}
	if parts.Has(facts.PartPubsub) {
		f.Pubsub = facts.Pubsub{Channels: s.pubsub.Len(pubsub.Channel), Patterns: s.pubsub.Len(pubsub.Pattern), Shards: s.pubsub.Len(pubsub.Shard)}
		t := s.tracking.Sizes()
		f.Tracking = facts.Tracking{Clients: t.Clients, Keys: t.Keys, Items: t.Items, Prefixes: t.Prefixes}
	}
	admin := store.Admin()
	if parts.Has(facts.PartTiers) {
		f.Tiers = admin.TierCounts()
		f.Repacks, f.Repacking = admin.Repacks()
		f.TopLists = admin.TopLists()
		f.Ticks = ticks(store)
	}
	if parts.Has(facts.PartPosts) {
		for _, def := range store.Schema().Counters() {
			f.Counters++
			f.Columns += def.Width()
		}
	}
	if parts.Has(facts.PartProducers) {
		f.Producers = admin.ProducerStats()
	}
	if parts.Has(facts.PartCursors) {
		f.Cursors = admin.Cursors()
	}
	if parts.Has(facts.PartAging) {
		f.Aging = o.aging()
	}
	if parts.Has(facts.PartHot) {
		for i, r := range s.popular.Busiest(time.Now(), facts.MaxHot) {
			f.Hot = append(f.Hot, facts.HotPost{Rank: i + 1, Reads: r.Reads, Writes: r.Writes})
		}
	}
	if parts.Has(facts.PartDisk) || parts.Has(facts.PartNodes) {
		f.Log = admin.LogStats()
	}
	if parts.Has(facts.PartDisk) {
		o.disk(f, store)
	}
	if parts.Has(facts.PartNodes) {
		o.nodes(f, store)
	}
	if parts.Has(facts.PartDiverged) {
		f.Replication.Diverged = s.role.Replication().CutFiles()
	}
	if parts.Has(facts.PartCluster) && s.cluster != nil {
		o.cluster(f, store)
	}
	return f
}

func (o observer) clients(f *facts.State) {
	s := o.srv
	conf, t, denied, peers := s.config.Get(), &s.stats, &s.denials.Denied, s.role.Peers()
	sessions, readers := s.front.Count()
	watching, _ := s.watches.Len()
	f.Clients = facts.Clients{Connected: sessions, Readers: readers, Blocked: s.front.Blocked(), Max: conf.MaxClients, ReadersMax: conf.ReadonlyClients,
		Accepted: t.Connections.Load(), Rejected: t.Rejected.Load(), Evicted: t.EvictedClients.Load(), Overflowed: t.SlowSubscribers.Load(),
		ProtocolErrors: t.ProtocolErrors.Load(), FailedHandshakes: t.FailedHandshakes.Load(), Buffered: s.front.Held(), Unread: s.pubsub.Unread(),
		HeldMax: conf.MaxMemoryClients.Of(conf.MaxMemory), Watching: watching}
	f.Traffic = facts.Traffic{Commands: s.commands.Calls(), InBytes: t.InBytes.Load(), OutBytes: t.OutBytes.Load(), Hits: t.Hits.Load(), Misses: t.Misses.Load(),
		ErrorReplies: t.ErrorReplies.Load(), Reads: t.Reads.Load(), Writes: t.Writes.Load(), Rates: s.sampler.Rates(), Unsaved: s.unsaved.commands(s),
		Syncs: peers.Full.Load(), Partial: peers.PartialOK.Load(), Refused: peers.PartialErr.Load()}
	f.Denied = facts.Denied{Auth: denied[acl.DeniedAuth].Load(), Command: denied[acl.DeniedCommand].Load(), Key: denied[acl.DeniedKey].Load(), Channel: denied[acl.DeniedChannel].Load()}
	f.Slow = facts.Slow{Len: int64(s.slow.Len()), Total: s.slow.Total()}
}

// connections looks at each connection.
func (o observer) connections() (n facts.Connections) {
	s := o.srv
	for _, c := range s.connected() {
		c.info.mu.Lock()
		n.InputMax = max(n.InputMax, c.info.state.queryBuf+c.info.state.queryGap)
		n.OutputMax = max(n.OutputMax, c.info.state.outSize)
		c.info.mu.Unlock()
		if c.subscriber.subscribed() {
			n.Subscribers++
		}
	}
	return n
}

// commands are the commands that were called, rejected or failed.
func (o observer) commands() (list []facts.Command) {
	s := o.srv
	s.commands.Each(func(cmd *row) {
		c := facts.Command{Name: cmd.Name, Calls: cmd.Calls(), Rejected: cmd.Rejected.Load(), Failed: cmd.Failed.Load()}
		if c.Calls+c.Rejected+c.Failed == 0 {
			return
		}
		c.Nanos, c.Times = cmd.Nanos(), cmd.Times()
		list = append(list, c)
	})
	return list
}

// ticks is the time of the log.
func ticks(store *counter.Store) (t facts.Ticks) {
	w := store.Windows()
	if t.Overdue, t.Known = w.Overdue(store.Admin().Now()); t.Known {
		t.Last = time.Unix(w.Time(), 0)
	}
	return t
}

// aging lists the counters with retain.
func (o observer) aging() (list []facts.Aging) {
	for _, a := range o.srv.aging.States() {
		list = append(list, facts.Aging{Counter: a.Counter, Retain: a.Retain, Known: a.Known, Cut: time.UnixMilli(a.Cut), Next: time.UnixMilli(a.Next), Mid: a.Mid, Posts: a.Posts, Blocks: a.Blocks})
	}
	return list
}

func (o observer) disk(f *facts.State, store *counter.Store) {
	s := o.srv
	conf, admin := s.config.Get(), store.Admin()
	f.Snapshots = admin.Snapshots()
	f.Disk = facts.Disk{Durable: store.Durable(), Fsync: conf.AppendFsync, Memory: !conf.AppendOnly, LastSave: time.Unix(s.lastSave(), 0)}
	if err := store.Ready(); err != nil {
		f.Disk.Trouble = facts.Clip(err.Error())
	}
	if f.Disk.Durable {
		f.Disk.DiskStats = admin.Disk()
	}
	if conf.AOFRewriteMin > 0 {
		f.Disk.Due = max(conf.AOFRewriteMin, f.Snapshots.Bytes)
	}
}

// roleRoom is the least room on the disk with which a replica tells Sentinel that it can become the primary. It has to write its history,
// twice, and its configuration file. If these fail, Sentinel tries the same replica again and again, also where another one has room.
const roleRoom = 1 << 20

func (o observer) nodes(f *facts.State, store *counter.Store) {
	s := o.srv
	conf, log, r := s.config.Get(), &f.Log, &f.Replication
	refusal, held := s.role.Judge(command.Write, false)
	f.Refusal, r.TooFew = refusal, role.TooFew(refusal)
	r.Failover, _ = s.role.Failover()
	switch {
	case r.Failover != role.PhaseNone:
		f.Pause = "a failover is in progress"
	case held:
		f.Pause = "CLIENT PAUSE"
	}
	past := store.Replication().Lineage()
	r.ID, r.Second, r.SecondEnd = s.runID, strings.Repeat("0", 40), -1
	if len(past.Terms) > 0 {
		r.ID = past.Current().ReplID.String()
	}
	if before, at, ok := past.Before(); ok {
		r.Second, r.SecondEnd = before.String(), int64(at)
	}
	r.Priority, r.Announced = conf.ReplicaPriority, conf.Announced
	if conf.MinReplicas > 0 && conf.MinReplicasMaxLag > 0 {
		r.MinReplicas, r.GoodReplicas = conf.MinReplicas, s.role.Peers().Good(time.Duration(conf.MinReplicasMaxLag)*time.Second)
	}
	if h := s.role.Replication().Healing(); h != nil {
		r.Healing, r.Since, r.Priority = h.Reason, time.Since(time.UnixMilli(h.Since)), 0 // Sentinel must not name it
	}
	if disk := store.Admin().Disk(); disk.Total > 0 && disk.Free < roleRoom {
		r.Priority = 0
	}
	if r.Waits = s.role.Replication().Healer().Waits(); r.Waits != "" || f.Loading != nil {
		r.Priority = 0
	}
	if term, end, ok := s.role.Replication().Healer().ClosedEnd(); ok {
		r.ClosedID, r.ClosedEnd = term.String(), end
	}
	r.HealingLost = s.role.Replication().Healer().Lost()
	r.Healed = s.role.Replication().Healer().Healed()
	refills := s.role.Replication().Refilled()
	r.Refilled, r.RefilledPosts, r.RefillFailures, r.RefilledLog, r.NotesMended = refills.Ranges, refills.Posts, refills.Failed, refills.Segments, refills.Notes
	cuts, last := s.role.Replication().Cuts()
	r.Cuts = cuts
	if cuts > 0 {
		r.LastCut = fmt.Sprintf("from=%d,to=%d,sets=%d,deletes=%d,items=%d,file=%s", last.From, last.To, last.Sets, last.Deletes, last.Items, last.File)
	}
	i := s.role.Replication().Compare()
	r.Compare = facts.Compare{Posts: i.Posts, Ranges: i.Ranges, Missed: i.Missed, Unreadable: i.Unreadable, Passes: i.Passes, LastPass: i.LastPass, PassTook: i.PassTook,
		Differences: i.Differences, Mended: i.Mended, Differing: i.Differing, Recently: i.Recently(), Last: i.Last}
	if l, ok := s.role.Replication().Link(); ok {
		r.Primary, r.Port = l.Primary.Host, l.Primary.Port
		f.Link = &facts.Link{Primary: l.Primary.String(), State: string(l.State), Error: l.Error, Down: l.DownFor, LastIO: l.LastIO,
			Behind: l.End - min(l.End, log.Written), Copied: l.Copied, Total: l.Total, Lacks: l.Lacks != 0}
	}
	for _, p := range s.role.Peers().Infos() {
		f.Replicas = append(f.Replicas, facts.Replica{Host: p.IP, Port: p.Port, Addr: facts.Clip(net.JoinHostPort(p.IP, strconv.Itoa(p.Port))), Online: p.Online, Watching: p.Watching,
			Applied: p.Applied, Sent: p.Sent, Durable: p.Durable, Behind: log.Written - min(p.Applied, log.Written), Lag: p.Lag, Kept: int64(p.Applied) - int64(log.First)})
	}
}

func (o observer) cluster(f *facts.State, store *counter.Store) {
	s := o.srv
	st := s.cluster.Now()
	c := &facts.Cluster{Name: s.config.Get().Cluster.Name, NodeID: string(st.Self), Shard: int(st.ShardID()), Primary: st.Primary, Reads: st.Readable(time.Now()), Writes: st.Writes,
		Slots: st.Owned.Len() * slot.PerGroup, Revision: int64(st.Map.Revision), Schema: int64(st.Map.Schema.Revision),
		Shards: len(st.Map.Shards), Nodes: len(st.Map.Nodes), Moves: len(st.Map.Moves)}
	f.Cluster = c
	if !st.Until.IsZero() {
		c.Lease = time.Until(st.Until)
	}
	if st.Shard != nil {
		c.Epoch, c.InSync, c.Members = st.Shard.Epoch, len(st.Shard.InSync), len(st.Map.Members(st.Shard.ID))
	}
	sums := st.Map.Census()
	c.Away, c.Free, c.Headless, c.Thin = sums.Away, sums.Free, sums.Headless, sums.Thin
	c.Down = sums.Down.Len() * slot.PerGroup
	if st.Map.Created() {
		c.Unowned = sums.Unowned.Len() * slot.PerGroup
	}
	log := store.Replication()
	if confirmed := log.Confirmed(); st.Primary && confirmed != math.MaxUint64 {
		c.Unconfirmed = log.Written() - min(log.Written(), confirmed)
	}
	if !s.cluster.Joined() {
		return
	}
	n := s.cluster.Stats()
	f.Agent = &facts.Agent{Promotions: n.Promotions, Switches: n.Switches, Shrinks: n.Shrinks, Expands: n.Expands, Spares: n.Spares, Conflicts: n.Conflicts, Failed: n.Failed, LeasesLost: n.LeasesLost}
	if err := s.cluster.RegistryError(); err != nil {
		f.Agent.Etcd = err.Error()
	}
	for _, t := range s.cluster.Troubles() {
		f.Agent.Troubles = append(f.Agent.Troubles, facts.Trouble{ID: t.ID, Severity: string(t.Severity), Text: t.Text, Severe: t.Severity == topology.SevereError})
	}
}

// scrapeSource is the server as package metrics sees it.
type scrapeSource struct {
	srv   *shared
	usage *facts.UsageCache
}

// State returns the facts that metrics show.
func (s scrapeSource) State() *facts.State {
	f := observer{s.srv}.state(facts.MetricParts)
	if f.Loading == nil {
		f.Usage = s.usage.Of(s.srv.store())
	}
	return f
}
