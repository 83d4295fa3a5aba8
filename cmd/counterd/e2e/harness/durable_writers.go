package harness

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// writers put load on a server that is going to be killed, and know what it must hold afterwards:
//
//	each key    what was acknowledged <= its value <= that plus what was sent and not answered
//	each post   written once, with a value of its own: there if acknowledged, and never with another value
type writers struct {
	conns   int
	private int   // keys of each connection that no other writes to
	shared  int   // keys that all write to
	nextMid int64 // of posts; each is written once

	base  map[string]int64 // value that each key must have had when the load began
	loads []*writerLoad
}

// writerLoad is what one connection did since the server was started.
type writerLoad struct {
	acked, sent map[string]int64
	posts       []int64 // acknowledged
	doubt       []int64 // sent and not answered
	refused     int     // answered by an error that says that nothing was done
	err         error
}

func NewWriters(conns, private, shared int) *writers {
	return &writers{conns: conns, private: private, shared: shared, nextMid: 1 << 40, base: map[string]int64{}}
}

// postValue is the value of a post, which tells it from every other.
func postValue(mid int64) string { return strconv.FormatUint(uint64(mid)*2654435761%1_000_000_007, 10) }

// Begin starts the load. tolerate says which error replies are no defect: the text before the first space. A server that has ended meanwhile
// refuses the connection; that ends the load as a lost connection does.
func (w *writers) Begin(t testing.TB, s *Server, r *rand.Rand, tolerate ...string) (wait func()) {
	t.Helper()
	w.loads = nil
	var wg sync.WaitGroup
	for id := range w.conns {
		mid := w.nextMid + int64(id)<<32
		seed := r.Uint64()
		c, err := DialTimeout("tcp", s.Addr, IoTimeout)
		if err != nil {
			select {
			case <-s.Exited:
				continue
			case <-time.After(IoTimeout):
				t.Fatal(err)
			}
		}
		l := &writerLoad{acked: map[string]int64{}, sent: map[string]int64{}}
		w.loads = append(w.loads, l)
		wg.Go(func() {
			defer c.Close()
			w.run(c, l, id, mid, rand.New(rand.NewPCG(seed, 0)), tolerate)
			if l.err != nil {
				t.Error(l.err) // at once: a test that waits for the writers' work would not say why there is none
			}
		})
	}
	w.nextMid += int64(w.conns) << 32
	return wg.Wait
}

// run sends pipelines of increments and new posts until the connection ends.
func (w *writers) run(c *Conn, l *writerLoad, id int, mid int64, r *rand.Rand, tolerate []string) {
	for {
		var request []byte
		var keys []string
		var posts []int64
		for range 1 + r.IntN(24) {
			switch n := r.IntN(10); {
			case n < 2:
				mid += 1 + r.Int64N(5)
				request = resptest.Append(request, "SET", strconv.FormatInt(mid, 10)+".cntrn", postValue(mid))
				keys, posts = append(keys, ""), append(posts, mid)
			case n < 6:
				keys = append(keys, "1000"+strconv.Itoa(r.IntN(w.shared))+".cntcm")
			default:
				keys = append(keys, strconv.Itoa(20000+id*w.private+r.IntN(w.private))+".cntan")
			}
			if key := keys[len(keys)-1]; key != "" {
				request = resptest.Append(request, "INCR", key)
				l.sent[key]++
			}
		}
		err := c.TryWrite(request)
		for _, key := range keys {
			var v resptest.Value
			if err == nil {
				v, err = c.TryReply()
			}
			var done bool
			switch word, _, _ := strings.Cut(v.Text, " "); {
			case err != nil:
			case v.Kind == '-':
				// The disk of a busy machine may need more than two seconds for a sync: the server refuses meanwhile, as it should.
				known := strings.Contains(v.Text, "the disk is slow")
				for _, w := range tolerate {
					known = known || word == w
				}
				if !known {
					l.err = fmt.Errorf("%q answered %q", key, v.Raw)
					return
				}
				l.refused++
				if word != "UNCERTAIN" && key != "" {
					l.sent[key]-- // certainly not done
				}
			default:
				done = true
			}
			if key == "" {
				if done {
					l.posts = append(l.posts, posts[0])
				} else {
					l.doubt = append(l.doubt, posts[0])
				}
				posts = posts[1:]
			} else if done {
				l.acked[key]++
			}
		}
		if err != nil {
			return // the server is gone
		}
		// Without a rest four writers keep two processors busy and fill the log with what tools read again: TestDurableToolsInUse took 23 s of
		// processor time, and takes 8.
		time.Sleep(500 * time.Microsecond)
	}
}

// Verify checks a server against what is known, and takes what it finds as the truth from then on. It returns how much
// was acknowledged.
func (w *writers) Verify(t testing.TB, s *Server) (acked int64) {
	t.Helper()
	c := s.Dial(t)
	defer c.Close()
	least, most := map[string]int64{}, map[string]int64{}
	for key, v := range w.base {
		least[key], most[key] = v, v
	}
	for _, l := range w.loads {
		if l.err != nil {
			t.Error(l.err)
		}
		for key, n := range l.sent {
			least[key] += l.acked[key]
			most[key] += n
			acked += l.acked[key]
		}
		acked += int64(len(l.posts))
	}
	for key := range most {
		got, err := c.Do("GET", key).Int()
		if err != nil {
			got = 0 // never written
		}
		if got < least[key] || got > most[key] {
			t.Errorf("%s is %d, want %d acknowledged to %d sent", key, got, least[key], most[key])
		}
		w.base[key] = got
	}
	for _, l := range w.loads {
		for i := 0; i < len(l.posts); i += 500 {
			part := l.posts[i:min(i+500, len(l.posts))]
			args := []string{"MGET"}
			for _, mid := range part {
				args = append(args, strconv.FormatInt(mid, 10)+".cntrn")
			}
			for k, v := range c.Do(args...).List {
				if v.Null || v.Text != postValue(part[k]) {
					t.Errorf("post %d is %q, want %s, which was acknowledged", part[k], v.Raw, postValue(part[k]))
				}
			}
		}
		for _, mid := range l.doubt {
			if v := c.Do("GET", strconv.FormatInt(mid, 10)+".cntrn"); !v.Null && v.Text != postValue(mid) {
				t.Errorf("post %d is %q, want %s or nothing", mid, v.Raw, postValue(mid))
			}
		}
	}
	w.loads = nil
	if t.Failed() {
		t.FailNow()
	}
	return acked
}

// RandomPause is a time from lo to hi.
func RandomPause(r *rand.Rand, lo, hi time.Duration) time.Duration {
	return lo + time.Duration(r.Int64N(int64(hi-lo)))
}
