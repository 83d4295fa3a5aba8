package simulation

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// Run is one simulated life of a cluster. It must be made and played inside of a bubble of testing/synctest.
type Run struct {
	Seed     uint64
	Config   Config
	Net      *Network
	Etcd     *registrytest.Server
	Machines []*Machine
	History  History
	Story    *Story

	dice        *Dice
	keys        []string
	mids        []uint64
	pages       []*page
	etcdFaults  registrytest.Faults
	operator    *client
	sentinel    *sentinel  // nil: there is none
	consumer    *consumer  // of the feed; nil: there is none
	updater     *updater   // of many posts at once; nil: there is none
	author      *author    // of posts that are dropped by age; nil: there is none
	victims     []*Machine // whose disks decay
	flushes     History    // FLUSHALL, by the empty name
	drained     map[string]*drained
	heap        atomic.Int64 // in bytes, see weigh
	flushDoubt  atomic.Int64
	inheritance counter.Digest // of the posts of a released version
	over        time.Duration  // when all was verified: behind that is a pause in which all goroutines end
	lossy       bool           // the only copy of acknowledged changes decayed
	alone       bool           // the only copy of changes decayed that readers saw, and that were not acknowledged
	began       time.Time
	healed      time.Duration // when all was whole again
	done        chan struct{} // closed at the end
	lives       sync.WaitGroup
	healing     atomic.Bool  // nothing may stay ended
	skip        map[int]bool // faults that are left out: see Play
	steps       int          // faults that were drawn

	mu     sync.Mutex
	faults []string
}

// New makes the run of a seed, with scenes of a name: none, or all kinds in turn if it is empty. live gets the story line by line,
// unless it is nil. A quiet run has none, and few faults in hours.
func New(seed uint64, scene string, quiet bool, live io.Writer) (*Run, error) {
	dice, conf := NewDice(seed, "run"), Draw(NewDice(seed, "config"))
	if err := conf.stage(scene, NewDice(seed, "scenes")); err != nil {
		return nil, err
	}
	if quiet {
		conf.calm(NewDice(seed, "quiet"))
	}
	conf.more(NewDice(seed, "more"))
	r := &Run{Seed: seed, Config: conf, Etcd: registrytest.NewServer(), dice: dice, began: time.Now(), done: make(chan struct{}), drained: make(map[string]*drained)}
	r.Story = &Story{began: r.began, live: live}
	r.Net = NewNetwork(NewDice(seed, "network"), r.Config.Network)
	for i := range r.Config.Nodes {
		r.Machines = append(r.Machines, newMachine(r, i))
	}
	r.grow(NewDice(seed, "versions"))
	for mid := uint64(100); len(r.keys) < r.Config.Keys; mid += 37 {
		// A group has a block for each BlockItems posts, and all but the last one may have a cold file.
		if g := slot.Group(mid); r.Config.Tiers && g != slot.Group(100) && g != slot.Group(100+37) {
			continue
		}
		r.mids = append(r.mids, mid)
		if !r.Config.Tiers || len(r.mids)%8 == 0 {
			r.keys = append(r.keys, fmt.Sprintf("{%d}.n", mid))
		}
	}
	for _, key := range r.keys {
		r.drained[key] = &drained{}
	}
	r.pages = newPages(&r.Config)
	r.chooseVictims(NewDice(seed, "victims"))
	r.operator = newClient(r, 99, false)
	r.operator.name = "op"
	return r, nil
}

func (r *Run) now() time.Duration { return time.Since(r.began) }

func (r *Run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// Fault notes that something is wrong.
func (r *Run) Fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	r.faults = append(r.faults, text)
	r.Story.Say("!!!!", "%s", text)
}

// Faults are all that was wrong.
func (r *Run) Faults() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.faults
}

// Play plays the run to its end: it begins, clients work while faults happen, all is healed, and the posts are compared with
// the answers that clients got. skip are the numbers of faults that are left out.
func (r *Run) Play(skip map[int]bool) {
	r.skip = skip
	r.Story.Say("", "seed %d: %s", r.Seed, r.Config.String())
	defer r.bury()
	if !r.begin() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watching, asleep := context.WithCancel(context.Background())
	defer asleep()
	if r.Config.Feed {
		r.consumer = newConsumer(r)
		r.lives.Go(func() { r.consumer.follow(watching) })
		if !r.await("the feed has begun", r.consumer.waits) {
			return
		}
	}
	var working sync.WaitGroup
	for i := range r.Config.Clients {
		c := newClient(r, i, i%2 == 1)
		c.forwarded = r.Config.Forward && !r.Config.Standalone && i%3 == 2
		working.Go(func() { c.work(ctx) })
	}
	for i := range r.Config.Strangers {
		c := newClient(r, 50+i, true)
		working.Go(func() { c.comeAndGo(ctx) })
	}
	if r.Config.Drains {
		c := newClient(r, 60, true)
		c.forwarded = r.Config.Forward && !r.Config.Standalone
		working.Go(func() { c.collect(ctx) })
	}
	if r.Config.Updates {
		r.updater = newUpdater(r)
		working.Go(func() { r.updater.work(ctx) })
	}
	if r.Config.Aging {
		r.author = newAuthor(r)
		working.Go(func() { r.author.work(ctx) })
	}
	if r.Config.Sentinel {
		r.sentinel = newSentinel(r)
		r.lives.Go(func() { r.sentinel.work(watching) })
	}
	if r.Config.Top > 0 && !r.Config.DiskHangs { // all of a node would wait for its disk
		r.lives.Go(func() { watchLists(watching, r) })
	}
	r.weigh()
	n := newNemesis(r)
	n.work()
	r.steps = n.step
	r.heal()
	healthy := r.await("the cluster is whole", r.wholeAndHealed()) && ticking(r)
	r.healed = r.now()
	time.Sleep(2 * time.Second) // clients work on the healed cluster
	if passes(r) {              // and their buckets come around
		time.Sleep(2 * shortLength)
	}
	healthy = healthy && aged(r)
	cancel()
	if !healthy {
		close(r.done)
	}
	working.Wait()
	if healthy {
		watchDerived(r)
		evicted(r)
		r.grown()
		openFiles(r)
		r.verifyDecay()
		r.verify()
	}
}

// bury ends all processes, and waits until their goroutines have ended.
func (r *Run) bury() {
	r.over = r.now()
	if !r.ended() {
		close(r.done)
	}
	r.operator.stack.Kill()
	for _, m := range r.Machines {
		m.Kill()
	}
	r.lives.Wait()
	time.Sleep(time.Minute) // requests on their way to etcd arrive
}

// begin makes the cluster.
func (r *Run) begin() bool {
	if !r.inherit() {
		return false
	}
	for _, m := range r.Machines {
		m.On()
	}
	if r.Config.Standalone {
		return r.replicate()
	}
	if !r.await("all nodes are registered", func() string {
		if n := len(r.view().Live); n < len(r.Machines) {
			return fmt.Sprintf("%d are", n)
		}
		return ""
	}) {
		return false
	}
	r.change(func(m *topology.Map) (topology.Change, error) {
		return topology.CreateCluster(m, strings.Repeat("ab", 20), time.Now(), len(r.Machines)/r.Config.Shards-1, r.Config.MinInSync)
	})
	deal := topology.Deal(r.Config.Shards)
	for s := range r.Config.Shards {
		var nodes []topology.NodeID
		for i, m := range r.Machines {
			if i%r.Config.Shards == s {
				nodes = append(nodes, m.server().Cluster().Now().Self)
			}
		}
		r.change(func(m *topology.Map) (topology.Change, error) { return topology.AddShard(m, nodes, deal[s]) })
	}
	if !r.await("all nodes are in sync", r.whole) {
		return false
	}
	if !r.addSchema() || !r.fill() {
		return false
	}
	if r.Config.EtcdFaults {
		r.etcdFaults = registrytest.Faults{Delay: 20 * time.Millisecond, RequestLost: .02, AnswerLost: .05, Late: .02, LateBy: 3 * time.Second, WatchLost: .02}
		for _, m := range r.Machines {
			m.etcdLink().SetFaults(r.etcdFaults)
		}
	}
	return true
}

// addSchema makes the counters that clients use: c of single posts, and p of pages.
func (r *Run) addSchema() bool {
	top, old := r.Config.listed(), oldOption(r)
	lines := []string{"ADD COUNTER c" + old, "ADD COLUMN c n hint=4 max=32 suffix=n" + top, "ADD COLUMN c m hint=8 max=32 suffix=m" + top,
		"ADD COUNTER p" + old, "ADD COLUMN p pa hint=4 max=32 suffix=pa" + top, "ADD COLUMN p pb hint=8 max=32 suffix=pb"}
	lines = append(append(append(append(lines, derivedLines(r)...), agedLines(r)...), drainedLines(r)...), updatedLines(r)...)
	for _, line := range lines {
		if !r.await(line, func() string {
			if _, err := r.operator.say(r.Machines[0].host, strings.Fields(line)...); err != nil {
				return err.Error()
			}
			return ""
		}) {
			return false
		}
	}
	return (r.Config.Window == "" || r.await("all nodes have the window", func() string { return windowed(r) })) && r.await("all nodes keep old values", func() string { return lacksOld(r) })
}

// fill makes all posts of a run with tiers, so that there are blocks for cold files from the beginning.
func (r *Run) fill() bool {
	if !r.Config.Tiers {
		return true
	}
	for _, mid := range r.mids {
		key := fmt.Sprintf("{%d}.m", mid)
		if !r.await("there is "+key, func() string {
			if _, got := r.operator.ask(key, []string{"INCRBY", key, "1"}); got != acknowledged {
				return "it is refused"
			}
			return ""
		}) {
			return false
		}
	}
	return true
}

// await waits until missing returns an empty text. It is a fault if that takes ten minutes: nothing takes so long in a healthy cluster. Where clocks are set, the limit is twenty
// minutes: the time of a log follows a clock that went ahead by more than a day after ten, and a move to that node waits for it.
func (r *Run) await(what string, missing func() string) bool {
	text, most := "", 10*time.Minute
	if r.Config.Weights[clockSet] > 0 {
		most = 20 * time.Minute
	}
	for began := time.Now(); time.Since(began) < most && !r.ended(); time.Sleep(100 * time.Millisecond) {
		if text = missing(); text == "" {
			r.Story.Say("", "%s", what)
			return true
		}
	}
	if r.ended() {
		return false
	}
	r.Fault("after %s it is not so that %s: %s", most, what, text)
	return false
}

// whole tells what the cluster lacks.
func (r *Run) whole() string {
	if r.Config.Standalone {
		return r.following()
	}
	m := r.view()
	if len(m.Shards) < r.Config.Shards {
		return "a shard is missing"
	}
	if len(m.Moves) > 0 {
		return fmt.Sprintf("%d moves are under way", len(m.Moves))
	}
	for _, s := range m.Shards {
		if n := len(m.Members(s.ID)); n < len(r.Machines)/r.Config.Shards {
			return fmt.Sprintf("shard %d has %d nodes", s.ID, n)
		}
		if n := len(m.Members(s.ID)); len(s.InSync) < n {
			return fmt.Sprintf("shard %d has %d of %d nodes in sync", s.ID, len(s.InSync), n)
		}
		led := false
		for _, n := range r.Machines {
			if srv := n.server(); srv != nil {
				st := srv.Cluster().Now()
				led = led || st != nil && st.Shard != nil && st.Shard.ID == s.ID && st.Primary && st.Writes == "" && st.Readable(time.Now()) == ""
			}
		}
		if !led {
			return fmt.Sprintf("shard %d has no primary that serves", s.ID)
		}
	}
	return ""
}

// heal ends all faults, and starts the machines that do not run.
func (r *Run) heal() {
	r.Story.Say("", "all faults end")
	r.healing.Store(true)
	r.Net.Heal()
	r.Etcd.SetDown(false)
	r.etcdFaults = registrytest.Faults{}
	for _, m := range r.Machines {
		if d := m.Disk(); d != nil {
			d.Clear()
		}
		m.On()
		if l := m.etcdLink(); l != nil {
			l.SetFaults(registrytest.Faults{})
			l.Cut(false, false)
		}
	}
}

// lastValue reads the last value of a key.
func lastValue(r *Run, key string) (value int64) {
	got := outcome(refused)
	r.await("the last value of "+key+" is read", func() string {
		if value, got = r.operator.ask(key, r.reading(key)); got != acknowledged {
			return "it is refused"
		}
		return ""
	})
	return value
}

// verify compares what is left with the history.
func (r *Run) verify() {
	for _, key := range r.History.Keys() {
		final := lastValue(r, key)
		for _, fault := range r.check(key, final) {
			r.Fault("%s", fault)
		}
	}
	r.verifyPages()
	if r.History.Acks() == 0 {
		r.Fault("nothing was acknowledged")
	}
	r.await("the replicas have the same digests", r.same)
	verifyWindows(r)
	verifySums(r)
	verifyDerivedPages(r)
	verifyAging(r)
	verifyDrained(r)
	verifyUpdates(r)
	verifyLists(r)
	r.verifyFeed()
	for _, message := range differences {
		if n := r.Story.Met()[message]; n > 0 {
			r.Fault("nodes compared their posts and logged %d times: %s", n, message)
		}
	}
}

// differences are what nodes log that compare their posts with others and find some that are not the same. No fault of a
// machine that is simulated makes such a difference.
var differences = []string{"a replica differs from this node", "posts differed from the primary's; they have the primary's values now",
	"posts of this primary differed from its log; they have the values of the log now"}

// check compares the history of a key with its last value, by the promise that the run's nodes make.
func (r *Run) check(key string, final int64) []string {
	if r.Config.Sentinel {
		return r.History.CheckConfirmed(key, final)
	}
	if !r.searches() {
		if faults := r.History.Check(key, final, r.lossy); len(faults) > 0 || r.lossy {
			return faults
		}
	}
	return r.search(key, r.History.of(key), final)
}
