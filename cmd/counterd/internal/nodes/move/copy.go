package move

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/internal/slot"
)

const (
	// nearly is how far behind the source's log a copy may be for the hold: some ms.
	nearly = 64 << 10
	// rounds is how often a copy tries to come as near, before it holds all the same.
	rounds = 100
	// fullPause is how long a copy waits where memory, or the schema, is behind.
	fullPause = 100 * time.Millisecond
	// timePause is how long a copy waits where the time of the log is behind, again and again.
	timePause = 500 * time.Millisecond
	// slightPause is how long a copy waits for the source's replicas, again and again.
	slightPause = time.Millisecond
	// commitFor is how long a commit is tried: the source has taken its hold back by then.
	commitFor = 2 * holdFor
)

// copying is one attempt to bring groups here.
type copying struct {
	m      *Mover
	v      *topology.Move
	epoch  uint64  // led here
	source *source // that is fetched from
	remote Remote
	in     *counter.GroupImport
	at     uint64 // offset of the source's log up to which it is here
	end    uint64 // of this log, behind what came
}

// copy brings a move's groups here and commits it. nil: the map will say what is next.
func (m *Mover) copy(ctx context.Context, id string, epoch uint64) error {
	now, v, err := m.undecided(ctx, id, epoch)
	if err != nil || v == nil {
		return err
	}
	if err := m.awaitTime(ctx, v); err != nil {
		return err
	}
	ctx, from, err := m.fetchFrom(ctx, now, v)
	if err != nil {
		return err
	}
	defer from.leave()
	err = m.copyFrom(ctx, v, epoch, from)
	if err != nil && context.Cause(ctx) == errSourceGone {
		err = errors.Join(errSourceGone, err)
	}
	return err
}

// awaitTime returns when the time of this shard's log is not too far behind the clock for counts of windows. That takes ten minutes behind a long stop. Nothing is
// asked of the source meanwhile: it would keep its log.
func (m *Mover) awaitTime(ctx context.Context, v *topology.Move) error {
	err := m.conf.Host.Store().Groups().MayImport()
	if err == nil {
		return nil
	}
	began := time.Now()
	m.conf.Log.Warn("a move of groups is waiting", "move", v.ID, "groups", v.Groups.String(), "error", err)
	m.note(v, func(p *Progress) { p.Err = err.Error() })
	for m.conf.Host.Store().Groups().MayImport() != nil {
		if sleep.For(ctx, timePause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	m.conf.Log.Info("a move of groups goes on", "move", v.ID, "groups", v.Groups.String(), "took", time.Since(began))
	m.note(v, func(p *Progress) { p.Err = "" })
	return nil
}

// copyFrom is copy, of one source. ctx ends with the source.
func (m *Mover) copyFrom(ctx context.Context, v *topology.Move, epoch uint64, from *source) error {
	remote, err := m.conf.Dial(ctx, from.address)
	if err != nil {
		return err
	}
	defer remote.Close()
	c := &copying{m: m, v: v, epoch: epoch, source: from, remote: remote}
	if c.at, err = remote.Open(ctx, v.ID, from.epoch); err != nil {
		return err
	}
	if c.in, err = m.conf.Host.Store().Groups().In(epoch).Import(v.ID, v.Groups); err != nil {
		return err
	}
	c.end = c.in.Begun()
	m.note(v, func(p *Progress) {
		*p = Progress{ID: v.ID, Groups: v.Groups, From: v.From, Phase: "copying", Began: time.Now()}
	})
	if err = c.confirmed(ctx); err == nil {
		err = c.producers(ctx)
	}
	if err == nil {
		err = c.rows(ctx)
	}
	if err != nil {
		return err
	}
	for {
		if err := c.follow(ctx); err != nil {
			return err
		}
		done, err := c.handOver(ctx)
		if done || err != nil {
			return err
		}
		sleep.For(ctx, firstPause) // the source has taken its hold back
	}
}

// undecided reads a move that is still to be made, and sees to it that no commit of it can happen that was begun before:
// of what is committed nothing may be dropped. No move: it is decided.
func (m *Mover) undecided(ctx context.Context, id string, epoch uint64) (*topology.Map, *topology.Move, error) {
	for {
		now, err := m.conf.Registry.Load(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("etcd: %w", err)
		}
		v := now.Move(id)
		if v == nil || v.State != topology.MoveCopying {
			return nil, nil, nil
		}
		if to := now.Shard(v.To); to == nil || to.Epoch != epoch {
			return nil, nil, fmt.Errorf("epoch %d of shard %d has ended", epoch, v.To)
		}
		m.mu.Lock()
		tried, ok := m.tried[id]
		m.mu.Unlock()
		if !ok || v.Revision != tried {
			return now, v, nil
		}
		c, err := topology.CancelHold(now, id)
		if err != nil {
			return nil, nil, err
		}
		if err := m.conf.Registry.Commit(ctx, c); err != nil && !errors.Is(err, registry.ErrConflict) {
			return nil, nil, fmt.Errorf("etcd: %w", err)
		}
	}
}

// apply takes records over; it waits where memory is short or the schema is behind. The clock may have gone far ahead since the copy began: then the copy begins anew
// when the time of the log has followed.
func (c *copying) apply(ctx context.Context, records []byte) error {
	waited := false
	for {
		if err := c.m.conf.Host.Store().Groups().MayImport(); err != nil {
			return err
		}
		end, done, err := c.in.Apply(records)
		c.end, records = max(c.end, end), records[done:]
		c.m.note(c.v, func(p *Progress) {
			p.Bytes += uint64(done)
			p.Posts = c.in.Posts()
			switch {
			case err != nil:
				p.Err = err.Error()
			case done > 0:
				p.Err = ""
			}
		})
		if err == nil {
			return nil
		}
		if !errors.Is(err, counter.ErrBehind) && !errors.Is(err, counter.ErrMaxMemory) {
			return err
		}
		if !waited {
			waited = true
			c.m.conf.Log.Warn("a move of groups is waiting", "move", c.v.ID, "error", err)
		}
		if sleep.For(ctx, fullPause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// confirmed waits until all nodes in sync of the source have its log up to where the copy begins: what they lack of
// producers is not given away, as the source's next primary would not know of it.
func (c *copying) confirmed(ctx context.Context) error {
	for {
		_, _, end, err := c.remote.Log(ctx, c.v.ID, c.at)
		if err != nil || end >= c.at {
			return err
		}
		if sleep.For(ctx, slightPause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (c *copying) producers(ctx context.Context) error {
	for at := 0; ; {
		records, next, err := c.remote.Producers(ctx, c.v.ID, at)
		if err == nil {
			err = c.apply(ctx, records)
		}
		if at = next; err != nil || next == 0 {
			return err
		}
	}
}

// rows brings all posts: the next are fetched while those before are taken over.
func (c *copying) rows(ctx context.Context) error {
	type piece struct {
		records []byte
		err     error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pieces := make(chan piece, 1)
	fetched := make(chan struct{})
	go func() {
		defer close(fetched)
		defer close(pieces)
		for at, done := (counter.ExportPlace{}), false; !done; {
			var p piece
			if p.records, at, done, p.err = c.remote.Rows(ctx, c.v.ID, at); p.err != nil {
				done = true
			}
			select {
			case pieces <- p:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { <-fetched }() // the connection is its own until then
	defer cancel()
	for p := range pieces {
		if p.err != nil {
			return p.err
		}
		if err := c.apply(ctx, p.records); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// follow brings what the source's log says, until hardly anything is missing, and has it confirmed by this shard.
func (c *copying) follow(ctx context.Context) error {
	c.m.note(c.v, func(p *Progress) { p.Phase = "log" })
	for i := 0; ; i++ {
		behind, err := c.some(ctx)
		if err != nil {
			return err
		}
		if behind > nearly && i < rounds {
			continue
		}
		// The hold waits for what comes during it alone.
		if err := c.shard(ctx); err != nil {
			return err
		}
		if behind, err = c.some(ctx); err != nil || behind <= nearly || i >= rounds {
			return err
		}
	}
}

// shard returns when all nodes in sync of this shard have what came.
func (c *copying) shard(ctx context.Context) error {
	return c.m.conf.Host.Store().Replication().CommitShard(ctx, c.epoch, c.end)
}

// some brings a piece of the log, and tells how far behind the copy is.
func (c *copying) some(ctx context.Context) (behind uint64, err error) {
	records, next, end, err := c.remote.Log(ctx, c.v.ID, c.at)
	if err == nil {
		err = c.apply(ctx, records)
	}
	if err != nil {
		return 0, err
	}
	if c.at = next; end > next {
		behind = end - next
	}
	c.m.note(c.v, func(p *Progress) { p.Behind = behind })
	return behind, nil
}

// handOver has the source hold the groups, brings the rest, and commits. done: it is decided, and the map says how.
func (c *copying) handOver(ctx context.Context) (done bool, err error) {
	m := c.m
	began := time.Now()
	m.conf.Host.Expect(c.v.Groups)
	came := false
	defer func() {
		if !came {
			m.conf.Host.Expect(slot.Set{})
		}
	}()
	end, revision, err := c.remote.Hold(ctx, c.v.ID)
	if err != nil {
		return false, err
	}
	m.note(c.v, func(p *Progress) { p.Phase, p.Holds = "hold", p.Holds+1 })
	for c.at < end {
		before := c.at
		if _, err := c.some(ctx); err != nil {
			return false, err
		}
		if c.at == before { // the source's replicas do not have it yet
			sleep.For(ctx, slightPause)
		}
	}
	if err := c.shard(ctx); err != nil {
		return false, err
	}
	done, came, err = c.commit(ctx, revision, end)
	held := time.Since(began)
	m.note(c.v, func(p *Progress) { p.Held = held })
	if done && err == nil {
		m.conf.Log.Info("groups received", "move", c.v.ID, "groups", c.v.Groups.String(), "items", c.in.Posts(), "took", held)
	}
	return done, err
}

// commit makes the groups this shard's. done is false where the hold was taken back before; came: they are.
func (c *copying) commit(ctx context.Context, revision int64, held uint64) (done, came bool, err error) {
	m := c.m
	within, cancel := context.WithTimeout(ctx, commitFor)
	defer cancel()
	for {
		now := m.now.Load().Map
		if v := now.Move(c.v.ID); v == nil || v.Revision < revision || err != nil { // an older map, or one that did not do
			if now, err = m.conf.Registry.Load(within); err != nil {
				return false, false, fmt.Errorf("etcd: %w", err)
			}
		}
		v := now.Move(c.v.ID)
		switch {
		case v == nil || v.State == topology.MoveAborted:
			return true, false, nil
		case v.State == topology.MoveCommitted:
			return true, true, m.accept(ctx, v, c.epoch)
		case v.Revision != revision:
			return false, false, nil
		}
		if err := m.conf.Host.Store().Groups().MayImport(); err != nil { // the clock has gone ahead behind the last piece
			return false, false, err
		}
		change, err2 := topology.CommitMove(now, c.v.ID, revision, c.source.epoch, held, topology.LogPoint{Epoch: c.epoch, Offset: c.end})
		if err2 != nil {
			return false, false, err2
		}
		m.mu.Lock()
		m.tried[c.v.ID] = revision
		m.mu.Unlock()
		if err = m.conf.Registry.Commit(within, change); err == nil {
			committed := *v
			committed.State, committed.Held = topology.MoveCommitted, held
			return true, true, m.accept(ctx, &committed, c.epoch)
		}
		if within.Err() != nil {
			return false, false, within.Err()
		}
	}
}
