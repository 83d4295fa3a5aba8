package move

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/internal/slot"
)

// Host is the interface to the server.
type Host interface {
	// Store is the present one.
	Store() *counter.Store
	// Withhold sets the groups that clients are not served, whatever the node's standing is; it replaces the set given
	// before. It returns when no command is at work on them.
	Withhold(groups slot.Set)
	// Expect sets the groups that are about to be this shard's, until a map has them; it replaces the set given
	// before. A client that asks for them waits: the source may see the commit first, and would send the client back.
	Expect(groups slot.Set)
	// Refresh tells clients of what the store has taken as its own: see counter.Groups.States.
	Refresh()
}

// Config is what a Mover is made of.
type Config struct {
	Registry registry.Registry
	Host     Host
	Log      *slog.Logger
	// Dial connects to a source's primary.
	Dial func(ctx context.Context, address string) (Remote, error)
}

// Mover makes the moves that a node has a part in, as the primary of the destination or of the source. All methods may be
// called concurrently.
type Mover struct {
	conf Config
	now  atomic.Pointer[cluster.Standing]
	news chan struct{}
	ctx  context.Context
	stop context.CancelFunc
	wait sync.WaitGroup

	holding sync.Mutex // held while holds, and with them what the host withholds, change

	mu       sync.Mutex // guards the rest
	epoch    uint64     // led at present; 0: none
	tasks    map[string]*task
	sessions map[string]*session
	holds    map[string]*hold
	tried    map[string]int64 // by move: the revision of a commit that etcd did not answer
	lost     slot.Set         // that was reported by lose
	progress map[string]*Progress
}

// task is the work under way for a move.
type task struct {
	kind   taskKind
	cancel context.CancelFunc
	source *source // that a copy fetches from; nil: from nobody at present
}

type taskKind uint8

const (
	taskCopy taskKind = 1 + iota
	taskAccept
	taskEnd
	taskDrop
	taskOrphan
)

// New returns a mover that does nothing before Look. Close ends it.
func New(c Config) *Mover {
	m := &Mover{conf: c, news: make(chan struct{}, 1), tasks: map[string]*task{}, sessions: map[string]*session{}, holds: map[string]*hold{},
		tried: map[string]int64{}, progress: map[string]*Progress{}}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.wait.Go(m.run)
	return m
}

// Close ends the work under way. Held groups stay held: the process is about to end, or leads no more.
func (m *Mover) Close() {
	m.stop()
	m.wait.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sessions {
		s.end()
	}
	clear(m.sessions)
}

// Look tells of a newer standing, which clients are served by already. It does not wait.
func (m *Mover) Look(st *cluster.Standing) {
	m.now.Store(st)
	m.wake()
}

func (m *Mover) wake() {
	select {
	case m.news <- struct{}{}:
	default:
	}
}

const lookEvery = time.Second // at sessions that nobody uses any more

func (m *Mover) run() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.news:
		case <-tick.C:
		}
		if st := m.now.Load(); st != nil {
			m.step(st)
		}
	}
}

// leads is the epoch that a node leads; 0: none.
func leads(st *cluster.Standing) uint64 {
	if st == nil || !st.Primary || st.Shard == nil || st.Map == nil {
		return 0
	}
	return st.Shard.Epoch
}

// step does what a standing asks for.
func (m *Mover) step(st *cluster.Standing) {
	epoch := leads(st)
	m.mu.Lock()
	changed := epoch != m.epoch
	if changed {
		m.epoch = epoch
		for _, t := range m.tasks {
			t.cancel()
		}
		for id, s := range m.sessions {
			s.end()
			delete(m.sessions, id)
		}
		m.lost = slot.Set{}
		clear(m.tried) // of another epoch: it cannot be made any more, and if it was, the map says so
	}
	m.mu.Unlock()
	if changed {
		m.forgetHolds()
	}
	if epoch == 0 || st.Writes != "" {
		return
	}
	m.judge(st.Map, true)
	orphans := m.orphans(st)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(st)
	wanted := map[string]taskKind{}
	var copying []*topology.Move
	for _, v := range st.Map.Moves {
		switch kind := asked(v, st.Shard.ID); kind {
		case 0:
		case taskCopy:
			copying = append(copying, v)
		default:
			wanted[v.ID] = kind
		}
	}
	if len(copying) > 0 { // one after the other: each has the whole of the link, and is there sooner
		first := slices.MinFunc(copying, func(a, b *topology.Move) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID)) })
		wanted[first.ID] = taskCopy
	}
	for id := range orphans {
		wanted[id] = taskOrphan
	}
	for id, t := range m.tasks {
		if t.source.gone(st.Map) {
			t.source.leave()
		}
		if kind := wanted[id]; kind != t.kind && !(t.kind == taskCopy && kind == taskAccept) { // who committed accepts
			t.cancel()
		}
	}
	for id := range m.progress {
		if st.Map.Move(id) == nil {
			delete(m.progress, id)
		}
	}
	for id, kind := range wanted {
		switch {
		case m.tasks[id] != nil:
		case kind == taskOrphan:
			m.begin(&topology.Move{ID: id, Groups: orphans[id], To: st.Shard.ID}, kind, epoch)
		default:
			m.begin(st.Map.Move(id), kind, epoch)
		}
	}
}

// asked is what a move asks of a shard's primary; 0: nothing.
func asked(v *topology.Move, of topology.ShardID) taskKind {
	switch {
	case v.To == of && v.State == topology.MoveCopying:
		return taskCopy
	case v.To == of && v.State == topology.MoveCommitted && !v.Accepted:
		return taskAccept
	case v.To == of && v.State == topology.MoveAborted:
		return taskEnd
	case v.From == of && v.State == topology.MoveCommitted && !v.Dropped:
		return taskDrop
	}
	return 0
}

// asks tells whether a move still asks for something, by the present standing.
func (m *Mover) asks(id string, kind taskKind) bool {
	st := m.now.Load()
	if leads(st) == 0 {
		return false
	}
	v := st.Map.Move(id)
	return v != nil && asked(v, st.Shard.ID) == kind
}

// begin starts a task. REQUIRES mu.
func (m *Mover) begin(v *topology.Move, kind taskKind, epoch uint64) {
	ctx, cancel := context.WithCancel(m.ctx)
	t := &task{kind: kind, cancel: cancel}
	m.tasks[v.ID] = t
	m.wait.Go(func() {
		defer cancel()
		m.work(ctx, v, kind, epoch)
		m.mu.Lock()
		if m.tasks[v.ID] == t {
			delete(m.tasks, v.ID)
		}
		m.mu.Unlock()
		m.wake() // what the map asks for may be something else by now
	})
}

// pauses between attempts that failed.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// work tries a task until it is done or not wanted any more.
func (m *Mover) work(ctx context.Context, v *topology.Move, kind taskKind, epoch uint64) {
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, lastPause) {
		var err error
		switch kind {
		case taskCopy:
			err = m.copy(ctx, v.ID, epoch)
		case taskAccept:
			if err = m.came(v); err == nil {
				err = m.accept(ctx, v, epoch)
			}
		case taskEnd:
			err = m.dropped(ctx, v, epoch, topology.EndAborted)
		case taskDrop:
			err = m.dropped(ctx, v, epoch, topology.MoveDropped)
		case taskOrphan:
			err = m.adopt(ctx, v, epoch)
		}
		if err == nil { // the same again would find that it is done: the map is to say so
			for end := time.Now().Add(lastPause); m.asks(v.ID, kind) && ctx.Err() == nil && time.Now().Before(end); {
				sleep.For(ctx, firstPause)
			}
			return
		}
		if ctx.Err() != nil {
			return
		}
		m.note(v, func(p *Progress) { p.Err = err.Error() })
		if lost := new(LostError); errors.As(err, &lost) { // which was reported
			pause = lastPause
		} else {
			m.conf.Log.Warn("a move of groups failed; retrying", "move", v.ID, "groups", v.Groups.String(), "error", err)
		}
		sleep.For(ctx, pause)
	}
}

// accept takes groups that were committed as this shard's own. They are served at once, as all that was committed is on
// every node in sync; etcd is told when the record is.
func (m *Mover) accept(ctx context.Context, v *topology.Move, epoch uint64) error {
	store := m.conf.Host.Store()
	end, err := store.Groups().In(epoch).Accept(counter.MoveFrom(v.ID, uint64(v.From), v.Held), v.Groups)
	if err != nil {
		return err
	}
	m.conf.Host.Refresh()
	if err := store.Replication().CommitShard(ctx, epoch, end); err != nil {
		return err
	}
	return m.settle(ctx, v.ID, topology.MoveAccepted, func(v *topology.Move) bool { return v.State != topology.MoveCommitted || v.Accepted })
}

// dropped drops groups that are not this shard's, and says so by a change once every node in sync has dropped them: who
// leads next would keep them else, and take a part of them for the whole.
func (m *Mover) dropped(ctx context.Context, v *topology.Move, epoch uint64, change func(*topology.Map, string) (topology.Change, error)) error {
	store := m.conf.Host.Store()
	end, err := store.Groups().In(epoch).Drop(v.ID, v.Groups)
	if err != nil {
		return err
	}
	if err := store.Replication().CommitShard(ctx, epoch, end); err != nil {
		return err
	}
	state := v.State
	return m.settle(ctx, v.ID, change, func(v *topology.Move) bool { return v.State != state || v.Dropped })
}

// settle commits a change of a move until etcd shows that it is done, or needs it no more.
func (m *Mover) settle(ctx context.Context, id string, change func(*topology.Map, string) (topology.Change, error), done func(*topology.Move) bool) error {
	for range 10 {
		now, err := m.conf.Registry.Load(ctx)
		if err != nil {
			return fmt.Errorf("etcd: %w", err)
		}
		v := now.Move(id)
		if v == nil || done(v) {
			return nil
		}
		c, err := change(now, id)
		if err != nil {
			return err
		}
		if err = m.conf.Registry.Commit(ctx, c); err == nil {
			return nil
		}
		sleep.For(ctx, firstPause)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("move %s: %w", id, registry.ErrUnknown)
}

// Progress is how far a move is, at its destination.
type Progress struct {
	ID     string
	Groups slot.Set
	From   topology.ShardID
	Phase  string // "copying", "log", "hold"
	Posts  uint64 // that came in pages
	Bytes  uint64 // that came
	Behind uint64 // bytes of the source's log that did not come yet
	Began  time.Time
	Holds  int           // that were taken
	Held   time.Duration // the last one, as the destination saw it
	Err    string        // why it does not go on; empty: it does
}

// note updates a move's progress.
func (m *Mover) note(v *topology.Move, change func(*Progress)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.progress[v.ID]
	if p == nil {
		p = &Progress{ID: v.ID, Groups: v.Groups, From: v.From, Began: time.Now()}
		m.progress[v.ID] = p
	}
	change(p)
}

// Progress lists the moves to this shard that are under way, or were of late, by id.
func (m *Mover) Progress() []Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Progress, 0, len(m.progress))
	for _, p := range m.progress {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b Progress) int { return cmp.Compare(a.ID, b.ID) })
	return list
}
