package role

import (
	"context"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
)

// failoverPlan are the arguments of FAILOVER.
type failoverPlan struct {
	to      repl.Address // zero: any
	force   bool
	timeout time.Duration // 0: none
}

// ErrFailingOver refuses a second FAILOVER.
const ErrFailingOver = "ERR FAILOVER already in progress."

// failover: FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]. It answers when changes wait; INFO tells
// how it goes on.
func (n *Role) failover(c Conn, args [][]byte) {
	out := &c.Call().Out
	if n.elected != "" {
		out.Error("ERR FAILOVER not allowed in cluster mode: use CLUSTER FAILOVER, on the replica that is to lead")
		return
	}
	if len(args) == 2 && resp.EqualFold(args[1], "ABORT") {
		if !n.handover.abort(c.Executing()) {
			out.Error("ERR No failover in progress.")
			return
		}
		out.Status("OK")
		return
	}
	plan, text := parseFailover(args[1:])
	if text == "" {
		text = n.refuseFailover(&plan)
	}
	if text != "" {
		out.Error(text)
		return
	}
	ctx, cancel := context.WithCancel(n.life.ctx)
	if !n.handover.begin(cancel) {
		cancel()
		out.Error(ErrFailingOver)
		return
	}
	n.pause(pausedByFailover, guardPauseWrite, 0)
	end := func() { // lets changes go on, and then the next failover: that one has a pause of its own
		cancel()
		n.unpause(pausedByFailover)
		n.handover.end()
		n.RoleChanged()
	}
	if !n.life.start(func() {
		defer end()
		f := failover{n, ctx, plan}
		if err := f.run(); err != nil {
			n.log.Error("FAILOVER failed", "error", err)
		}
	}) {
		end()
	}
	out.Status("OK")
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
func (n *Role) refuseFailover(plan *failoverPlan) string {
	peers := n.repl.Peers().Infos()
	switch {
	case n.handover.state() != PhaseNone:
		return ErrFailingOver
	case n.Replica():
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
