package cluster

import "sync/atomic"

type stats struct {
	promotions, switches, shrinks, expands, conflicts, failed, leasesLost, spares atomic.Uint64
}

// Stats counts what an agent did since it started.
type Stats struct {
	Promotions uint64 // it became primary as another was gone
	Switches   uint64 // it handed over
	Shrinks    uint64 // nodes that it took out of sync
	Expands    uint64 // nodes that it put in sync
	Conflicts  uint64 // transactions that came second
	Failed     uint64 // transactions that etcd did not answer, or refused
	LeasesLost uint64
	Spares     uint64 // free nodes that it took into its shard
}

// Stats reads the counts.
func (a *Agent) Stats() Stats {
	s := &a.loop.stats
	return Stats{s.promotions.Load(), s.switches.Load(), s.shrinks.Load(), s.expands.Load(), s.conflicts.Load(), s.failed.Load(), s.leasesLost.Load(),
		s.spares.Load()}
}
