package server

import (
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/node"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/console"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
	"github.com/counterd/counterd/counter"
)

// status is the server as the console sees it: a console.Source. What it says is what INFO says.
type status struct {
	*Server

	// Of the page's goroutine.
	looked   time.Time // when diverged was counted, which reads the directory
	diverged int
	points   []console.Point // of the newest snapshots: counting their files takes long where there are many
}

const (
	// lookEvery is how often the data directory is read.
	lookEvery = 10 * time.Second
	// walkStep is how many blocks are looked at while the schema stands still: some 0.1 ms.
	walkStep = 512
	// longestText bounds texts that come from elsewhere, in bytes.
	longestText = 300
)

// Totals sums over the commands, as INFO stats and commandstats do.
func (s *status) Totals() (t console.Totals) {
	s.commands.Each(func(cmd *row) {
		n := cmd.Calls()
		if n == 0 {
			return
		}
		t.Commands += n
		if cmd.Flags&command.Write != 0 {
			t.Writes += n
		}
		for i, n := range cmd.Times() {
			t.Times[i] += n
		}
	})
	t.Errors = s.stats.ErrorReplies.Load()
	t.ColdReads = int64(s.store().Admin().TierCounts().Cache.Misses)
	return t
}

// Vitals is what INFO says about the health of the server.
func (s *status) Vitals() console.Vitals {
	store, conf := s.store(), s.config.Get()
	v := console.Vitals{RunID: s.runID, Role: "primary", Panics: s.stats.Panics.Load(), MinReplicas: conf.MinReplicas, Replicas: []console.Replica{}}
	if s.node.Replica() {
		v.Role = "replica"
	}
	if _, until := s.tls.Certificate(); !until.IsZero() {
		v.Certificate = until.UnixMilli()
	}
	c := &v.Clients
	c.Connected, c.Readers = s.front.Count()
	c.Max, c.ReadersMax, c.Blocked = conf.MaxClients, conf.ReadonlyClients, s.front.Blocked()
	c.Rejected, c.Evicted = s.stats.Rejected.Load(), s.stats.EvictedClients.Load()
	c.Held, c.HeldMax = s.front.Held()+s.pubsub.Unread(), conf.MaxMemoryClients.Of(conf.MaxMemory)
	m, tiers := s.memory(), store.Admin().TierCounts()
	v.Memory = console.Memory{Store: tiers.Memory, Limit: tiers.MaxMemory, Cache: tiers.Cache.Bytes, Full: tiers.Full, Heap: m.Heap, RSS: m.RSS, System: stats.SystemMemory()}
	if l := &s.progress; l.active() {
		st := l.state()
		v.Loading = &console.Loading{Done: st.done, Total: st.total, Left: st.eta}
		return v
	}
	v.Damage = console.Damage{Files: tiers.Broken, ReadErrors: tiers.ReadErrors, ScrubErrors: tiers.ScrubErrors}
	refusal, held := s.node.Judge(command.Write, false)
	v.Refusal = clip(refusal)
	switch phase, _ := s.node.Failover(); {
	case phase != node.PhaseNone:
		v.Pause = "a failover is under way"
	case held:
		v.Pause = "CLIENT PAUSE"
	}
	s.vitalsOfDisk(&v, store)
	s.vitalsOfNodes(&v, store)
	v.Cluster = s.vitalsOfCluster()
	return v
}

func (s *status) vitalsOfDisk(v *console.Vitals, store *counter.Store) {
	if !store.Durable() {
		return
	}
	conf := s.config.Get()
	log, disk, saves := store.Admin().LogStats(), store.Admin().Disk(), store.Admin().Snapshots()
	if disk.Free == counter.FreeUnknown {
		disk.Free = -1
	}
	v.Disk = console.Disk{Durable: true, EverySec: conf.AppendFsync == "everysec", Total: disk.Total, Free: disk.Free, Reserve: disk.Reserve, Low: disk.Low,
		LogFirst: log.First, LogEnd: log.Position, LogDurable: log.Durable, LogBytes: log.SegmentBytes, LogDisk: log.DiskBytes, Segments: log.Segments,
		Unsynced: log.UnsyncedAge, LastSync: log.LastSync, MaxSync: log.MaxSync, SyncErrors: log.SyncErrors}
	if err := store.Ready(); err != nil {
		v.Disk.Trouble = clip(err.Error())
	}
	v.Snapshot = console.Snapshot{Generation: saves.Generation, Bytes: saves.Bytes, Blocks: saves.Blocks, Took: saves.LastTook, Running: saves.Running,
		Behind: log.Position - min(log.Position, saves.Replay)}
	if !saves.LastTime.IsZero() {
		v.Snapshot.At = saves.LastTime.UnixMilli()
	}
	if saves.LastErr != nil {
		v.Snapshot.Error = clip(saves.LastErr.Error())
	}
	if conf.AOFRewriteMin > 0 {
		v.Snapshot.Due = max(conf.AOFRewriteMin, saves.Bytes)
	}
}

func (s *status) vitalsOfNodes(v *console.Vitals, store *counter.Store) {
	conf, end, first := s.config.Get(), store.Replication().Written(), store.Replication().First()
	if l, ok := s.node.Replication().Link(); ok {
		v.Link = &console.Link{Primary: l.Primary.String(), State: string(l.State), Error: clip(l.Error), Down: l.DownFor, LastIO: l.LastIO,
			Behind: l.End - min(l.End, end), Copied: l.Copied, Total: l.Total}
		if l.State == repl.LinkConnected {
			v.Link.Copied, v.Link.Total = 0, 0
		}
	}
	for _, p := range s.node.Peers().Infos() {
		v.Replicas = append(v.Replicas, console.Replica{Addr: clip(repl.Address{Host: p.IP, Port: p.Port}.String()), Online: p.Online,
			Behind: end - min(end, p.Applied), Lag: p.Lag, Kept: int64(p.Applied) - int64(first)})
	}
	if conf.MinReplicas > 0 && conf.MinReplicasMaxLag > 0 {
		v.GoodReplicas = s.node.Peers().Good(time.Duration(conf.MinReplicasMaxLag) * time.Second)
	} else {
		v.MinReplicas = 0
	}
	if time.Since(s.looked) >= lookEvery {
		s.looked, s.diverged = time.Now(), s.node.Replication().CutFiles()
	}
	v.Diverged = s.diverged
}

// MidTime is the setting of that name.
func (s *status) MidTime() console.MidTime { return console.MidTime(s.config.Get().MidTime) }

// Walk calls f for all blocks. The store is held in steps: who wants it for himself meanwhile, as EXEC, waits for one.
func (s *status) Walk(f func(console.Block)) error {
	b := s.store().NewBatch()
	for id := 0; ; {
		if err := b.Begin(); err != nil {
			return err
		}
		counters := b.Schema().Counters()
		if id >= len(counters) {
			b.End()
			return nil
		}
		def := counters[id]
		for at, done := (counter.BlockPlace{}), false; !done; {
			left := walkStep
			done = b.BlocksFrom(def, at, func(i counter.BlockInfo) bool {
				f(console.Block{Counter: i.Counter.Name, Lo: i.Lo, Hi: i.Hi, Open: i.Open, Cold: i.Tier == counter.TierCold, Lost: i.Lost, Posts: i.Items,
					Overlay: i.Overlay, Bytes: i.Bytes, Index: i.Index, FileBytes: i.FileBytes, Uses: i.Uses, Idle: i.Idle})
				at, left = i.Next(), left-1
				return left > 0
			})
			if done {
				break
			}
			b.End()
			b.Reset()
			if err := b.Begin(); err != nil {
				return err
			}
			if def = b.Schema().CounterNamed([]byte(def.Name)); def == nil { // it was dropped
				break
			}
		}
		b.End()
		b.Reset()
		id++
	}
}

// clip bounds a text.
func clip(text string) string {
	if len(text) <= longestText {
		return text
	}
	n := longestText
	for n > 0 && text[n]&0xC0 == 0x80 { // not within a character
		n--
	}
	return text[:n] + "…"
}
