package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/wire"
)

// Shards is a target that is a cluster: a change names posts of one hash slot, and goes to the node that leads the shard
// of the slot. Behind a forward port all go to that port. It is not safe for concurrent use.
type Shards struct {
	named   string // the address that the user gave
	forward bool
	dial    func(ctx context.Context, addr string) (*wire.Conn, error)

	nodes   []string           // all addresses that are known, the named one first
	leaders []string           // addresses of primaries
	of      [slot.Slots]uint16 // 1 + the place in leaders; 0: the slot has no primary now
	stale   bool               // a node has refused a command or is out of reach: ask again
	next    int                // the node to dial next, in nodes
}

// RightsError says that the user lacks the right to ask a cluster where its hash slots are.
type RightsError struct {
	Addr string
	Err  error // the node's
}

func (e *RightsError) Error() string {
	return fmt.Sprintf("%s is a node of a cluster, and the user may not ask for its hash slots (%v): want the right +cluster|slots", e.Addr, e.Err)
}

func (e *RightsError) Unwrap() error { return e.Err }

var errNoLeader = errors.New("a hash slot has no primary")

// shardTimeout is for an answer of one node of a cluster. Another node may lead by then, and a repeat changes nothing.
const shardTimeout = 10 * time.Second

// FindShards asks a target whether it is a cluster; nil: it is one server. It waits as a Sink does. dial connects to any
// address.
func FindShards(ctx context.Context, o SinkOptions, named string, dial func(ctx context.Context, addr string) (*wire.Conn, error)) (s *Shards, err error) {
	if len(o.Columns) == 0 {
		return nil, nil
	}
	o.Dial = func(ctx context.Context) (*wire.Conn, error) { return dial(ctx, named) }
	a := asker{o: &o}
	defer a.close()
	err = a.ask(ctx, answerTimeout, func(conn *wire.Conn) error {
		s = &Shards{named: named, dial: dial, nodes: []string{named}}
		v, err := conn.Do("CLUSTER", "SLOTS")
		if err == nil {
			return s.read(v, named)
		}
		var refused *wire.ServerError
		if !errors.As(err, &refused) || !strings.HasPrefix(refused.Text, "ERR") && !strings.HasPrefix(refused.Text, "NOPERM") {
			return err
		}
		// A forward port says that it knows of no cluster. It refuses a change of two slots before it looks at the values,
		// which every server refuses.
		args := []string{"MSET"}
		for mid := uint64(1); mid <= 2; mid++ {
			c := o.Columns[0]
			args = append(args, string(o.Schema.AppendTagged(nil, c.Counter, c.Index, mid)), "x")
		}
		var why *wire.ServerError
		switch _, err = conn.Do(args...); {
		case err == nil:
			return fmt.Errorf("MSET of no number: %w", wire.ErrProtocol)
		case !errors.As(err, &why):
			return err
		case !strings.HasPrefix(why.Text, "CROSSSLOT"):
			s = nil
		case strings.HasPrefix(refused.Text, "NOPERM"):
			return &RightsError{named, refused}
		default:
			s.forward = true
		}
		return nil
	})
	return s, err
}

// read reads the answer to CLUSTER SLOTS of a node.
func (s *Shards) read(v wire.Value, asked string) error {
	list, err := ReadSlots(v, asked)
	if err != nil {
		return err
	}
	nodes, leaders := []string{s.named}, []string(nil)
	var of [slot.Slots]uint16
	for _, r := range list {
		at := slices.Index(leaders, r.Primary)
		if at < 0 {
			at, leaders = len(leaders), append(leaders, r.Primary)
		}
		for i := r.First; i <= r.Last; i++ {
			of[i] = uint16(at + 1)
		}
		for _, addr := range append([]string{r.Primary}, r.Replicas...) {
			if !slices.Contains(nodes, addr) {
				nodes = append(nodes, addr)
			}
		}
	}
	s.nodes, s.leaders, s.of, s.stale = nodes, leaders, of, false
	return nil
}

// leader is the address for commands of a slot; "": there is none now.
func (s *Shards) leader(of uint16) string {
	switch at := s.of[of]; {
	case s.forward:
		return s.named
	case at > 0:
		return s.leaders[at-1]
	}
	return ""
}

// Dial connects to some node, to another node each time, for questions that every node answers. It begins with the named node.
func (s *Shards) Dial(ctx context.Context) (conn *wire.Conn, err error) {
	if s.forward {
		return s.dial(ctx, s.named)
	}
	for range s.nodes {
		addr := s.nodes[s.next%len(s.nodes)]
		s.next++
		if conn, err = s.dial(ctx, addr); err == nil {
			return conn, nil
		}
		err = fmt.Errorf("%s: %w", addr, err)
	}
	return nil, err
}

// refresh asks all nodes in turns where the slots are, until one answers. Otherwise the old answer is the best there is.
func (s *Shards) refresh(ctx context.Context) {
	if s.forward {
		return
	}
	for _, addr := range slices.Clone(s.nodes) {
		conn, err := s.dial(ctx, addr)
		if err != nil {
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(shardTimeout))
		v, err := conn.Do("CLUSTER", "SLOTS")
		conn.Close()
		if err == nil && len(v.Array) > 0 && s.read(v, addr) == nil {
			return
		}
	}
}

// lasts raises the last numbers of producers to those that the target knows. An answer of a node that gave a group away, or
// its role up, a moment ago may be too low, and none is too high.
func (s *Shards) lasts(ctx context.Context, producer string, lasts *[slot.Groups]uint64) error {
	from := s.leaders
	if s.forward {
		from = []string{s.named}
	} else if slices.Contains(s.of[:], 0) {
		return errNoLeader
	}
	for _, addr := range from {
		if err := s.lastsOf(ctx, addr, producer, lasts); err != nil {
			return fmt.Errorf("%s: %w", addr, err)
		}
	}
	return nil
}

// lastsOf is lasts of one node.
func (s *Shards) lastsOf(ctx context.Context, addr, producer string, lasts *[slot.Groups]uint64) error {
	conn, err := s.dial(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	for group := range lasts {
		_ = conn.SetDeadline(time.Now().Add(shardTimeout))
		v, err := conn.Do("IDMP", "LAST", groupProducer(producer, uint8(group)))
		if err != nil {
			return err
		}
		if v.Null {
			continue
		}
		n, err := strconv.ParseUint(v.Text(), 10, 64)
		if err != nil {
			return fmt.Errorf("IDMP LAST answered %.40q", v.Text())
		}
		lasts[group] = max(lasts[group], n)
	}
	return nil
}

// groupProducer is the producer of the changes of a group of hash slots. The memory of a producer moves with
// the group, so each group has a producer: then the numbers of a chunk are the highest that are remembered, wherever groups move.
func groupProducer(producer string, group uint8) string {
	return fmt.Sprintf("%s-%02x", producer, group)
}
