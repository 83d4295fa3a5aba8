package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

var statusCommand = command{
	Name:    "cluster status",
	Summary: "print the shards, nodes and moves of a cluster",
	Details: `Prints the state of the cluster in etcd: the shards with their epochs, hash slots and statistics; their nodes with role, whether
they run and whether they are in sync; the free nodes; and the moves of hash slots. LAG is how many bytes of log a node is
behind its primary. Statistics are some seconds old.
` + commonHelp,
	Setup: func(flags *pflag.FlagSet) action {
		f := addFlags(flags, false)
		return withCluster(f, func(ctx context.Context, s *session, args []string) error {
			if len(args) != 0 {
				return misuse("got %q, want no arguments", args)
			}
			m, err := s.load(ctx)
			if err != nil {
				return err
			}
			status := statusOf(m, s.flags.name, time.Now())
			if f.json {
				return printJSON(s.out.Stdout, status)
			}
			return status.print(s.out)
		})
	},
}

var checkCommand = command{
	Name:    "cluster check",
	Summary: "report the problems of a cluster",
	Details: `Prints a line for each problem: alarms of etcd, hash slots that no shard serves, shards without a primary or with too few in-sync
nodes, lost nodes, replicas of a shard on one host or in one zone, moves that do not end, different versions, and problems that
nodes report themselves, such as a disk that hangs. The exit status is 1 if a line needs attention; lines that begin with
NOTE do not.

During an upgrade, run counterctl cluster check --until-well between two nodes: it waits until all nodes are in sync again. A node
that is stopped by SIGTERM hands its role over first.
` + commonHelp,
	Setup: func(flags *pflag.FlagSet) action {
		f := addFlags(flags, false)
		untilWell := flags.Bool("until-well", false, "wait until there are no problems, for --wait at most")
		return withCluster(f, func(ctx context.Context, s *session, args []string) error {
			if len(args) != 0 {
				return misuse("got %q, want no arguments", args)
			}
			m, err := s.load(ctx)
			if err != nil {
				return err
			}
			if *untilWell {
				if m, err = s.untilWell(ctx, m); err != nil {
					return err
				}
			}
			problems := append(s.etcdProblems(ctx), problemsOf(m, time.Now())...)
			if f.json {
				err = printJSON(s.out.Stdout, problems)
			} else {
				for _, p := range problems {
					fmt.Fprintf(s.out.Stdout, "%-8s %s\n", strings.ToUpper(p.Severity), p.Text)
				}
				if len(problems) == 0 {
					fmt.Fprintf(s.out.Stdout, "all is well: %s, %s\n", human.Count(len(m.Shards), "shard"), human.Count(len(m.Nodes), "node"))
				}
			}
			if err == nil && !well(problems) {
				err = errReported
			}
			return err
		})
	},
}

// untilWell waits until nothing is wrong; at the end of its time it returns the last state.
func (s *session) untilWell(ctx context.Context, m *topology.Map) (*topology.Map, error) {
	_, err := s.until(ctx, "something is wrong", func(now *topology.Map) string {
		m = now
		var list []string
		for _, p := range problemsOf(m, time.Now()) {
			if p.Severity != note {
				list = append(list, p.Text)
			}
		}
		return strings.Join(list, "; ")
	})
	if err != nil && (ctx.Err() != nil || s.Err() != nil) {
		return nil, err
	}
	// etcd's alarms change no map, so they are asked for again and again.
	for end := time.Now().Add(s.flags.wait); err == nil && !well(s.etcdProblems(ctx)) && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(alarmsEvery):
		}
		m, err = s.load(ctx)
	}
	return m, nil
}

const alarmsEvery = 500 * time.Millisecond

// etcdProblems are those of etcd itself, which the map of the cluster does not show.
func (s *session) etcdProblems(ctx context.Context) (list []problem) {
	alarms, err := s.Alarms(ctx)
	if err != nil {
		return []problem{{Severity: note, Text: fmt.Sprintf("etcd's alarms are not known, etcdctl alarm list shows them: %v", err)}}
	}
	for _, text := range alarms {
		list = append(list, problem{Severity: bad, Text: text})
	}
	return list
}

// well tells whether nobody need look.
func well(problems []problem) bool {
	return !slices.ContainsFunc(problems, func(p problem) bool { return p.Severity != note })
}

// clusterStatus is the data that cluster status prints, in JSON as it is.
type clusterStatus struct {
	Name      string        `json:"name"`
	ID        string        `json:"id"`
	Created   time.Time     `json:"created"`
	Replicas  int           `json:"replicas"`
	MinInSync int           `json:"minInSync"`
	Revision  int64         `json:"revision"`
	Posts     uint64        `json:"posts"`
	Bytes     uint64        `json:"bytes"`
	Ops       uint64        `json:"opsPerSecond"`
	Shards    []shardStatus `json:"shards"`
	Free      []nodeStatus  `json:"free"`
	Moves     []moveStatus  `json:"moves"`
}

type shardStatus struct {
	ID      topology.ShardID `json:"id"`
	Epoch   uint64           `json:"epoch"`
	Primary topology.NodeID  `json:"primary"`
	Groups  slot.Set         `json:"groups"`
	Slots   string           `json:"slots"`
	Posts   uint64           `json:"posts"`
	Bytes   uint64           `json:"bytes"`
	Ops     uint64           `json:"opsPerSecond"`
	Nodes   []nodeStatus     `json:"nodes"`
}

type nodeStatus struct {
	ID      topology.NodeID `json:"id"`
	Address string          `json:"address"`
	Role    string          `json:"role"` // primary, replica, free, retired
	Alive   bool            `json:"alive"`
	InSync  bool            `json:"inSync"`
	Behind  bool            `json:"behind,omitempty"` // may lack what it acknowledged, as its machine went down or its log was cut
	// Outdated: its directory is an older copy, and may lack what it acknowledged.
	Outdated bool   `json:"outdated,omitempty"`
	Lag      uint64 `json:"lag"` // bytes of log behind its primary
	Zone     string `json:"zone,omitempty"`
	Version  string `json:"version"`
}

type moveStatus struct {
	ID      string             `json:"id"`
	Groups  slot.Set           `json:"groups"`
	From    topology.ShardID   `json:"from"`
	To      topology.ShardID   `json:"to"`
	State   topology.MoveState `json:"state"`
	Seconds int64              `json:"seconds"` // since it began
	Error   string             `json:"error,omitempty"`
}

func statusOf(m *topology.Map, name string, now time.Time) *clusterStatus {
	c := &clusterStatus{Name: name, ID: m.Cluster.ID, Created: m.Cluster.Created, Replicas: m.Cluster.Replicas, MinInSync: m.Cluster.MinInSync,
		Revision: m.Revision, Shards: []shardStatus{}, Free: []nodeStatus{}, Moves: []moveStatus{}}
	node := func(n *topology.Node, s *topology.Shard) nodeStatus {
		st := nodeStatus{ID: n.ID, Address: label(m, n.ID), Role: "free", Zone: n.Zone, Version: n.Version}
		live := m.Live[n.ID]
		if st.Alive = live != nil; st.Alive {
			st.Behind, st.Outdated = live.Behind, live.Outdated
		}
		switch {
		case s != nil && s.Primary == n.ID:
			st.Role = "primary"
		case s != nil:
			st.Role = "replica"
		case n.Retired:
			st.Role = "retired"
		}
		if s != nil {
			st.InSync = s.Has(n.ID)
			if lead := m.Live[s.Primary]; lead != nil && live != nil && lead.Written > live.Written && !st.InSync {
				st.Lag = lead.Written - live.Written
			}
		}
		return st
	}
	for _, s := range m.Shards {
		st := shardStatus{ID: s.ID, Epoch: s.Epoch, Primary: s.Primary, Groups: s.Groups, Slots: slotText(s.Groups), Nodes: []nodeStatus{}}
		if live := m.Live[s.Primary]; live != nil {
			st.Posts, st.Bytes, st.Ops = live.Posts, live.Bytes, live.Ops
		}
		c.Posts, c.Bytes, c.Ops = c.Posts+st.Posts, c.Bytes+st.Bytes, c.Ops+st.Ops
		for _, n := range m.Members(s.ID) {
			st.Nodes = append(st.Nodes, node(n, s))
		}
		slices.SortStableFunc(st.Nodes, func(a, b nodeStatus) int { return strings.Compare(a.Role, b.Role) }) // the primary first
		c.Shards = append(c.Shards, st)
	}
	for _, n := range m.Members(0) {
		c.Free = append(c.Free, node(n, nil))
	}
	for _, v := range m.Moves {
		c.Moves = append(c.Moves, moveStatus{v.ID, v.Groups, v.From, v.To, v.State, int64(now.Sub(v.Began).Seconds()), v.Error})
	}
	return c
}

func (c *clusterStatus) print(out output) error {
	fmt.Fprintf(out.Stdout, "cluster %s: %s, %d posts, %s, %d commands/s; %s, in sync at least %d\n\n",
		c.Name, human.Count(len(c.Shards), "shard"), c.Posts, human.Size(c.Bytes), c.Ops, human.Count(c.Replicas, "replica"), c.MinInSync)
	table := tabwriter.NewWriter(out.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "SHARD\tNODE\tROLE\tSTATE\tLAG\tZONE\tVERSION\tID\tSLOTS\tPOSTS\tBYTES\tCOMMANDS/S\tEPOCH")
	node := func(shard string, n nodeStatus, more string) {
		state := "gone"
		switch {
		case n.Alive && n.Outdated:
			state = "older copy"
		case n.Alive && n.Behind:
			state = "behind"
		case n.Alive && n.InSync:
			state = "in sync"
		case n.Alive && n.Role == "replica":
			state = "catching up"
		case n.Alive:
			state = "alive"
		}
		lag := ""
		if n.Lag > 0 {
			lag = human.Size(n.Lag)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.8s\t%s\n", shard, n.Address, n.Role, state, lag, n.Zone, n.Version, string(n.ID), more)
	}
	for _, s := range c.Shards {
		for i, n := range s.Nodes {
			shard, more := "", "\t\t\t\t"
			if i == 0 {
				shard = strconv.Itoa(int(s.ID))
				more = fmt.Sprintf("%s\t%d\t%s\t%d\t%d", s.Slots, s.Posts, human.Size(s.Bytes), s.Ops, s.Epoch)
			}
			node(shard, n, more)
		}
	}
	for _, n := range c.Free {
		node("-", n, "\t\t\t\t")
	}
	err := table.Flush()
	for _, v := range c.Moves {
		fmt.Fprintf(out.Stdout, "\nmove %.8s: groups %s from shard %d to %d: %s for %s %s\n", v.ID, v.Groups, v.From, v.To, v.State,
			time.Duration(v.Seconds)*time.Second, v.Error)
	}
	return err
}

// problem is something that somebody should know.
type problem struct {
	Severity string           `json:"severity"` // error: something is not served, or safe; warning: less safe than it could be; note
	Shard    topology.ShardID `json:"shard,omitempty"`
	Node     topology.NodeID  `json:"node,omitempty"`
	Text     string           `json:"text"`
}

const (
	bad     = "error"
	warning = "warning"
	note    = "note"
)

// stuckAfter is when a move is looked at: 1 TB at 100 MB/s takes 3 hours.
const stuckAfter = 6 * time.Hour

func problemsOf(m *topology.Map, now time.Time) []problem {
	list := []problem{}
	say := func(severity string, s topology.ShardID, n topology.NodeID, format string, args ...any) {
		list = append(list, problem{severity, s, n, fmt.Sprintf(format, args...)})
	}
	for _, fault := range m.Faults() {
		say(bad, 0, "", "%s", fault)
	}
	if unowned := m.Unowned(); !unowned.Empty() {
		say(bad, 0, "", "nobody owns the hash slots %s: was cluster create interrupted? Give it again", slotText(unowned))
	}
	hosts := map[string]bool{}
	for _, n := range m.Nodes {
		hosts[n.Host] = true
	}
	// The nodes' reports of themselves, in their own words. A node may run an older or newer version: its severity is
	// checked.
	reported := func(nodes []*topology.Node, s topology.ShardID) {
		for _, n := range nodes {
			live := m.Live[n.ID]
			if live == nil {
				continue
			}
			for _, t := range live.Troubles[:min(len(live.Troubles), topology.MaxTroubles)] {
				severity := bad
				if t.Severity == topology.SevereWarning {
					severity = warning
				}
				where := "free node"
				if s != 0 {
					where = fmt.Sprintf("shard %d:", s)
				}
				say(severity, s, n.ID, "%s %s reports: %s", where, label(m, n.ID), plain(t.Text))
			}
		}
	}
	reported(m.Members(0), 0)
	for _, s := range m.Shards {
		members := m.Members(s.ID)
		switch live := m.Live[s.Primary]; {
		case s.Primary == "":
			say(bad, s.ID, "", "shard %d has no primary yet", s.ID)
		case live != nil && live.Rests:
			say(bad, s.ID, s.Primary, "shard %d: its primary %s does not lead, and none has taken over; in sync are %s", s.ID, label(m, s.Primary), labels(m, s.InSync))
		case live == nil:
			say(bad, s.ID, s.Primary, "shard %d: its primary %s is gone, and none has taken over; in sync are %s", s.ID, label(m, s.Primary), labels(m, s.InSync))
		}
		var gone []topology.NodeID
		for _, n := range members {
			if live := m.Live[n.ID]; live == nil {
				gone = append(gone, n.ID)
			} else if live.Behind {
				say(warning, s.ID, n.ID, "shard %d: %s may lack what it acknowledged, as its machine went down, its log was cut or its directory was repaired: it is no candidate until it has caught up", s.ID, label(m, n.ID))
			}
		}
		reported(members, s.ID)
		for _, id := range gone {
			say(warning, s.ID, id, "shard %d: %s is gone (start it again, or counterctl cluster remove %.8s)", s.ID, label(m, id), string(id))
		}
		switch in := len(s.InSync); {
		case in < m.Cluster.MinInSync:
			say(bad, s.ID, "", "shard %d: %d in sync (%s), want %d: changes are refused", s.ID, in, labels(m, s.InSync), m.Cluster.MinInSync)
		case in < 1+m.Cluster.Replicas:
			say(warning, s.ID, "", "shard %d: %d of %d nodes are in sync", s.ID, in, 1+m.Cluster.Replicas)
		}
		if len(members) < 1+m.Cluster.Replicas {
			say(warning, s.ID, "", "shard %d: it has %d nodes, want %d", s.ID, len(members), 1+m.Cluster.Replicas)
		}
		if len(members) > 1 {
			switch apart := topology.Apart(members); {
			case apart == 0 && len(hosts) > 1:
				say(warning, s.ID, "", "shard %d: two of its nodes are on one host", s.ID)
			case apart == 1 && members[0].Zone != "":
				say(note, s.ID, "", "shard %d: two of its nodes are in one zone", s.ID)
			}
		}
	}
	lackingOf(m, say)
	for _, v := range m.Moves {
		switch took := now.Sub(v.Began).Round(time.Second); {
		case v.State == topology.MoveAborted:
			say(warning, v.To, "", "the move of groups %s from shard %d to %d was given up: %s", v.Groups, v.From, v.To, v.Error)
		case took > stuckAfter:
			say(warning, v.To, "", "the move of groups %s from shard %d to %d is %s for %s", v.Groups, v.From, v.To, v.State, took)
		default:
			say(note, v.To, "", "groups %s are on their way from shard %d to %d", v.Groups, v.From, v.To)
		}
	}
	if len(hosts) == 1 && len(m.Nodes) > 1 {
		say(note, 0, "", "all nodes are on one host")
	}
	versions := map[string]int{}
	for id := range m.Live {
		if n := m.Nodes[id]; n != nil {
			versions[n.Version]++
		}
	}
	if len(versions) > 1 {
		say(note, 0, "", "nodes run different versions: %s", countText(versions))
	}
	if m.Schema.Revision != 0 {
		for _, s := range m.Shards {
			if live := m.Live[s.Primary]; live != nil && live.Schema < m.Schema.Revision {
				say(note, s.ID, s.Primary, "shard %d: its primary does not have the newest schema yet", s.ID)
			}
		}
	}
	return list
}

// plain is a text that a node wrote, without what a terminal would obey, and cut to a bound.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text[:min(len(text), topology.MaxTroubleText)])
	return strings.TrimSpace(text)
}

func countText(counts map[string]int) string {
	var list []string
	for word, n := range counts {
		list = append(list, fmt.Sprintf("%s on %d", word, n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
