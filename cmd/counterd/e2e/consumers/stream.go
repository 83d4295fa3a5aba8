package consumers

import (
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/freeport"
)

// NewStream is a stream of a redis-server that keeps acknowledged entries. It is killed by SIGKILL. ok is false where the program is missing.
func NewStream(t testing.TB) (sink *Sink, ok bool) {
	path, ok := harness.Tool(t, "redis-server")
	if !ok {
		return nil, false
	}
	port, dir := freeport.Take(t), t.TempDir()
	start := func() *harness.Server {
		return harness.LaunchAt(t, "redis-server", path, port, dir, []string{"--save", "", "--appendonly", "yes", "--appendfsync", "no", "--databases", "1"})
	}
	s, last := start(), "-"
	return &Sink{To: []string{"--to", "redis://" + s.Addr + "/changes"},
		Break: func() {
			s.Kill()
			s = start()
		},
		Read: func() (lines []string, err error) {
			c, err := harness.DialTimeout("tcp", s.Addr, harness.IoTimeout)
			if err != nil {
				return nil, err
			}
			defer c.Close()
			entries, err := c.TryDo("XRANGE", "changes", last, "+")
			if err != nil {
				return nil, err
			}
			for _, entry := range entries.List {
				lines = append(lines, entry.List[1].List[3].Text)
				last = "(" + entry.List[0].Text
			}
			return lines, nil
		}}, true
}
