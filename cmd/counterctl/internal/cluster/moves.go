package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

var moveCommand = command{
	Name:    "cluster move",
	Summary: "move hash slots to another shard",
	Details: `Moves groups of 64 hash slots, with all their posts, to another shard while clients read and write them. That shard copies the
posts; at the end, changes of them are delayed for at most half a second. --groups takes ranges of groups from 0 to 255, such as
0-3,17; --slots takes ranges of hash slots, which must be whole groups. If the command is interrupted, the moves that it has
started continue. --abort stops a move that is not yet committed, by the id that counterctl cluster status prints.

A move waits while one of its shards has no primary, and is begun again behind a failover. The command says so each 10 seconds in which no group
was moved. With --timeout it begins no further move behind that time, and ends with status 1; --wait does not limit it.
` + commonHelp,
	Setup: func(flags *pflag.FlagSet) action {
		f := addFlags(flags, true)
		groups := flags.String("groups", "", "`ranges` of groups")
		slots := flags.String("slots", "", "`ranges` of hash slots")
		to := flags.String("to", "", "`shard` that gets them")
		abort := flags.String("abort", "", "`id` of a move to stop")
		pace := addPace(flags)
		return withCluster(f, func(ctx context.Context, s *session, args []string) error {
			if len(args) != 0 {
				return misuse("got %q, want no arguments", args)
			}
			m, err := s.load(ctx)
			if err != nil {
				return err
			}
			if *abort != "" {
				return s.abort(ctx, m, *abort)
			}
			if (*groups == "") == (*slots == "") || *to == "" {
				return misuse("want --groups or --slots, and --to")
			}
			set, err := slot.ParseSet(*groups)
			if *slots != "" {
				set, err = parseSlots(*slots)
			}
			if err != nil {
				return misuse("%v", err)
			}
			shard, err := shardArg(m, *to)
			if err != nil {
				return err
			}
			return s.move(ctx, gather(m, set, shard.ID), pace)
		})
	},
}

var rebalanceCommand = command{
	Name:    "cluster rebalance",
	Summary: "move hash slots until the shards have equal data or equal load",
	Details: `Plans moves of groups of 64 hash slots that give every shard an equal share, prints the plan, and carries it out while clients
read and write. It moves as little data as possible: each group moves once, from a shard above the mean to one below it.

--by selects what is made equal: the bytes that the shards store, their load in commands, or the number of groups. The groups of
a shard count equally. With less than 1 GiB of data, the number of groups is used instead of bytes.
` + commonHelp,
	Setup: func(flags *pflag.FlagSet) action {
		f := addFlags(flags, true)
		by := &oneOf{value: "bytes", of: []string{"bytes", "load", "groups"}}
		flags.Var(by, "by", "what to make equal")
		tolerance := flags.Float64("tolerance", 0.05, "allowed deviation from the mean, as a fraction of it")
		planOnly := flags.Bool("plan", false, "print the plan and exit")
		flags.BoolVar(&f.json, "json", false, "print the plan as JSON")
		pace := addPace(flags)
		return withCluster(f, func(ctx context.Context, s *session, args []string) error {
			if len(args) != 0 || *tolerance < 0 || *tolerance > 1 {
				return misuse("want no arguments, and a tolerance from 0 to 1")
			}
			m, err := s.load(ctx)
			if err != nil {
				return err
			}
			plan, balance := topology.PlanMoves(m, weights(m, by.value), nil, *tolerance)
			if f.json {
				if err := printJSON(s.out.Stdout, planJSON(plan, balance)); err != nil {
					return err
				}
			} else {
				s.printMoves(m, plan, balance)
			}
			if len(plan) == 0 || *planOnly {
				return nil
			}
			return s.move(ctx, plan, pace)
		})
	},
}

// oneOf is a flag of few values.
type oneOf struct {
	value string
	of    []string
}

func (o *oneOf) String() string { return o.value }
func (o *oneOf) Type() string   { return strings.Join(o.of, "|") }
func (o *oneOf) Set(v string) error {
	if !slices.Contains(o.of, v) {
		return fmt.Errorf("got %q, want %s", v, strings.Join(o.of, ", "))
	}
	o.value = v
	return nil
}

// pace is how groups are moved.
type pace struct {
	atOnce  int           // groups of a move
	timeout time.Duration // of all moves; 0: none
}

func addPace(flags *pflag.FlagSet) *pace {
	p := &pace{}
	flags.IntVar(&p.atOnce, "groups-at-once", 8, "groups that one move takes; at its end the writes of all of them are held")
	flags.DurationVar(&p.timeout, "timeout", 0, "end with an error when the groups are not moved within this time; 0: never")
	return p
}

// weighable is above how many bytes in all they tell which shard has more: an empty one takes some 20 MiB.
const weighable = 1 << 30

// weights are the costs of the groups of a map, by the metrics of their shards' primaries.
func weights(m *topology.Map, by string) *topology.Weights {
	w := &topology.Weights{}
	total := uint64(0)
	for _, s := range m.Shards {
		if live := m.Live[s.Primary]; live != nil {
			total += live.Bytes
		}
	}
	if by == "load" {
		w.Loads = &[slot.Groups]float64{}
	}
	for _, s := range m.Shards {
		for _, g := range s.Groups.List() {
			live := m.Live[s.Primary]
			if w.Bytes[g] = 1; live != nil && by != "groups" && total >= weighable {
				w.Bytes[g] = float64(live.Bytes) / float64(s.Groups.Len())
			}
			if by == "load" && live != nil {
				w.Loads[g] = float64(live.Ops) / float64(s.Groups.Len())
			}
		}
	}
	return w
}

// gather returns which shards must give which groups so that a shard owns the groups.
func gather(m *topology.Map, set slot.Set, to topology.ShardID) (list []topology.Transfer) {
	for _, s := range m.Shards {
		if g := s.Groups.Both(set); s.ID != to && !g.Empty() {
			list = append(list, topology.Transfer{Groups: g, From: s.ID, To: to})
		}
	}
	return list
}

// parseSlots reads ranges of hash slots that are whole groups.
func parseSlots(text string) (set slot.Set, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		a, err1 := strconv.ParseUint(first, 10, 16)
		b, err2 := strconv.ParseUint(last, 10, 16)
		switch {
		case err1 != nil || err2 != nil || a > b || b >= slot.Slots:
			return set, fmt.Errorf("got slots %.100q, want ranges like 0-127 of slots from 0 to %d", text, slot.Slots-1)
		case a%slot.PerGroup != 0 || b%slot.PerGroup != slot.PerGroup-1:
			return set, fmt.Errorf("got slots %s, want whole groups of %d: %d-%d", part, slot.PerGroup, a/slot.PerGroup*slot.PerGroup, b/slot.PerGroup*slot.PerGroup+slot.PerGroup-1)
		}
		for g := a / slot.PerGroup; g <= b/slot.PerGroup; g++ {
			set.Add(uint8(g))
		}
	}
	return set, nil
}

func (s *session) printMoves(m *topology.Map, plan []topology.Transfer, balance topology.Balance) {
	table := tabwriter.NewWriter(s.out.Stdout, 0, 8, 2, ' ', 0)
	mean := 0.0
	for _, load := range balance.After {
		mean += load / float64(len(balance.After))
	}
	part := func(load float64) string {
		if mean == 0 {
			return "-"
		}
		return fmt.Sprintf("%.0f %%", 100*load/mean)
	}
	change := map[topology.ShardID]int{}
	for _, t := range plan {
		change[t.From] -= t.Groups.Len()
		change[t.To] += t.Groups.Len()
	}
	fmt.Fprintln(table, "SHARD\tGROUPS\tTHEN\tOF THE MEAN\tTHEN")
	for _, sh := range m.Shards {
		n := sh.Groups.Len()
		fmt.Fprintf(table, "%d\t%d\t%d\t%s\t%s\n", sh.ID, n, n+change[sh.ID], part(balance.Before[sh.ID]), part(balance.After[sh.ID]))
	}
	table.Flush()
	if len(plan) == 0 {
		fmt.Fprintln(s.out.Stdout, "the shards are balanced: nothing is to be moved")
	}
}

type planned struct {
	Moves []plannedMove               `json:"moves"`
	Load  map[topology.ShardID][2]int `json:"loadBeforeAfterPerMille"` // of the mean
}

type plannedMove struct {
	Groups slot.Set         `json:"groups"`
	From   topology.ShardID `json:"from"`
	To     topology.ShardID `json:"to"`
}

func planJSON(plan []topology.Transfer, balance topology.Balance) planned {
	p := planned{Moves: []plannedMove{}, Load: map[topology.ShardID][2]int{}}
	for _, t := range plan {
		p.Moves = append(p.Moves, plannedMove{t.Groups, t.From, t.To})
	}
	sum := 0.0
	for _, load := range balance.After {
		sum += load
	}
	for id, after := range balance.After {
		if sum > 0 {
			f := 1000 * float64(len(balance.After)) / sum
			p.Load[id] = [2]int{int(balance.Before[id] * f), int(after * f)}
		}
	}
	return p
}

// move prints the planned moves, asks for confirmation, and makes them.
func (s *session) move(ctx context.Context, list []topology.Transfer, p *pace) error {
	if p.atOnce < 1 || p.timeout < 0 {
		return misuse("got %d groups at once and a timeout of %s, want 1 or more, and 0s or more", p.atOnce, p.timeout)
	}
	if len(list) == 0 {
		fmt.Fprintln(s.out.Stdout, "nothing is to be moved")
		return nil
	}
	for _, t := range list {
		fmt.Fprintf(s.out.Stdout, "%s from shard %d to %d: %s\n", human.Count(t.Groups.Len(), "group"), t.From, t.To, t.Groups)
	}
	if err := s.confirm(); err != nil {
		return err
	}
	began := time.Now()
	w := newMoving(list, p.atOnce)
	w.timeout = p.timeout
	if err := w.run(ctx, s); err != nil {
		return err
	}
	fmt.Fprintf(s.out.Stdout, "%s moved in %s\n", human.Count(w.done, "group"), time.Since(began).Round(time.Millisecond))
	return nil
}

// maxTries is how often a piece is begun: a failover of one of its shards ends a move.
const maxTries = 5

// abort ends a move that is not committed.
func (s *session) abort(ctx context.Context, m *topology.Map, word string) error {
	var found *topology.Move
	for _, v := range m.Moves {
		if strings.HasPrefix(v.ID, word) {
			if found != nil {
				return fmt.Errorf("%s is more than one move", word)
			}
			found = v
		}
	}
	if found == nil {
		return fmt.Errorf("there is no move %s", word)
	}
	fmt.Fprintf(s.out.Stdout, "groups %s stay with shard %d\n", found.Groups, found.From)
	if err := s.confirm(); err != nil {
		return err
	}
	_, err := s.change(ctx, func(m *topology.Map) (topology.Change, error) {
		return topology.AbortMove(m, found.ID, "somebody ended it")
	})
	return err
}

// removeShard moves all that a shard owns to the others, and takes it away.
func (s *session) removeShard(ctx context.Context, word string) error {
	m, err := s.load(ctx)
	if err != nil {
		return err
	}
	shard, err := shardArg(m, word)
	if err != nil {
		return err
	}
	if len(m.Shards) == 1 {
		return fmt.Errorf("shard %d is the only one", shard.ID)
	}
	for try := 0; ; try++ {
		plan, _ := topology.PlanMoves(m, weights(m, "bytes"), map[topology.ShardID]bool{shard.ID: true}, 1)
		plan = slices.DeleteFunc(plan, func(t topology.Transfer) bool { return t.From != shard.ID })
		if try == 0 {
			fmt.Fprintf(s.out.Stdout, "shard %d goes; its nodes %s are free then\n", shard.ID, labels(m, memberIDs(m, shard.ID)))
		}
		if len(plan) == 0 && try == 0 {
			if err := s.confirm(); err != nil {
				return err
			}
		} else if len(plan) > 0 {
			if err := s.move(ctx, plan, &pace{atOnce: 8}); err != nil {
				return err
			}
		}
		s.flags.yes = true // it was asked
		// The source drops what it gave behind the commit.
		if m, err = s.until(ctx, "the shard still owns something", func(m *topology.Map) string {
			for _, v := range m.Moves {
				if v.From == shard.ID || v.To == shard.ID {
					return fmt.Sprintf("waiting for the end of the move of groups %s from shard %d to %d", v.Groups, v.From, v.To)
				}
			}
			return ""
		}); err != nil {
			return err
		}
		if now := m.Shard(shard.ID); now == nil || now.Groups.Empty() || try == maxTries {
			break
		}
	}
	if _, err := s.change(ctx, func(m *topology.Map) (topology.Change, error) { return topology.RemoveShard(m, shard.ID) }); err != nil {
		return err
	}
	fmt.Fprintf(s.out.Stdout, "shard %d is gone\n", shard.ID)
	return nil
}

func memberIDs(m *topology.Map, id topology.ShardID) (ids []topology.NodeID) {
	for _, n := range m.Members(id) {
		ids = append(ids, n.ID)
	}
	return ids
}
