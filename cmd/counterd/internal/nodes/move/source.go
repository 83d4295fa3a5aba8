package move

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/internal/slot"
)

// What a source's primary does: it is asked, by the destination's.

// Remote is a source's primary as the destination's reaches it. Errors of the source say why it does not go on at
// present; the same may go well later.
type Remote interface {
	// Open begins to bring a move's groups. epoch is the one that the destination believes the source to lead. The log is
	// kept from the offset on that it returns.
	Open(ctx context.Context, id string, epoch uint64) (from uint64, err error)
	// Producers, Rows and Log are those of counter.GroupExport.
	Producers(ctx context.Context, id string, at int) (records []byte, next int, err error)
	Rows(ctx context.Context, id string, at counter.ExportPlace) (records []byte, next counter.ExportPlace, done bool, err error)
	Log(ctx context.Context, id string, from uint64) (records []byte, next, end uint64, err error)
	// Hold ends the service of the groups until etcd tells their owner, and returns where the log ends, and with which
	// revision the move can be committed.
	Hold(ctx context.Context, id string) (end uint64, revision int64, err error)
	Close() error
}

const (
	// holdFor is how long groups are held before the source takes the hold back.
	holdFor = 500 * time.Millisecond
	// sessionIdle is how long a session keeps the log for a destination that asks for nothing.
	sessionIdle = time.Minute
	// pieceBytes is about how much is sent at a time.
	pieceBytes = 512 << 10
)

// session is a move that a destination fetches.
type session struct {
	id     string
	groups slot.Set
	x      *counter.GroupExport
	used   time.Time // guarded by Mover.mu
}

func (s *session) end() { _ = s.x.Close() } // a file that was only read

// hold is groups that nobody serves until etcd tells their owner.
type hold struct {
	id       string
	groups   slot.Set
	shard    topology.ShardID
	revision int64 // of the move
	end      uint64
	timer    *time.Timer
	undoing  bool // guarded by Mover.mu
}

// RefusedError says why the source does not go on at present. Nothing was changed.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return "TRYAGAIN move: " + e.Why }

func refused(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// outgoing is a move whose groups this node is to bring; epoch 0: whatever it leads.
func (m *Mover) outgoing(st *cluster.Standing, id string, epoch uint64) (*topology.Move, error) {
	led := leads(st)
	switch {
	case led == 0 || st.Writes != "":
		return nil, refused("the node does not lead its shard")
	case epoch != 0 && led != epoch:
		return nil, refused("the node leads epoch %d, want %d", led, epoch)
	}
	v := st.Map.Move(id)
	switch {
	case v == nil:
		return nil, refused("the node's map has no move %.100q", id)
	case v.State != topology.MoveCopying || v.From != st.Shard.ID:
		return nil, refused("move %s is %s, from shard %d", id, v.State, v.From)
	}
	return v, nil
}

// Open begins to bring a move's groups to its destination: see Remote.
func (m *Mover) Open(id string, epoch uint64) (from uint64, err error) {
	v, err := m.outgoing(m.now.Load(), id, epoch)
	if err != nil {
		return 0, err
	}
	x, err := m.conf.Host.Store().Groups().Export(v.Groups)
	if errors.Is(err, counter.ErrNotHere) {
		return 0, refused("%v", err)
	}
	if err != nil {
		return 0, err
	}
	s := &session{id: id, groups: v.Groups, x: x, used: time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.epoch != leads(m.now.Load()) || m.epoch == 0 || m.ctx.Err() != nil {
		s.end()
		return 0, refused("the node's role changes")
	}
	if old := m.sessions[id]; old != nil {
		old.end()
	}
	m.sessions[id] = s
	return x.From(), nil
}

// session is the one of a move.
func (m *Mover) session(id string) (*session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[id]
	if s == nil {
		return nil, refused("%.100q was not opened, or too long ago", id)
	}
	s.used = time.Now()
	return s, nil
}

// expire closes sessions of moves that are over, and those that nobody uses. REQUIRES mu.
func (m *Mover) expire(st *cluster.Standing) {
	for id, s := range m.sessions {
		if v := st.Map.Move(id); v == nil || v.State != topology.MoveCopying || time.Since(s.used) > sessionIdle {
			s.end()
			delete(m.sessions, id)
		}
	}
}

// Producers is counter.GroupExport's.
func (m *Mover) Producers(id string, at int) (records []byte, next int, err error) {
	s, err := m.session(id)
	if err != nil {
		return nil, 0, err
	}
	if records, next, err = s.x.Producers(at, pieceBytes); errors.Is(err, counter.ErrUnconfirmed) {
		err = refused("%v", err)
	}
	return records, next, err
}

// Rows is counter.GroupExport's.
func (m *Mover) Rows(id string, at counter.ExportPlace) (records []byte, next counter.ExportPlace, done bool, err error) {
	s, err := m.session(id)
	if err != nil {
		return nil, at, false, err
	}
	return s.x.Rows(nil, at)
}

// Log is counter.GroupExport's.
func (m *Mover) Log(id string, from uint64) (records []byte, next, end uint64, err error) {
	s, err := m.session(id)
	if err != nil {
		return nil, from, 0, err
	}
	return s.x.Log(nil, from, pieceBytes)
}

// Hold ends the service of a move's groups: see Remote.
func (m *Mover) Hold(id string) (end uint64, revision int64, err error) {
	if _, err := m.session(id); err != nil {
		return 0, 0, err
	}
	m.holding.Lock()
	defer m.holding.Unlock()
	st := m.now.Load()
	v, err := m.outgoing(st, id, 0)
	if err != nil {
		return 0, 0, err
	}
	m.mu.Lock()
	old, led := m.holds[id], m.epoch
	undoing := old != nil && old.undoing
	m.mu.Unlock()
	switch {
	case led != leads(st):
		return 0, 0, refused("the node's role changes")
	case old != nil && old.revision == v.Revision && !undoing: // the answer did not come
		return old.end, old.revision, nil
	case old != nil:
		return 0, 0, refused("the hold before is being taken back")
	}
	h := &hold{id: id, groups: v.Groups, shard: v.From, revision: v.Revision}
	m.mu.Lock()
	m.holds[id] = h
	m.mu.Unlock()
	m.withhold()
	log := m.conf.Host.Store().Replication()
	h.end = log.Position()
	go log.CommitHere(h.end) // writes the rest of the log; the clients that made the changes wait for the confirmation
	h.timer = time.AfterFunc(holdFor, func() { m.undo(h) })
	return h.end, h.revision, nil
}

// withhold tells the host the held groups. REQUIRES holding.
func (m *Mover) withhold() {
	var all slot.Set
	m.mu.Lock()
	for _, h := range m.holds {
		all = all.Union(h.groups)
	}
	m.mu.Unlock()
	m.conf.Host.Withhold(all)
}

// forgetHolds serves groups again that were held in another epoch: the transaction of that hold cannot happen any more.
func (m *Mover) forgetHolds() {
	m.holding.Lock()
	defer m.holding.Unlock()
	m.mu.Lock()
	n := len(m.holds)
	for id, h := range m.holds {
		if h.timer != nil {
			h.timer.Stop()
		}
		delete(m.holds, id)
	}
	m.mu.Unlock()
	if n > 0 {
		m.withhold()
	}
}

// judge ends the holds whose outcome a map shows. served: it is the one that clients are served by.
func (m *Mover) judge(now *topology.Map, served bool) {
	m.holding.Lock()
	defer m.holding.Unlock()
	ended := false
	m.mu.Lock()
	for id, h := range m.holds {
		v, shard := now.Move(id), now.Shard(h.shard)
		if v != nil && v.State == topology.MoveCopying && v.Revision <= h.revision {
			continue // it is not decided, or the map is older than the hold
		}
		lost := shard == nil || h.groups.Minus(shard.Groups) != slot.Set{}
		if lost && !served || v == nil && now.Revision < h.revision {
			continue // clients are told first; or the map is older than the hold
		}
		if h.timer != nil {
			h.timer.Stop()
		}
		delete(m.holds, id)
		ended = true
	}
	m.mu.Unlock()
	if ended {
		m.withhold()
	}
}

// undo takes a hold back: it gives the move another revision, so that it cannot be committed, and serves the groups when
// etcd shows that they are still this shard's. As long as etcd does not say, nobody is served.
func (m *Mover) undo(h *hold) {
	m.mu.Lock()
	if m.holds[h.id] != h {
		m.mu.Unlock()
		return
	}
	h.undoing = true
	m.mu.Unlock()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		ctx, cancel := context.WithTimeout(m.ctx, 2*time.Second)
		now, err := m.conf.Registry.Load(ctx)
		if err == nil {
			if v := now.Move(h.id); v != nil && v.State == topology.MoveCopying && v.Revision == h.revision {
				var c topology.Change
				if c, err = topology.CancelHold(now, h.id); err == nil {
					err = m.conf.Registry.Commit(ctx, c)
				}
				if err == nil {
					now, err = m.conf.Registry.Load(ctx)
				}
			}
			if err == nil {
				m.judge(now, false)
			}
		}
		cancel()
		m.mu.Lock()
		ended := m.holds[h.id] != h
		m.mu.Unlock()
		if ended || m.ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			m.conf.Log.Warn("groups are not served: etcd has not confirmed whether they have moved", "move", h.id, "groups", h.groups.String(), "error", err)
		}
		sleep.For(m.ctx, pause)
	}
}
