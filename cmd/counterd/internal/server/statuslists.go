package server

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/console"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// What the console lists: commands, clients, slow commands, snapshots, settings.

// Details are what COMMAND STATS, CLIENT LIST, SLOWLOG and CONFIG say, the first of each.
func (s *status) Details(limit int) console.Details {
	store := s.store()
	d := console.Details{Server: s.settings(), Commands: s.called(limit), Slow: []console.Slow{}}
	for _, def := range store.Schema().Counters() {
		d.Counters++
		d.Columns += len(def.Columns)
	}
	d.Hot = s.hot(store.Schema(), limit)
	d.Largest, d.Busiest, d.Subscribers = s.clients(limit)
	for _, e := range s.slow.Newest(limit) {
		d.Slow = append(d.Slow, console.Slow{ID: e.ID, At: e.At.UnixMilli(), Took: e.Took, Text: slowText(e.Args), Addr: clip(e.Addr), Name: clip(e.Name)})
	}
	if store.Durable() {
		d.Restore = s.restore(store)
	}
	d.Shards = s.clusterShards(limit)
	p := store.Admin().ProducerStats()
	d.Producers, d.ProducerBytes = p.Producers, p.Bytes
	return d
}

// called are the commands that were called most.
func (s *status) called(limit int) []console.Command {
	list := []console.Command{}
	s.commands.Each(func(cmd *row) {
		calls, failed := cmd.Calls(), cmd.Failed.Load()+cmd.Rejected.Load()
		if calls+failed == 0 {
			return
		}
		one := console.Command{Name: cmd.Name, Calls: calls, Failed: failed}
		if calls > 0 {
			one.Mean = time.Duration(cmd.Nanos() / calls)
			one.P50, one.P99, one.P999 = cmd.Times().Percentile(0.5), cmd.Times().Percentile(0.99), cmd.Times().Percentile(0.999)
		}
		list = append(list, one)
	})
	slices.SortFunc(list, func(a, b console.Command) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), limit)]
}

// hot returns the posts of all counters that are read and written most, as COUNTER.HOT has them.
func (s *status) hot(all *schema.Schema, limit int) []console.HotPost {
	list := []console.HotPost{}
	for _, r := range s.popular.Busiest(time.Now(), limit) {
		if def := all.CounterByID(r.Counter); def != nil { // else it was dropped
			list = append(list, console.HotPost{Key: string(all.AppendKey(nil, def, schema.WholeItem, r.Mid)),
				Reads: math.Round(r.Reads*10) / 10, Writes: math.Round(r.Writes*10) / 10})
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
func (s *status) clients(limit int) (largest, busiest []console.Client, subscribers int) {
	var most, often []seen
	by := func(list []seen, v seen, less func(a, b seen) int) []seen {
		if len(list) == limit && less(v, list[limit-1]) >= 0 {
			return list
		}
		i, _ := slices.BinarySearchFunc(list, v, less)
		list = slices.Insert(list, i, v)
		return list[:min(len(list), limit)]
	}
	for _, session := range s.front.Everybody() {
		c := session.Handler().(*client)
		if c.subs.Count() > 0 {
			subscribers++
		}
		c.info.mu.Lock()
		v := seen{c, c.info.state.calls, int64(c.info.state.memory() + c.subs.Unread())}
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
			out[i] = v.c.shown(v)
		}
		return out
	}
	return list(most), list(often), subscribers
}

// shown is a connection as the page shows it. Anybody may call it.
func (c *client) shown(v seen) console.Client {
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
	return console.Client{ID: c.session.ID(), Addr: clip(c.info.addr()), Name: clip(name), Lib: clip(lib), Age: int64(c.session.Age() / time.Second), Idle: c.session.Idle(),
		Memory: v.memory, Commands: v.commands, Last: last, Flags: c.flags(s)}
}

// slowText is a command as one would type it: what is no plain word is quoted, and what cannot be seen is escaped.
func slowText(args []string) string {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		ours := strings.HasPrefix(a, "(batch of ") || strings.HasPrefix(a, "... (") // words of package slowlog
		if quoted := strconv.Quote(a); len(quoted) > len(a)+2 || a == "" || strings.Contains(a, " ") && !ours {
			a = quoted
		}
		b.WriteString(a)
		if b.Len() > longestText {
			break
		}
	}
	return clip(b.String())
}

// restore is what counterctl restore can go back to: from the oldest snapshot kept on, or from the beginning while the log
// has it.
func (s *status) restore(store *counter.Store) *console.Restore {
	r := &console.Restore{Retain: s.config.Get().AOFRetain, FromStart: store.Replication().First() == 0}
	manifests := store.Replication().Manifests()
	if len(manifests) == 0 {
		s.points = nil
	} else if len(s.points) != len(manifests) || s.points[0].Generation != manifests[0].Generation {
		s.points = nil
		for _, m := range manifests {
			p := console.Point{Generation: m.Generation, At: m.TimeMS, Offset: m.Offset}
			p.Blocks, p.Bytes = m.Size()
			s.points = append(s.points, p)
		}
	}
	r.Points = s.points
	if n := len(r.Points); n > 0 && !r.FromStart {
		r.From, r.Offset = r.Points[n-1].At, r.Points[n-1].Offset
	}
	return r
}

// settings are those that an operator asks for first.
func (s *status) settings() []console.Setting {
	conf := s.config.Get()
	list := []console.Setting{
		{Name: "Version", Value: ServerVersion},
		{Name: "Up", Value: console.Span(time.Since(s.started)) + ", since " + s.started.UTC().Format("2006-01-02 15:04:05") + " UTC"},
		{Name: "Address", Value: s.front.Addr().String()},
		{Name: "Process", Value: strconv.Itoa(os.Getpid())},
		{Name: "Durability", Value: durabilityText(conf.AppendOnly, conf.AppendFsync)},
	}
	add := func(yes bool, name, value string) {
		if yes {
			list = append(list, console.Setting{Name: name, Value: value})
		}
	}
	add(conf.ReadonlyPort != 0, "Port for reads", strconv.Itoa(conf.ReadonlyPort))
	add(conf.TLS.Port != 0, "Port with TLS", strconv.Itoa(conf.TLS.Port))
	add(conf.UnixSocket != "", "Unix socket", clip(conf.UnixSocket))
	add(conf.AppendOnly, "Data directory", clip(conf.Dir))
	add(conf.AOFRewriteMin > 0, "Snapshot each", console.Bytes(conf.AOFRewriteMin)+" of log")
	add(conf.AOFRewriteMin == 0, "Snapshots", "by hand only")
	add(true, "Slow from", fmt.Sprintf("%s on", time.Duration(max(0, conf.SlowlogSlower))*time.Microsecond))
	add(conf.ConfigFile != "", "Settings", clip(conf.ConfigFile))
	return list
}

// durabilityText is what an acknowledged change survives.
func durabilityText(kept bool, fsync string) string {
	switch {
	case !kept:
		return "in memory only: nothing survives the process"
	case fsync == "always":
		return "synced to disk before each reply (always)"
	case fsync == "everysec":
		return "survives kill -9; synced each second (everysec)"
	}
	return "survives kill -9; synced when the system likes (" + fsync + ")"
}
