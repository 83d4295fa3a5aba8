package server

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/console"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/schema"
)

// consoleSource is the server as the console sees it: a console.Source.
type consoleSource struct {
	srv   *shared
	usage *facts.UsageCache

	// Of the console's goroutine.
	looked   time.Time // when diverged was counted, which reads the directory
	diverged int
	restorer console.Restorer
}

// lookEvery is how often the data directory is read.
const lookEvery = 10 * time.Second

// Totals sums over the commands, as INFO stats and commandstats do.
func (o *consoleSource) Totals() (t console.Totals) {
	o.srv.commands.Each(func(cmd *row) {
		n := cmd.Calls()
		if n == 0 {
			return
		}
		t.Commands += n
		if cmd.Flags&command.Write != 0 {
			t.Writes += n
		}
		for i, n := range cmd.Times() {
			t.Times[i] += n
		}
	})
	o.srv.popular.Mark(time.Now())
	t.Errors = o.srv.stats.ErrorReplies.Load()
	t.ColdReads = int64(o.srv.store().Admin().TierCounts().Cache.Misses)
	return t
}

// State returns the facts of now.
func (o *consoleSource) State(parts facts.Part) *facts.State {
	now, fill := time.Now(), parts
	if fresh := now.Sub(o.looked) >= lookEvery; !fresh {
		fill &^= facts.PartDiverged
	} else {
		o.looked, fill = now, fill|facts.PartDiverged
	}
	s := observer{o.srv}.state(fill)
	if fill.Has(facts.PartDiverged) {
		o.diverged = s.Replication.Diverged
	}
	s.Filled, s.Replication.Diverged = parts, o.diverged
	if parts.Has(facts.PartUsage) && s.Loading == nil {
		s.Usage = o.usage.Of(o.srv.store())
	}
	return s
}

// Details are the first entries of CLIENT LIST, SLOWLOG, COUNTER.HOT and CONFIG.
func (o *consoleSource) Details(limit int) console.Details {
	s, store := o.srv, o.srv.store()
	conf := s.config.Get()
	d := console.Details{Server: console.Settings(conf, ServerVersion, s.front.Addr().String(), s.started), Slow: []console.Slow{}, Hot: o.hot(store.Schema(), limit)}
	d.Largest, d.Busiest = o.clients(limit)
	for _, e := range s.slow.Newest(limit) {
		d.Slow = append(d.Slow, console.Slow{ID: e.ID, At: e.At.UnixMilli(), Took: e.Took, Text: console.SlowText(e.Args), Addr: facts.Clip(e.Addr), Name: facts.Clip(e.Name)})
	}
	if store.Durable() {
		d.Restore = o.restorer.Of(store, conf.AOFRetain)
	}
	if s.cluster.Joined() {
		st := s.cluster.Now()
		d.Shards = console.Shards(st.Map, st.Self, limit)
	}
	return d
}

// MidTime is the setting of that name.
func (o *consoleSource) MidTime() console.MidTime { return console.MidTime(o.srv.config.Get().MidTime) }

// Walk calls f for all blocks.
func (o *consoleSource) Walk(f func(console.Block)) error {
	return console.WalkBlocks(o.srv.store(), f)
}

// hot returns the posts of all counters that are read and written most, as COUNTER.HOT has them.
func (o *consoleSource) hot(all *schema.Schema, limit int) []console.HotPost {
	list := []console.HotPost{}
	tenth := func(v float64) float64 { return math.Round(v*10) / 10 }
	for _, r := range o.srv.popular.Busiest(time.Now(), limit) {
		if def := all.CounterByID(r.Counter); def != nil { // else it was dropped
			h := console.HotPost{Key: string(all.AppendKey(nil, def, schema.WholeItem, r.Mid)), Reads: tenth(r.Reads), Writes: tenth(r.Writes),
				ReadsLeast: tenth(r.ReadBounds.Least), ReadsMost: tenth(r.ReadBounds.Most), WritesLeast: tenth(r.WriteBounds.Least), WritesMost: tenth(r.WriteBounds.Most)}
			for _, v := range o.srv.popular.Curve(r.Post) {
				h.Curve = append(h.Curve, math.Round(v))
			}
			list = append(list, h)
		}
	}
	return list
}

// seen is a connection as it was when it was looked at.
type seen struct {
	c        *client
	commands int64
	memory   int64
}

// clients are those that hold most and those that sent most.
func (o *consoleSource) clients(limit int) (largest, busiest []console.Client) {
	var most, often []seen
	by := func(list []seen, v seen, less func(a, b seen) int) []seen {
		if len(list) == limit && less(v, list[limit-1]) >= 0 {
			return list
		}
		i, _ := slices.BinarySearchFunc(list, v, less)
		list = slices.Insert(list, i, v)
		return list[:min(len(list), limit)]
	}
	for _, session := range o.srv.front.Everybody() {
		c := session.Handler().(*client)
		c.info.mu.Lock()
		v := seen{c, c.info.calls.Load(), int64(c.info.state.memory() + c.subscriber.outbox.Unread())}
		c.info.mu.Unlock()
		most = by(most, v, func(a, b seen) int {
			return cmp.Or(cmp.Compare(b.memory, a.memory), cmp.Compare(a.c.session.ID(), b.c.session.ID()))
		})
		often = by(often, v, func(a, b seen) int {
			return cmp.Or(cmp.Compare(b.commands, a.commands), cmp.Compare(a.c.session.ID(), b.c.session.ID()))
		})
	}
	list := func(all []seen) []console.Client {
		out := make([]console.Client, len(all))
		for i, v := range all {
			out[i] = shownClient(v)
		}
		return out
	}
	return list(most), list(often)
}

// shownClient is a connection as the console shows it.
func shownClient(v seen) console.Client {
	c := v.c
	c.info.mu.Lock()
	name, lib, ver, s := c.info.name, c.info.lib, c.info.ver, c.info.state
	c.info.mu.Unlock()
	if ver != "" {
		lib += " " + ver
	}
	if s.proto == 0 {
		s.multi = -1
	}
	last := ""
	if s.cmd != nil {
		last = s.cmd.Name
	}
	return console.Client{ID: c.session.ID(), Addr: facts.Clip(c.info.addr()), Name: facts.Clip(name), Lib: facts.Clip(lib), Age: int64(c.session.Activity.Age() / time.Second), Idle: c.session.Activity.Idle(),
		Memory: v.memory, Commands: v.commands, Last: last, Flags: c.info.flags(s)}
}
