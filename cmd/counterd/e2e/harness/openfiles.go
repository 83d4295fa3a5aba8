package harness

import (
	"fmt"
	"os"
)

// OpenFiles returns how many descriptors the process holds.
func (s *Server) OpenFiles() int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Cmd.Process.Pid))
	if err != nil {
		return 0
	}
	return len(entries)
}
