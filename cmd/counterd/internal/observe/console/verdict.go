package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// runbooks is the page that tells what to do, with a section for each problem's kind.
const runbooks = "https://github.com/counterd/counterd/blob/main/docs/operate/runbooks.md#"

// Problem is one thing that is wrong, or has to be known.
type Problem struct {
	ID      string `json:"id"` // its kind, and behind a hyphen which one of several, as "replica-10.0.0.1:6379"
	Level   Level  `json:"level"`
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"`    // what it means, or what to do
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
	// Where none is made by itself: what takes a start some seconds to replay.
	longReplay = 4 << 30
	// Renewals are made a month before the end; one that failed for two weeks is not made by itself any more.
	certificateEnds = 14 * 24 * time.Hour
)

// judge keeps an eye on what is wrong since when. The zero judge has seen nothing.
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
func (j *judge) look(now time.Time, v *Vitals, lost int) {
	found := j.find(now, v, lost)
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

// verdict is what the last look came to.
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

// find returns what is wrong now.
func (j *judge) find(now time.Time, v *Vitals, lost int) (found []Problem) {
	say := func(level Level, id, text, hint string) {
		found = append(found, Problem{ID: id, Level: level, Text: text, Hint: hint, Runbook: runbooks + kind(id)})
	}
	progress := func(text string) { // adds to the last one how far it has come
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
		say(Warn, "loading", "Loading data", "Commands are answered with LOADING until all data is read.")
		progress(text)
		return found // nothing else is known yet
	}
	j.service(v, say)
	j.disk(now, v, say)
	if m := v.Memory; m.System > 0 && float64(m.RSS) > fullOfMemory*float64(m.System) {
		say(Warn, "ram", fmt.Sprintf("The process takes %s of the machine's %s", Bytes(uint64(m.RSS)), Bytes(uint64(m.System))),
			"The system may kill it. Lower maxmemory: the oldest ranges then go to files.")
	}
	if n := max(lost, int(v.Damage.Files)); n > 0 {
		say(Bad, "lost", plural(n, "range", "ranges")+" of posts cannot be read", "Their keys answer IOERR, all else is served. COUNTER.BLOCKS names the files; a replica, or the file put back, mends them.")
	} else if v.Damage.ReadErrors+v.Damage.ScrubErrors > 0 {
		say(Warn, "damage", "Damaged pages were found in cold files", "Keys on them answer IOERR. The log names files and pages; counterctl check reads all.")
	}
	j.replication(now, v, say, progress, ago)
	j.cluster(v, say)
	j.connections(now, v, say)
	switch left := time.UnixMilli(v.Certificate).Sub(now); {
	case v.Certificate == 0 || left > certificateEnds:
	case left <= 0:
		say(Bad, "certificate", "The TLS certificate has ended", "Clients refuse it. Put a new one in its place, and send SIGHUP or CONFIG SET tls-cert-file.")
		ago(-left)
	default:
		say(Warn, "certificate", "The TLS certificate ends in "+Span(left), "Put a new one in its place, and send SIGHUP or CONFIG SET tls-cert-file.")
	}
	if v.Panics > 0 {
		say(Warn, "panics", plural(int(v.Panics), "internal fault", "internal faults")+" since the start", "The connections concerned were closed. The log has the traces: please report them.")
	}
	if v.Diverged > 0 {
		say(Note, "diverged", plural(v.Diverged, "file has", "files have")+" changes that this node took back", "They were made here and the primary did not have them: diverged-* in the data directory.")
	}
	if v.Cluster != nil {
		for _, t := range v.Cluster.Troubles {
			if !slices.ContainsFunc(found, func(p Problem) bool { return p.ID == t.ID }) {
				say(t.Level, t.ID, t.Text, "")
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

// service: what is refused or waits.
func (j *judge) service(v *Vitals, say sayer) {
	switch {
	case v.Disk.Trouble != "" && v.Role == "replica":
		say(Bad, "disk", "The disk takes no writes", "This replica stands still: "+v.Disk.Trouble)
	case v.Disk.Trouble != "":
		say(Bad, "disk", "Changes are refused: the disk takes no writes", v.Disk.Trouble)
	case v.Memory.Full:
		say(Bad, "memory", "Memory is full: changes that need more are refused", "maxmemory is passed, and the disk does not keep up with ranges that are to be written to it. Reads and changes of posts in memory go on.")
	}
	if v.Refusal != "" && v.Role != "replica" && !few(v) && v.Cluster == nil {
		say(Bad, "refused", "Changes are refused", v.Refusal)
	}
	if v.Pause != "" {
		say(Note, "pause", "Commands wait: "+v.Pause, "")
	}
	if !v.Disk.Durable {
		say(Note, "memory-only", "Data is in memory only", "appendonly is no: all is gone when the process ends.")
	}
}

// disk: room, syncs and snapshots.
func (j *judge) disk(now time.Time, v *Vitals, say sayer) {
	d, s := &v.Disk, &v.Snapshot
	if d.Low && d.Trouble == "" { // else changes are refused already, which is told
		say(Warn, "disk-low", fmt.Sprintf("The disk is almost full: %s free", Bytes(uint64(max(0, d.Free)))),
			fmt.Sprintf("Changes are refused when only the %s kept for a snapshot are left.", Bytes(uint64(max(0, d.Reserve)))))
	}
	if d.EverySec && d.Unsynced > slowSync && d.Trouble == "" {
		say(Warn, "sync", "The disk is slow: the log is not synced for "+Span(d.Unsynced), "Changes are refused from 2.1 s on.")
	}
	switch limit := oldSnapshot * s.Due; {
	case s.Error != "":
		say(Warn, "snapshot", "Snapshots fail", s.Error+". The one before counts; the log grows, and a start takes longer.")
	case limit > 0 && s.Behind > limit || s.Due == 0 && s.Behind > longReplay:
		text := "There is no snapshot"
		if s.At > 0 {
			text = "The last snapshot is " + Span(now.Sub(time.UnixMilli(s.At))) + " old"
		}
		say(Warn, "snapshot-old", text, Bytes(s.Behind)+" of log came since: that much a start replays. BGSAVE makes one.")
	}
}

// replication: the link, or the replicas.
func (j *judge) replication(now time.Time, v *Vitals, say sayer, progress func(string), ago func(time.Duration)) {
	if l := v.Link; l != nil {
		switch {
		case l.State == "sync":
			text := ""
			if l.Total > 0 {
				text += fmt.Sprintf(": %.0f %% of %s", 100*float64(l.Copied)/float64(l.Total), Bytes(uint64(l.Total)))
			}
			say(Warn, "link", "Copying from the primary", "Until the copy is complete, reads are answered from the data that was here before.")
			progress(text)
			ago(l.Down)
		case l.State != "connected":
			hint := "Reads are answered from what was here before."
			if l.Error != "" {
				hint = l.Error + ". " + hint
			}
			say(Bad, "link", "No link to the primary "+l.Primary, hint)
			ago(l.Down)
		}
	} else if v.Role == "replica" && v.Cluster == nil { // which says so itself
		say(Bad, "link", "A replica of nobody", "It refuses changes until REPLICAOF names its primary, or REPLICAOF NO ONE makes it one.")
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
			say(Note, id, "Replica "+r.Addr+" is being sent a full copy", "")
		case r.Lag > replicaSilent:
			say(Warn, id, "Replica "+r.Addr+" is silent", "")
			ago(r.Lag)
		case r.Kept < 0:
			say(Warn, id, "Replica "+r.Addr+" is so far behind that it needs a full copy", "Raise aof-retain to keep more log for replicas.")
		case r.Behind > replicaBehind:
			say(Warn, id, "Replica "+r.Addr+" is "+Bytes(r.Behind)+" behind", fmt.Sprintf("It needs a full copy when it falls back by %s more.", Bytes(uint64(r.Kept))))
		}
	}
	for addr, seen := range j.replicas {
		switch gone := now.Sub(seen); {
		case gone > goneFor:
			delete(j.replicas, addr)
		case gone > replicaSilent && !slices.ContainsFunc(v.Replicas, func(r Replica) bool { return r.Addr == addr }):
			say(Warn, "gone-"+addr, "Replica "+addr+" went away", "It was connected until then. If it was taken away on purpose, this line ends after an hour.")
			ago(gone)
		}
	}
	if few(v) {
		say(Bad, "few", fmt.Sprintf("%s of %d replicas that changes need", plural(v.GoodReplicas, "follows", "follow"), v.MinReplicas), "min-replicas-to-write: changes are refused until there are as many.")
	}
}

// few tells whether changes are refused for want of replicas.
func few(v *Vitals) bool {
	return v.MinReplicas > 0 && v.GoodReplicas < v.MinReplicas && v.Role != "replica"
}

const (
	maxReplicas = 32        // that are shown and remembered
	goneFor     = time.Hour // after which a replica that went away is forgotten
	turnedAway  = time.Minute
)

// connections: too many of them, or too large.
func (j *judge) connections(now time.Time, v *Vitals, say sayer) {
	c := &v.Clients
	if j.seen && c.Rejected > j.rejected {
		j.refused = now
	}
	j.rejected, j.seen = c.Rejected, true
	writers := c.Connected - c.Readers
	switch {
	case !j.refused.IsZero() && now.Sub(j.refused) < turnedAway:
		say(Bad, "clients", "Clients are turned away: too many connections", fmt.Sprintf("%d of maxclients %d.", writers, c.Max))
	case float64(writers) > fullOfClients*float64(c.Max):
		say(Warn, "clients", fmt.Sprintf("%d of %d connections are in use", writers, c.Max), "maxclients: more are turned away.")
	case float64(c.Readers) > fullOfClients*float64(c.ReadersMax):
		say(Warn, "clients", fmt.Sprintf("%d of %d connections for reads are in use", c.Readers, c.ReadersMax), "readonly-maxclients: more are turned away.")
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Bytes is a size for people, "1.5 GiB".
func Bytes(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), 0
	for f >= 1024 && unit < 6 {
		f, unit = f/1024, unit+1
	}
	digits := 0
	if f < 10 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %ciB", digits, f, "BKMGTPE"[unit])
}

// Span is a time for people, "2 h 5 min".
func Span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}
