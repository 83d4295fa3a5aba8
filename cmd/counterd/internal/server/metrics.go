package server

import (
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/node"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/metrics"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/counter"
)

// figuresOf is the server as package metrics sees it.
type figuresOf struct {
	*Server
	usage *usage
}

// usage is what the blocks of all counters take. They are counted one by one, so they are not counted again before a
// hundred times as long has passed: of a million blocks, in 0.1 s, every 10 s.
type usage struct {
	mu    sync.Mutex // guards the rest
	store *counter.Store
	list  []counter.Usage
	next  time.Time // when they may be counted again
}

// usageShare is the part of the time that may be spent on counting.
const usageShare = 100

// of returns what the blocks of store take, or took a moment ago.
func (u *usage) of(store *counter.Store) []counter.Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if u.store == store && now.Before(u.next) {
		return u.list
	}
	u.store, u.list = store, store.Admin().Usage()
	end := time.Now()
	u.next = end.Add(usageShare * end.Sub(now))
	return u.list
}

// Figures are what INFO tells, and more.
func (s figuresOf) Figures() *metrics.Figures {
	conf, t := s.config.Get(), &s.stats
	load := s.progress.state()
	sessions, readers := s.front.Count()
	memory, denied := s.memory(), &s.denials.Denied
	f := &metrics.Figures{
		Version: ServerVersion,
		Loading: metrics.Loading{Active: s.progress.active(), Done: load.done, Total: load.total},
		Clients: metrics.Clients{Connected: sessions, Readonly: readers, Blocked: s.front.Blocked(), Max: conf.MaxClients, ReadonlyMax: conf.ReadonlyClients,
			Accepted: t.Connections.Load(), Refused: t.Rejected.Load(), Evicted: t.EvictedClients.Load(), Overflowed: t.SlowSubscribers.Load(),
			ProtocolErrors: t.ProtocolErrors.Load(), FailedHandshakes: t.FailedHandshakes.Load(), HeldBytes: s.front.Held(), UnreadBytes: s.pubsub.Unread(),
			MaxBytes: conf.MaxMemoryClients.Of(conf.MaxMemory), Panics: t.Panics.Load()},
		Traffic: metrics.Traffic{InBytes: t.InBytes.Load(), OutBytes: t.OutBytes.Load(), Hits: t.Hits.Load(), Misses: t.Misses.Load()},
		Memory:  metrics.Memory{Used: memory.Used, Peak: memory.Peak},
		Slow:    metrics.Slow{Len: int64(s.slow.Len()), Total: s.slow.Total()},
		Denied: metrics.Denied{Auth: denied[acl.DeniedAuth].Load(), Command: denied[acl.DeniedCommand].Load(), Key: denied[acl.DeniedKey].Load(),
			Channel: denied[acl.DeniedChannel].Load()},
		Pubsub: metrics.Pubsub{Channels: s.pubsub.Len(pubsub.Channel), Patterns: s.pubsub.Len(pubsub.Pattern), Shards: s.pubsub.Len(pubsub.Shard)},
	}
	tracked := s.tracking.Figures()
	f.Tracking = metrics.Tracking{Clients: tracked.Clients, Items: tracked.Items, Prefixes: tracked.Prefixes}
	_, f.CertificateUntil = s.tls.Certificate()
	s.commands.Each(func(cmd *row) {
		c := metrics.Command{Name: cmd.Name, Calls: cmd.Calls(), Rejected: cmd.Rejected.Load(), Failed: cmd.Failed.Load()}
		if c.Calls+c.Rejected+c.Failed == 0 {
			return
		}
		times := cmd.Times().ByPower()
		c.Times = metrics.Buckets{Counts: times[:], Sum: float64(cmd.Nanos()) / 1e9, Unit: 1e-6}
		f.Commands = append(f.Commands, c)
	})
	for _, e := range t.Errors() {
		f.Errors = append(f.Errors, metrics.Error{Word: e.Word, N: e.N})
	}
	f.Cluster = s.clusterFigures()
	if !f.Loading.Active {
		f.Store = s.storeFigures()
	}
	return f
}

// storeFigures are those of the store being served and of the node.
func (s figuresOf) storeFigures() *metrics.Store {
	store, conf := s.store(), s.config.Get()
	admin := store.Admin()
	f := &metrics.Store{
		Role: "primary", Usage: s.usage.of(store), Tiers: admin.TierCounts(),
		Producers: admin.ProducerStats(), IdmpMax: conf.IdmpMaxProducers, IdmpBytes: int64(conf.IdmpMaxMemory), CutFiles: s.node.Replication().CutFiles(),
		Ready: store.Ready() == nil,
	}
	phase, _ := s.node.Failover()
	f.Failover = phase != node.PhaseNone
	f.Repacks, f.Repacking = admin.Repacks()
	f.CutTails, _ = s.node.Replication().Cuts()
	refusal, _ := s.node.Judge(command.Write, false)
	f.FewReplicas = node.TooFew(refusal)
	log := admin.LogStats()
	if store.Durable() {
		f.Disk = &metrics.OnDisk{Log: log, Snapshots: admin.Snapshots(), Space: admin.Disk()}
		if f.Disk.Space.Free == counter.FreeUnknown {
			f.Disk.Space = counter.DiskStats{Reserve: f.Disk.Space.Reserve, Dropped: f.Disk.Space.Dropped}
		}
	}
	peers := s.node.Peers()
	f.Syncs = metrics.Syncs{Full: peers.Full.Load(), Partial: peers.PartialOK.Load(), Refused: peers.PartialErr.Load()}
	for _, p := range peers.Infos() {
		f.Peers = append(f.Peers, metrics.Peer{Name: net.JoinHostPort(p.IP, strconv.Itoa(p.Port)), Online: p.Online,
			Behind: log.Written - min(p.Applied, log.Written), Lag: p.Lag, Kept: int64(p.Applied) - int64(log.First)})
	}
	if s.node.Replica() {
		f.Role = "replica"
		info, ok := s.node.Replication().Link()
		f.Link = &metrics.Link{Up: ok && info.State == repl.LinkConnected, Copying: info.State == repl.LinkSync, LastIO: info.LastIO, DownFor: info.DownFor,
			Behind: info.End - min(info.End, log.Written), Copied: info.Copied, Total: info.Total}
		if !ok {
			f.Link.LastIO = -1
		}
	}
	return f
}
