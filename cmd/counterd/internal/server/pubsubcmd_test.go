package server

import (
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
)

// TestPauseInTransaction: EXEC has the store to itself, so PUBLISH to very many subscribers lets nobody have a turn there. All others
// would wait for the store until the publisher has its own next turn.
func TestPauseInTransaction(t *testing.T) {
	var pauses, inLoop atomic.Bool
	s := startServer(t, serverStart{schema: wireSchema, made: func(s *Server) {
		publish := s.commands.Find([]byte("publish"))
		run := publish.Run
		publish.Run = func(h front.Handler, args [][]byte) {
			c := h.(*client)
			pauses.Store(c.pause() != nil)
			inLoop.Store(c.session.InLoop())
			run(h, args)
		}
	}})
	t.Cleanup(func() { stopServer(t, s) })
	c := wireDial(t, s, 2)
	c.want("MULTI", "+OK")
	c.want("PUBLISH news hello", "+QUEUED")
	c.want("EXEC", "[:0]")
	if inLoop.Load() || pauses.Load() {
		t.Errorf("PUBLISH in EXEC: in a loop %v, pauses %v, want neither", inLoop.Load(), pauses.Load())
	}
}
