package server

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/repl"
	"github.com/counterd/counterd/counter"
)

// handover is FAILOVER at work: the primary stops to take changes, a replica catches up to its last byte and is told to lead, and this
// node follows it. Until the replica was told to lead it can be taken back.
type handover struct {
	mu     sync.Mutex
	phase  string // empty: none
	cancel context.CancelFunc
}

func (h *handover) state() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == "" {
		return "no-failover"
	}
	return h.phase
}

func (h *handover) set(phase string) {
	h.mu.Lock()
	h.phase = phase
	h.mu.Unlock()
}

// begin claims the handover; false if there is one already.
func (h *handover) begin(cancel context.CancelFunc) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != "" {
		return false
	}
	h.phase, h.cancel = "waiting-for-sync", cancel
	return true
}

// abort ends a handover that waits; false if there is none.
func (h *handover) abort() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != "waiting-for-sync" {
		return false
	}
	h.cancel()
	return true
}

// failoverPlan are the arguments of FAILOVER.
type failoverPlan struct {
	to      repl.Address // zero: any
	force   bool
	timeout time.Duration // 0: none
}

// runFailover: FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds].
func runFailover(c *client, args [][]byte) {
	var plan failoverPlan
	abort := false
	for i := 1; i < len(args); i++ {
		switch left := len(args) - i - 1; {
		case equalFold(args[i], "ABORT"):
			abort = true
		case equalFold(args[i], "FORCE"):
			plan.force = true
		case equalFold(args[i], "TIMEOUT") && left >= 1 && plan.timeout == 0:
			n, ok := number(args[i+1])
			if !ok || n <= 0 || n > 1<<40 {
				c.error("ERR FAILOVER timeout must be greater than 0")
				return
			}
			plan.timeout = time.Duration(n) * time.Millisecond
			i++
		case equalFold(args[i], "TO") && left >= 2:
			port, ok := number(args[i+2])
			if !ok || port < 1 || port > 65535 {
				c.error(errNotInteger)
				return
			}
			plan.to = repl.Address{Host: string(args[i+1]), Port: int(port)}
			i += 2
		default:
			c.error(errSyntax)
			return
		}
	}
	s := c.srv
	peers := s.node.Peers().Infos()
	switch {
	case abort && len(args) > 2:
		c.error(errSyntax)
	case abort:
		if !s.handover.abort() {
			c.error("ERR No failover in progress.")
			return
		}
		c.ok()
	case s.handover.state() != "no-failover":
		c.error("ERR FAILOVER already in progress.")
	case s.store().Replica():
		c.error("ERR FAILOVER is not valid when server is a replica.")
	case len(peers) == 0:
		c.error("ERR FAILOVER requires connected replicas.")
	case plan.force && (plan.to == repl.Address{} || plan.timeout == 0):
		c.error("ERR FAILOVER with force option requires both a timeout and target HOST and IP.")
	case plan.to != repl.Address{} && !knows(peers, plan.to):
		c.error("ERR FAILOVER target HOST and PORT is not a replica.")
	default:
		ctx, cancel := context.WithCancel(context.Background())
		if plan.timeout > 0 {
			ctx, cancel = context.WithTimeout(context.Background(), plan.timeout)
		}
		if !s.handover.begin(cancel) {
			cancel()
			c.error("ERR FAILOVER already in progress.")
			return
		}
		s.done.Add(1)
		go func() {
			defer s.done.Done()
			defer s.handover.set("")
			defer cancel()
			stop := make(chan struct{})
			defer close(stop)
			go func() {
				select {
				case <-s.quit:
					cancel()
				case <-stop:
				}
			}()
			if err := s.handOver(ctx, plan); err != nil {
				s.log.Error("failover ended", "error", err)
			}
		}()
		c.ok()
	}
}

func knows(peers []repl.PeerInfo, a repl.Address) bool {
	for _, p := range peers {
		if p.Online && p.IP == a.Host && p.Port == a.Port {
			return true
		}
	}
	return false
}

// handOver does it.
func (s *Server) handOver(ctx context.Context, plan failoverPlan) error {
	store := s.store()
	if err := store.Yield(); err != nil { // from here on nothing is added to the log
		return err
	}
	s.RoleChanged()
	end := store.Log().Position()
	var target repl.Address
	s.node.Peers().Wait(ctx, func() bool {
		for _, p := range s.node.Peers().Infos() {
			a := repl.Address{Host: p.IP, Port: p.Port}
			if p.Online && p.Applied >= end && (plan.to == repl.Address{} || plan.to == a) {
				target = a
				return true
			}
		}
		return false
	})
	if target == (repl.Address{}) && plan.force {
		target = plan.to
	}
	if target == (repl.Address{}) || ctx.Err() != nil && !plan.force {
		_, err := store.Lead()
		s.node.Peers().DisconnectAll()
		s.RoleChanged()
		return errors.Join(errors.New("no replica caught up in time, or FAILOVER ABORT: this is the primary again"), err)
	}
	s.handover.set("failover-in-progress")
	s.log.Info("handing the role of the primary over", "to", target.String(), "offset", end)
	var err error
	for range 10 {
		var sent bool
		if sent, err = repl.Promote(target, s.replicationSettings()); err == nil {
			break
		}
		if !sent { // it does not know of this: nothing has happened
			_, lerr := store.Lead()
			s.node.Peers().DisconnectAll()
			s.RoleChanged()
			return errors.Join(err, lerr)
		}
	}
	s.config.setReplicaOf(target)
	return errors.Join(err, s.node.Follow(target))
}

const (
	// aliveWithin is how fresh the primary's last word must be for it to be asked: it speaks each second.
	aliveWithin = 1500 * time.Millisecond
	// handOverWithin is what a primary that is asked to hand over may take. Sentinel looks after a second whether its replica leads, and then each second.
	handOverWithin = time.Second
)

// leadForSentinel makes this node the primary as Sentinel wants it. Sentinel tells only the replica. Where the primary lives (SENTINEL FAILOVER, or
// Sentinel was wrong about it) it would go on to take changes until it hears of it, a second or two, and the other replica would
// go on to acknowledge them: 568 increments that WAIT 1 had acknowledged were lost in a trial. So the primary is asked to hand over, as by FAILOVER, which
// loses nothing; and if it does not, the node leads as it is.
func (s *Server) leadForSentinel() error {
	info, ok := s.node.Link()
	if !ok || info.State != repl.LinkConnected || info.LastIO < 0 || info.LastIO > aliveWithin {
		return s.node.Lead()
	}
	if err := repl.AskFailover(info.Primary, s.replicationSettings(), handOverWithin); err != nil {
		s.log.Warn("the primary does not hand over: what it takes from now on is lost", "primary", info.Primary.String(), "error", err)
		return s.node.Lead()
	}
	for deadline := time.Now().Add(handOverWithin + handOverWithin/2); s.store().Replica() && time.Now().Before(deadline); {
		select {
		case <-s.quit:
			return counter.ErrClosed
		case <-time.After(5 * time.Millisecond):
		}
	}
	return s.node.Lead()
}

// fromSentinel tells whether the connection is one of Sentinel's, by the name that it gives it.
func (c *client) fromSentinel() bool {
	name, _, _ := c.info.names()
	return strings.HasPrefix(name, "sentinel-")
}

// lines of a configuration file that name the primary, under all names.
func isRoleLine(name string) bool {
	return strings.EqualFold(name, "replicaof") || strings.EqualFold(name, "slaveof")
}
