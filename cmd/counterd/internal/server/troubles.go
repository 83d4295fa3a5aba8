package server

import (
	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
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
	{"disk", topology.SevereError, func(s *Server) string { // full, failing, or hanging: Ready knows a hanging disk after 2.1 s
		if err := s.store().Ready(); err != nil {
			return "the disk does not accept writes: " + err.Error()
		}
		return ""
	}},
}

// troubles are those that last now.
func (s *Server) troubles() (list []topology.Trouble) {
	for _, row := range allTroubles {
		if text := row.look(s); text != "" {
			list = append(list, topology.Trouble{ID: row.id, Severity: row.severity, Text: facts.Clip(text)})
		}
	}
	return list
}
