package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/counter"
)

const (
	// watchedFor is how long somebody counts as watching after a request: the page asks each second.
	watchedFor = 5 * time.Second
	// freshFor is how old an answer may be before a viewer waits for a new one, for waitFresh at most.
	freshFor  = 1500 * time.Millisecond
	waitFresh = time.Second
	// mapEvery and mapShare bound how often blocks are walked and the map is made.
	mapEvery = 2 * time.Second
	mapShare = 200
	// mapStale is how old a map may be before a viewer waits for a new one, for waitFresh at most.
	mapStale = 15 * time.Second
	// listed is how many commands, clients and slow commands are shown.
	listed = 20
)

// Monitor watches a server. Make one with NewMonitor, begin with Start, end with Close.
type Monitor struct {
	src  Source
	quit chan struct{}
	wake chan struct{} // somebody waits for an answer
	done sync.WaitGroup

	// Of the monitor's goroutine alone.
	past     history
	judge    judge
	state    *facts.State     // of the last look
	usage    []counter.Usage  // of the last look with it
	mapper   mapper           // of the walk while walking is set
	nextWalk time.Time        // the same
	walking  atomic.Bool      // a walk is under way
	calls    map[string]int64 // of each command at the last answer
	callsAt  time.Time
	answered time.Time // when the newest answer was made

	mu       sync.Mutex // guards the rest
	running  bool
	watched  time.Time     // when somebody asked last
	mapAsked time.Time     // for the map
	now      *answer       // nil before the first
	fresh    chan struct{} // closed when now is replaced
	blocks   *Map          // nil before the first
	mapBody  *body
	mapped   chan struct{} // closed when there is a new map, if somebody waits for it; may be nil
}

// Status is the answer of one second.
type Status struct {
	Second  int64           `json:"second"`
	Began   int64           `json:"began"` // ms since 1970: of second 0
	Now     int64           `json:"now"`   // ms since 1970
	Sample  []int64         `json:"sample"`
	Tenth   int64           `json:"tenth"`
	Coarse  []int64         `json:"coarse"`
	Verdict Verdict         `json:"verdict"`
	Facts   json.RawMessage `json:"facts"` // a facts.State
	Details Details         `json:"details"`
	MapSeq  uint64          `json:"mapSeq"`
	Hidden  string          `json:"hidden,omitempty"` // parts that this viewer may not see
}

// answer is the answer to all viewers in one second.
type answer struct {
	at     time.Time
	status Status
	past   Past
	// counters is how many there are.
	counters int

	mu     sync.Mutex
	bodies map[Access]*body
	old    *body // of the history
}

// body is something to send, as it is and compressed.
type body struct{ plain, gzip []byte }

// NewMonitor makes the monitor of a server.
func NewMonitor(src Source) *Monitor {
	return &Monitor{src: src, state: new(facts.State), quit: make(chan struct{}), wake: make(chan struct{}, 1), fresh: make(chan struct{})}
}

// Start begins to watch. Call it once.
func (m *Monitor) Start() {
	m.mu.Lock()
	m.running = true
	m.mu.Unlock()
	m.done.Go(m.run)
}

// Close ends it, and waits for the end. A monitor that was not started, or is closed, has nothing to end.
func (m *Monitor) Close() {
	m.mu.Lock()
	was := m.running
	m.running = false
	m.mu.Unlock()
	if was {
		close(m.quit)
		m.done.Wait()
	}
}

func (m *Monitor) run() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	m.second(time.Now())
	for {
		select {
		case <-m.quit:
			return
		case now := <-tick.C:
			m.second(now)
		case <-m.wake:
			now := time.Now()
			if now.Sub(m.answered) > freshFor/2 || m.state.Loading != nil { // else who woke it waits for a map, or has the answer by now
				m.look(now, facts.JSONParts)
				m.publish(now)
			}
			m.walkIfDue(now)
		}
	}
}

// second runs each second.
func (m *Monitor) second(now time.Time) {
	m.mu.Lock()
	watching := now.Sub(m.watched) < watchedFor
	m.mu.Unlock()
	parts := judgedParts
	if watching {
		parts = facts.JSONParts
	}
	m.look(now, parts)
	m.past.add(now, m.src.Totals(), m.gauges())
	if watching {
		m.publish(now)
	} else {
		m.calls = nil
	}
	m.walkIfDue(now)
}

// gauges are those of the last look.
func (m *Monitor) gauges() gauges {
	g := gauges{memory: uint64(max(0, m.state.Memory.RSS)), level: m.judge.level}
	if l := m.state.Link; l != nil {
		g.lag = l.Behind
	}
	for i := range m.state.Replicas {
		g.lag = max(g.lag, m.state.Replicas[i].Behind)
	}
	return g
}

// walkIfDue starts a walk over the blocks, if the map is asked for and it is time.
func (m *Monitor) walkIfDue(now time.Time) {
	m.mu.Lock()
	mapping := now.Sub(m.mapAsked) < watchedFor
	m.mu.Unlock()
	if !m.walking.CompareAndSwap(false, true) {
		return
	}
	if mapping && now.After(m.nextWalk) && m.state.Loading == nil {
		m.done.Go(m.walk)
		return
	}
	if !mapping {
		m.mapper.forget()
	}
	m.walking.Store(false)
}

// judgedParts are those that the verdict and the history need. The others are filled only while somebody watches.
const judgedParts = facts.PartClients | facts.PartMemory | facts.PartTiers | facts.PartDisk | facts.PartNodes | facts.PartDiverged | facts.PartCluster

// look judges the server as it is now.
func (m *Monitor) look(now time.Time, parts facts.Part) {
	m.state = m.src.State(parts)
	if parts.Has(facts.PartUsage) {
		m.usage = m.state.Usage
	} else {
		m.state.Usage = m.usage // files that are unusable stay so while nobody watches
	}
	m.judge.look(now, m.state)
}

// publish makes the answer of this second.
func (m *Monitor) publish(now time.Time) {
	m.answered = now
	m.rank(now)
	a := &answer{at: now, past: m.past.past(), bodies: make(map[Access]*body), counters: m.state.Counters}
	text, _ := m.state.MarshalJSON() // it has no error
	a.status = Status{Second: m.past.second, Began: m.past.began.UnixMilli(), Now: now.UnixMilli(), Tenth: m.past.tenth,
		Verdict: m.judge.verdict(), Facts: text, Details: m.src.Details(listed)}
	a.status.Sample, a.status.Coarse = m.past.newest()
	m.mu.Lock()
	if m.blocks != nil {
		a.status.MapSeq = m.blocks.Seq
	}
	m.now = a
	close(m.fresh)
	m.fresh = make(chan struct{})
	m.mu.Unlock()
}

// rank leaves the commands that were called most, with their rates.
func (m *Monitor) rank(now time.Time) {
	all := m.state.Commands
	calls := make(map[string]int64, len(all))
	for i := range all {
		c := &all[i]
		calls[c.Name] = c.Calls
		if before, ok := m.calls[c.Name]; ok && now.After(m.callsAt) {
			c.PerSec = float64(int64(float64(since(before, c.Calls))/now.Sub(m.callsAt).Seconds()*10)) / 10
		}
	}
	if now.Sub(m.callsAt) > 100*time.Millisecond {
		m.calls, m.callsAt = calls, now
	}
	slices.SortFunc(all, func(a, b facts.Command) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Name, b.Name))
	})
	m.state.Commands = all[:min(len(all), listed)]
}

// walk makes a new map. One runs at a time.
func (m *Monitor) walk() {
	defer m.walking.Store(false) // last of all
	began := time.Now()
	blocks, err := m.mapper.walk(m.src, m.counters(), time.Now)
	defer func() { // it is looked at each second
		m.nextWalk = time.Now().Add(max(mapEvery, mapShare*time.Since(began)) - time.Second/2)
	}()
	if err != nil {
		return // the store is closed or replaced: the next one finds the new one
	}
	b := encode(blocks)
	m.mu.Lock()
	if m.blocks, m.mapBody = blocks, b; m.mapped != nil {
		close(m.mapped)
		m.mapped = nil
	}
	m.mu.Unlock()
}

// counters is about how many there are.
func (m *Monitor) counters() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blocks != nil {
		return len(m.blocks.Rows) + m.blocks.Left
	}
	if m.now != nil {
		return m.now.counters
	}
	return 1
}

// current returns the answer of this second, or, when none comes in waitFresh, the newest there is; nil: there is none.
func (m *Monitor) current(ctx context.Context) *answer {
	m.mu.Lock()
	now := time.Now()
	m.watched = now
	a, fresh := m.now, m.fresh
	m.mu.Unlock()
	if a != nil && now.Sub(a.at) < freshFor {
		return a
	}
	m.wait(ctx, fresh)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// wait wakes the monitor and waits until something is done, for waitFresh at most.
func (m *Monitor) wait(ctx context.Context, done <-chan struct{}) {
	select {
	case m.wake <- struct{}{}:
	default: // it is asked for
	}
	timer := time.NewTimer(waitFresh)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-m.quit:
	case <-ctx.Done():
	}
}

// currentMap returns the newest map, or an old one, if no fresh map comes within waitFresh; nil: there was none yet, as
// data is being loaded.
func (m *Monitor) currentMap(ctx context.Context) *body {
	m.mu.Lock()
	m.mapAsked = time.Now()
	b := m.mapBody
	if b != nil && time.Since(time.UnixMilli(m.blocks.At)) < mapStale {
		m.mu.Unlock()
		return b
	}
	if m.mapped == nil {
		m.mapped = make(chan struct{})
	}
	mapped := m.mapped
	m.mu.Unlock()
	m.wait(ctx, mapped)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mapBody
}

// body is the answer for viewers with this access. It is made once.
func (a *answer) body(may Access) *body {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.bodies[may]
	if b == nil {
		st := a.status
		if !may.Slowlog {
			st.Details.Slow, st.Hidden = nil, "slowlog"
		}
		if !may.Clients {
			st.Details.Largest, st.Details.Busiest, st.Hidden = nil, nil, st.Hidden+" clients"
		}
		if !may.Posts {
			st.Details.Hot, st.Hidden = nil, st.Hidden+" posts"
		}
		b = encode(&st)
		a.bodies[may] = b
	}
	return b
}

// history is the history up to this second. It is made once.
func (a *answer) history() *body {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.old == nil {
		a.old = encode(&a.past)
	}
	return a.old
}

// compressors are kept: one has 1.2 MB of tables at the fastest level, too.
var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a good one
	return w
}}

// encode makes a body as JSON.
func encode(v any) *body {
	plain, err := json.Marshal(v)
	if err != nil { // a float64 that is none: there are no other ways
		plain = []byte("{}")
	}
	return &body{plain, compressed(plain)}
}

func compressed(plain []byte) []byte {
	var out bytes.Buffer
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(&out)
	_, _ = w.Write(plain) // memory takes all
	_ = w.Close()
	return out.Bytes()
}
