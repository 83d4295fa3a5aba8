package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/counterd/counterd/bench/procstat"
	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/internal/wire"
)

// forever is the length of a slice that ends when its streams do.
const forever = 1 << 40 * time.Microsecond

// side is one of the servers of a run, with the clients that drive it.
type side struct {
	target  Target
	schema  Schema
	model   Model
	conn    *wire.Conn // for questions beside the load
	meter   *procstat.Meter
	report  report.Server
	flushed bool
	data    *Dataset // what it holds; both sides share one where they hold the same

	// Of the phase under way.
	workload Workload
	mode     Mode
	interval time.Duration // between the operations of a client; 0: closed
	clients  []*client
	recs     recorders
	latency  *hdrhistogram.Histogram // of the slices counted
	result   report.Result

	newest  int      // highest post set
	history []played // phases over, for verify
}

// played is what a phase sent: enough to send it again.
type played struct {
	workload Workload
	ops      []int64 // by client: operations taken from its stream
	refused  map[cell]int
}

// newSide connects to a server and sees that it has a counter to use.
func newSide(ctx context.Context, target Target, config *Config, number int) (*side, error) {
	s := &side{newest: -1}
	_, err := target.ask(func(conn *wire.Conn) error {
		s.conn = conn
		return s.learn(target, config, number)
	})
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		s.conn.Close()
		return nil, err
	}
	return s, nil
}

// learn asks the server what it is.
func (s *side) learn(target Target, config *Config, number int) (err error) {
	var schemas []Schema
	if s.target, schemas, err = target.Identify(s.conn); err != nil {
		return err
	}
	if s.schema, err = s.findSchema(schemas, config.Counter); err != nil {
		return err
	}
	if s.model, err = NewModel(s.target.Kind, s.schema); err != nil {
		return err
	}
	pid := 0
	if number < len(config.PIDs) {
		pid = config.PIDs[number]
	}
	if s.meter, err = procstat.NewMeter(s.conn, pid); err != nil {
		return err
	}
	info, err := procstat.ReadInfo(s.conn)
	if err != nil {
		return err
	}
	s.report = report.Server{Addr: s.target.Addr, Kind: string(s.target.Kind), Version: info.Version(), Local: s.meter.PID() != 0}
	if number < len(config.Labels) {
		s.report.Label = config.Labels[number]
	}
	return nil
}

// findSchema returns the counter to use; on a counterd it makes the one of generated posts where none is named.
func (s *side) findSchema(schemas []Schema, counter string) (Schema, error) {
	if s.target.Kind != Counterd {
		return WeiboSchema(), nil
	}
	if counter != "" {
		return FindSchema(schemas, counter)
	}
	for _, line := range WeiboScript {
		if _, err := s.conn.Do(strings.Fields(line)...); err != nil {
			return Schema{}, fmt.Errorf("%s: %w", line, err)
		}
	}
	_, schemas, err := s.target.Identify(s.conn)
	if err != nil {
		return Schema{}, err
	}
	return FindSchema(schemas, WeiboSchema().Counter)
}

// NotEmptyError says that a server to be loaded holds something.
type NotEmptyError struct {
	Addr string
	Keys int64
}

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("%s holds %d keys, and load wants it empty: --flush removes them", e.Addr, e.Keys)
}

// prepareLoad sees that the server is empty.
func (s *side) prepareLoad(flush bool) error {
	v, err := s.conn.Do("DBSIZE")
	if err != nil {
		return err
	}
	if !v.IsInt {
		return fmt.Errorf("DBSIZE: %w: %s", wire.ErrProtocol, v.Text())
	}
	if v.Int == 0 {
		return nil
	}
	if !flush {
		return &NotEmptyError{Addr: s.target.Addr, Keys: v.Int}
	}
	s.flushed = true
	_, err = s.conn.Do("FLUSHALL")
	return err
}

// begin connects the clients for a workload. Connections are made and have answered a PING before anything is measured.
func (s *side) begin(ctx context.Context, w Workload, config *Config) error {
	s.workload, s.mode, s.interval = w, config.Mode, 0
	s.clients, s.recs, s.latency, s.result = nil, newRecorders(config.Clients), newHistogram(), report.Result{}
	for i := range config.Clients {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// 64 bytes an operation, more for pages: what does not fit makes the buffers grow, once.
		conn, err := wire.Dial(context.Background(), s.target.Addr, wire.Options{Password: s.target.Password, Buffer: min(max(64*config.Depth, 4096), wire.StartSize)})
		if err != nil {
			return fmt.Errorf("client %d of %d: %w", i+1, config.Clients, err)
		}
		s.clients = append(s.clients, newClient(conn, s.model, w, i, config.Clients, len(s.schema.Columns), config.Depth, s.recs[i%len(s.recs)]))
		if _, err := conn.Do("PING"); err != nil {
			return fmt.Errorf("client %d of %d: %w", i+1, config.Clients, err)
		}
	}
	if config.Rate > 0 && w.Name() != "load" {
		s.setRate(config.Rate)
	}
	return nil
}

// setRate makes the clients start that many operations a second in all, from now on.
func (s *side) setRate(perSecond float64) {
	s.interval = max(1, time.Duration(float64(len(s.clients))*float64(time.Second)/perSecond))
	now := clock()
	for i, c := range s.clients {
		// The clients' times are spread over the interval.
		c.due = now + s.interval*time.Duration(i)/time.Duration(len(s.clients))
	}
}

// most returns the operations per second that the server answers when it is asked as fast as it can: the median of some
// turns.
func (s *side) most(ctx context.Context, turn time.Duration) (float64, error) {
	var rates []float64
	for range calibrationTurns {
		before, err := s.measure()
		if err != nil {
			return 0, err
		}
		if err := s.play(ctx, finishAt(before.at+turn)); err != nil {
			return 0, err
		}
		after, err := s.measure()
		if err != nil {
			return 0, err
		}
		rates = append(rates, float64(after.done.ops-before.done.ops)/(after.at-before.at).Seconds())
	}
	s.recs.take()
	return report.SpreadOf(rates).Median, nil
}

// calibrationTurns is how often the most that a server can is measured; one turn may fall into a pause of the machine.
const calibrationTurns = 3

// slice runs the clients for that long and, unless it is a warm-up, adds what they did to the result.
func (s *side) slice(ctx context.Context, length time.Duration, counted bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	before, err := s.measure()
	if err != nil {
		return err
	}
	if err := s.play(ctx, finishAt(before.at+length)); err != nil {
		return err
	}
	after, err := s.measure()
	if err != nil {
		return err
	}
	latency := s.recs.take()
	if !counted {
		return nil
	}
	s.latency.Merge(latency)
	s.result.Slices = append(s.result.Slices, report.Slice{
		Seconds: (after.at - before.at).Seconds(),
		Ops:     after.done.ops - before.done.ops,
		User:    (after.server.User - before.server.User).Seconds(),
		System:  (after.server.System - before.server.System).Seconds(),
		Client:  (after.client.CPU() - before.client.CPU()).Seconds(),
		P50:     latency.ValueAtPercentile(50),
		P99:     latency.ValueAtPercentile(99),
		P999:    latency.ValueAtPercentile(99.9),
	})
	s.result.Posts += after.done.posts - before.done.posts
	s.result.Absent += after.done.absent - before.done.absent
	s.result.Refused += after.done.refused - before.done.refused
	s.result.RSS = after.server.RSS
	return nil
}

// reading is the state of all meters at one time.
type reading struct {
	at             time.Duration
	done           tally
	server, client procstat.Usage
}

func (s *side) measure() (r reading, err error) {
	for _, c := range s.clients {
		r.done.add(c.done)
	}
	if r.server, err = s.meter.Usage(); err != nil {
		return r, err
	}
	r.client, err = procstat.Read(os.Getpid())
	r.at = clock()
	return r, err
}

// play runs all clients until the end.
func (s *side) play(ctx context.Context, end *finish) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clients := s.clients // what closes them may come late, when the phase is over
	defer context.AfterFunc(ctx, func() {
		for _, c := range clients {
			c.conn.Close()
		}
	})()
	var group sync.WaitGroup
	for _, c := range clients {
		group.Go(func() {
			var err error
			if s.interval > 0 {
				err = c.runOpen(s.interval, end)
			} else {
				err = c.run(s.mode, end)
			}
			if err != nil {
				cancel(fmt.Errorf("%s: %w", s.target.Addr, err))
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// end closes the clients and returns the result of the phase.
func (s *side) end() report.Result {
	past := played{workload: s.workload, refused: map[cell]int{}}
	for _, c := range s.clients {
		c.conn.Close()
		past.ops = append(past.ops, c.done.ops)
		for at, n := range c.refused {
			past.refused[at] += n
		}
		if s.result.Refusal == "" && c.first != nil {
			s.result.Refusal = c.first.Error()
		}
		s.newest = max(s.newest, c.newest)
	}
	s.clients = nil
	s.history = append(s.history, past)
	s.result.Latency = summarize(s.latency)
	return s.result
}

// summarize puts a histogram in the report's form.
func summarize(hist *hdrhistogram.Histogram) report.Latency {
	l := report.Latency{Count: hist.TotalCount()}
	if l.Count == 0 {
		return l
	}
	l.Mean, l.Max = hist.Mean(), hist.Max()
	for _, percentile := range report.Percentiles {
		at := hist.ValueAtPercentile(percentile)
		if percentile == 0 {
			at = hist.Min()
		}
		l.Curve = append(l.Curve, report.Point{Percentile: percentile, Nanos: at})
	}
	return l
}
