package addload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/counterd/counterd/bench/procstat"
	"github.com/counterd/counterd/internal/wire"
)

// Config has the cases and the sizes of the phases.
type Config struct {
	Cases   []Case
	Suffix  string // of the column
	Posts   int
	Warm    int // additions to each post before the first round
	Clients int
	Depth   int // INCRs in a batch
	Count   int // INCRs of a phase
	Rounds  int
}

// Result has the measurements of each case: nanoseconds of the server's processor time of an INCR, by round.
type Result struct {
	Config
	Nanos [][]float64
}

// Run measures the servers of the cases. Cases with the same server have different posts.
func Run(ctx context.Context, c Config) (*Result, error) {
	res := &Result{Config: c, Nanos: make([][]float64, len(c.Cases))}
	loads := make([]*load, len(c.Cases))
	for i := range c.Cases {
		l, err := newLoad(ctx, &c, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Cases[i].Name, err)
		}
		defer l.close()
		loads[i] = l
	}
	for i, l := range loads {
		n := 0
		if err := l.phase(c.Warm*c.Posts, func(*rand.Rand) int { n++; return n % c.Posts }); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Cases[i].Name, err)
		}
	}
	for range c.Rounds {
		for i, l := range loads {
			before, err := l.meter.Usage()
			if err != nil {
				return nil, err
			}
			if err := l.phase(c.Count, func(rng *rand.Rand) int { return rng.IntN(c.Posts) }); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Cases[i].Name, err)
			}
			after, err := l.meter.Usage()
			if err != nil {
				return nil, err
			}
			res.Nanos[i] = append(res.Nanos[i], float64(after.CPU()-before.CPU())/float64(c.Count))
		}
	}
	return res, nil
}

// Write writes a table: the processor time of each case, and how many times that of the first case it is, of each round.
func (r *Result) Write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "| case | ns of an INCR | times %s | quartiles |\n|---|---|---|---|\n", r.Cases[0].Name); err != nil {
		return err
	}
	for i, c := range r.Cases {
		var ratios []float64
		for k, ns := range r.Nanos[i] {
			ratios = append(ratios, ns/r.Nanos[0][k])
		}
		slices.Sort(ratios)
		all := slices.Sorted(slices.Values(r.Nanos[i]))
		n := len(all)
		if _, err := fmt.Fprintf(w, "| %s | %.0f | %.2f | %.2f to %.2f |\n", c.Name, all[n/2], ratios[n/2], ratios[n/4], ratios[n*3/4]); err != nil {
			return err
		}
	}
	return nil
}

// load is the clients of a case.
type load struct {
	c     *Config
	form  Form
	first uint64 // of the posts
	conns []*client
	meter *procstat.Meter
	ctl   *wire.Conn
}

// client is a connection, with the number of its next INCR.
type client struct {
	*wire.Conn
	producer string
	next     uint64
	rng      *rand.Rand
}

// distance is that between neighbouring posts. The mids of real posts have 4,000 in the mean.
const distance = 4000

func newLoad(ctx context.Context, c *Config, number int) (l *load, err error) {
	l = &load{c: c, form: c.Cases[number].Form, first: 1 << 40}
	for i := range number {
		if c.Cases[i].Addr == c.Cases[number].Addr {
			l.first += 1 << 40
		}
	}
	if l.ctl, err = wire.Dial(ctx, c.Cases[number].Addr, wire.Options{}); err != nil {
		return nil, err
	}
	if l.meter, err = procstat.NewMeter(l.ctl, c.Cases[number].PID); err != nil {
		return nil, errors.Join(err, l.ctl.Close())
	}
	for i := range c.Clients {
		conn, err := wire.Dial(ctx, c.Cases[number].Addr, wire.Options{Buffer: 16 << 10})
		if err != nil {
			l.close()
			return nil, err
		}
		one := &client{Conn: conn, producer: fmt.Sprintf("p%d-%d", number, i), next: 1, rng: rand.New(rand.NewPCG(1, uint64(i)))}
		l.conns = append(l.conns, one)
		if l.form == Connection {
			if _, err := conn.Do("CLIENT", "IDMP", one.producer, "1"); err != nil {
				l.close()
				return nil, err
			}
		}
	}
	return l, nil
}

func (l *load) close() {
	for _, c := range l.conns {
		_ = c.Close()
	}
	_ = l.ctl.Close()
}

// mid returns the mid of a post. The distances between mids vary.
func (l *load) mid(post int) uint64 {
	return l.first + uint64(post)*distance + uint64(post)*0x9e3779b97f4a7c15>>53
}

// phase sends count INCRs by all clients. pick chooses their posts, one at a time.
func (l *load) phase(count int, pick func(*rand.Rand) int) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	left := count / l.c.Depth
	take := func(posts []int, rng *rand.Rand) bool {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 || failed != nil {
			return false
		}
		left--
		for i := range posts {
			posts[i] = pick(rng)
		}
		return true
	}
	for _, c := range l.conns {
		wg.Go(func() {
			posts := make([]int, l.c.Depth)
			for take(posts, c.rng) {
				if err := l.batch(c, posts); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return failed
}

// batch sends an INCR of each post, and reads the replies.
func (l *load) batch(c *client, posts []int) error {
	for _, post := range posts {
		if l.form == Arguments {
			c.Out = append(c.Out, "*5\r\n$4\r\nINCR\r\n"...)
			c.Out = wire.AppendKey(c.Out, l.mid(post), l.c.Suffix)
			c.Out = append(c.Out, "$4\r\nIDMP\r\n"...)
			c.Out = wire.AppendArg(c.Out, c.producer)
			c.Out = wire.AppendUint(c.Out, c.next)
		} else {
			c.Out = append(c.Out, "*2\r\n$4\r\nINCR\r\n"...)
			c.Out = wire.AppendKey(c.Out, l.mid(post), l.c.Suffix)
		}
		c.next++
	}
	if err := c.Flush(); err != nil {
		return err
	}
	for range posts {
		if _, err := c.ReadInt(); err != nil {
			return fmt.Errorf("INCR: %w", err)
		}
	}
	return nil
}
