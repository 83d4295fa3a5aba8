package console

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
	"github.com/counterd/counterd/counter"
)

// well is a primary without problems.
func well() *facts.State {
	s := &facts.State{Role: "primary", Disk: facts.Disk{Durable: true, Due: 64 << 20}, Memory: stats.Memory{RSS: 1 << 30}, Limits: facts.Limits{System: 1 << 34},
		Clients: facts.Clients{Connected: 10, Max: 100, ReadersMax: 100}}
	s.Disk.Total, s.Disk.Free = 1<<40, 1<<39
	return s
}

// TestVerdict: each thing that can be wrong is told with its level, and nothing else.
func TestVerdict(t *testing.T) {
	book, err := os.ReadFile("../../../../../docs/operate/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		level Level
		text  string
		wrong func(v *facts.State)
	}{
		{"well", OK, "", func(*facts.State) {}},
		{"loading", Warn, "Data is being loaded: 25 % of 4.0 GiB, about 10 s left", func(v *facts.State) {
			v.Loading = &facts.Loading{Done: 1 << 30, Total: 4 << 30, Left: 10 * time.Second}
			v.Refusal = "LOADING" // nothing else is told
		}},
		{"disk", Bad, "Changes are refused: the disk does not accept writes", func(v *facts.State) { v.Disk.Trouble = "no space left on device" }},
		{"disk", Bad, "The disk does not accept writes", func(v *facts.State) {
			v.Role, v.Link, v.Disk.Trouble, v.Refusal = "replica", &facts.Link{State: "connected"}, "input/output error", "READONLY"
		}},
		{"disk", Bad, "Changes are refused: the disk does not accept writes", func(v *facts.State) { // which is not to be told twice
			v.Disk.Trouble, v.Disk.Low = "no space left on device", true
		}},
		{"disk-low", Warn, "The disk is almost full: 10 MiB free", func(v *facts.State) { v.Disk.Low, v.Disk.Free = true, 10<<20 }},
		{"sync", Warn, "The disk is slow: the log has not been synced for 1.9 s", func(v *facts.State) { v.Disk.Fsync, v.Log.UnsyncedAge = "everysec", 1900*time.Millisecond }},
		{"well", OK, "", func(v *facts.State) { v.Log.UnsyncedAge = time.Hour }}, // appendfsync no
		{"memory", Bad, "Memory is full: changes that need more memory are refused", func(v *facts.State) { v.Tiers.Full = true }},
		{"ram", Warn, "The process uses 16 GiB of the machine's 16 GiB", func(v *facts.State) { v.Memory.RSS = v.Limits.System - 1 }},
		{"refused", Bad, "Changes are refused", func(v *facts.State) { v.Refusal = "READONLY Sentinel named another primary" }},
		{"pause", Note, "Commands are paused: CLIENT PAUSE", func(v *facts.State) { v.Pause = "CLIENT PAUSE" }},
		{"memory-only", Note, "Data is kept in memory only", func(v *facts.State) { v.Disk.Durable = false }},
		{"snapshot", Warn, "Snapshots fail", func(v *facts.State) { v.Snapshots.LastErr = errors.New("no space left on device") }},
		{"snapshot-old", Warn, "There is no snapshot", func(v *facts.State) { v.Log.Position = 300 << 20 }},
		{"snapshot-old", Warn, "The last snapshot is 3 h 5 min old", func(v *facts.State) {
			v.Log.Position, v.Disk.Due, v.Snapshots.LastTime = 8<<30, 0, at.Add(-185*time.Minute)
		}},
		{"lost", Bad, "2 ranges of posts cannot be read", func(v *facts.State) { v.Tiers.Broken = 2 }},
		{"lost", Bad, "3 ranges of posts cannot be read", func(v *facts.State) { v.Usage = []counter.Usage{{Unusable: 1}, {Unusable: 2}} }},
		{"damage", Warn, "Cold files contain damaged pages", func(v *facts.State) { v.Tiers.ReadErrors = 1 }},
		{"link", Bad, "The link to the primary 10.0.0.1:6379 is down", func(v *facts.State) {
			v.Role, v.Link = "replica", &facts.Link{Primary: "10.0.0.1:6379", State: "connecting", Down: time.Hour, Error: "connection refused"}
		}},
		{"link", Warn, "A full copy from the primary is in progress: 50 % of 8.0 GiB", func(v *facts.State) {
			v.Role, v.Link = "replica", &facts.Link{State: "sync", Copied: 4 << 30, Total: 8 << 30}
		}},
		{"well", OK, "", func(v *facts.State) { v.Cluster = &facts.Cluster{Shard: 1, Primary: true, Shards: 3, Nodes: 9} }},
		{"well", OK, "", func(v *facts.State) { // between two primaries, which is told by reads
			v.Role, v.Refusal, v.Cluster = "replica", "READONLY", &facts.Cluster{Shard: 1}
		}},
		{"free", Note, "This node is free: it belongs to no shard yet", func(v *facts.State) { v.Cluster = &facts.Cluster{Reads: "CLUSTERDOWN no shard"} }},
		{"writes", Bad, "Changes are refused", func(v *facts.State) { v.Cluster = &facts.Cluster{Shard: 1, Primary: true, Writes: "NOREPLICAS"} }},
		{"reads", Bad, "Reads are refused", func(v *facts.State) { v.Cluster = &facts.Cluster{Shard: 1, Reads: "CLUSTERDOWN lease"} }},
		{"etcd", Bad, "etcd does not answer", func(v *facts.State) { v.Cluster, v.Agent = &facts.Cluster{Shard: 1}, &facts.Agent{Etcd: "refused"} }},
		{"headless", Bad, "1 shard has no live primary", func(v *facts.State) { v.Cluster = &facts.Cluster{Shard: 1, Headless: 1} }},
		{"unowned", Bad, "128 hash slots belong to no shard", func(v *facts.State) { v.Cluster = &facts.Cluster{Shard: 1, Unowned: 128} }},
		{"thin", Warn, "2 shards have nodes that are not in sync", func(v *facts.State) { v.Cluster = &facts.Cluster{Shard: 1, Thin: 2} }},
		{"away", Warn, "1 node is away", func(v *facts.State) { v.Cluster = &facts.Cluster{Shard: 1, Away: 1} }},
		{"moves", Note, "3 moves of hash slots in progress", func(v *facts.State) { v.Cluster = &facts.Cluster{Shard: 1, Moves: 3} }},
		{"old-copy", Bad, "The directory is an older copy", func(v *facts.State) {
			v.Cluster, v.Agent = &facts.Cluster{Shard: 1}, &facts.Agent{Troubles: []facts.Trouble{{ID: "old-copy", Severe: true, Text: "The directory is an older copy"}}}
		}},
		{"etcd-older", Bad, "The log is of a later epoch", func(v *facts.State) {
			v.Cluster, v.Agent = &facts.Cluster{Shard: 1}, &facts.Agent{Troubles: []facts.Trouble{{ID: "etcd-older", Severe: true, Text: "The log is of a later epoch"}}}
		}},
		{"disk", Bad, "Changes are refused: the disk does not accept writes", func(v *facts.State) { // told once
			v.Disk.Trouble, v.Cluster = "no space", &facts.Cluster{Shard: 1, Primary: true}
			v.Agent = &facts.Agent{Troubles: []facts.Trouble{{ID: "disk", Severe: true, Text: "the disk does not accept writes"}}}
		}},
		{"link", Bad, "This replica has no primary", func(v *facts.State) { v.Role = "replica" }},
		{"replica-10.0.0.2:6379", Note, "Replica 10.0.0.2:6379 is receiving a full copy", func(v *facts.State) { v.Replicas = []facts.Replica{{Addr: "10.0.0.2:6379"}} }},
		{"replica-10.0.0.2:6379", Warn, "Replica 10.0.0.2:6379 does not answer", func(v *facts.State) {
			v.Replicas = []facts.Replica{{Addr: "10.0.0.2:6379", Online: true, Lag: time.Minute}}
		}},
		{"replica-10.0.0.2:6379", Warn, "Replica 10.0.0.2:6379 is 100 MiB behind", func(v *facts.State) {
			v.Replicas = []facts.Replica{{Addr: "10.0.0.2:6379", Online: true, Behind: 100 << 20}}
		}},
		{"replica-10.0.0.2:6379", Warn, "Replica 10.0.0.2:6379 is so far behind that it needs a full copy", func(v *facts.State) {
			v.Replicas = []facts.Replica{{Addr: "10.0.0.2:6379", Online: true, Kept: -1}}
		}},
		{"few", Bad, "Changes need 2 replicas, and only 1 follow", func(v *facts.State) {
			v.Replication.MinReplicas, v.Replication.GoodReplicas, v.Refusal = 2, 1, "NOREPLICAS Not enough good replicas to write."
		}},
		{"clients", Warn, "99 of 100 connections are in use", func(v *facts.State) { v.Clients.Connected = 99 }},
		{"clients", Warn, "99 of 100 connections for reads are in use", func(v *facts.State) { v.Clients.Connected, v.Clients.Readers = 109, 99 }},
		{"certificate", Warn, "The TLS certificate expires in 3 days", func(v *facts.State) { v.Process.Certificate = at.Add(80 * time.Hour) }},
		{"certificate", Bad, "The TLS certificate has expired", func(v *facts.State) { v.Process.Certificate = at.Add(-time.Hour) }},
		{"panics", Warn, "1 internal error since the start", func(v *facts.State) { v.Process.Panics = 1 }},
		{"healing", Bad, "The data of this node was damaged, and it copies the data of another node", func(v *facts.State) { v.Replication.Healing = "a bad page" }},
		{"diverged", Note, "2 files contain changes that this node took back", func(v *facts.State) { v.Replication.Diverged = 2 }},
	} {
		var j judge
		v := well()
		c.wrong(v)
		j.look(at, v)
		got := j.verdict()
		if c.level == OK {
			if len(got.Problems) > 0 || got.Level != OK || got.Text != "All is well" {
				t.Errorf("%s: got %+v", c.name, got)
			}
			continue
		}
		if len(got.Problems) != 1 || got.Problems[0].ID != c.name || got.Problems[0].Level != c.level || got.Problems[0].Text != c.text || got.Level != c.level {
			t.Errorf("%s: got %+v, want level %d, %q", c.name, got, c.level, c.text)
		}
		if want := c.text; c.level >= Warn && got.Text != want || c.level < Warn && got.Text != "All is well" {
			t.Errorf("%s: the verdict is %q", c.name, got.Text)
		}
		if _, anchor, ok := strings.Cut(got.Problems[0].Runbook, "docs/operate/runbooks.md#"); !ok || !strings.Contains(string(book), `<a id="`+anchor+`"></a>`) {
			t.Errorf("%s: the runbook %q is not there", c.name, got.Problems[0].Runbook)
		}
		if v = well(); c.name == "link" {
			v.Role, v.Link = "replica", &facts.Link{State: "connected"}
		}
		j.look(at.Add(time.Minute), v)
		got = j.verdict()
		if replica := strings.HasPrefix(c.name, "replica-"); got.Level != OK && !replica || len(got.Ended) != 1 && c.level >= Warn {
			t.Errorf("%s: a minute later: %+v", c.name, got)
		}
		// An episode says what it was, not how far it had come when it was looked at last.
		if len(got.Ended) == 1 && (strings.Contains(c.text, " % of ") == (got.Ended[0].Text == c.text) || !strings.HasPrefix(c.text, got.Ended[0].Text)) {
			t.Errorf("%s: it ended as %q", c.name, got.Ended[0].Text)
		}
	}
}

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestSince: a problem keeps its time while it lasts, the worst comes first, ended problems are listed, newest first,
// except brief and old ones.
func TestSince(t *testing.T) {
	var j judge
	v := well()
	j.look(at, v)
	for s := range 10 {
		v.Disk.Low, v.Disk.Fsync = true, "everysec"
		v.Log.UnsyncedAge = time.Duration(s) * time.Second
		j.look(at.Add(time.Duration(10+s)*time.Second), v)
	}
	got := j.verdict()
	if len(got.Problems) != 2 || got.Problems[0].ID != "disk-low" || got.Since != at.Add(10*time.Second).UnixMilli() || got.Problems[1].Since != at.Add(12*time.Second).UnixMilli() {
		t.Errorf("got %+v", got)
	}
	v = well()
	v.Refusal = "NOREPLICAS"
	j.look(at.Add(30*time.Second), v)
	v.Refusal = ""
	j.look(at.Add(31*time.Second), v)
	got = j.verdict()
	if got.Level != OK || got.Since != at.Add(31*time.Second).UnixMilli() || len(got.Ended) != 2 {
		t.Errorf("got %+v", got)
	}
	for i := range 100 {
		v.Process.Panics = 1
		j.look(at.Add(time.Duration(100+20*i)*time.Second), v)
		v.Process.Panics = 0
		j.look(at.Add(time.Duration(110+20*i)*time.Second), v)
	}
	if got = j.verdict(); len(got.Ended) != maxEpisodes || got.Ended[0].To <= got.Ended[1].To {
		t.Errorf("%d are kept, want %d", len(got.Ended), maxEpisodes)
	}
	j.look(at.Add(72*time.Hour), v)
	if got = j.verdict(); len(got.Ended) != 0 {
		t.Errorf("%d are kept after three days", len(got.Ended))
	}
}

// TestReplicaGone: a replica that went away is told of for an hour, and however many come and go, few are remembered.
func TestReplicaGone(t *testing.T) {
	var j judge
	v := well()
	v.Replicas = []facts.Replica{{Addr: "10.0.0.2:6379", Online: true}}
	j.look(at, v)
	v.Replicas = nil
	for _, c := range []struct {
		after time.Duration
		told  bool
	}{{time.Second, false}, {time.Minute, true}, {59 * time.Minute, true}, {61 * time.Minute, false}} {
		j.look(at.Add(c.after), v)
		if got := j.verdict(); (got.Level == Warn) != c.told || c.told && got.Since != at.UnixMilli() {
			t.Errorf("after %v: %+v", c.after, got)
		}
	}
	for i := range 1000 {
		v.Replicas = []facts.Replica{{Addr: fmt.Sprint(i), Online: true}}
		j.look(at.Add(2*time.Hour), v)
	}
	if len(j.replicas) > maxReplicas {
		t.Errorf("%d replicas are remembered", len(j.replicas))
	}
}

// TestTurnedAway: clients that were turned away are told of for a minute, those before the first look are not.
func TestTurnedAway(t *testing.T) {
	var j judge
	v := well()
	v.Clients.Rejected = 5
	for i, want := range []Level{OK, OK, Bad, Bad, OK} {
		if i == 2 {
			v.Clients.Rejected = 6
		}
		j.look(at.Add(time.Duration(i)*40*time.Second), v)
		if j.level != want {
			t.Errorf("look %d: level %d, want %d", i, j.level, want)
		}
	}
}
