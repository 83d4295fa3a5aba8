package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/resptest"
)

// weiboPost is one post of the example schema: comment, repost, attitude. nil: there is none.
type weiboPost *[3]int64

var weiboSuffix = [...]string{".cntcm", ".cntrn", ".cntan"}

// exactOp is a request, or a transaction of several, and what it does to posts.
type exactOp struct {
	request []byte
	replies int                                            // the last of them is checked
	mids    []int64                                        // that it touches
	does    func(posts map[int64]weiboPost) (reply string) // changes posts and returns the exact reply
	incrs   int
}

// exactWriter changes posts that nobody else writes to, and knows their exact values: each reply is checked against
// them, and when a connection ends in between, the server must have done a prefix of what was not answered: not more,
// not less, and nothing in another order.
type exactWriter struct {
	addr  string
	rng   *rand.Rand
	base  int64 // its posts are from here on
	next  int64 // post to be made next
	posts map[int64]weiboPost
	open  []exactOp // sent and not answered
	done  []exactOp // answered since keep was set
	keep  bool
	acked int64 // increments that were answered
	ops   int64
	tries int64 // connections
}

func newExactWriter(port int, id int, seed uint64) *exactWriter {
	w := &exactWriter{addr: "127.0.0.1:" + strconv.Itoa(port), rng: rand.New(rand.NewPCG(seed, uint64(id))), base: int64(1+id) << 41, posts: map[int64]weiboPost{}}
	w.next = w.base + 1000
	return w
}

// own is one of the few posts that are changed again and again.
func (w *exactWriter) own() int64 { return w.base + w.rng.Int64N(40) }

func key(mid int64, column int) string { return strconv.FormatInt(mid, 10) + weiboSuffix[column] }

func (w *exactWriter) incr() exactOp {
	mid, c, by := w.own(), w.rng.IntN(3), 1+w.rng.Int64N(3)
	return exactOp{request: resptest.Append(nil, "INCRBY", key(mid, c), strconv.FormatInt(by, 10)), replies: 1, mids: []int64{mid}, incrs: 1,
		does: func(posts map[int64]weiboPost) string {
			p := change(posts, mid)
			p[c] += by
			return fmt.Sprintf(":%d\r\n", p[c])
		}}
}

// change replaces a post by a copy to change: other maps may share it.
func change(posts map[int64]weiboPost, mid int64) *[3]int64 {
	p := new([3]int64)
	if old := posts[mid]; old != nil {
		*p = *old
	}
	posts[mid] = p
	return p
}

func (w *exactWriter) op() exactOp {
	switch n := w.rng.IntN(100); {
	case n < 60:
		return w.incr()
	case n < 72:
		mid, c, v := w.own(), w.rng.IntN(3), w.rng.Int64N(1<<w.rng.IntN(31))
		return exactOp{request: resptest.Append(nil, "SET", key(mid, c), strconv.FormatInt(v, 10)), replies: 1, mids: []int64{mid},
			does: func(posts map[int64]weiboPost) string { change(posts, mid)[c] = v; return "+OK\r\n" }}
	case n < 77:
		mid := w.own()
		return exactOp{request: resptest.Append(nil, "DEL", "weibo:"+strconv.FormatInt(mid, 10)), replies: 1, mids: []int64{mid},
			does: func(posts map[int64]weiboPost) string {
				there := posts[mid] != nil
				delete(posts, mid)
				if there {
					return ":1\r\n"
				}
				return ":0\r\n"
			}}
	case n < 92:
		w.next += 1 + w.rng.Int64N(5000)
		mid, v := w.next, [3]int64{w.rng.Int64N(100), w.rng.Int64N(1 << 20), w.rng.Int64N(1 << 30)}
		text := func(i int) string { return strconv.FormatInt(v[i], 10) }
		return exactOp{request: resptest.Append(nil, "HSET", "weibo:"+strconv.FormatInt(mid, 10), "comment", text(0), "repost", text(1), "attitude", text(2)),
			replies: 1, mids: []int64{mid}, does: func(posts map[int64]weiboPost) string { *change(posts, mid) = v; return ":3\r\n" }}
	}
	op := exactOp{request: resptest.Append(nil, "MULTI"), replies: 1}
	var parts []exactOp
	for range 1 + w.rng.IntN(5) {
		p := w.incr()
		parts = append(parts, p)
		op.request = append(op.request, p.request...)
		op.mids, op.incrs, op.replies = append(op.mids, p.mids...), op.incrs+1, op.replies+1
	}
	op.request = resptest.Append(op.request, "EXEC")
	op.replies++
	op.does = func(posts map[int64]weiboPost) string {
		reply := fmt.Sprintf("*%d\r\n", len(parts))
		for _, p := range parts {
			reply += p.does(posts)
		}
		return reply
	}
	return op
}

// run writes until stop is closed, over as many connections as it takes. The error is what is wrong with the server.
// The last connection is open no more.
func (w *exactWriter) run(stop <-chan struct{}) error {
	for {
		c, err := dialTimeout("tcp", w.addr, time.Second)
		if err == nil {
			w.tries++
			var ended bool
			ended, err = w.settle(c)
			for err == nil && ended {
				select {
				case <-stop:
					c.close()
					return nil
				default:
				}
				ended, err = w.pipeline(c)
				time.Sleep(time.Duration(w.rng.Int64N(int64(4 * time.Millisecond))))
			}
			c.close()
			if err != nil {
				return err
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// settle finds out how many of the operations without an answer were done. ok is false where the connection ended.
func (w *exactWriter) settle(c *conn) (ok bool, err error) {
	touched := map[int64]bool{}
	for _, op := range w.open {
		for _, mid := range op.mids {
			touched[mid] = true
		}
	}
	for range 20 {
		touched[w.own()] = true
	}
	got := map[int64]weiboPost{}
	for mid := range touched {
		p, err := readPost(c, mid)
		if err != nil {
			return false, nil // not up yet, or gone again
		}
		if p != nil {
			got[mid] = p
		}
	}
	want := map[int64]weiboPost{}
	for mid := range touched {
		if p := w.posts[mid]; p != nil {
			want[mid] = p
		}
	}
	for k := 0; ; k++ {
		if maps.EqualFunc(got, want, func(a, b weiboPost) bool { return *a == *b }) {
			for _, op := range w.open[:k] {
				w.answered(op)
			}
			w.open = nil
			return true, nil
		}
		if k == len(w.open) {
			return false, fmt.Errorf("posts are %v, want %v after %d operations without an answer, or what they were before some of the last of them", texts(got), texts(want), k)
		}
		w.open[k].does(want)
	}
}

func texts(posts map[int64]weiboPost) map[int64][3]int64 {
	out := map[int64][3]int64{}
	for mid, p := range posts {
		out[mid] = *p
	}
	return out
}

// answered puts an operation in force.
func (w *exactWriter) answered(op exactOp) string {
	w.acked += int64(op.incrs)
	w.ops++
	if w.keep {
		w.done = append(w.done, op)
	}
	return op.does(w.posts)
}

// pipeline sends some operations at once and checks their replies. ok is false where the connection ended.
func (w *exactWriter) pipeline(c *conn) (ok bool, err error) {
	var request []byte
	for range 1 + w.rng.IntN(12) {
		op := w.op()
		w.open = append(w.open, op)
		request = append(request, op.request...)
	}
	if c.tryWrite(request) != nil {
		return false, nil
	}
	for len(w.open) > 0 {
		var v resptest.Value
		for range w.open[0].replies {
			if v, err = c.tryReply(); err != nil {
				return false, nil
			}
		}
		op := w.open[0]
		w.open = w.open[1:]
		if want := w.answered(op); v.Raw != want {
			return false, fmt.Errorf("%q answered %q, want %q", op.request, v.Raw, want)
		}
	}
	return true, nil
}

// readPost reads one post.
func readPost(c *conn, mid int64) (weiboPost, error) {
	v, err := c.tryDo("MGET", key(mid, 0), key(mid, 1), key(mid, 2))
	if err != nil {
		return nil, err
	}
	if len(v.List) != 3 {
		return nil, fmt.Errorf("MGET answered %q", v.Raw)
	}
	if v.List[0].Null {
		return nil, nil
	}
	p := new([3]int64)
	for i, e := range v.List {
		if p[i], err = e.Int(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// compare reads all posts of the writer from a server and counts those that are not as they must be.
func (w *exactWriter) compare(t testing.TB, s *server) (wrong int) {
	t.Helper()
	c := s.dial(t)
	defer c.close()
	mids := make([]int64, 0, len(w.posts)+40)
	for mid := range w.posts {
		mids = append(mids, mid)
	}
	for i := range int64(40) {
		if w.posts[w.base+i] == nil {
			mids = append(mids, w.base+i)
		}
	}
	for i := 0; i < len(mids); i += 200 {
		part := mids[i:min(i+200, len(mids))]
		args := []string{"MGET"}
		for _, mid := range part {
			args = append(args, key(mid, 0), key(mid, 1), key(mid, 2))
		}
		v := c.do(args...)
		for k, mid := range part {
			want := "$-1\r\n$-1\r\n$-1\r\n"
			if p := w.posts[mid]; p != nil {
				want = ""
				for _, n := range p {
					want += bulkOf(strconv.FormatInt(n, 10))
				}
			}
			got := ""
			for _, e := range v.List[3*k : 3*k+3] {
				got += e.Raw
			}
			if got != want {
				if wrong++; wrong <= 3 {
					t.Errorf("port %d: post %d is %q, want %q", s.port, mid, strings.ReplaceAll(got, "\r\n", " "), strings.ReplaceAll(want, "\r\n", " "))
				}
			}
		}
	}
	return wrong
}
