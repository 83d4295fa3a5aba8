package harness

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/redis/go-redis/v9"
)

// A journal is what the clients of a group were told. Each increment is of a post of its own, so what became of it can
// be seen.
type journal struct {
	mu   sync.Mutex
	fate []fate // by mid
}

type fate uint8

const (
	fateUnused  fate = iota
	fateUnknown      // no reply: 0 or 1
	fateRefused      // an error reply: it must not be there
	fateAlone        // acknowledged, WAIT heard of no replica: 0 or 1
	fateSafe         // acknowledged, and WAIT 1 too: 1
)

// next returns a mid that nobody used.
func (j *journal) next() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.fate) == 0 {
		j.fate = append(j.fate, fateUnused)
	}
	j.fate = append(j.fate, fateUnknown)
	return len(j.fate) - 1
}

func (j *journal) note(mid int, f fate) {
	j.mu.Lock()
	j.fate[mid] = f
	j.mu.Unlock()
}

// Size is the first mid that nobody has.
func (j *journal) Size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return max(1, len(j.fate))
}

// Tally is how a range of mids ended.
type Tally struct{ Safe, Lone, Lost, Refused, Unknown int }

// Check compares a range of mids with what a primary has. lost counts what was acknowledged by INCR alone and is not
// there.
func (j *journal) Check(t testing.TB, m *Member, from, to int) (sum Tally) {
	t.Helper()
	c, err := DialTimeout("tcp", m.Direct, IoTimeout)
	if err != nil {
		t.Error(err)
		return sum
	}
	defer c.Close()
	for at := from; at < to; at += 1000 {
		end := min(at+1000, to)
		var request []byte
		for mid := at; mid < end; mid++ {
			request = resptest.Append(request, "GET", strconv.Itoa(mid)+".n")
		}
		if err := c.TryWrite(request); err != nil {
			t.Error(err)
			return sum
		}
		for mid := at; mid < end; mid++ {
			v, err := c.TryReply()
			if err != nil {
				t.Error(err)
				return sum
			}
			there := v.Raw == "$1\r\n1\r\n"
			if !there && v.Raw != "$-1\r\n" {
				t.Errorf("post %d: %q, want 1 or nothing", mid, v.Raw)
			}
			j.mu.Lock()
			f := j.fate[mid]
			j.mu.Unlock()
			switch f {
			case fateSafe:
				sum.Safe++
				if !there {
					t.Errorf("post %d: WAIT 1 acknowledged it and it is gone", mid)
				}
			case fateRefused:
				sum.Refused++
				if there {
					t.Errorf("post %d: refused, and it is there", mid)
				}
			case fateAlone:
				sum.Lone++
				if !there {
					sum.Lost++
				}
			default:
				sum.Unknown++
			}
		}
	}
	return sum
}

// SentinelClients are clients that ask Sentinel where to write, and write.
type SentinelClients struct {
	*journal
	client *redis.Client
	Pause  sync.RWMutex // held for reading around each increment
	ended  atomic.Bool
	done   sync.WaitGroup
}

func (g *Group) Client(timeout time.Duration) *redis.Client {
	// A repeated INCR whose reply was lost counts twice: exact tests must not repeat.
	return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: g.Sentinels, MaxRetries: -1,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolSize: 16})
}

func (g *Group) StartWriters(n int) *SentinelClients {
	l := &SentinelClients{journal: new(journal), client: g.Client(2 * time.Second)}
	l.done.Add(n)
	for range n {
		go func() {
			defer l.done.Done()
			for !l.ended.Load() {
				l.Pause.RLock()
				err := l.increment(l.client)
				l.Pause.RUnlock()
				if err != nil {
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	g.T.Cleanup(func() {
		l.ended.Store(true)
		l.done.Wait()
		l.client.Close()
	})
	return l
}

// increment makes one and asks for one replica, on one connection.
func (l *SentinelClients) increment(client *redis.Client) error {
	ctx := context.Background()
	conn := client.Conn()
	defer conn.Close()
	mid := l.next()
	err := conn.Incr(ctx, strconv.Itoa(mid)+".n").Err()
	if err != nil {
		if refuses(err.Error()) {
			l.note(mid, fateRefused)
		}
		return err
	}
	l.note(mid, fateAlone)
	n, err := conn.Wait(ctx, 1, 500*time.Millisecond).Result()
	if err == nil && n >= 1 {
		l.note(mid, fateSafe)
	}
	return err
}

// Probe makes one increment alone.
func (l *SentinelClients) Probe(client *redis.Client) error {
	mid := l.next()
	err := client.Incr(context.Background(), strconv.Itoa(mid)+".n").Err()
	if err == nil {
		l.note(mid, fateAlone)
	} else if refuses(err.Error()) {
		l.note(mid, fateRefused)
	}
	return err
}

// refuses tells whether an error is a reply that says that nothing was changed.
func refuses(text string) bool {
	return strings.HasPrefix(text, "READONLY ") || strings.HasPrefix(text, "LOADING ") || strings.HasPrefix(text, "MASTERDOWN ")
}

// Loner writes to one node without asking anybody, as a client that was cut off together with it.
type Loner struct {
	Acked   atomic.Int64
	Refused atomic.Int64
	Last    time.Time // of the last acknowledgement
	stop    chan struct{}
	done    chan struct{}
	once    sync.Once
}

func (l *SentinelClients) StartLoner(addr string) *Loner {
	n := &Loner{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		var c *Conn
		defer func() {
			if c != nil {
				c.Close()
			}
		}()
		for {
			select {
			case <-n.stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if c == nil {
				var err error
				if c, err = DialTimeout("tcp", addr, time.Second); err != nil {
					continue
				}
			}
			mid := l.next()
			switch v, err := c.TryDo("INCR", strconv.Itoa(mid)+".n"); {
			case err != nil:
				c.Close()
				c = nil
			case v.Raw == ":1\r\n":
				l.note(mid, fateAlone)
				n.Acked.Add(1)
				n.Last = time.Now()
			case len(v.Raw) > 1 && refuses(v.Raw[1:]):
				l.note(mid, fateRefused)
				n.Refused.Add(1)
			}
		}
	}()
	return n
}

// End stops the loner; last may be read then. It may be called again, and for none.
func (n *Loner) End() {
	if n == nil {
		return
	}
	n.once.Do(func() { close(n.stop) })
	<-n.done
}
