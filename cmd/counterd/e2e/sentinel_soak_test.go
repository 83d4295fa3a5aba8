package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var downAfterFlag = flag.Duration("down-after", downAfter, "Sentinel's down-after-milliseconds in TestSentinelSoak")

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
	if _, ok := tool(t, "redis-sentinel"); !ok {
		return
	}
	t.Parallel() // it waits most of the time
	here, networks := inNamespace(t)
	if !here {
		return
	}
	r, seed := random(t)
	t.Logf("seed %d", seed)
	faults := []fault{faultPartition, faultStop, faultKill}
	if !networks {
		faults = faults[1:]
	}
	rounds := scaled(1)
	long := rounds > 1
	if long {
		r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	}
	groups := []*group{newGroup(t, "counterd", counterdPath, 0, networks, *downAfterFlag)}
	if path, err := exec.LookPath("redis-server"); long && err == nil {
		groups = append(groups, newGroup(t, "redis-server", path, 1, networks, *downAfterFlag))
	}
	// The groups take their faults in turns: while a primary is looked for in one, the other is quiet.
	var turn sync.Mutex
	var work sync.WaitGroup
	for _, g := range groups {
		work.Add(1)
		go func() {
			defer work.Done()
			s := soak{group: g, load: g.startWriters(4), turn: &turn, long: long}
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
	*group
	load     *sentinelClients
	turn     *sync.Mutex
	long     bool
	seen     []failover
	checked  int // mids below were checked
	sum      tally
	cutSets  int
	cutTimes int
}

// await is eventually for goroutines of a test.
func (s *soak) await(within time.Duration, what string, ok func() bool) bool {
	for deadline := time.Now().Add(within); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Errorf("%s: not within %v: %s", s.kind, within, what)
			return false
		}
		if s.t.Failed() {
			return false
		}
	}
	return true
}

// round is one failover, from a group at rest to a group at rest.
func (s *soak) round(number int, fault fault) bool {
	var old *member
	if !s.await(3*time.Minute, "the group is at rest", func() bool { old = s.settled(); return old != nil }) {
		return false
	}
	busy := s.load.size() + 200
	if !s.await(time.Minute, "the clients write", func() bool { return s.load.size() >= busy }) {
		return false
	}
	seen := failover{fault: fault}
	cutsBefore, logs, size := 0, s.logSizes(), old.log.size()
	cutsBefore, _ = strconv.Atoi(replicationField(old.server, "counterd_diverged_cuts"))

	s.turn.Lock()
	began := time.Now()
	s.strike(old, fault)
	probe := s.group.client(300 * time.Millisecond)
	ok := s.await(2**downAfterFlag+time.Minute, "a client of Sentinel writes again after "+string(fault), func() bool { return s.load.probe(probe) == nil })
	seen.accepted = time.Since(began)
	probe.Close()
	s.turn.Unlock()
	if !ok {
		return false
	}
	var leader *member
	if !s.await(2*time.Minute, "the other replica follows the new primary", func() bool {
		leader = s.named()
		if leader == nil || leader == old {
			return false
		}
		for _, m := range s.nodes {
			if m != leader && m != old && !m.follows(leader) {
				return false
			}
		}
		return true
	}) {
		return false
	}
	var alone *loner
	defer func() { alone.end() }()
	if fault != faultKill { // it takes changes, now or when it goes on: nobody told it
		alone = s.load.startLoner(old.direct)
	}
	switch {
	case fault == faultPartition:
		if !s.await(time.Minute, "the old primary takes changes alone", func() bool { return alone.acked.Load() >= 100 }) {
			return false
		}
	case fault == faultStop && s.long:
		time.Sleep(time.Until(began.Add(30 * time.Second)))
	}
	back := time.Now()
	if s.heal(old, fault); fault == faultKill {
		alone = s.load.startLoner(old.direct)
		if s.kind == "counterd" {
			size = 0
		}
	}
	if !s.await(3*time.Minute, "the group is at rest after the old primary returned from "+string(fault), func() bool { leader = s.settled(); return leader != nil }) {
		return false
	}
	seen.returned = time.Since(back)
	alone.end()
	seen.alone = max(0, alone.last.Sub(back))
	odown, _ := s.reportedAt(logs, "+odown")
	named, times := s.reportedAt(logs, "+switch-master")
	if odown.IsZero() || named.IsZero() {
		s.t.Errorf("%s: %s: no +odown or no +switch-master in Sentinel's logs", s.kind, fault)
		return false
	}
	seen.elected, seen.switches = named.Sub(odown), (times+2)/3
	_, seen.tilts = s.reportedAt(logs, "+tilt")
	if seen.switches > 1 || seen.elected > 2*time.Second || seen.accepted > *downAfterFlag+5*time.Second { // worth a look
		s.t.Logf("%s: %d primaries were named after %s, at %v:\n%s%s", s.kind, seen.switches, fault, began, s.since(logs), leader.log)
	}
	s.seen = append(s.seen, seen)
	s.t.Logf("%s %d: %-9s accepted %v, elected %v, old primary followed %v after its return, wrote alone for %v: %d acknowledged, %d refused", s.kind, number,
		fault, seen.accepted.Round(time.Millisecond), seen.elected, seen.returned.Round(time.Millisecond), seen.alone.Round(time.Millisecond), alone.acked.Load(), alone.refused.Load())
	if s.kind == "counterd" && !s.verify(leader, old, fault, cutsBefore, size) {
		return false
	}
	return !s.t.Failed()
}

// strike takes the primary away.
func (s *soak) strike(old *member, fault fault) {
	switch fault {
	case faultKill:
		old.kill()
	case faultStop:
		_ = old.cmd.Process.Signal(syscall.SIGSTOP)
		s.await(time.Minute, "all threads have stopped", old.halted)
	case faultPartition:
		s.ip("link set dev " + old.cable("n") + " down")
	}
}

// halted tells whether every thread of the process is stopped. They go on for a moment behind SIGSTOP.
func (m *member) halted() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", m.cmd.Process.Pid))
	for _, path := range threads {
		data, err := os.ReadFile(path)
		if _, state, _ := strings.Cut(string(data), ") "); err != nil || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return len(threads) > 0
}

// heal lets it return.
func (s *soak) heal(old *member, fault fault) {
	switch fault {
	case faultKill:
		old.start()
	case faultStop:
		_ = old.cmd.Process.Signal(syscall.SIGCONT)
	case faultPartition:
		s.ip("link set dev " + old.cable("n") + " up")
	}
}

// verify checks, with the clients at rest, that all nodes are equal, what became of each increment, and that what the
// old primary had alone was saved and counted.
func (s *soak) verify(leader, old *member, fault fault, cutsBefore, logSize int) bool {
	s.load.pause.Lock()
	defer s.load.pause.Unlock()
	if !s.await(time.Minute, "all nodes have the same items", func() bool {
		digest := ask(leader.direct, "COUNTER.DIGEST")
		for _, m := range s.nodes {
			if ask(m.direct, "COUNTER.DIGEST") != digest {
				return false
			}
		}
		return digest != ""
	}) {
		return false
	}
	for _, m := range s.nodes { // as Sentinel had it written
		if text, want := m.settings(), fmt.Sprintf("replicaof %s %d\n", leader.host, leader.port); strings.Contains(text, "replicaof ") != (m != leader) || strings.Contains(text, want) != (m != leader) {
			s.t.Errorf("node %d's file, while node %d leads:\n%s", m.number, leader.number, text)
		}
	}
	end := s.load.size()
	sum := s.load.check(s.t, leader, s.checked, end)
	s.checked = end
	s.sum.add(sum)
	cuts, _ := strconv.Atoi(replicationField(old.server, "counterd_diverged_cuts"))
	if fault == faultKill {
		cutsBefore = 0
	}
	s.cutTimes += cuts - cutsBefore
	sets := 0
	if cuts > cutsBefore {
		var file string
		last := replicationField(old.server, "counterd_diverged_last")
		for pair := range strings.SplitSeq(last, ",") {
			switch name, value, _ := strings.Cut(pair, "="); name {
			case "sets":
				sets, _ = strconv.Atoi(value)
			case "file":
				file = value
			}
		}
		if !strings.Contains(last, "sets=") {
			s.t.Errorf("counterd_diverged_last: %q, want how much was set", last)
		}
		files, _ := filepath.Glob(filepath.Join(old.dir, "diverged-*.aof"))
		if sets > 0 && !slices.Contains(files, file) {
			s.t.Errorf("what was cut is to be in %s, there are %v", file, files)
		}
		if n := replicationField(old.server, "counterd_diverged_files"); n != strconv.Itoa(len(files)) {
			s.t.Errorf("counterd_diverged_files is %s, there are %v", n, files)
		}
		if text := old.log.from(min(logSize, old.log.size())); !strings.Contains(text, "changes that only this node had were taken back") {
			s.t.Errorf("the log does not tell of the cut:\n%s", text)
		}
	}
	s.cutSets += sets
	// An increment of a new post is one change of one column.
	if lost := sum.lost; lost > sets {
		s.t.Errorf("%s: %d increments that were acknowledged are gone, %d were saved and counted", fault, lost, sets)
	}
	return true
}

// since returns what the Sentinels logged behind places of their logs.
func (s *soak) since(sizes []int) string {
	var b strings.Builder
	for i, log := range s.logs {
		fmt.Fprintf(&b, "Sentinel %d:\n%s", i, log.from(sizes[i]))
	}
	return b.String()
}

func (sum *tally) add(more tally) {
	sum.safe += more.safe
	sum.lone += more.lone
	sum.lost += more.lost
	sum.refused += more.refused
	sum.unknown += more.unknown
}

// report prints medians and spreads.
func (s *soak) report() {
	if s.kind == "counterd" {
		s.t.Logf("increments: %d acknowledged by WAIT 1, all there; %d by INCR alone, of which %d were taken back in %d cuts that saved %d changes; %d refused, none there; %d without a reply",
			s.sum.safe, s.sum.lone, s.sum.lost, s.cutTimes, s.cutSets, s.sum.refused, s.sum.unknown)
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
		s.t.Logf("%-12s %-9s %2d: accepted %s; odown to switch %s; followed %s; alone %s; unwanted failovers %d, tilts %d", s.kind, cmp.Or(string(fault), "all"), len(some),
			medianSpread(some, func(f failover) time.Duration { return f.accepted }), medianSpread(some, func(f failover) time.Duration { return f.elected }),
			medianSpread(some, func(f failover) time.Duration { return f.returned }), medianSpread(some, func(f failover) time.Duration { return f.alone }), extra, tilts)
	}
}

// medianSpread is the median, the least and the most.
func medianSpread[T any](some []T, of func(T) time.Duration) string {
	var list []time.Duration
	for _, f := range some {
		list = append(list, of(f))
	}
	slices.Sort(list)
	ms := func(i int) string { return strconv.FormatFloat(list[i].Seconds(), 'f', 2, 64) }
	return ms(len(list)/2) + " s (" + ms(0) + "-" + ms(len(list)-1) + ")"
}
