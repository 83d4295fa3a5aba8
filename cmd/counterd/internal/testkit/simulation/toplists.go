package simulation

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/server"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/schema"
)

// Columns n and m of counter c, and pa of the pages, have a top list, some entries long. Clients send COUNTER.TOP, whose answer
// is a read of each of its posts. Each list is also compared with all posts while nothing changes: on any node in the middle of a run, and on
// all of them at its end.

// listed is the option of a column of the schema, if the run has top lists.
func (c *Config) listed() string {
	if c.Top == 0 {
		return ""
	}
	return fmt.Sprint(" top=", c.Top)
}

// listing has the lists of a machine take up to 20 ms each time that they are built, so that posts change meanwhile, and come and go at once.
func listing(m *Machine) func() {
	d := NewDice(m.run.Seed, "listing "+m.name)
	return func() { time.Sleep(d.Between(0, Pick(d, []time.Duration{0, time.Millisecond, 20 * time.Millisecond}))) }
}

// readTop asks a cluster for the best posts of both counters.
func (c *client) readTop() {
	r := c.run
	if r.Config.Standalone { // a replica may answer an older state
		return
	}
	k := 1 + c.dice.N(2*r.Config.Top)
	a := attempt{client: c.name, read: true, from: r.now()}
	host := Pick(c.dice, r.Machines).host
	best, ok := c.top(host, "c", "n", k)
	if a.till = r.now(); ok {
		for _, key := range r.keys {
			if value, known := best.of(r, key, k); known {
				a.value = int64(value)
				r.History.Add(key, a)
			}
		}
	}
	a.from = r.now()
	if best, ok = c.top(host, "p", "pa", k); !ok {
		return
	}
	a.till = r.now()
	for _, p := range r.pages {
		for _, mid := range p.mids {
			value, known := best.of(r, fmt.Sprintf("{%d}", mid), k)
			if a.value = int64(value); value == 0 && p.owner != "" {
				a.value = gone
			}
			if known {
				p.history.Add(p.name, a)
			}
		}
	}
}

// ranks are the posts that COUNTER.TOP answered, the best first.
type ranks []counter.TopEntry

// of is the value of a key's post. known is false if there may be a post of which the answer says nothing.
func (l ranks) of(r *Run, key string, k int) (value uint64, known bool) {
	text, _, _ := strings.Cut(strings.TrimPrefix(key, "{"), "}")
	mid, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		r.Fault("%s is no key of a post: %v", key, err)
		return 0, false
	}
	if i := slices.IndexFunc(l, func(e counter.TopEntry) bool { return e.Mid == mid }); i >= 0 {
		return l[i].Value, true
	}
	return 0, len(l) < k // all posts are in the answer
}

// top asks a cluster for the posts with the largest values of a column.
func (c *client) top(host, name, column string, k int) (best ranks, ok bool) {
	words := []string{"COUNTER.TOP", name, column, strconv.Itoa(k)}
	v, err := c.everywhere(host, words...)
	if err != nil {
		return nil, false
	}
	for i := range v.Array {
		e, ok := entry(v.Array[i])
		if !ok || i >= k || i > 0 && !e.Below(best[i-1]) {
			c.run.Fault("%s: %v was answered %+v", c.name, words, v)
			return nil, false
		}
		best = append(best, e)
	}
	c.run.Story.meet("simulation: COUNTER.TOP was answered")
	return best, true
}

// entry is an element of an answer to COUNTER.TOP.
func entry(v wire.Value) (e counter.TopEntry, ok bool) {
	if len(v.Array) != 2 {
		return e, false
	}
	var err, also error
	e.Mid, err = strconv.ParseUint(v.Array[0].Text(), 10, 64)
	e.Value, also = strconv.ParseUint(v.Array[1].Text(), 10, 64)
	return e, err == nil && also == nil
}

// watchLists compares lists with all posts, on one node after another.
func watchLists(ctx context.Context, r *Run) {
	for d := NewDice(r.Seed, "lists"); ctx.Err() == nil; {
		time.Sleep(d.Between(0, 2*r.Config.Every))
		m := Pick(d, r.Machines)
		if srv := m.server(); srv != nil && !r.ended() {
			if _, text := wrongList(srv.Store()); text != "" {
				r.Fault("%s: %s", m.name, text)
			}
		}
	}
}

// verifyLists waits until all nodes have built all their lists, and compares them.
func verifyLists(r *Run) {
	if r.Config.Top == 0 {
		return
	}
	compared := make(map[*server.Server]bool)
	r.await("all nodes have their top lists", func() string {
		for _, m := range r.Machines {
			srv := m.server()
			if compared[srv] {
				continue
			}
			if srv == nil {
				return m.name + " does not run"
			}
			if wanted := listsIn(srv.Store().Schema()); len(srv.Store().TopLists()) != wanted {
				return fmt.Sprintf("%s has %d lists, want %d", m.name, len(srv.Store().TopLists()), wanted)
			}
			built, text := wrongList(srv.Store())
			if text != "" {
				r.Fault("%s: %s", m.name, text)
			}
			if !built {
				return m.name + " has a list that is not built"
			}
			compared[srv] = true
		}
		return ""
	})
}

// listsIn is how many columns of a schema have a list.
func listsIn(s *schema.Schema) (n int) {
	for _, def := range s.Counters() {
		for i := range def.Width() {
			n += toInt(def.Col(i).Top > 0)
		}
	}
	return n
}

// wrongList compares each list of a store with all posts, while nothing changes. built tells whether all lists have been built: a list that is
// not says nothing. A store that ends, or does not read a file, is not compared.
func wrongList(s *counter.Store) (built bool, wrong string) {
	built = true
	for _, l := range s.TopLists() {
		_, known, err := s.TopOf(l)
		if built = built && known && err == nil; err != nil || !known {
			continue
		}
		name, column := l.Names()
		list, posts, err := compareList(s, name, column)
		if err == nil && !slices.Equal(list, posts) {
			return built, fmt.Sprintf("the top list of %s.%s has %v, want %v", name, column, list, posts)
		}
	}
	return built, ""
}

// compareList returns the best posts of a column as mids and values in turn: those of its list, if it is built, and those among all posts.
func compareList(s *counter.Store, name, of string) (list, posts []uint64, err error) {
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return nil, nil, err
	}
	defer b.End()
	def := b.Schema().Counter(name)
	if def == nil || column(def, of) < 0 {
		return nil, nil, nil
	}
	at := column(def, of)
	k := int(def.Col(int(at)).Top)
	if k == 0 {
		return nil, nil, nil
	}
	if list, err = topOf(b, counter.Query{Counter: def, To: schema.MaxMid}, at, k); err != nil {
		return nil, nil, err
	}
	posts, err = topOf(b, counter.Query{Counter: def, To: schema.MaxMid - 1}, at, k) // a list answers for the whole counter alone
	return list, posts, err
}

// topOf is the answer to a query for the best posts.
func topOf(b *counter.Batch, q counter.Query, column int16, k int) (found []uint64, err error) {
	t, err := counter.NewTop(q, column, k)
	for done := false; err == nil && !done; {
		done, err = t.Step(b)
	}
	if err != nil {
		return nil, err
	}
	for i := range t.Rows().Len() {
		mid, values := t.Rows().At(i)
		found = append(found, mid, values[0])
	}
	return found, nil
}
