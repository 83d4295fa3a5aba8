package sentinel

import (
	"cmp"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// fault is a way to lose a primary. All of them return.
type fault string

const (
	faultKill      fault = "kill -9"
	faultStop      fault = "SIGSTOP"
	faultPartition fault = "partition"
)

// failover is what was seen of one.
type failover struct {
	fault    fault
	accepted time.Duration // from the fault to the first change that the new primary took from a client of Sentinel
	elected  time.Duration // from the first +odown to the first +switch-master
	returned time.Duration // from the old primary's return until it follows
	alone    time.Duration // after its return, until it took its last change alone
	switches int           // primaries that Sentinel named
	tilts    int           // Sentinels that were kept from running for 2 s, and did nothing for 30
}

// TestSentinelSoak takes primary after primary away from three stock Sentinels while clients increment and ask WAIT for
// one replica, lets the old primary return, and checks every increment: acknowledged by WAIT it is there, refused it is
// not, and what the old primary took alone is cut from it, saved and counted. make failover does 50, beside
// redis-server's.
func TestSentinelSoak(t *testing.T) {
	if _, ok := harness.Tool(t, "redis-sentinel"); !ok {
		return
	}
	t.Parallel() // it waits most of the time
	here, networks := harness.InNamespace(t)
	if !here {
		return
	}
	r, seed := harness.Random(t)
	t.Logf("seed %d", seed)
	faults := []fault{faultPartition, faultStop, faultKill}
	if !networks {
		faults = faults[1:]
	}
	rounds := harness.Scaled(1)
	long := rounds > 1
	if long {
		r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	}
	groups := []*harness.Group{harness.NewGroup(t, "counterd", harness.CounterdPath, 0, networks, *harness.DownAfterFlag)}
	if path, err := exec.LookPath("redis-server"); long && err == nil {
		groups = append(groups, harness.NewGroup(t, "redis-server", path, 1, networks, *harness.DownAfterFlag))
	}
	// The groups take their faults in turns: while a primary is looked for in one, the other is quiet.
	var turn sync.Mutex
	var work sync.WaitGroup
	for _, g := range groups {
		work.Add(1)
		go func() {
			defer work.Done()
			s := soak{Group: g, load: g.StartWriters(4), turn: &turn, long: long}
			for i := range rounds {
				if !s.round(i, faults[i%len(faults)]) {
					return
				}
			}
			s.report()
		}()
	}
	work.Wait()
}

// soak is one group's part of the test. Its methods run beside the test's goroutine: they report errors and do not end
// the test.
type soak struct {
	*harness.Group
	load     *harness.SentinelClients
	turn     *sync.Mutex
	long     bool
	seen     []failover
	checked  int // mids below were checked
	sum      harness.Tally
	cutSets  int
	cutTimes int
}

// await is eventually for goroutines of a test.
func (s *soak) await(within time.Duration, what string, ok func() bool) bool {
	for deadline := time.Now().Add(within); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.T.Errorf("%s: not within %v: %s", s.Kind, within, what)
			return false
		}
		if s.T.Failed() {
			return false
		}
	}
	return true
}

// round is one failover, from a group at rest to a group at rest.
func (s *soak) round(number int, fault fault) bool {
	var old *harness.Member
	if !s.await(3*time.Minute, "the group is at rest", func() bool { old = s.Settled(); return old != nil }) {
		return false
	}
	busy := s.load.Size() + 200
	if !s.await(time.Minute, "the clients write", func() bool { return s.load.Size() >= busy }) {
		return false
	}
	seen := failover{fault: fault}
	cutsBefore, logs, size := 0, s.LogSizes(), old.Log.Size()
	cutsBefore, _ = strconv.Atoi(harness.ReplicationField(old.Server, "counterd_diverged_cuts"))

	s.turn.Lock()
	began := time.Now()
	s.strike(old, fault)
	probe := s.Group.Client(300 * time.Millisecond)
	ok := s.await(2**harness.DownAfterFlag+time.Minute, "a client of Sentinel writes again after "+string(fault), func() bool { return s.load.Probe(probe) == nil })
	seen.accepted = time.Since(began)
	probe.Close()
	s.turn.Unlock()
	if !ok {
		return false
	}
	var leader *harness.Member
	if !s.await(2*time.Minute, "the other replica follows the new primary", func() bool {
		leader = s.Named()
		if leader == nil || leader == old {
			return false
		}
		for _, m := range s.Nodes {
			if m != leader && m != old && !m.Follows(leader) {
				return false
			}
		}
		return true
	}) {
		return false
	}
	var alone *harness.Loner
	defer func() { alone.End() }()
	if fault != faultKill { // it takes changes, now or when it goes on: nobody told it
		alone = s.load.StartLoner(old.Direct)
	}
	switch {
	case fault == faultPartition:
		if !s.await(time.Minute, "the old primary takes changes alone", func() bool { return alone.Acked.Load() >= 100 }) {
			return false
		}
	case fault == faultStop && s.long:
		time.Sleep(time.Until(began.Add(30 * time.Second)))
	}
	back := time.Now()
	if s.heal(old, fault); fault == faultKill {
		alone = s.load.StartLoner(old.Direct)
		if s.Kind == "counterd" {
			size = 0
		}
	}
	if !s.await(3*time.Minute, "the group is at rest after the old primary returned from "+string(fault), func() bool { leader = s.Settled(); return leader != nil }) {
		return false
	}
	seen.returned = time.Since(back)
	alone.End()
	seen.alone = max(0, alone.Last.Sub(back))
	odown, _ := s.ReportedAt(logs, "+odown")
	named, times := s.ReportedAt(logs, "+switch-master")
	if odown.IsZero() || named.IsZero() {
		s.T.Errorf("%s: %s: no +odown or no +switch-master in Sentinel's logs", s.Kind, fault)
		return false
	}
	seen.elected, seen.switches = named.Sub(odown), (times+2)/3
	_, seen.tilts = s.ReportedAt(logs, "+tilt")
	if seen.switches > 1 || seen.elected > 2*time.Second || seen.accepted > *harness.DownAfterFlag+5*time.Second { // worth a look
		s.T.Logf("%s: %d primaries were named after %s, at %v:\n%s%s", s.Kind, seen.switches, fault, began, s.since(logs), leader.Log)
	}
	s.seen = append(s.seen, seen)
	s.T.Logf("%s %d: %-9s accepted %v, elected %v, old primary followed %v after its return, wrote alone for %v: %d acknowledged, %d refused", s.Kind, number,
		fault, seen.accepted.Round(time.Millisecond), seen.elected, seen.returned.Round(time.Millisecond), seen.alone.Round(time.Millisecond), alone.Acked.Load(), alone.Refused.Load())
	if s.Kind == "counterd" && !s.verify(leader, old, fault, cutsBefore, size) {
		return false
	}
	return !s.T.Failed()
}

// strike takes the primary away.
func (s *soak) strike(old *harness.Member, fault fault) {
	switch fault {
	case faultKill:
		old.Kill()
	case faultStop:
		old.Freeze(s.T)
	case faultPartition:
		s.Ip("link set dev " + old.Cable("n") + " down")
	}
}

// heal lets it return.
func (s *soak) heal(old *harness.Member, fault fault) {
	switch fault {
	case faultKill:
		old.Start()
	case faultStop:
		_ = old.Cmd.Process.Signal(syscall.SIGCONT)
	case faultPartition:
		s.Ip("link set dev " + old.Cable("n") + " up")
	}
}

// verify checks, with the clients at rest, that all nodes are equal, what became of each increment, and that what the
// old primary had alone was saved and counted.
func (s *soak) verify(leader, old *harness.Member, fault fault, cutsBefore, logSize int) bool {
	s.load.Pause.Lock()
	defer s.load.Pause.Unlock()
	if !s.await(time.Minute, "all nodes have the same items", func() bool {
		digest := harness.Ask(leader.Direct, "COUNTER.DIGEST")
		for _, m := range s.Nodes {
			if harness.Ask(m.Direct, "COUNTER.DIGEST") != digest {
				return false
			}
		}
		return digest != ""
	}) {
		return false
	}
	for _, m := range s.Nodes { // as Sentinel had it written
		if text, want := m.Settings(), fmt.Sprintf("replicaof %s %d\n", leader.Host, leader.Port); strings.Contains(text, "replicaof ") != (m != leader) || strings.Contains(text, want) != (m != leader) {
			s.T.Errorf("node %d's file, while node %d leads:\n%s", m.Number, leader.Number, text)
		}
	}
	end := s.load.Size()
	sum := s.load.Check(s.T, leader, s.checked, end)
	s.checked = end
	s.sum.Add(sum)
	cuts, _ := strconv.Atoi(harness.ReplicationField(old.Server, "counterd_diverged_cuts"))
	if fault == faultKill {
		cutsBefore = 0
	}
	s.cutTimes += cuts - cutsBefore
	sets := 0
	if cuts > cutsBefore {
		var file string
		last := harness.ReplicationField(old.Server, "counterd_diverged_last")
		for pair := range strings.SplitSeq(last, ",") {
			switch name, value, _ := strings.Cut(pair, "="); name {
			case "sets":
				sets, _ = strconv.Atoi(value)
			case "file":
				file = value
			}
		}
		if !strings.Contains(last, "sets=") {
			s.T.Errorf("counterd_diverged_last: %q, want how much was set", last)
		}
		files, _ := filepath.Glob(filepath.Join(old.Dir, "diverged-*.aof"))
		if sets > 0 && !slices.Contains(files, file) {
			s.T.Errorf("what was cut is to be in %s, there are %v", file, files)
		}
		if n := harness.ReplicationField(old.Server, "counterd_diverged_files"); n != strconv.Itoa(len(files)) {
			s.T.Errorf("counterd_diverged_files is %s, there are %v", n, files)
		}
		if text := old.Log.From(min(logSize, old.Log.Size())); !strings.Contains(text, "removed changes that only this node had") {
			s.T.Errorf("the log does not tell of the cut:\n%s", text)
		}
	}
	s.cutSets += sets
	// An increment of a new post is one change of one column.
	if lost := sum.Lost; lost > sets {
		s.T.Errorf("%s: %d increments that were acknowledged are gone, %d were saved and counted", fault, lost, sets)
	}
	return true
}

// since returns what the Sentinels logged behind places of their logs.
func (s *soak) since(sizes []int) string {
	var b strings.Builder
	for i, log := range s.Logs {
		fmt.Fprintf(&b, "Sentinel %d:\n%s", i, log.From(sizes[i]))
	}
	return b.String()
}

// report prints medians and spreads.
func (s *soak) report() {
	if s.Kind == "counterd" {
		s.T.Logf("increments: %d acknowledged by WAIT 1, all there; %d by INCR alone, of which %d were taken back in %d cuts that saved %d changes; %d refused, none there; %d without a reply",
			s.sum.Safe, s.sum.Lone, s.sum.Lost, s.cutTimes, s.cutSets, s.sum.Refused, s.sum.Unknown)
	}
	for _, fault := range []fault{faultKill, faultStop, faultPartition, ""} {
		var some []failover
		extra, tilts := 0, 0
		for _, f := range s.seen {
			if fault == "" || f.fault == fault {
				some = append(some, f)
				extra += f.switches - 1
				tilts += f.tilts
			}
		}
		if len(some) == 0 {
			continue
		}
		s.T.Logf("%-12s %-9s %2d: accepted %s; odown to switch %s; followed %s; alone %s; unwanted failovers %d, tilts %d", s.Kind, cmp.Or(string(fault), "all"), len(some),
			harness.MedianSpread(some, func(f failover) time.Duration { return f.accepted }), harness.MedianSpread(some, func(f failover) time.Duration { return f.elected }),
			harness.MedianSpread(some, func(f failover) time.Duration { return f.returned }), harness.MedianSpread(some, func(f failover) time.Duration { return f.alone }), extra, tilts)
	}
}
