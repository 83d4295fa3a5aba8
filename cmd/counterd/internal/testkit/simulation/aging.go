package simulation

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/server"
	"github.com/counterd/counterd/cmd/counterd/internal/testkit/feedview"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Posts of counter r are kept for some seconds (retain=): the primary of each shard drops older ones each second. One client makes new posts all the time, adds
// to those that are young, reads them, and now and then adds to a post that is dropped. These rules hold, whatever happens to nodes and their clocks:
//
//   - A post that is younger than keptFor is there, with all additions that were acknowledged. Its time is that of the run, and no post is newer, so a clock
//     that is ahead drops nothing too early.
//   - Where all clocks are right, no node has a post that is much older, once the cluster is whole.
//   - The derived column of a post has no more than its additions since it was dropped last.
const (
	keptFor   = 6 * time.Second
	agedFirst = 946_684_800_000 // unix time in ms at which the virtual time begins
	agedBits  = 4               // of a mid, behind its time
	agedNext  = 100 * time.Millisecond
)

// growing are the counters whose posts are made all the time.
func (c *Config) growing() []string {
	if !c.Aging {
		return nil
	}
	return []string{"r"}
}

// agedLines are the statements that add the counter.
func agedLines(r *Run) []string {
	if !r.Config.Aging {
		return nil
	}
	lines := []string{fmt.Sprintf("ADD COUNTER r ids=ms:%d:%d retain=%ds", agedBits, agedFirst, keptFor/time.Second),
		"ADD COLUMN r a hint=2 max=32 suffix=a" + r.Config.listed()}
	if r.Config.Window != "" {
		lines = append(lines, fmt.Sprintf("ADD COLUMN r aw window=%s of=a suffix=aw top=2", r.Config.Window))
	}
	return lines
}

// ages gives posts an age, where no client loses or removes them in another way, and where all nodes know of it.
func (c *Config) ages() bool {
	return !c.Flushes && !c.Sentinel && c.Older == 0 && !c.Released && !c.Quiet
}

// shapeAging has posts age while groups of hash slots move, or while the roles of a primary and its replicas change.
func shapeAging(c *Config, d *Dice) {
	Pick(d, []func(*Config, *Dice){shapeMoves, shapeMoves, shapeStandalone})(c, d)
	c.Aging, c.Flushes, c.Every = true, false, d.Between(1500*time.Millisecond, 4*time.Second)
	if d.Chance(300) {
		c.clocks(d)
	}
}

// dropped is the line that a primary logs when it has dropped posts by age.
const dropped = "posts were dropped by age"

// dropAndDie ends a primary about when it drops posts, which takes some milliseconds of each second, or has it lose its role, its groups or its clock then.
func dropAndDie(n *nemesis, d *Dice) {
	r := n.run
	before := r.Story.Met()[dropped]
	if r.author == nil || !n.until(2*keptFor, func() bool { return r.Story.Met()[dropped] > before }) {
		return
	}
	time.Sleep(d.Between(900*time.Millisecond, 1050*time.Millisecond))
	if r.Config.Standalone {
		n.handOver(d)
		return
	}
	p := r.leader(topology.ShardID(1 + d.N(r.Config.Shards)))
	if p == nil {
		return
	}
	way := d.N(4)
	if way == 0 {
		n.move(d, d.Chance(300))
		time.Sleep(d.Between(0, 1500*time.Millisecond))
	}
	switch {
	case way == 1 && r.Config.Weights[clockSet] > 0:
		n.setClock(d, p)
	case way <= 2 && d.Chance(500):
		n.ask(Pick(d, r.Machines), "CLUSTER", "FAILOVER")
	default:
		n.end(d, p, 0, 4*time.Second)
	}
}

// author is the client that makes posts. One goroutine uses it.
type author struct {
	c     *client
	posts []agedPost // in the order of their mids
}

// agedPost is a post as its author knows it.
type agedPost struct {
	mid           uint64
	made          time.Duration // since the run's beginning
	acked, doubts int64         // additions
}

func newAuthor(r *Run) *author {
	a := &author{c: newClient(r, 80, false)}
	a.c.name = "author"
	return a
}

// work makes posts until ctx ends.
func (a *author) work(ctx context.Context) {
	defer a.c.hangUp()
	for ctx.Err() == nil {
		time.Sleep(a.c.dice.Between(0, agedNext))
		switch d := a.c.dice; {
		case d.Chance(400) || len(a.posts) == 0:
			a.make()
		case d.Chance(50):
			a.revive()
		case d.Chance(500):
			if p := a.young(keptFor / 2); p != nil {
				a.add(p)
			}
		default:
			if p := a.young(keptFor); p != nil {
				a.read(p)
			}
		}
	}
}

// make makes a post of now.
func (a *author) make() {
	now := a.c.run.now()
	p := agedPost{mid: uint64(a.c.run.began.Add(now).UnixMilli()-agedFirst) << agedBits, made: now}
	if n := len(a.posts); n > 0 {
		p.mid = max(p.mid, a.posts[n-1].mid+1)
	}
	a.posts = append(a.posts, p)
	a.add(&a.posts[len(a.posts)-1])
}

// young is one of the posts that are younger than age; nil: there is none.
func (a *author) young(age time.Duration) *agedPost {
	first := len(a.posts)
	for first > 0 && a.c.run.now()-a.posts[first-1].made < age {
		first--
	}
	if first == len(a.posts) {
		return nil
	}
	return &a.posts[first+a.c.dice.N(len(a.posts)-first)]
}

func (p *agedPost) key() string { return fmt.Sprintf("{%d}.a", p.mid) }

// add adds one to a post.
func (a *author) add(p *agedPost) {
	_, got := a.c.ask(p.key(), []string{"INCRBY", p.key(), "1"})
	switch got {
	case acknowledged:
		p.acked++
	case uncertain:
		p.doubts++
	}
}

// revive adds to a post that is dropped, or soon will be: it is there again for a moment.
func (a *author) revive() {
	p := &a.posts[a.c.dice.N(len(a.posts))]
	if a.c.run.now()-p.made < 3*keptFor {
		return
	}
	if a.add(p); a.c.dice.Chance(500) {
		a.derived(p)
	}
}

// read reads a post and compares it, unless it has grown old meanwhile.
func (a *author) read(p *agedPost) {
	r := a.c.run
	value, got := a.c.ask(p.key(), r.reading(p.key()))
	if got != acknowledged || r.now()-p.made >= keptFor {
		return
	}
	r.Story.meet("simulation: a post that ages was read")
	if wrong := p.wrong(r, value); wrong != "" {
		r.Fault("author: %s: read on %s", wrong, a.c.at)
	}
	a.derived(p)
}

// wrong describes the fault in the value of a post that is young.
func (p *agedPost) wrong(r *Run, value int64) string {
	least := p.acked
	if r.lossy {
		least = 0
	}
	if value >= least && value <= p.acked+p.doubts {
		return ""
	}
	return fmt.Sprintf("post %d, %s old, has %d additions, want %d to %d", p.mid, r.now()-p.made, value, least, p.acked+p.doubts)
}

// derived reads a post with its derived column, which are of one moment.
func (a *author) derived(p *agedPost) {
	r := a.c.run
	if r.Config.Window == "" || r.Config.Decay {
		return
	}
	words := []string{"COUNTER.MGET", "r", strconv.FormatUint(p.mid, 10), "COLUMNS", "a", "aw"}
	v, got := a.c.exchange(p.key(), words)
	if got != acknowledged {
		return
	}
	list := leaves(v)
	if failing(list) != "" || len(list) == 1 && list[0].Null {
		return
	}
	if len(list) != 2 || list[1].Int > list[0].Int || wholeWindow(r) && list[1].Int < list[0].Int {
		r.Fault("author: the window of post %d does not have its additions: %v was answered %v by %s", p.mid, words, v, a.c.at)
	}
}

// verifyAging compares the posts that are kept with the knowledge of their author. The author has ended.
func verifyAging(r *Run) {
	if r.author == nil {
		return
	}
	posts := r.author.posts
	for i := range posts {
		// The cut is the time of the 32nd newest post less keptFor, so these stay.
		if p := &posts[i]; posts[len(posts)-1].made-p.made < keptFor {
			value, got := int64(0), outcome(refused)
			r.await("post "+p.key()+" is read", func() string {
				if value, got = r.operator.ask(p.key(), r.reading(p.key())); got != acknowledged {
					return "it is refused"
				}
				return ""
			})
			if wrong := p.wrong(r, value); wrong != "" {
				r.Fault("at the end %s", wrong)
			}
		}
	}
}

// lacksAged tells of which post of the author the consumer has another value than the nodes.
func (c *consumer) lacksAged() string {
	r := c.run
	if r.author == nil {
		return ""
	}
	has := make(map[uint64]uint64)
	for _, m := range r.Machines {
		srv := m.server()
		if srv == nil {
			return m.name + " does not run"
		}
		if err := eachAged(srv.Store(), func(mid, a uint64) { has[mid] = a }); err != nil {
			return m.name + ": " + err.Error()
		}
	}
	for i := range r.author.posts {
		mid := r.author.posts[i].mid
		if text := c.differs(feedview.Cell{Counter: "r", Mid: mid, Column: "a"}, int64(has[mid])); text != "" {
			return text
		}
	}
	return ""
}

// aged waits until no node has a post that is much older than keptFor, counted from the 32nd newest: two periods of a second, and a second until the keeper
// looks. A primary makes its first cut keptFor behind its start. The author makes posts meanwhile, so that time passes.
func aged(r *Run) bool {
	if r.author == nil || !rightClocks(r) {
		return true
	}
	const rank = 32 // see package aging
	return r.await("posts are dropped by age", func() string {
		return sameInShards(r, func(srv *server.Server) (_ bool, wrong string) {
			var mids []uint64 // rising
			if err := eachAged(srv.Store(), func(mid, _ uint64) { mids = append(mids, mid) }); err != nil {
				return false, err.Error()
			}
			if len(mids) <= rank {
				return false, ""
			}
			if age := time.Duration(mids[len(mids)-rank]>>agedBits-mids[0]>>agedBits) * time.Millisecond; age > keptFor+3*time.Second {
				wrong = fmt.Sprintf("post %d is %s older than the %dnd newest", mids[0], age, rank)
			}
			return false, wrong
		})
	})
}

// eachAged gives each post of counter r with its additions.
func eachAged(s *counter.Store, give func(mid, a uint64)) error {
	def := s.Schema().Counter("r")
	if def == nil {
		return fmt.Errorf("there is no counter r")
	}
	return s.Find(counter.Query{Counter: def, To: schema.MaxMid, Columns: []int16{column(def, "a")}}, func(mid uint64, values []uint64) bool {
		give(mid, values[0])
		return true
	})
}
