package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
)

// runbooks is the page that tells what to do, with a section for each problem's kind.
const runbooks = "https://github.com/counterd/counterd/blob/main/docs/operate/runbooks.md#"

// Problem is one thing that is wrong, or has to be known.
type Problem struct {
	ID      string `json:"id"` // its kind, and behind a hyphen which one of several, as "replica-10.0.0.1:6379"
	Level   Level  `json:"level"`
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"`    // its meaning, or advice
	Runbook string `json:"runbook,omitempty"` // address of a page about it
	Since   int64  `json:"since"`             // ms since 1970

	ended string // the text when it is over: without how far something had come; empty: Text
}

// Episode is a problem that has ended.
type Episode struct {
	ID    string `json:"id"`
	Level Level  `json:"level"`
	Text  string `json:"text"` // as it was last, without how far something had come
	From  int64  `json:"from"` // ms since 1970
	To    int64  `json:"to"`
}

// Verdict is all of it in a line.
type Verdict struct {
	Level    Level     `json:"level"`
	Text     string    `json:"text"`
	Since    int64     `json:"since"` // ms since 1970
	Problems []Problem `json:"problems"`
	Ended    []Episode `json:"ended"` // newest first
}

const (
	maxEpisodes  = 12
	episodesKept = 24 * time.Hour
	// brief problems are not told of when they are over: a sync that took two seconds once is no episode.
	brief = 2 * time.Second
)

// Limits from which on something is a problem.
const (
	slowSync      = 1800 * time.Millisecond // of 2.1 s at which changes are refused
	replicaSilent = 5 * time.Second
	replicaBehind = 64 << 20 // bytes
	fullOfClients = 0.95
	fullOfMemory  = 0.95 // of the machine's
	// A snapshot is old when the log since it is so much more than that at which one is made.
	oldSnapshot = 4
	// If snapshots are not automatic: as much log as a start replays in some seconds.
	longReplay = 4 << 30
	// Renewals are made a month before the end; a backup that has failed for two weeks is not automatic any more.
	certificateEnds = 14 * 24 * time.Hour
)

// judge keeps the present problems and the time since they began. The zero judge has seen nothing.
type judge struct {
	open     map[string]Problem
	ended    []Episode
	changed  time.Time // when the level changed last
	level    Level
	replicas map[string]time.Time // that are expected, and when they were last seen
	rejected int64
	seen     bool
	refused  time.Time // when a client was last turned away
}

// look judges a moment.
func (j *judge) look(now time.Time, v *facts.State) {
	found := j.find(now, v)
	if j.open == nil {
		j.open, j.changed = make(map[string]Problem), now
	}
	level := OK
	still := make(map[string]Problem, len(found))
	for _, p := range found {
		level = max(level, p.Level)
		if old, ok := j.open[p.ID]; ok {
			p.Since = old.Since
		} else if p.Since == 0 {
			p.Since = now.UnixMilli()
		}
		still[p.ID] = p
	}
	for id, p := range j.open {
		if _, ok := still[id]; !ok && p.Level >= Warn && now.UnixMilli()-p.Since >= brief.Milliseconds() {
			j.ended = slices.Insert(j.ended, 0, Episode{p.ID, p.Level, cmp.Or(p.ended, p.Text), p.Since, now.UnixMilli()})
		}
	}
	j.ended = slices.DeleteFunc(j.ended, func(e Episode) bool { return e.To < now.Add(-episodesKept).UnixMilli() })
	if len(j.ended) > maxEpisodes {
		j.ended = j.ended[:maxEpisodes]
	}
	if j.open = still; level != j.level {
		j.level, j.changed = level, now
	}
}

// verdict is the result of the last check.
func (j *judge) verdict() Verdict {
	v := Verdict{Level: j.level, Since: j.changed.UnixMilli(), Text: "All is well", Problems: []Problem{}, Ended: slices.Clone(j.ended)}
	for _, p := range j.open {
		v.Problems = append(v.Problems, p)
	}
	slices.SortFunc(v.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(a.Since, b.Since), strings.Compare(a.ID, b.ID))
	})
	if len(v.Problems) > 0 && v.Level >= Warn {
		v.Text, v.Since = v.Problems[0].Text, v.Problems[0].Since
	}
	if v.Ended == nil {
		v.Ended = []Episode{}
	}
	return v
}

// find returns the present problems.
func (j *judge) find(now time.Time, v *facts.State) (found []Problem) {
	say := func(level Level, id, text, hint string) {
		found = append(found, Problem{ID: id, Level: level, Text: text, Hint: hint, Runbook: runbooks + kind(id)})
	}
	progress := func(text string) { // adds the progress to the last problem
		p := &found[len(found)-1]
		p.ended, p.Text = p.Text, p.Text+text
	}
	ago := func(d time.Duration) { found[len(found)-1].Since = now.Add(-d).UnixMilli() }
	if l := v.Loading; l != nil {
		text := ""
		if l.Total > 0 {
			text += fmt.Sprintf(": %.0f %% of %s", 100*float64(l.Done)/float64(l.Total), Bytes(l.Total))
		}
		if l.Left > 0 {
			text += ", about " + Span(l.Left) + " left"
		}
		say(Warn, "loading", "Data is being loaded", "Commands get LOADING until all data has been read.")
		progress(text)
		return found // nothing else is known yet
	}
	j.service(v, say)
	j.disk(now, v, say)
	if rss, ram := v.Memory.RSS, v.Limits.System; ram > 0 && float64(rss) > fullOfMemory*float64(ram) {
		say(Warn, "ram", fmt.Sprintf("The process uses %s of the machine's %s", Bytes(uint64(rss)), Bytes(uint64(ram))),
			"The operating system may kill it. Lower maxmemory: the oldest ranges of posts are then moved to files.")
	}
	j.damage(v, say)
	j.replication(now, v, say, progress, ago)
	j.cluster(v, say)
	j.connections(now, v, say)
	switch until := v.Process.Certificate; {
	case until.IsZero() || until.Sub(now) > certificateEnds:
	case !until.After(now):
		say(Bad, "certificate", "The TLS certificate has expired", "Clients refuse it. Replace the file, then send SIGHUP or use CONFIG SET tls-cert-file.")
		ago(now.Sub(until))
	default:
		say(Warn, "certificate", "The TLS certificate expires in "+Span(until.Sub(now)), "Replace the file, then send SIGHUP or use CONFIG SET tls-cert-file.")
	}
	if n := v.Process.Panics; n > 0 {
		say(Warn, "panics", plural(int(n), "internal error", "internal errors")+" since the start", "The server closed the connections concerned. The log contains stack traces: please report them.")
	}
	if n := v.Replication.Diverged; n > 0 {
		say(Note, "diverged", plural(n, "file contains", "files contain")+" changes that this node took back", "They were made here, and the new primary did not have them. See diverged-* in the data directory.")
	}
	c := &v.Replication.Compare
	if c.Differing > 0 {
		say(Bad, "differs", plural(int(c.Differing), "range of posts differs", "ranges of posts differ")+" on a replica, and could not be mended", "The log of the replica says why.")
	}
	if c.Recently {
		say(Warn, "differed", plural(int(c.Differences), "post", "posts")+" differed between this node and another, and got the right values",
			"Memory that flips bits is the most likely cause. Last: "+facts.Clip(c.Last))
	}
	if v.Agent != nil {
		for _, t := range v.Agent.Troubles {
			if !slices.ContainsFunc(found, func(p Problem) bool { return p.ID == t.ID }) {
				level := Warn
				if t.Severe {
					level = Bad
				}
				say(level, t.ID, facts.Clip(t.Text), "")
			}
		}
	}
	return found
}

type sayer func(level Level, id, text, hint string)

// kind is the part of a problem's id that stands for all of its kind: "replica" of "replica-10.0.0.1:6379". Kinds of two
// words, as "disk-low", have no digit and no colon.
func kind(id string) string {
	if word, which, ok := strings.Cut(id, "-"); ok && strings.ContainsAny(which, "0123456789:") {
		return word
	}
	return id
}

// service: refused or waiting requests.
func (j *judge) service(v *facts.State, say sayer) {
	switch {
	case v.Disk.Trouble != "" && v.Role == "replica":
		say(Bad, "disk", "The disk does not accept writes", "This replica has stopped applying changes: "+v.Disk.Trouble)
	case v.Disk.Trouble != "":
		say(Bad, "disk", "Changes are refused: the disk does not accept writes", v.Disk.Trouble)
	case v.Tiers.Full:
		say(Bad, "memory", "Memory is full: changes that need more memory are refused",
			"maxmemory is exceeded, and the disk is too slow for the ranges that must be moved to it. Reads, and changes of posts in memory, continue.")
	}
	if v.Refusal != "" && v.Role != "replica" && !few(v) && v.Cluster == nil {
		say(Bad, "refused", "Changes are refused", facts.Clip(v.Refusal))
	}
	if v.Pause != "" {
		say(Note, "pause", "Commands are paused: "+v.Pause, "")
	}
	if !v.Disk.Durable {
		say(Note, "memory-only", "Data is kept in memory only", "appendonly is no: all data is lost when the process ends.")
	}
}

// disk: space, syncs and snapshots.
func (j *judge) disk(now time.Time, v *facts.State, say sayer) {
	d, s := &v.Disk, &v.Snapshots
	if d.Low && d.Trouble == "" { // else changes are refused already
		say(Warn, "disk-low", fmt.Sprintf("The disk is almost full: %s free", Bytes(uint64(max(0, d.Free)))),
			fmt.Sprintf("The server keeps %s free for a snapshot, and refuses changes when no more than that is left.", Bytes(uint64(max(0, d.Reserve)))))
	}
	if d.Fsync == "everysec" && v.Log.UnsyncedAge > slowSync && d.Trouble == "" {
		say(Warn, "sync", "The disk is slow: the log has not been synced for "+Span(v.Log.UnsyncedAge), "After 2.1 s without a sync, changes are refused.")
	}
	switch limit, behind := oldSnapshot*d.Due, v.Replay(); {
	case s.LastErr != nil:
		say(Warn, "snapshot", "Snapshots fail", facts.Clip(s.LastErr.Error())+". The previous snapshot stays valid. The log grows, and a start takes longer.")
	case limit > 0 && behind > limit || d.Due == 0 && behind > longReplay:
		text := "There is no snapshot"
		if !s.LastTime.IsZero() {
			text = "The last snapshot is " + Span(now.Sub(s.LastTime)) + " old"
		}
		say(Warn, "snapshot-old", text, "A start must replay "+Bytes(behind)+" of log. BGSAVE makes a snapshot.")
	}
}

// damage: data that cannot be read.
func (j *judge) damage(v *facts.State, say sayer) {
	if v.Replication.Healing != "" {
		say(Bad, "healing", "The data of this node was damaged, and it copies the data of another node", "Reads get MASTERDOWN until it has all of it. The damaged files are kept as *.damaged-*: "+facts.Clip(v.Replication.Healing))
	}
	if v.Replication.Waits != "" {
		say(Bad, "healing-waits", "The data directory is damaged, and no other node is known to have the data", "Nothing is set aside, and the node serves nothing until another node leads, or a person repairs a node: "+facts.Clip(v.Replication.Waits))
	}
	lost := v.Tiers.Broken
	unusable := int64(0)
	for i := range v.Usage {
		unusable += v.Usage[i].Unusable
	}
	if lost = max(lost, unusable); lost > 0 {
		say(Bad, "lost", plural(int(lost), "range", "ranges")+" of posts cannot be read",
			"Their keys get IOERR; all other keys are served. COUNTER.BLOCKS names the files. Restore the files, or copy the data from a replica.")
	} else if v.Tiers.ReadErrors+v.Tiers.ScrubErrors > 0 {
		say(Warn, "damage", "Cold files contain damaged pages", "Keys in these pages get IOERR. The log names files and pages; counterctl check verifies all files.")
	}
}

// replication: the link of a replica, and the replicas of a node.
func (j *judge) replication(now time.Time, v *facts.State, say sayer, progress func(string), ago func(time.Duration)) {
	if l := v.Link; l != nil {
		switch {
		case l.Copying():
			text := ""
			if l.Total > 0 {
				text += fmt.Sprintf(": %.0f %% of %s", 100*float64(l.Copied)/float64(l.Total), Bytes(uint64(l.Total)))
			}
			say(Warn, "link", "A full copy from the primary is in progress", "Until it is complete, reads return the data that was here before.")
			progress(text)
			ago(l.Down)
		case !l.Up():
			hint := "Reads return the data that was here before."
			if l.Error != "" {
				hint = facts.Clip(l.Error) + ". " + hint
			}
			say(Bad, "link", "The link to the primary "+l.Primary+" is down", hint)
			ago(l.Down)
		}
	} else if v.Role == "replica" && v.Cluster == nil { // in a cluster, the cluster's problems say so
		say(Bad, "link", "This replica has no primary", "It refuses changes until REPLICAOF sets its primary, or REPLICAOF NO ONE makes it a primary.")
	}
	if j.replicas == nil || v.Role == "replica" {
		j.replicas = make(map[string]time.Time)
	}
	for i, r := range v.Replicas {
		if r.Online {
			if len(j.replicas) < maxReplicas || !j.replicas[r.Addr].IsZero() {
				j.replicas[r.Addr] = now
			}
		}
		switch id := "replica-" + r.Addr; {
		case i >= maxReplicas:
		case !r.Online:
			say(Note, id, "Replica "+r.Addr+" is receiving a full copy", "")
		case r.Lag > replicaSilent:
			say(Warn, id, "Replica "+r.Addr+" does not answer", "")
			ago(r.Lag)
		case r.Kept < 0:
			say(Warn, id, "Replica "+r.Addr+" is so far behind that it needs a full copy", "Increase aof-retain to keep more log for replicas.")
		case r.Behind > replicaBehind:
			say(Warn, id, "Replica "+r.Addr+" is "+Bytes(r.Behind)+" behind", fmt.Sprintf("If it falls behind by another %s, it needs a full copy.", Bytes(uint64(r.Kept))))
		}
	}
	for addr, seen := range j.replicas {
		switch gone := now.Sub(seen); {
		case gone > goneFor:
			delete(j.replicas, addr)
		case gone > replicaSilent && !slices.ContainsFunc(v.Replicas, func(r facts.Replica) bool { return r.Addr == addr }):
			say(Warn, "gone-"+addr, "Replica "+addr+" has disconnected", "If you removed it on purpose, ignore this: the message disappears after an hour.")
			ago(gone)
		}
	}
	if few(v) {
		say(Bad, "few", fmt.Sprintf("Changes need %d replicas, and only %d follow", v.Replication.MinReplicas, v.Replication.GoodReplicas), "min-replicas-to-write: changes are refused until enough replicas follow.")
	}
}

// few tells whether changes are refused because too few replicas follow.
func few(v *facts.State) bool {
	return v.Replication.MinReplicas > 0 && v.Replication.GoodReplicas < v.Replication.MinReplicas && v.Role != "replica"
}

const (
	maxReplicas = 32          // replicas that are shown and remembered
	goneFor     = time.Hour   // after this, a replica that disconnected is forgotten
	turnedAway  = time.Minute // how long refused connections are reported
)

// connections: too many of them.
func (j *judge) connections(now time.Time, v *facts.State, say sayer) {
	c := &v.Clients
	if j.seen && c.Rejected > j.rejected {
		j.refused = now
	}
	j.rejected, j.seen = c.Rejected, true
	writers := c.Connected - c.Readers
	switch {
	case !j.refused.IsZero() && now.Sub(j.refused) < turnedAway:
		say(Bad, "clients", "Connections are refused: there are too many", fmt.Sprintf("%d connections are open; maxclients is %d.", writers, c.Max))
	case float64(writers) > fullOfClients*float64(c.Max):
		say(Warn, "clients", fmt.Sprintf("%d of %d connections are in use", writers, c.Max), "Further connections are refused: see maxclients.")
	case float64(c.Readers) > fullOfClients*float64(c.ReadersMax):
		say(Warn, "clients", fmt.Sprintf("%d of %d connections for reads are in use", c.Readers, c.ReadersMax), "Further connections are refused: see readonly-maxclients.")
	}
}
