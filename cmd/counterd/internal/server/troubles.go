package server

import (
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// trouble is a row of the troubles that a server reports of itself in its cluster: see topology.Trouble.
type trouble struct {
	id       string
	severity string
	// look returns the text while the trouble lasts, else an empty string. It runs ten times a second: it must not wait.
	look func(s *Server) string
}

// allTroubles are the rows. What concerns etcd, the map and the role is found by package cluster.
var allTroubles = []trouble{
	{"disk", topology.SevereError, func(s *Server) string {
		if err := s.store().Ready(); err != nil {
			return "the disk takes no writes: " + err.Error()
		}
		log := s.store().Replication()
		if durable := log.Durable(); s.config.Get().AppendFsync != "no" && s.joined.stall.late(time.Now(), log.Written(), durable) {
			return "the disk hangs: log that was written is not durable for more than 5 seconds"
		}
		return ""
	}},
}

// stall watches that log which was written becomes durable. One goroutine uses it.
type stall struct {
	durable uint64
	since   time.Time // when something was first seen to wait, or durable to rise; zero: nothing waits
}

// stalledAfter is for how long nothing becomes durable until the disk counts as hanging. A sync of a slow disk ends before.
const stalledAfter = 5 * time.Second

func (d *stall) late(now time.Time, written, durable uint64) bool {
	switch {
	case durable >= written:
		d.since = time.Time{}
		return false
	case d.since.IsZero() || durable != d.durable:
		d.durable, d.since = durable, now
	}
	return now.Sub(d.since) >= stalledAfter
}

// troubles are those that last now.
func (s *Server) troubles() (list []topology.Trouble) {
	for _, row := range allTroubles {
		if text := row.look(s); text != "" {
			list = append(list, topology.Trouble{ID: row.id, Severity: row.severity, Text: clip(text)})
		}
	}
	return list
}

// reported are the troubles of a node of a cluster; none of another server.
func (j *joined) reported() []topology.Trouble {
	if j == nil {
		return nil
	}
	return j.agent.Troubles()
}
