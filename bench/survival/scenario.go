package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"
)

// Result is what one round of a scenario cost a system.
type Result struct {
	System, Scenario string
	Acknowledged     int
	Lost             int           // acknowledged, and not there
	Wrong            int           // there with another count than one
	Recover          time.Duration // from the start of the nodes until a write was acknowledged and all nodes were healthy
	Said             []string      // what happened, and what did not come about
}

// limits of waiting. A system that is not healthy by then is read as it is.
const (
	healthyIn = 60 * time.Second // the goal of self-healing
	readIn    = 3 * time.Minute
)

// round is one round of a scenario.
type round struct {
	system  System
	disks   []*Disk
	shared  *Disk
	rng     *rand.Rand
	writers int
	length  time.Duration // of the load before the fault
	result  Result
}

func (r *round) say(format string, args ...any) {
	r.result.Said = append(r.result.Said, fmt.Sprintf(format, args...))
}

// run starts the system, puts load on it, makes the fault, and counts the records afterwards.
func (r *round) run(ctx context.Context, fault func(context.Context, *load) error) error {
	r.result.System = r.system.Name()
	defer r.system.Stop()
	start, cancel := context.WithTimeout(ctx, healthyIn)
	defer cancel()
	if err := r.system.Start(start); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if err := poll(start, r.system.Healthy); err != nil {
		return fmt.Errorf("after the start: %w", err)
	}
	var next atomic.Uint64
	l := startLoad(ctx, r.system, r.writers, &next)
	defer l.stop()
	if err := pause(ctx, r.length); err != nil {
		return err
	}
	if err := fault(ctx, l); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	l.stop()
	return r.count(ctx, l)
}

// count reads all records that were acknowledged.
func (r *round) count(ctx context.Context, l *load) error {
	ids := make([]uint64, 0, len(l.acked))
	for id := range l.acked {
		ids = append(ids, id)
	}
	r.result.Acknowledged = len(ids)
	var found map[uint64]int
	read, cancel := context.WithTimeout(ctx, readIn)
	defer cancel()
	err := poll(read, func(ctx context.Context) (err error) {
		found, err = r.system.Read(ctx, ids)
		return err
	})
	if err != nil {
		r.say("not all could be read: %v", err)
	}
	for _, id := range ids {
		switch found[id] {
		case 0:
			r.result.Lost++
		case 1:
		default:
			if r.result.Wrong++; r.result.Wrong <= 3 {
				r.say("record %d is there %d times", id, found[id])
			}
		}
	}
	return nil
}

// recovered waits until the system is whole again, and notes how long that took since began.
func (r *round) recovered(ctx context.Context, l *load, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, healthyIn)
	defer cancel()
	err := poll(ctx, func(ctx context.Context) error {
		if !l.ackedSince(began) {
			return errors.New("no write was acknowledged")
		}
		return r.system.Healthy(ctx)
	})
	r.result.Recover = max(r.result.Recover, time.Since(began))
	if err != nil {
		r.say("not whole after %s: %s", healthyIn, strings.Join(strings.Fields(err.Error()), " "))
	}
}

// flip flips a bit on one node, and then restarts the others one after the other.
func (r *round) flip(ctx context.Context, l *load) error {
	r.result.Scenario = "one bit on one node"
	damaged := r.rng.IntN(len(r.disks))
	r.system.KillNode(damaged)
	what, err := r.disks[damaged].FlipBit(r.rng.Float64(), r.system.HasRecords)
	if err != nil {
		return err
	}
	r.say("node %d: %s", damaged, what)
	began := time.Now()
	if err := r.system.StartNode(damaged); err != nil {
		return err
	}
	r.recovered(ctx, l, began)
	for i := range r.disks {
		if i == damaged {
			continue
		}
		r.system.KillNode(i)
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
		began := time.Now()
		if err := r.system.StartNode(i); err != nil {
			return err
		}
		r.recovered(ctx, l, began)
	}
	return ctx.Err()
}

// power takes the power from all nodes at once.
func (r *round) power(ctx context.Context, l *load) error {
	r.result.Scenario = "power of all nodes"
	all := append([]*Disk{r.shared}, r.disks...)
	for _, d := range all {
		if err := d.PowerOff(); err != nil {
			return err
		}
	}
	r.system.KillShared()
	for i := range r.disks {
		r.system.KillNode(i)
	}
	for _, d := range all {
		if err := d.PowerOn(); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := r.system.StartShared(); err != nil {
		return err
	}
	for i := range r.disks {
		if err := r.system.StartNode(i); err != nil {
			return err
		}
	}
	r.recovered(ctx, l, began)
	return ctx.Err()
}

// poll calls f until it returns nil. When ctx ends, it returns the last error.
func poll(ctx context.Context, f func(context.Context) error) error {
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
