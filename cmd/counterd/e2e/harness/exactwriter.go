package harness

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

// WeiboPost is one post of the example schema: comment, repost, attitude. nil: there is none.
type WeiboPost *[3]int64

var weiboSuffix = [...]string{".cntcm", ".cntrn", ".cntan"}

// exactOp is a request, or a transaction of several, and what it does to posts.
type exactOp struct {
	request []byte
	replies int                                            // the last of them is checked
	mids    []int64                                        // that it touches
	does    func(posts map[int64]WeiboPost) (reply string) // changes posts and returns the exact reply
	incrs   int
}

// ExactWriter changes posts that nobody else writes to, and knows their exact values: each reply is checked against
// them, and when a connection ends in between, the server must have done a prefix of what was not answered: not more,
// not less, and nothing in another order.
type ExactWriter struct {
	Addr  string
	rng   *rand.Rand
	base  int64 // its posts are from here on
	next  int64 // post to be made next
	Posts map[int64]WeiboPost
	Open  []exactOp // sent and not answered
	Done  []exactOp // answered since keep was set
	Keep  bool
	Acked int64 // increments that were answered
	ops   int64
	Tries int64 // connections
}

func NewExactWriter(port int, id int, seed uint64) *ExactWriter {
	w := &ExactWriter{Addr: "127.0.0.1:" + strconv.Itoa(port), rng: rand.New(rand.NewPCG(seed, uint64(id))), base: int64(1+id) << 41, Posts: map[int64]WeiboPost{}}
	w.next = w.base + 1000
	return w
}

// own is one of the few posts that are changed again and again.
func (w *ExactWriter) own() int64 { return w.base + w.rng.Int64N(40) }

func key(mid int64, column int) string { return strconv.FormatInt(mid, 10) + weiboSuffix[column] }

func (w *ExactWriter) incr() exactOp {
	mid, c, by := w.own(), w.rng.IntN(3), 1+w.rng.Int64N(3)
	return exactOp{request: resptest.Append(nil, "INCRBY", key(mid, c), strconv.FormatInt(by, 10)), replies: 1, mids: []int64{mid}, incrs: 1,
		does: func(posts map[int64]WeiboPost) string {
			p := change(posts, mid)
			p[c] += by
			return fmt.Sprintf(":%d\r\n", p[c])
		}}
}

// change replaces a post by a copy to change: other maps may share it.
func change(posts map[int64]WeiboPost, mid int64) *[3]int64 {
	p := new([3]int64)
	if old := posts[mid]; old != nil {
		*p = *old
	}
	posts[mid] = p
	return p
}

func (w *ExactWriter) op() exactOp {
	switch n := w.rng.IntN(100); {
	case n < 60:
		return w.incr()
	case n < 72:
		mid, c, v := w.own(), w.rng.IntN(3), w.rng.Int64N(1<<w.rng.IntN(31))
		return exactOp{request: resptest.Append(nil, "SET", key(mid, c), strconv.FormatInt(v, 10)), replies: 1, mids: []int64{mid},
			does: func(posts map[int64]WeiboPost) string { change(posts, mid)[c] = v; return "+OK\r\n" }}
	case n < 77:
		mid := w.own()
		return exactOp{request: resptest.Append(nil, "DEL", "weibo:"+strconv.FormatInt(mid, 10)), replies: 1, mids: []int64{mid},
			does: func(posts map[int64]WeiboPost) string {
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
			replies: 1, mids: []int64{mid}, does: func(posts map[int64]WeiboPost) string { *change(posts, mid) = v; return ":3\r\n" }}
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
	op.does = func(posts map[int64]WeiboPost) string {
		reply := fmt.Sprintf("*%d\r\n", len(parts))
		for _, p := range parts {
			reply += p.does(posts)
		}
		return reply
	}
	return op
}

// Run writes until stop is closed, over as many connections as it takes. The error is what is wrong with the server.
// The last connection is open no more.
func (w *ExactWriter) Run(stop <-chan struct{}) error {
	for {
		c, err := DialTimeout("tcp", w.Addr, time.Second)
		if err == nil {
			w.Tries++
			var ended bool
			ended, err = w.Settle(c)
			for err == nil && ended {
				select {
				case <-stop:
					c.Close()
					return nil
				default:
				}
				ended, err = w.pipeline(c)
				time.Sleep(time.Duration(w.rng.Int64N(int64(4 * time.Millisecond))))
			}
			c.Close()
			if err != nil {
				return err
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Settle finds out how many of the operations without an answer were done. ok is false where the connection ended.
func (w *ExactWriter) Settle(c *Conn) (ok bool, err error) {
	touched := map[int64]bool{}
	for _, op := range w.Open {
		for _, mid := range op.mids {
			touched[mid] = true
		}
	}
	for range 20 {
		touched[w.own()] = true
	}
	got := map[int64]WeiboPost{}
	for mid := range touched {
		p, err := readPost(c, mid)
		if err != nil {
			return false, nil // not up yet, or gone again
		}
		if p != nil {
			got[mid] = p
		}
	}
	want := map[int64]WeiboPost{}
	for mid := range touched {
		if p := w.Posts[mid]; p != nil {
			want[mid] = p
		}
	}
	for k := 0; ; k++ {
		if maps.EqualFunc(got, want, func(a, b WeiboPost) bool { return *a == *b }) {
			for _, op := range w.Open[:k] {
				w.answered(op)
			}
			w.Open = nil
			return true, nil
		}
		if k == len(w.Open) {
			return false, fmt.Errorf("posts are %v, want %v after %d operations without an answer, or what they were before some of the last of them", texts(got), texts(want), k)
		}
		w.Open[k].does(want)
	}
}

func texts(posts map[int64]WeiboPost) map[int64][3]int64 {
	out := map[int64][3]int64{}
	for mid, p := range posts {
		out[mid] = *p
	}
	return out
}

// answered puts an operation in force.
func (w *ExactWriter) answered(op exactOp) string {
	w.Acked += int64(op.incrs)
	w.ops++
	if w.Keep {
		w.Done = append(w.Done, op)
	}
	return op.does(w.Posts)
}

// pipeline sends some operations at once and checks their replies. ok is false where the connection ended.
func (w *ExactWriter) pipeline(c *Conn) (ok bool, err error) {
	var request []byte
	for range 1 + w.rng.IntN(12) {
		op := w.op()
		w.Open = append(w.Open, op)
		request = append(request, op.request...)
	}
	if c.TryWrite(request) != nil {
		return false, nil
	}
	for len(w.Open) > 0 {
		var v resptest.Value
		for range w.Open[0].replies {
			if v, err = c.TryReply(); err != nil {
				return false, nil
			}
		}
		op := w.Open[0]
		w.Open = w.Open[1:]
		if want := w.answered(op); v.Raw != want {
			return false, fmt.Errorf("%q answered %q, want %q", op.request, v.Raw, want)
		}
	}
	return true, nil
}

// readPost reads one post.
func readPost(c *Conn, mid int64) (WeiboPost, error) {
	v, err := c.TryDo("MGET", key(mid, 0), key(mid, 1), key(mid, 2))
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

// Compare reads all posts of the writer from a server and counts those that are not as they must be.
func (w *ExactWriter) Compare(t testing.TB, s *Server) (wrong int) {
	t.Helper()
	c := s.Dial(t)
	defer c.Close()
	mids := make([]int64, 0, len(w.Posts)+40)
	for mid := range w.Posts {
		mids = append(mids, mid)
	}
	for i := range int64(40) {
		if w.Posts[w.base+i] == nil {
			mids = append(mids, w.base+i)
		}
	}
	for i := 0; i < len(mids); i += 200 {
		part := mids[i:min(i+200, len(mids))]
		args := []string{"MGET"}
		for _, mid := range part {
			args = append(args, key(mid, 0), key(mid, 1), key(mid, 2))
		}
		v := c.Do(args...)
		for k, mid := range part {
			want := "$-1\r\n$-1\r\n$-1\r\n"
			if p := w.Posts[mid]; p != nil {
				want = ""
				for _, n := range p {
					want += BulkOf(strconv.FormatInt(n, 10))
				}
			}
			got := ""
			for _, e := range v.List[3*k : 3*k+3] {
				got += e.Raw
			}
			if got != want {
				if wrong++; wrong <= 3 {
					t.Errorf("port %d: post %d is %q, want %q", s.Port, mid, strings.ReplaceAll(got, "\r\n", " "), strings.ReplaceAll(want, "\r\n", " "))
				}
			}
		}
	}
	return wrong
}
