package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Step is one search. A round of it runs the test binary of a package once.
type Step struct {
	Name    string // unique, short; names the files of findings
	What    string // one sentence for the page: which faults are made, and what is checked
	Package string // relative to the module's root
	Run     string // pattern of the tests, as of go test -run
	Tags    string // build tags of the binary
	Flags   []string
	Env     []string
	Share   float64       // of the time, relative to the other steps
	Round   time.Duration // expected length of a round, until one was measured
	Least   time.Duration // of a round that is as long as it is told to be: not shorter than this and not longer than Round; 0 for others
	Count   string        // regular expression; the sum of its first group over the output is what a round counted
	Unit    string        // of Count
	Fuzz    bool          // Run is one fuzz target, and Flags tell how long
	Needs   []string      // programs, or root for network namespaces; a machine without them leaves the step out, which the page says
	Once    bool          // the tests try every case and draw nothing, so a second round finds nothing new
}

// length in Flags stands for the length of a round.
const length = "{length}"

// fitted returns steps whose rounds are as long as their share of the time allows, so that a short search has rounds of all steps.
func fitted(all []Step, total time.Duration) []Step {
	shares := 0.0
	for _, s := range all {
		shares += s.Share
	}
	all = slices.Clone(all)
	for i := range all {
		s := &all[i]
		if s.Least == 0 {
			continue
		}
		s.Round = min(s.Round, max(s.Least, time.Duration(float64(total)*s.Share/shares)))
		s.Flags = slices.Clone(s.Flags)
		for k := range s.Flags {
			s.Flags[k] = strings.ReplaceAll(s.Flags[k], length, (s.Round * 9 / 10).Round(time.Second).String())
		}
	}
	return all
}

// missing names the program or right that the machine lacks for a step; empty: none.
func (s Step) missing() string {
	for _, need := range s.Needs {
		if need == "root" && os.Geteuid() != 0 {
			return "this user is not root"
		} else if _, err := exec.LookPath(need); need != "root" && err != nil {
			return need + " is not installed"
		}
	}
	return ""
}

// steps are all searches but fuzzing, whose targets the runner lists by itself. Shares follow what has found faults: of those found by
// experiment, two thirds needed two mechanisms of several nodes at once.
var steps = []Step{
	{Name: "log-crash", Package: "./persist", Run: "^TestLogCrash$", Flags: []string{"-scripts", "150"}, Share: 6, Round: time.Minute,
		What:  "Power fails at every write of a random life of the log; unsynced sectors survive at random. All committed changes are read again.",
		Count: `(\d+) crash points`, Unit: "crash points"},
	{Name: "image-crash", Package: "./persist/snapfile", Run: "^(TestImageCrash|TestImagesCrash)$", Once: true, Share: 1, Round: 5 * time.Second,
		What: "Power fails at every write of a snapshot's images."},
	{Name: "cut-crash", Package: "./persist/past", Run: "^(TestSaveDivergedCrash|TestInstallCrash)$", Once: true, Share: 1, Round: 5 * time.Second,
		What: "Power fails at every write while a log is cut or a copy is installed."},
	{Name: "store-crash", Package: "./counter", Run: "Crash|Fault|RestoreEverywhere|PartialRows|EvenlySpaced", Share: 8, Round: time.Minute,
		What:  "Power fails, or an operation of the disk fails, at every operation of a store with snapshots, cold files, numbered changes and transactions.",
		Count: `(\d+) crash points`, Unit: "crash points"},
	{Name: "file-damage", Package: "./counter", Run: "^TestDamagedFiles$", Share: 2, Round: 15 * time.Second,
		What:  "One file of each kind is damaged, before a start or while the store serves: flipped bits, zeroed and swapped sectors, cuts. No wrong number is read.",
		Count: `(\d+) damages`, Unit: "damaged files"},
	{Name: "every-bit", Package: "./counter", Run: "^TestDamagedFiles$", Flags: []string{"-every-damage"}, Once: true, Share: 3, Round: 8 * time.Minute,
		What:  "As file-damage, with every bit, every length, every sector and every pair of sectors of each file.",
		Count: `(\d+) damages`, Unit: "damaged files"},
	{Name: "cold-bits", Package: "./coldstore", Run: "^(TestFlips|TestDamageVariants)$", Flags: []string{"-every-damage"}, Once: true, Share: 1, Round: 20 * time.Second,
		What: "Every bit, length and sector of a cold file is damaged; its reader finds each."},
	{Name: "replica-model", Package: "./counter", Run: "^(TestReplicaModel|TestReplicaRepairModel|TestFeedRepairModel)$", Share: 3, Round: 30 * time.Second,
		What:  "Replicas follow a primary over links that break, restart and lose their tails; files of both are damaged and repaired. They end with the primary's state.",
		Count: `(\d+) links`, Unit: "links"},
	{Name: "clusters", Package: "./cmd/counterd/internal/nodes/cluster", Run: "^(TestSimulation|TestRollBack)$", Env: []string{"SEEDS=250"}, Share: 8,
		Round: 40 * time.Second, What: "The cluster's real rules on simulated machines, networks and etcd; every change that was acknowledged is there once.",
		Count: `(\d+) runs from seed`, Unit: "clusters"},
	{Name: "whole-system", Package: "./cmd/counterd/internal/testkit/simulation", Run: "^TestWholeSystem$", Tags: "noepoll,hangs", Flags: []string{"-runs", "50"}, Share: 8,
		Round: 2 * time.Minute, What: "Real servers on simulated disks, networks and etcd: power losses, kills, cuts, moves, full copies; counts are exact and replicas equal.",
		Count: `(\d+) runs from seed`, Unit: "runs"},
	{Name: "moves", Package: "./cmd/counterd/internal/nodes/move", Run: "^(TestMoves|TestLosses|TestOrphans)$", Share: 4, Round: 20 * time.Second,
		What: "Hash slots move between shards while nodes, links and etcd fail at every step."},
	{Name: "kill", Package: "./cmd/counterd/e2e/durability", Run: "^(TestDurableKill|TestDurableKillCalls)$", Share: 4, Round: 90 * time.Second,
		What:  "kill -9 of the real server under load, at random and at each system call that changes a file.",
		Count: `(\d+) kills|in (\d+) of \d+ rounds`, Unit: "kills"},
	{Name: "replica-cuts", Package: "./cmd/counterd/e2e/replication", Run: "^(TestReplicaCuts|TestReplicaCutsCopies|TestReplicaLostTail)$", Share: 3, Round: 2 * time.Minute,
		What:  "Connections between a primary and its replicas are closed, reset, stalled or cut one way; nodes are killed. All counts are exact.",
		Count: `(\d+) cuts`, Unit: "cuts"},
	{Name: "failover", Package: "./cmd/counterd/e2e/replication", Run: "^TestFailoverUnderLoad$", Share: 2, Round: time.Minute,
		What: "Planned failovers under load.", Count: `(\d+) failovers`, Unit: "failovers"},
	{Name: "sentinel", Package: "./cmd/counterd/e2e/sentinel", Run: "^(TestSentinelSoak|TestNumberedFailovers)$", Share: 4, Round: 3 * time.Minute,
		What: "Sentinel replaces primaries that are killed, stopped or cut off while clients send numbered changes.", Needs: []string{"redis-sentinel"}, Count: `(\d+) failovers`, Unit: "failovers"},
	{Name: "feed-sentinel", Package: "./cmd/counterd/e2e/sentinel", Run: "^TestFeedSentinel$", Flags: []string{"-feed-rounds", "20"}, Share: 2, Round: 2 * time.Minute,
		What:  "Consumers of the feed, with a file, a stream, a topic, two web services and client.Feed, are killed beside failovers by Sentinel: each gets each change once and in order.",
		Needs: []string{"redis-sentinel"}, Count: `(\d+) failovers`, Unit: "failovers"},
	{Name: "feed-cluster", Package: "./cmd/counterd/e2e/cluster", Run: "^TestFeedCluster$", Flags: []string{"-feed-rounds", "40"}, Share: 2, Round: 2 * time.Minute,
		What:  "As feed-sentinel, beside failovers and moves of hash slots in a cluster.",
		Needs: []string{"etcd"}, Count: `(\d+) failovers`, Unit: "failovers"},
	{Name: "chaos", Package: "./cmd/counterd/e2e/cluster", Run: "^TestClusterChaos$", Flags: []string{"-cluster-faults", "8"}, Share: 6, Round: 4 * time.Minute, Needs: []string{"root", "ip", "nsenter", "etcd"},
		What: "Real processes, real etcd and network namespaces: kills, stops, partitions, full disks, lost directories.", Count: `(\d+) faults, \d+ increments`, Unit: "faults"},
	{Name: "soak", Package: "./cmd/counterd/e2e/replication", Run: "^TestSoak$", Flags: []string{"-soak", length}, Share: 8, Round: 28 * time.Minute, Least: time.Minute,
		What:  "A primary and its replica at half load, with snapshots, schema changes, cold ranges, backups, restarts and full copies: sums are exact, and memory does not grow.",
		Count: `(\d+) changes in`, Unit: "changes"},
}
