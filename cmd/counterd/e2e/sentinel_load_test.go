package e2e

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/internal/testkit/resptest"
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

// size is the first mid that nobody has.
func (j *journal) size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return max(1, len(j.fate))
}

// tally is how a range of mids ended.
type tally struct{ safe, lone, lost, refused, unknown int }

// check compares a range of mids with what a primary has. lost counts what was acknowledged by INCR alone and is not
// there.
func (j *journal) check(t testing.TB, m *member, from, to int) (sum tally) {
	t.Helper()
	c, err := dialTimeout("tcp", m.direct, ioTimeout)
	if err != nil {
		t.Error(err)
		return sum
	}
	defer c.close()
	for at := from; at < to; at += 1000 {
		end := min(at+1000, to)
		var request []byte
		for mid := at; mid < end; mid++ {
			request = resptest.Append(request, "GET", strconv.Itoa(mid)+".n")
		}
		if err := c.tryWrite(request); err != nil {
			t.Error(err)
			return sum
		}
		for mid := at; mid < end; mid++ {
			v, err := c.tryReply()
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
				sum.safe++
				if !there {
					t.Errorf("post %d: WAIT 1 acknowledged it and it is gone", mid)
				}
			case fateRefused:
				sum.refused++
				if there {
					t.Errorf("post %d: refused, and it is there", mid)
				}
			case fateAlone:
				sum.lone++
				if !there {
					sum.lost++
				}
			default:
				sum.unknown++
			}
		}
	}
	return sum
}

// sentinelClients are clients that ask Sentinel where to write, and write.
type sentinelClients struct {
	*journal
	client *redis.Client
	pause  sync.RWMutex // held for reading around each increment
	ended  atomic.Bool
	done   sync.WaitGroup
}

func (g *group) client(timeout time.Duration) *redis.Client {
	// A repeated INCR whose reply was lost counts twice: exact tests must not repeat.
	return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: g.sentinels, MaxRetries: -1,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolSize: 16})
}

func (g *group) startWriters(n int) *sentinelClients {
	l := &sentinelClients{journal: new(journal), client: g.client(2 * time.Second)}
	l.done.Add(n)
	for range n {
		go func() {
			defer l.done.Done()
			for !l.ended.Load() {
				l.pause.RLock()
				err := l.increment(l.client)
				l.pause.RUnlock()
				if err != nil {
					time.Sleep(20 * time.Millisecond)
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	g.t.Cleanup(func() {
		l.ended.Store(true)
		l.done.Wait()
		l.client.Close()
	})
	return l
}

// increment makes one and asks for one replica, on one connection.
func (l *sentinelClients) increment(client *redis.Client) error {
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

// probe makes one increment alone.
func (l *sentinelClients) probe(client *redis.Client) error {
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

// loner writes to one node without asking anybody, as a client that was cut off together with it.
type loner struct {
	acked   atomic.Int64
	refused atomic.Int64
	last    time.Time // of the last acknowledgement
	stop    chan struct{}
	done    chan struct{}
	once    sync.Once
}

func (l *sentinelClients) startLoner(addr string) *loner {
	n := &loner{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(n.done)
		var c *conn
		defer func() {
			if c != nil {
				c.close()
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
				if c, err = dialTimeout("tcp", addr, time.Second); err != nil {
					continue
				}
			}
			mid := l.next()
			switch v, err := c.tryDo("INCR", strconv.Itoa(mid)+".n"); {
			case err != nil:
				c.close()
				c = nil
			case v.Raw == ":1\r\n":
				l.note(mid, fateAlone)
				n.acked.Add(1)
				n.last = time.Now()
			case len(v.Raw) > 1 && refuses(v.Raw[1:]):
				l.note(mid, fateRefused)
				n.refused.Add(1)
			}
		}
	}()
	return n
}

// end stops the loner; last may be read then. It may be called again, and for none.
func (n *loner) end() {
	if n == nil {
		return
	}
	n.once.Do(func() { close(n.stop) })
	<-n.done
}
