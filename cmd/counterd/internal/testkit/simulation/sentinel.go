package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/internal/wire"
)

// sentinel decides for nodes without etcd, as redis-sentinel does: it asks each node each second, names the primary on each node each
// 2 s, promotes the replica with the most log when the primary does not answer, and makes all others follow. It stands for all
// Sentinels of a group, which agree with each other.
//
// Such a group may lose acknowledged changes. It must not lose a change that all replicas have, by the answer of WAIT:
// History.CheckConfirmed.
type sentinel struct {
	run     *Run
	stack   *Stack
	dice    *Dice
	primary *Machine
	epoch   int
	heard   map[*Machine]time.Time // when a node answered last
	wrong   map[*Machine]time.Time // since when a node has another role than it should
	forced  chan struct{}          // SENTINEL FAILOVER
}

const sentinelHost = "10.0.2.1"

func newSentinel(r *Run) *sentinel {
	return &sentinel{run: r, stack: r.Net.Boot(sentinelHost, versionNow), dice: NewDice(r.Seed, "sentinel"), primary: r.Machines[0], epoch: 1,
		heard: make(map[*Machine]time.Time), wrong: make(map[*Machine]time.Time), forced: make(chan struct{}, 1)}
}

// work watches the nodes until the run has ended.
func (s *sentinel) work(ctx context.Context) {
	for _, m := range s.run.Machines {
		s.heard[m] = time.Now()
	}
	for round := 0; ctx.Err() == nil; round++ {
		infos := s.ask(round%2 == 0)
		for m, info := range infos {
			s.heard[m] = time.Now()
			s.judge(m, info)
		}
		select {
		case <-s.forced:
			s.failover(infos)
		default:
			if time.Since(s.heard[s.primary]) > s.run.Config.NodeTimeout {
				s.failover(infos)
			}
		}
		time.Sleep(s.dice.Between(900*time.Millisecond, 1100*time.Millisecond))
	}
}

// ask asks all nodes for their role at once, and says on each of them which is the primary.
func (s *sentinel) ask(hello bool) map[*Machine]map[string]string {
	var mu sync.Mutex
	infos := make(map[*Machine]map[string]string)
	var all sync.WaitGroup
	for _, m := range s.run.Machines {
		all.Go(func() {
			v, err := s.tell(m, "INFO", "replication")
			if err != nil || !strings.Contains(v.Text(), "role:") {
				return
			}
			info := make(map[string]string)
			for line := range strings.Lines(v.Text()) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
				info[name] = value
			}
			mu.Lock()
			infos[m] = info
			mu.Unlock()
			if hello {
				_, _ = s.tell(m, "PUBLISH", role.HelloChannel, fmt.Sprintf("%s,26379,%040d,%d,simulated,%s,7000,%d", sentinelHost, 1, s.epoch, s.primary.host, s.epoch))
			}
		})
	}
	all.Wait()
	return infos
}

// tell sends one command on a connection of its own.
func (s *sentinel) tell(m *Machine, words ...string) (wire.Value, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := wire.Dial(ctx, m.host+":7000", wire.Options{Buffer: clientBuffer, Connect: s.stack.Connect, Timeout: time.Second, Answer: time.Second})
	if err != nil {
		return wire.Value{}, err
	}
	defer conn.Close()
	if _, err := conn.Do("CLIENT", "SETNAME", "sentinel-simulated-cmd"); err != nil {
		return wire.Value{}, err
	}
	return conn.Do(words...)
}

// judge makes a node follow the primary when it has had another role for a while.
func (s *sentinel) judge(m *Machine, info map[string]string) {
	if m == s.primary || info["role"] == "slave" && info["master_host"] == s.primary.host {
		delete(s.wrong, m)
		return
	}
	if s.wrong[m].IsZero() {
		s.wrong[m] = time.Now()
	}
	if time.Since(s.wrong[m]) > 3*time.Second {
		_, err := s.tell(m, "SLAVEOF", s.primary.host, "7000")
		s.run.Story.Say("sen", "%s shall follow %s: %v", m.name, s.primary.name, err)
	}
}

// failover promotes the replica with the most log.
func (s *sentinel) failover(infos map[*Machine]map[string]string) {
	var able []*Machine
	for m, info := range infos {
		if m != s.primary && info["role"] == "slave" && info["slave_priority"] != "0" {
			able = append(able, m)
		}
	}
	if len(able) == 0 {
		return
	}
	end := func(m *Machine) int {
		n, _ := strconv.Atoi(infos[m]["slave_repl_offset"])
		return n
	}
	slices.SortFunc(able, func(a, b *Machine) int { return cmp.Or(cmp.Compare(end(b), end(a)), cmp.Compare(a.name, b.name)) })
	m := able[0]
	s.epoch++
	_, err := s.tell(m, "SLAVEOF", "NO", "ONE")
	s.run.Story.Say("sen", "%s shall lead in epoch %d, with a log up to %d: %v", m.name, s.epoch, end(m), err)
	var failed *wire.ServerError
	if errors.As(err, &failed) {
		return
	}
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(time.Second) {
		if v, err := s.tell(m, "INFO", "replication"); err == nil && strings.Contains(v.Text(), "role:master") {
			s.primary = m
			s.heard[m] = time.Now()
			clear(s.wrong)
			return
		}
	}
}

// confirm tells whether all replicas have the changes of the client's connection.
func (c *client) confirm() bool {
	replicas := len(c.run.Machines) - 1
	if c.conn == nil {
		return false
	}
	_ = c.conn.SetDeadline(time.Now().Add(c.run.Config.Patience))
	v, err := c.conn.Do("WAIT", strconv.Itoa(replicas), "1000")
	var failed *wire.ServerError
	if err != nil {
		if !errors.As(err, &failed) {
			c.hangUp()
		}
		return false
	}
	return v.Text() == strconv.Itoa(replicas)
}
