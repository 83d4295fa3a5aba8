package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/counterd/counterd/bench/heavy"
	"github.com/counterd/counterd/bench/report"
)

// While measures a workload in windows: first a quiet one, then one in which something else is made to happen, and so
// on. Operations start on time whatever the server does (client_open.go), and each is kept with the time it was due, as
// it shows only afterwards from when to when it happened:
//
//	window   quiet       busy               quiet       busy
//	         |-----------|  ####   ####   | |-----------|    ########|
//	counts    all         those due in ##
//
// A busy window lasts as long as a quiet one, and until what happens in it is over; if that is earlier, it is made to
// happen again. The server is looked at in both alike (watcher.go).

// disturbance is what is made to happen in busy windows.
type disturbance struct {
	what   string // of WhileKinds; flood, heavy
	detail string // which, where one is measured in several ways
	load   Load
}

// politeRate is how many operations a second that client starts: enough for p99.9 in 5 s, and few enough to leave the load its part
// of the processor that they share.
const politeRate = 2000

// polite tells whether what is measured is one client that asks one command at a time, as beside floods.
func (d *disturbance) polite() bool { return d.what == "flood" || d.what == "heavy" }

func (d *disturbance) String() string {
	if d.detail == "" {
		return d.what
	}
	return d.what + ", " + d.detail
}

// disturbances are all that a Config asks for.
func (c *Config) disturbances() (all []disturbance) {
	for _, what := range c.While {
		all = append(all, disturbance{what: what})
	}
	for _, n := range c.Flood {
		all = append(all, disturbance{what: "flood", detail: fmt.Sprintf("%s connections, %s deep", report.Int(n), report.Int(c.FloodDepth)),
			load: Load{Flood: n, Depth: c.FloodDepth, Seed: c.Seed, Page: c.Page}})
	}
	for _, kind := range c.Heavy {
		i := slices.IndexFunc(heavy.Kinds(), func(k [2]string) bool { return k[0] == kind })
		if i < 0 {
			continue // Validate tells
		}
		all = append(all, disturbance{what: "heavy", detail: heavy.Kinds()[i][1], load: Load{Heavy: kind, Seed: c.Seed, Page: c.Page}})
	}
	return all
}

// leadIn goes before each window, not counted: clients that have rested wake up in it.
const leadIn = 200 * time.Millisecond

const (
	// between is how long a server has between two times that something happens in one window, so that they are two.
	between = 50 * time.Millisecond
	// whileLimit bounds how long something may take, once.
	whileLimit = 10 * time.Minute
)

// whiles measures a workload beside all that was asked for.
func (r *run) whiles(ctx context.Context, name string) error {
	rate := r.Rate
	for _, d := range r.disturbances() {
		config := r.Config
		if config.RatePart == 0 && config.Rate == 0 && !d.polite() {
			config.RatePart = 0.5
		}
		if d.polite() {
			config.Clients, config.Depth, config.Mode, config.Rate, config.RatePart = 1, 1, Sync, politeRate, 0
		} else if rate > 0 {
			config.Rate, config.RatePart = rate, 0
		}
		phase, err := r.while(ctx, name, d, config)
		if err != nil {
			return fmt.Errorf("while %s: %w", &d, err)
		}
		if !d.polite() {
			rate = phase.Rate // found once for all that is to be compared
		}
		r.result.Whiles = append(r.result.Whiles, phase)
	}
	return nil
}

// while measures a workload beside one thing.
func (r *run) while(ctx context.Context, name string, d disturbance, config Config) (phase report.While, err error) {
	phase = report.While{What: d.what, Case: d.detail, Workload: name}
	if err := r.begin(ctx, name, &config); err != nil {
		return phase, err
	}
	defer func() {
		for _, s := range r.sides {
			s.end()
			s.data.Arrived = max(s.data.Arrived, s.newest+1-s.data.Loaded)
		}
	}()
	for _, s := range r.sides {
		r.step(fmt.Sprintf("%s: warm-up of %s", name, s.target.Addr))
		if err := s.slice(ctx, r.Warmup, false); err != nil {
			return phase, err
		}
	}
	r.rate = config.Rate
	if config.RatePart > 0 {
		if err := r.calibrate(ctx, name, config.RatePart); err != nil {
			return phase, err
		}
	}
	phase.Rate = r.rate

	var all []*disturbed
	for _, s := range r.sides {
		one := &disturbed{side: s, config: &config}
		one.times = newTimeline(&one.result)
		all = append(all, one)
		r.step(fmt.Sprintf("%s while %s: preparing %s", name, &d, s.target.Addr))
		defer one.close(&err)
		if err := one.prepare(ctx, d); err != nil {
			return phase, fmt.Errorf("%s: %w", s.target.Addr, err)
		}
	}
	window := r.Duration / time.Duration(r.Slices)
	for i := range r.Slices {
		for k := range all {
			one := all[(k+i)%len(all)]
			for _, busy := range []bool{false, true} {
				r.step(fmt.Sprintf("%s while %s: window %d of %d of %s, %s", name, &d, i+1, r.Slices, one.side.target.Addr, quietOrBusy(busy)))
				if one.result.None != "" {
					continue
				}
				if err := one.window(ctx, busy, window); err != nil {
					return phase, fmt.Errorf("%s: %w", one.side.target.Addr, err)
				}
			}
		}
	}
	for _, one := range all {
		phase.Results = append(phase.Results, one.report())
	}
	return phase, nil
}

func quietOrBusy(busy bool) string {
	if busy {
		return "busy"
	}
	return "quiet"
}

// disturbed is a server that is measured with and without something.
type disturbed struct {
	side    *side
	config  *Config
	work    work
	watcher *watcher
	times   *timeline
	result  report.Beside
	cancel  context.CancelCauseFunc // of what the work has made
	stop    context.CancelFunc      // of the watcher
	ended   chan error
}

func (d *disturbed) prepare(ctx context.Context, what disturbance) error {
	var err error
	if d.watcher, err = newWatcher(d.side, what.what); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	d.stop, d.ended = stop, make(chan error, 1)
	go func() { d.ended <- d.watcher.watch(watching) }()
	d.work = newWork(what, d.side, d.watcher, d.config)
	// What it makes, connections and a process, lives as long as the context, so until close.
	ctx, d.cancel = context.WithCancelCause(ctx)
	timer := time.AfterFunc(whileLimit, func() { d.cancel(tooLong("preparing " + d.work.how())) })
	err = d.work.prepare(ctx)
	timer.Stop()
	var none *notHere
	if errors.As(err, &none) {
		d.result.None = none.why
		return nil
	}
	if err != nil {
		return err
	}
	d.result.How = d.work.how()
	for _, c := range d.side.clients {
		c.samples = &samples{}
	}
	return nil
}

func tooLong(what string) error { return fmt.Errorf("%s took over %s", what, whileLimit) }

// window measures for that long; a busy window until what happens is over, too.
func (d *disturbed) window(ctx context.Context, busy bool, length time.Duration) error {
	var marked spans
	mark := func(what string) func() {
		from := clock()
		return func() { marked = append(marked, span{what, from, clock()}) }
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from := clock() + cmp.Or(d.config.leadIn, leadIn)
	end := finishAt(forever)
	var group sync.WaitGroup
	var playErr, besideErr error
	group.Go(func() {
		if playErr = d.side.play(ctx, end); playErr != nil {
			cancel(playErr)
		}
	})
	if with, ok := d.work.(*sealWork); ok && !busy {
		group.Go(func() { besideErr = with.beside(end) })
	}
	before := d.watcher.rest()
	err := sleepUntil(ctx, from)
	if busy && err == nil {
		d.result.RSS = max(d.result.RSS, before)
		err = d.happen(ctx, from+length, mark)
		rss, forked := d.watcher.most()
		d.result.PeakRSS, d.result.Forked = max(d.result.PeakRSS, rss+forked), max(d.result.Forked, forked)
	}
	if err == nil {
		err = sleepUntil(ctx, from+length)
	}
	to := clock()
	end.set(to)
	group.Wait()
	if err = errors.Join(playErr, besideErr, err); err != nil {
		return err
	}
	var all []sample
	for _, c := range d.side.clients {
		all = append(all, c.samples.take()...)
	}
	d.side.recs.take()
	if !busy {
		marked = d.watcher.seen()
	}
	for _, m := range marked {
		if busy {
			d.result.Seconds = append(d.result.Seconds, (m.to - m.from).Seconds())
		}
	}
	d.times.add(busy, from, to, all, marked)
	return nil
}

// happen has it happen until the time, once at least.
func (d *disturbed) happen(ctx context.Context, until time.Duration, mark mark) error {
	for first := true; first || clock()+between < until; first = false {
		limited, cancel := context.WithTimeoutCause(ctx, whileLimit, tooLong(d.work.how()))
		err := d.work.do(limited, until, mark)
		cancel()
		if err != nil {
			return err
		}
		if err := sleepUntil(ctx, clock()+between); err != nil {
			return err
		}
	}
	return nil
}

// sleepUntil sleeps until a time on the generator's clock.
func sleepUntil(ctx context.Context, at time.Duration) error {
	timer := time.NewTimer(at - clock())
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// report returns what was measured.
func (d *disturbed) report() report.Beside {
	d.times.end()
	if flood, ok := d.work.(*floodWork); ok && flood.took > 0 {
		d.result.Work = float64(flood.work) / flood.took.Seconds()
		d.result.Seconds = nil // as long as was asked for
	}
	for _, c := range d.side.clients {
		d.result.Refused += c.done.refused
		if d.result.Refusal == "" && c.first != nil {
			d.result.Refusal = c.first.Error()
		}
	}
	return d.result
}

// close ends the watcher and the work, and adds its error to err.
func (d *disturbed) close(err *error) {
	for _, c := range d.side.clients {
		c.samples = nil
	}
	if d.work != nil {
		*err = errors.Join(*err, d.work.end())
		d.cancel(nil)
	}
	if d.stop != nil {
		d.stop()
		*err = errors.Join(*err, <-d.ended)
	}
	if d.watcher != nil {
		d.watcher.conn.Close()
	}
}
