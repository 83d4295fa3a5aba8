package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/node"
	"github.com/counterd/counterd/cmd/internal/connect"
)

var drainCommand = command{
	Name:    "drain",
	Args:    "HOST:PORT",
	Summary: "hand over the role of primary before the node is stopped",
	Details: `Prepares a node for its stop, for example in the preStop hook of a container. If the node is a primary with replicas, drain
asks for a planned failover, which loses nothing, and waits until the node is a replica. With --sentinel, Sentinel does the
failover (SENTINEL FAILOVER), so that it and its clients learn the new primary; otherwise the node does it (FAILOVER).
A replica, a primary without replicas and a node of a cluster have nothing to hand over here: a node of a cluster hands
over by itself when it is stopped. The exit status is 1 if the node is still a primary with replicas after --wait.`,
	Setup: func(flags *pflag.FlagSet) action {
		d := &drain{}
		flags.StringSliceVar(&d.sentinels, "sentinel", nil, "Sentinels to ask, HOST:PORT, in this order; the password and TLS are those of the node")
		flags.StringVar(&d.name, "sentinel-name", "mymaster", "name that Sentinel has for the primary")
		flags.DurationVar(&d.wait, "wait", 30*time.Second, "how long to wait for the failover")
		flags.DurationVar(&d.delay, "delay", 0, "how long to wait first, while load balancers take the node out")
		d.reach = connect.AddFlags(flags)
		return one("HOST:PORT", d.run)
	},
}

// drain is one run of the command.
type drain struct {
	sentinels   []string
	name        string
	wait, delay time.Duration
	reach       *connect.Flags
}

// drainPoll is how often the role of the node is read.
const drainPoll = 100 * time.Millisecond

func (d *drain) run(ctx context.Context, out output, addr string) error {
	if err := pause(ctx, d.delay); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.wait, fmt.Errorf("%s is still the primary after %v", addr, d.wait))
	defer cancel()
	n, err := node.Dial(ctx, addr, d.reach)
	if err != nil {
		return err
	}
	defer n.Close()
	asked := false
	for {
		done, why, err := d.drained(n)
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case done && asked:
			fmt.Fprintf(out.Stdout, "%s has handed its role over\n", addr)
			return nil
		case done:
			fmt.Fprintf(out.Stdout, "%s has nothing to hand over: %s\n", addr, why)
			return nil
		case !asked:
			if err := d.handOver(ctx, n, out.Stderr); err != nil {
				return err
			}
			asked = true
		}
		if err := pause(ctx, drainPoll); err != nil {
			return context.Cause(ctx)
		}
	}
}

// drained tells whether a node has no role to hand over, and why it has none.
func (d *drain) drained(n *node.Node) (done bool, why string, err error) {
	text, err := n.Do("INFO", "replication", "cluster")
	if err != nil {
		return false, "", err
	}
	lines := strings.Join(text, "\n")
	has := func(line string) bool { return strings.Contains(lines, line+"\r\n") }
	switch {
	case has("cluster_enabled:1"):
		return true, "a node of a cluster hands over when it is stopped", nil
	case !has("role:master"):
		return true, "it is a replica", nil
	case has("connected_slaves:0"):
		return true, "it has no replica", nil
	}
	return false, "", nil
}

// handOver asks the first Sentinel that agrees, or the node itself, for a planned failover.
func (d *drain) handOver(ctx context.Context, n *node.Node, said io.Writer) (err error) {
	if len(d.sentinels) == 0 {
		_, err := n.Do("FAILOVER", "TIMEOUT", fmt.Sprint(d.wait.Milliseconds()))
		return err
	}
	for _, addr := range d.sentinels {
		if err = d.askSentinel(ctx, addr); err == nil {
			return nil
		}
		fmt.Fprintln(said, err)
	}
	return fmt.Errorf("no Sentinel began a failover of %s", d.name)
}

func (d *drain) askSentinel(ctx context.Context, addr string) error {
	s, err := node.Dial(ctx, addr, d.reach)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.Do("SENTINEL", "FAILOVER", d.name)
	return err
}

// pause waits for d, or until ctx ends, whose error it then returns.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
