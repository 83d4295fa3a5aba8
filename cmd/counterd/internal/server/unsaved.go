package server

import (
	"sync"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
)

// unsaved counts the changing commands that this node has executed since the last snapshot was made, or since the start:
// rdb_changes_since_last_save. It is asked at least once a second, so commands of the second in which a snapshot was made
// may be missing. Changes that come from a primary are not counted.
type unsaved struct {
	mu         sync.Mutex // guards the rest
	generation uint64     // of the snapshot
	before     int64      // commands that were executed when it was seen
}

// commands is the number.
func (u *unsaved) commands(s *Server) int64 {
	generation, calls := s.store().Admin().Snapshots().Generation, int64(0)
	s.commands.Each(func(cmd *row) {
		if cmd.Flags&command.Write != 0 {
			calls += cmd.Calls()
		}
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.generation != generation {
		u.generation, u.before = generation, calls
	}
	if calls < u.before { // CONFIG RESETSTAT
		u.before = 0
	}
	return calls - u.before
}
