package server

import (
	"context"
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/repl"
)

// replica tells whether this node is one, also while a store is being opened: what Sentinel, clients and people are
// told.
func (s *Server) replica() bool {
	if s.progress.active.Load() {
		return s.wasReplica.Load()
	}
	return s.store().Replica()
}

// startRole takes the role of the configuration, when the store has come; without one, the role that the node had when
// it ended.
func (s *Server) startRole() {
	a, err := primaryOf(s.config.Get())
	if err != nil || a == (repl.Address{}) {
		a = s.lastRole()
	}
	if a != (repl.Address{}) {
		if err := s.node.Follow(a); err != nil {
			s.log.Error("cannot be a replica", "error", err)
		}
	}
	to, forced, err := s.node.Handover() // after Follow: the configuration may name another primary
	if err != nil {
		s.log.Error("to whom this node was handing its role over cannot be read", "error", err)
	} else if to != (repl.Address{}) {
		ctx, cancel := context.WithCancel(context.Background())
		s.mu.Lock()
		if !s.stopping && s.handover.resume(cancel) {
			s.done.Add(1)
			go s.resumeHandover(ctx, cancel, to, forced)
		} else {
			cancel()
		}
		s.mu.Unlock()
	}
	s.RoleChanged()
}

// lastRole returns the primary that the node followed when it ended; zero: it was one, or was not told whose replica it
// is.
func (s *Server) lastRole() repl.Address {
	a, err := s.node.Remembered()
	if err != nil {
		s.log.Error("whom this node followed cannot be read", "error", err)
	}
	if to, _, _ := s.node.Handover(); to != (repl.Address{}) { // an error is told of when it is gone on with
		s.setReplicaOf(to)
		return to
	}
	switch watched, err := s.store().Replication().Monitored(); {
	case a != repl.Address{}:
		s.log.Info("this node was a replica when it ended and goes on to be one; REPLICAOF changes that", "primary", a.String())
		s.setReplicaOf(a)
	case s.store().Replica():
		s.log.Warn("this node was a replica when it ended and was not told whose it is now: it refuses changes until REPLICAOF NO ONE, or REPLICAOF host port")
	case watched || err != nil:
		s.awaiting.Store(awaitStarted)
		s.log.Warn("this node was watched by Sentinel when it ended: it refuses changes until Sentinel names it the primary, or REPLICAOF", "error", err)
	}
	return a
}

// primaryOf is the primary that the configuration names; zero: it names none.
func primaryOf(conf config.Config) (repl.Address, error) {
	host, port, err := config.ParsePrimary(conf.ReplicaOf)
	return repl.Address{Host: host, Port: port}, err
}

// setReplicaOf notes the primary, for CONFIG GET and REWRITE.
func (s *Server) setReplicaOf(a repl.Address) {
	text := ""
	if a != (repl.Address{}) {
		text = a.Host + " " + strconv.Itoa(a.Port)
	}
	s.config.SetReplicaOf(text)
}

// replicationSettings are what the node wants to know.
func (s *Server) replicationSettings() repl.Settings {
	c := s.config.Get()
	return repl.Settings{MasterAuth: c.MasterAuth, MasterUser: c.MasterUser, Port: c.Port, AnnounceIP: c.AnnounceIP, AnnouncePort: c.AnnouncePort,
		Timeout: time.Duration(c.ReplTimeout) * time.Second}
}
