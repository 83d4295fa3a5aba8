package aging

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Host is the server as a Keeper sees it.
type Host interface {
	// MayChange tells whether changes are taken now, and not held back.
	MayChange() bool
	// Store is the one being served.
	Store() *counter.Store
	// TouchRange says that posts of a counter with mids from from on and below to are gone. An exclusive batch is open.
	TouchRange(def *schema.Counter, from, to uint64)
}

// Keeper drops posts by age. All methods are safe for concurrent use. See the package comment.
//
// Invariant: at most one goroutine looks and drops, and mu is not held by it meanwhile.
type Keeper struct {
	task
	host Host
	log  *slog.Logger

	mu     sync.Mutex // guards the rest
	states map[uint32]*State
}

// State tells of a counter with retain which posts were dropped by age.
type State struct {
	Counter string
	Retain  time.Duration
	Known   bool   // a cut was made here since the start, of this retain
	Cut     int64  // unix milliseconds: older posts are gone
	Mid     uint64 // posts below are gone
	Next    int64  // unix milliseconds: the next cut is made then, if the newest posts are as new
	Posts   int64  // that were dropped here since the start
	Blocks  int64  // that were dropped as a whole

	ids    schema.IDs
	looked int64     // the wall clock's cut that was looked at last
	from   time.Time // no cut is made before
}

// cutPause is how long a keeper waits after a cut that failed. Posts that stay a minute longer hurt nobody.
const cutPause = time.Minute

// NewKeeper makes the keeper of a server.
func NewKeeper(host Host, log *slog.Logger) *Keeper {
	return &Keeper{task: task{pause: cutPause}, host: host, log: log, states: make(map[uint32]*State)}
}

// Look begins to drop posts where a cut is due, in the background. It takes some nanoseconds a counter where none is due.
func (k *Keeper) Look() {
	store := k.host.Store()
	sch, now := store.Schema(), store.Admin().Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget(sch)
	if !k.ready(now) {
		return
	}
	var due []*schema.Counter
	for _, def := range sch.Counters() {
		if def.Retain == 0 {
			continue
		}
		s, wait := k.state(def, now), grace(retainOf(def))
		if s.looked != cutAt(retainOf(def), now.UnixMilli()) && (!now.Before(s.from) || s.from.Sub(now) > wait) {
			due = append(due, def)
		}
	}
	if due == nil || !k.host.MayChange() || takesChanges(store) != nil {
		return
	}
	k.start(now, func() error { return k.run(store, due, now) })
}

// forget forgets counters that keep all their posts, or are gone. REQUIRES mu.
func (k *Keeper) forget(sch *schema.Schema) {
	for id := range k.states {
		if def := sch.CounterByID(id); def == nil || def.Retain == 0 {
			delete(k.states, id)
		}
	}
}

// state is that of a counter. REQUIRES mu.
func (k *Keeper) state(def *schema.Counter, now time.Time) *State {
	s := k.states[def.ID]
	if s == nil {
		s = &State{}
		k.states[def.ID] = s
	}
	if s.Retain != retainOf(def) || s.ids != def.IDs {
		s.Known, s.looked, s.from = false, -1, now.Add(grace(retainOf(def)))
	}
	s.Counter, s.Retain, s.ids = def.Name, retainOf(def), def.IDs
	return s
}

// States are those of all counters with retain, in the order of the schema.
func (k *Keeper) States() (list []State) {
	store := k.host.Store()
	sch, now := store.Schema(), store.Admin().Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget(sch)
	for _, def := range sch.Counters() {
		if def.Retain > 0 {
			list = append(list, *k.state(def, now))
		}
	}
	return list
}

// takesChanges tells why the store takes no changes, a replica's for example.
func takesChanges(store *counter.Store) error {
	b := store.NewBatch()
	if err := b.Begin(); err != nil {
		return err
	}
	defer b.End()
	return b.Refusal()
}

// run makes the cuts that are due. The error is the last one.
func (k *Keeper) run(store *counter.Store, due []*schema.Counter, now time.Time) (failed error) {
	for _, def := range due {
		if err := k.drop(store, def, now.UnixMilli()); err != nil {
			failed = err
			if !errors.Is(err, counter.ErrClosed) && !errors.Is(err, counter.ErrReplica) && !errors.Is(err, errHeld) {
				k.log.Warn("posts cannot be dropped by age; the next attempt follows in a minute", "counter", def.Name, "error", err)
			}
		}
	}
	return failed
}

// drop makes the cut of a counter.
func (k *Keeper) drop(store *counter.Store, def *schema.Counter, now int64) error {
	newest, ok, err := store.Admin().Newest(def, newestRank, def.IDs.Before(now+def.IDs.Unit))
	if err != nil {
		return err
	}
	cut := int64(-1)
	if ok {
		cut = cutOf(def, now, newest)
	}
	mid := def.IDs.Before(cut)
	posts, blocks, err := k.dropBelow(store, def, mid)
	if posts > 0 {
		k.log.Info("posts were dropped by age", "counter", def.Name, "before", time.UnixMilli(cut).UTC(), "hi", mid, "items", posts, "blocks", blocks)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.states[def.ID]
	if s == nil || s.Retain != retainOf(def) || s.ids != def.IDs { // another schema since
		return err
	}
	s.Posts, s.Blocks = s.Posts+int64(posts), s.Blocks+int64(blocks)
	if err != nil {
		return err
	}
	s.looked = cutAt(retainOf(def), now)
	s.Known, s.Cut, s.Mid, s.Next = mid > 0, cut, mid, nextAt(retainOf(def), s.looked)
	return nil
}

// errHeld ends a cut that another role, or a failover, came in between of.
var errHeld = errors.New("changes are held back")

// dropBelow drops the posts of a counter below a mid, with as many pauses for others as there are steps. It ends where the counter has other attributes meanwhile.
func (k *Keeper) dropBelow(store *counter.Store, def *schema.Counter, mid uint64) (posts, blocks int, err error) {
	if mid == 0 {
		return 0, 0, nil
	}
	if err := store.Replication().AdmitCursors(); err != nil && !errors.Is(err, counter.ErrInMemory) {
		return 0, 0, err
	}
	b := store.NewBatch()
	for _, groups := range store.Admin().DropSteps() {
		if err := b.BeginExclusive(); err != nil {
			return posts, blocks, err
		}
		now := b.Schema().CounterByID(def.ID)
		if now == nil || now.Retain != def.Retain || now.IDs != def.IDs {
			b.End()
			return posts, blocks, nil
		}
		var drop *counter.RangeDrop
		if err = errHeld; k.host.MayChange() {
			drop, err = b.Whole().DropRange(now, 0, mid, groups)
		}
		if drop != nil && drop.Posts+drop.Blocks > 0 {
			k.host.TouchRange(now, 0, mid)
			posts, blocks = posts+drop.Posts, blocks+drop.Blocks
		}
		b.End()
		if err = errors.Join(err, b.Commit()); err != nil {
			return posts, blocks, err
		}
	}
	return posts, blocks, nil
}
