package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
	"github.com/counterd/counterd/counter"
)

// handover is FAILOVER at work. Its phases are those of Redis:
//
//	waiting-for-sync      changes wait (see pause) until a replica has all there are; ABORT and TIMEOUT let them go on as if nothing was
//	failover-in-progress  this node takes no changes any more, and the replica is told to lead. ABORT makes this node the primary again,
//	                      though the replica may have become one
//
// Then this node follows the replica, and changes that waited are refused as a replica's. What was acknowledged before
// is in the log up to where this node stopped, and the replica is told only when it has the log up to there, unless
// FORCE says otherwise.
type handover struct {
	mu     sync.Mutex
	phase  string // empty: none
	cancel context.CancelFunc
	stuck  bool          // the replica was told to lead and does not answer
	ceded  bool          // REPLICAOF has ended it: this node does not lead again by itself
	again  bool          // it goes on after a start: see resumeHandover
	to     repl.Address  // the replica that is to lead; zero while it waits for one
	ended  chan struct{} // closed when it has ended
}

const (
	phaseNone    = "no-failover"
	phaseWaiting = "waiting-for-sync"
	phaseTelling = "failover-in-progress"
)

func (h *handover) state() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == "" {
		return phaseNone
	}
	return h.phase
}

// tells notes that a replica is to be told to lead.
func (h *handover) tells(to repl.Address) {
	h.mu.Lock()
	h.phase, h.to = phaseTelling, to
	h.mu.Unlock()
}

// target is the replica that is to lead; zero if there is none.
func (h *handover) target() repl.Address {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.to
}

// begin claims the handover; false if there is one already.
func (h *handover) begin(cancel context.CancelFunc) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != "" {
		return false
	}
	h.phase, h.cancel, h.ended = phaseWaiting, cancel, make(chan struct{})
	h.stuck, h.ceded, h.again = false, false, false
	return true
}

// resume is begin for one that the end of the process cut off. REPLICAOF ends it at any time.
func (h *handover) resume(cancel context.CancelFunc) bool {
	if !h.begin(cancel) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase, h.stuck, h.again = phaseTelling, true, true
	return true
}

// feeds tells whether this node, which gave its role up, has the newest log there is: the replica that is to lead may
// have lost its link before it had all.
func (h *handover) feeds() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.phase == phaseTelling && !h.again
}

// end notes that the handover has ended.
func (h *handover) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase, h.to = "", repl.Address{}
	close(h.ended)
}

// isStuck tells whether the replica was told to lead and does not answer, nor may ever.
func (h *handover) isStuck() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.phase != "" && h.stuck
}

// cede ends a handover that is stuck, as somebody says who leads, and waits for its end. Else the replica would be told
// to lead as soon as it is back, beside the one that took its place.
func (h *handover) cede() {
	h.mu.Lock()
	if h.phase == "" || !h.stuck {
		h.mu.Unlock()
		return
	}
	h.ceded = true
	h.cancel()
	ended := h.ended
	h.mu.Unlock()
	<-ended
}

func (h *handover) setStuck() {
	h.mu.Lock()
	h.stuck = true
	h.mu.Unlock()
}

func (h *handover) wasCeded() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ceded
}

// abort ends a handover; false if there is none.
//
// It returns when it has ended, unless the store is held by the caller, who would wait for itself.
func (h *handover) abort(held bool) bool {
	h.mu.Lock()
	if h.phase == "" {
		h.mu.Unlock()
		return false
	}
	h.cancel()
	ended := h.ended
	h.mu.Unlock()
	if !held {
		<-ended
	}
	return true
}

// failoverPlan are the arguments of FAILOVER.
type failoverPlan struct {
	to      repl.Address // zero: any
	force   bool
	timeout time.Duration // 0: none
}

const errFailingOver = "ERR FAILOVER already in progress."

// runFailover: FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]. It answers when changes wait; INFO tells
// how it goes on.
func runFailover(c *client, args [][]byte) {
	s := c.srv
	if len(args) == 2 && resp.EqualFold(args[1], "ABORT") {
		if !s.handover.abort(c.multi.executing) {
			c.Out.Error("ERR No failover in progress.")
			return
		}
		c.Out.Status("OK")
		return
	}
	plan, text := parseFailover(args[1:])
	if text == "" {
		text = s.refuseFailover(&plan)
	}
	if text != "" {
		c.Out.Error(text)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	if !s.handover.begin(cancel) {
		cancel()
		c.Out.Error(errFailingOver)
		return
	}
	s.pauses.begin(pausedByFailover, guardPauseWrite, 0)
	s.RoleChanged()
	s.done.Add(1)
	go func() {
		defer s.done.Done()
		defer cancel()
		defer s.endWithServer(cancel)()
		if err := s.handOver(ctx, plan); err != nil {
			s.log.Error("FAILOVER was not carried out", "error", err)
		}
		s.pauses.end(pausedByFailover)
		s.handover.end() // not before: the next failover has a pause of its own
		s.RoleChanged()
	}()
	c.Out.Status("OK")
}

// parseFailover reads the arguments behind the name. text is the error.
func parseFailover(args [][]byte) (plan failoverPlan, text string) {
	for i := 0; i < len(args); i++ {
		switch left := len(args) - i - 1; {
		case resp.EqualFold(args[i], "TIMEOUT") && left >= 1 && plan.timeout == 0:
			n, ok := resp.Number(args[i+1])
			if !ok {
				return plan, items.ErrNotInteger
			}
			if n <= 0 {
				return plan, "ERR FAILOVER timeout must be greater than 0"
			}
			plan.timeout = time.Duration(min(n, maxTimeout)) * time.Millisecond
			i++
		case resp.EqualFold(args[i], "TO") && left >= 2 && plan.to == repl.Address{}:
			port, ok := resp.Number(args[i+2])
			if !ok {
				return plan, items.ErrNotInteger
			}
			plan.to = repl.Address{Host: string(args[i+1]), Port: int(port)}
			i += 2
		case resp.EqualFold(args[i], "FORCE") && !plan.force:
			plan.force = true
		default:
			return plan, items.ErrSyntax
		}
	}
	return plan, ""
}

// refuseFailover tells why a plan cannot be carried out; empty: it can.
func (s *Server) refuseFailover(plan *failoverPlan) string {
	peers := s.node.Peers().Infos()
	switch {
	case s.handover.state() != phaseNone:
		return errFailingOver
	case s.store().Replica():
		return "ERR FAILOVER is not valid when server is a replica."
	case len(peers) == 0:
		return "ERR FAILOVER requires connected replicas."
	case plan.force && (plan.to == repl.Address{} || plan.timeout == 0):
		return "ERR FAILOVER with force option requires both a timeout and target HOST and IP."
	case plan.to == repl.Address{}:
		return ""
	}
	for _, p := range peers {
		if p.IP == plan.to.Host && p.Port == plan.to.Port {
			if !p.Online {
				return "ERR FAILOVER target replica is not online."
			}
			return ""
		}
	}
	return "ERR FAILOVER target HOST and PORT is not a replica."
}

// endWithServer calls cancel when the server ends, until the function it returns is called.
func (s *Server) endWithServer(cancel func()) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		select {
		case <-s.quit:
			cancel()
		case <-stopped:
		}
	}()
	return func() { close(stopped) }
}

// handOver does it. ctx ends by ABORT, or with the server.
func (s *Server) handOver(ctx context.Context, plan failoverPlan) error {
	store := s.store()
	wait := ctx
	if plan.timeout > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, plan.timeout)
		defer cancel()
	}
	target, ok := s.caughtUp(wait, plan.to)
	if !ok && (!plan.force || ctx.Err() != nil) {
		return errors.New("no replica caught up in time, or FAILOVER ABORT: changes go on here")
	}
	if !ok {
		target = plan.to
	}
	s.handover.tells(target)
	if err := s.node.NoteHandover(target, false); err != nil {
		return err
	}
	if err := store.Replication().Yield(); err != nil { // from here on nothing is added to the log
		return errors.Join(err, s.node.ForgetHandover())
	}
	s.RoleChanged()
	// Changes that were under way when the pause began may have come behind what the replica had.
	last, cancel := context.WithTimeout(wait, yieldedWithin)
	_, ok = s.caughtUp(last, target)
	cancel()
	if !ok && (!plan.force || ctx.Err() != nil) {
		return s.leadAgain(errors.New("the replica is gone, or FAILOVER ABORT"))
	}
	if !ok {
		if err := s.node.NoteHandover(target, true); err != nil {
			return s.leadAgain(err)
		}
	}
	s.log.Info("handing the role of the primary over", "to", target.String(), "offset", store.Replication().Position())
	leader, told := target, false
	for {
		var sent bool
		var err error
		if told {
			leader, err = s.leaderBy(ctx, target)
		}
		if err == nil && leader == target {
			sent, err = repl.Promote(ctx, target, s.replicationSettings())
		}
		if err == nil {
			break
		}
		if !told && !sent { // nothing has happened
			return s.leadAgain(err)
		}
		if !told {
			s.log.Warn("the replica was told to lead and does not answer: this node asks until it does; FAILOVER ABORT makes this the primary again, REPLICAOF a replica of another",
				"replica", target.String(), "error", err)
		}
		told = true
		s.handover.setStuck()
		select {
		case <-s.quit: // at the next start it refuses changes until it is told its role
			return err
		case <-ctx.Done():
			if s.handover.wasCeded() {
				return fmt.Errorf("REPLICAOF ended it: %w", err)
			}
			s.log.Warn("FAILOVER ABORT after the replica was told to lead: there may be two primaries", "replica", target.String())
			return s.leadAgain(err)
		case <-time.After(promoteRetry):
		}
	}
	s.setReplicaOf(leader)
	if err := s.node.Follow(leader); err != nil {
		return err
	}
	return s.node.ForgetHandover()
}

// leaderBy asks a replica that was told to lead and did not answer who leads: itself, as far as nobody has made it a
// replica of a third node since.
func (s *Server) leaderBy(ctx context.Context, replica repl.Address) (repl.Address, error) {
	role, err := repl.AskRole(ctx, replica, s.replicationSettings(), resumeAsk)
	if err != nil || role.Primary || s.isMe(role.Of) {
		return replica, err
	}
	for _, p := range s.node.Peers().Infos() {
		if p.Online && p.IP == replica.Host && p.Port == replica.Port { // it knows this node by another name
			return replica, nil
		}
	}
	if role.State != repl.LinkConnected {
		return replica, fmt.Errorf("it follows %s, and that one is not there", role.Of)
	}
	s.log.Warn("the replica that was told to lead follows another, as this node does now",
		"replica", replica.String(), "primary", role.Of.String())
	return role.Of, nil
}

// yieldedWithin is how long a replica that had all changes may take for the last ones, while nobody takes any. It may
// come again meanwhile.
const yieldedWithin = 10 * time.Second

// promoteRetry is the pause between attempts to learn whether a replica leads that was told to.
const promoteRetry = 100 * time.Millisecond

// caughtUp waits for a replica, any or the one at an address, that has the whole log.
func (s *Server) caughtUp(ctx context.Context, to repl.Address) (who repl.Address, ok bool) {
	log, peers := s.store().Replication(), s.node.Peers()
	peers.Wait(ctx, func() bool {
		end := log.Position()
		for _, p := range peers.Infos() {
			a := repl.Address{Host: p.IP, Port: p.Port}
			if p.Online && p.Applied >= end && (to == repl.Address{} || to == a) {
				who, ok = a, true
				return true
			}
		}
		return false
	})
	return who, ok
}

// leadAgain takes the role back. It returns err, and why it could not.
func (s *Server) leadAgain(err error) error {
	_, lerr := s.store().Replication().Lead()
	if lerr == nil {
		lerr = s.node.ForgetHandover()
	}
	s.node.Peers().DisconnectAll()
	s.RoleChanged()
	return errors.Join(fmt.Errorf("this is the primary again: %w", err), lerr)
}

const (
	// aliveWithin is how fresh the primary's last word must be for it to be asked: it speaks each second.
	aliveWithin = 1500 * time.Millisecond
	// handOverWithin is what a primary that is asked to hand over may take. Sentinel looks after a second whether its
	// replica leads, and then each second.
	handOverWithin = time.Second
)

// leadForSentinel makes this node the primary as Sentinel wants it. Sentinel tells only the replica. Where the primary
// lives (SENTINEL FAILOVER, or Sentinel was wrong about it) it would go on to take changes until it hears of it, a
// second or two, and the other replica would go on to acknowledge them: 568 increments that WAIT 1 had acknowledged
// were lost in a trial. So the primary is asked to hand over, as by FAILOVER, which loses nothing; and if it does not,
// the node leads as it is.
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
