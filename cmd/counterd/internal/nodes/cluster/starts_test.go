package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// older gives a machine a directory that can be rolled back to, and leads the shard with it again if it led: its process
// ends, its disk is copied, another process starts there, and changes are acknowledged.
func (w *world) older(t *testing.T, m *machine) {
	t.Helper()
	led := w.primary(t) == m
	w.write(t, 5*time.Second)
	w.kill(m)
	w.mu.Lock()
	m.keep()
	w.mu.Unlock()
	w.revive(m)
	if !w.settled(30 * time.Second) {
		t.Fatal("not settled")
	}
	if led {
		until(t, 20*time.Second, "it leads again", func() bool {
			if w.primary(t) == m {
				return true
			}
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
			defer cancel()
			_, _ = m.proc.agent.Failover(ctx, Planned)
			return false
		})
	}
	for range 20 {
		w.write(t, 5*time.Second)
	}
}

// roll puts the older directory back. No process runs on it.
func (w *world) roll(t *testing.T, m *machine) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	tm, err := w.etcd.Map()
	if err != nil {
		t.Fatal(err)
	}
	had := len(m.log)
	if !m.rollBack(tm.Nodes[m.id].Start) || len(m.log) >= had {
		t.Fatalf("not rolled back: %d of %d", len(m.log), had)
	}
}

// reports tells whether a machine's key in etcd has a trouble.
func (w *world) reports(t *testing.T, m *machine, id string) bool {
	tm, err := w.etcd.Map()
	if err != nil {
		t.Fatal(err)
	}
	if live := tm.Live[m.id]; live != nil {
		for _, trouble := range live.Troubles {
			if trouble.ID == id && trouble.Severity == topology.SevereError {
				return true
			}
		}
	}
	return false
}

// TestOlderCopy starts nodes on older copies of their directories. Such a node never leads and is never counted on; the
// others lead, and it catches up by itself. That all who lead have all that was acknowledged is the world's to check.
func TestOlderCopy(t *testing.T) {
	for name, c := range map[string]struct {
		primary, all, first bool
		kill                bool // the primary, when the copy starts
	}{
		"replica":                        {},
		"primary":                        {primary: true},
		"replica, all down":              {all: true},
		"primary, all down":              {primary: true, all: true},
		"replica, all down, first":       {all: true, first: true},
		"primary, all down, first":       {primary: true, all: true, first: true},
		"replica, the primary is killed": {kill: true},
	} {
		t.Run(name, func(t *testing.T) {
			scene(t, three, func(t *testing.T, w *world) {
				x := w.replica(t)
				if c.primary {
					x = w.primary(t)
				}
				w.older(t, x)
				epoch, old := w.shard(t).Epoch, w.primary(t)
				for _, m := range w.machines {
					if c.all || m == x || c.kill && m == old {
						w.kill(m)
					}
				}
				w.roll(t, x)
				w.revive(x)
				if c.first {
					time.Sleep(20 * time.Second)
					if s := w.shard(t); s.Epoch != epoch || !w.reports(t, x, "old-copy") || x.proc.agent.Standing().Reads == "" {
						t.Errorf("alone: epoch %d, want %d; reports its trouble: %v", s.Epoch, epoch, w.reports(t, x, "old-copy"))
					}
				}
				for _, m := range w.machines {
					w.revive(m)
				}
				w.write(t, 10*time.Second)
				if !w.settled(20 * time.Second) {
					t.Fatal("the copy does not come back in sync")
				}
				until(t, 2*time.Second, "nothing is reported any more", func() bool { return !w.reports(t, x, "old-copy") })
				time.Sleep(time.Second)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.check()
			})
		})
	}
}

// TestOlderCopyTwice: a copy that is started again and again is found out each time.
func TestOlderCopyTwice(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		x := w.primary(t)
		w.older(t, x)
		epoch := w.shard(t).Epoch
		for _, m := range w.machines {
			w.kill(m)
		}
		w.roll(t, x)
		for range 5 {
			w.revive(x)
			until(t, 10*time.Second, "the copy is found out", func() bool { return w.reports(t, x, "old-copy") })
			time.Sleep(5 * time.Second)
			w.kill(x)
			time.Sleep(3 * time.Second)
		}
		if s := w.shard(t); s.Epoch != epoch {
			t.Errorf("epoch %d, want %d", s.Epoch, epoch)
		}
	})
}

// TestOlderCopyUnclean: where nothing but an older copy is left, an operator can have it lead, and nobody else can.
func TestOlderCopyUnclean(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		x := w.primary(t)
		w.older(t, x)
		for _, m := range w.machines {
			w.kill(m)
		}
		w.roll(t, x)
		w.revive(x)
		until(t, 10*time.Second, "the copy is found out", func() bool { return w.reports(t, x, "old-copy") })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for _, kind := range []FailoverKind{Planned, Forced} {
			if _, err := x.proc.agent.Failover(ctx, kind); !errors.Is(err, ErrOutdated) {
				t.Errorf("failover %d: got %v, want %v", kind, err, ErrOutdated)
			}
		}
		w.mu.Lock()
		clear(w.promised) // the rest is lost, as it was asked for
		w.lossy = true
		w.mu.Unlock()
		r, err := x.proc.agent.Failover(ctx, Unclean)
		if err != nil || r.Clean {
			t.Fatalf("got %+v, %v", r, err)
		}
		for _, m := range w.machines {
			w.revive(m)
		}
		w.write(t, 10*time.Second)
		if !w.settled(20*time.Second) || w.reports(t, x, "old-copy") {
			t.Error("it does not come back in sync")
		}
	})
}

// TestStartRenewed: a process registers another start now and then, so that an image of its running machine is an older
// copy soon; the directory's note does not grow.
func TestStartRenewed(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		x := w.replica(t)
		w.mu.Lock()
		x.keep()
		w.mu.Unlock()
		time.Sleep(21 * time.Minute)
		tm, err := w.etcd.Map()
		if err != nil {
			t.Fatal(err)
		}
		if start := tm.Nodes[x.id].Start; start.Count < 3 || len(x.Starts()) != 1 || x.Starts()[0] != start {
			t.Errorf("etcd has start %d, the directory %v", start.Count, x.Starts())
		}
		w.write(t, time.Second)
		w.kill(x)
		w.roll(t, x)
		w.revive(x)
		w.write(t, 10*time.Second)
		if !w.settled(20 * time.Second) {
			t.Error("it does not come back in sync")
		}
	})
}

// TestStartInDoubt: a process that ends between its directory's note and etcd, or that hears nothing of etcd, is no older
// copy when it starts again; nor is one whose etcd was restored.
func TestStartInDoubt(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		x := w.replica(t)
		for i := range 40 {
			w.kill(x)
			w.mu.Lock()
			p := len(x.starts)
			w.mu.Unlock()
			if p > startsKept {
				t.Fatalf("the note has %d starts", p)
			}
			w.revive(x)
			if i%4 != 3 {
				x.proc.etcd.Cut(false, true) // its request is executed, and the reply is lost
			}
			time.Sleep(time.Duration(3*i) * time.Millisecond)
		}
		x.proc.etcd.Cut(false, false)
		if !w.settled(20 * time.Second) {
			t.Fatal("it does not come back in sync")
		}
		if w.reports(t, x, "old-copy") || w.shard(t).Epoch != 1 {
			t.Error("it counts as an older copy")
		}
	})
}
