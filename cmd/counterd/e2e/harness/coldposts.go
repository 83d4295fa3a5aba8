package harness

import (
	"fmt"
	"strconv"
	"testing"
)

// ColdPosts are posts of a stream: mids rise by 4000 on average, most counters are small.
type ColdPosts struct{ N int }

func mix(x uint64) uint64 {
	x *= 0x9E3779B97F4A7C15
	x ^= x >> 32
	x *= 0xD6E8FEB86659FD93
	return x ^ x>>32
}

// Mid of post i; between it and the next there is room for others.
func (ColdPosts) Mid(i int) uint64 { return 19_089_006_004 + uint64(i)*4000 + mix(uint64(i))%3990 }

// Values of post i.
func (ColdPosts) Values(i int) (comment, repost, attitude uint64) {
	h := mix(uint64(i) + 1<<40)
	comment, repost, attitude = h%8, h>>8%64, h>>16%3
	if h>>24%500 == 0 { // a popular one: too large for its packed column
		comment, attitude = h>>32%(1<<31), h>>20%100_000
	}
	return comment, repost, attitude
}

// Load writes all posts.
func (p ColdPosts) Load(t testing.TB, s *Server) {
	t.Helper()
	BulkParallel(t, s, 2, p.N, func(dst []byte, i int) []byte {
		a, b, c := p.Values(i)
		dst = append(dst, "*8\r\n$4\r\nHSET\r\n"...)
		dst = AppendBulk(dst, "weibo:", p.Mid(i), true, "")
		dst = append(dst, "$7\r\ncomment\r\n"...)
		dst = AppendBulk(dst, "", a, true, "")
		dst = append(dst, "$6\r\nrepost\r\n"...)
		dst = AppendBulk(dst, "", b, true, "")
		dst = append(dst, "$8\r\nattitude\r\n"...)
		return AppendBulk(dst, "", c, true, "")
	}, WantReply(":3"))
}

// Verify reads every counter of every post but those that skip tells.
func (p ColdPosts) Verify(t testing.TB, s *Server, skip map[int]bool) {
	t.Helper()
	suffix := [...]string{".cntcm", ".cntrn", ".cntan"}
	each := 1 // counters of a post, other ones of its neighbours; all of them where the environment's SCALE asks for more
	if Scaled(10) > 10 {
		each = len(suffix)
	}
	at := func(i int) (post, column int) { return i / each, i % len(suffix) }
	BulkParallel(t, s, 2, each*p.N, func(dst []byte, i int) []byte {
		post, column := at(i)
		return AppendCall(dst, "GET", "", p.Mid(post), suffix[column], -1)
	}, func(i int, reply []byte) error {
		post, column := at(i)
		if skip[post] {
			return nil
		}
		a, b, c := p.Values(post)
		if want := "$" + strconv.FormatUint([...]uint64{a, b, c}[column], 10); string(reply) != want {
			return fmt.Errorf("post %d, mid %d: %s is %q, want %q", post, p.Mid(post), suffix[column], reply, want)
		}
		return nil
	})
}

// ColdChanges are what change did.
type ColdChanges struct {
	Skip map[int]bool      // posts that were changed
	want map[string]string // replies of GET
}

// Change increments, sets and deletes posts all over, and makes new ones between them.
func (p ColdPosts) Change(t testing.TB, s *Server) ColdChanges {
	t.Helper()
	c := s.Dial(t)
	defer c.Close()
	ch := ColdChanges{Skip: map[int]bool{}, want: map[string]string{}}
	for i := 7; i < p.N; i += p.N / 300 {
		key := strconv.FormatUint(p.Mid(i), 10)
		comment, err := c.Do("GET", key+".cntcm").Int()
		if err != nil {
			comment = 0 // deleted by an earlier change
		}
		ch.Skip[i] = true
		switch i / (p.N / 300) % 4 {
		case 0:
			c.Want(fmt.Sprintf(":%d\r\n", comment+1), "INCR", key+".cntcm")
			ch.want[key+".cntcm"] = BulkOf(strconv.FormatInt(comment+1, 10))
		case 1:
			c.Want("+OK\r\n", "SET", key+".cntrn", "1234567")
			ch.want[key+".cntrn"] = BulkOf("1234567")
			ch.want[key+".cntcm"] = BulkOf(strconv.FormatInt(comment, 10))
		case 2:
			c.Do("DEL", "weibo:"+key)
			ch.want[key+".cntcm"], ch.want[key+".cntan"] = "$-1\r\n", "$-1\r\n"
		case 3: // a new post in a cold range
			fresh := strconv.FormatUint(p.Mid(i)+5, 10)
			if v := c.Do("INCRBY", fresh+".cntan", "3"); v.Kind != ':' {
				t.Errorf("a new post in a cold range answered %q", v.Raw)
			}
			c.Want("+OK\r\n", "SET", fresh+".cntan", "300")
			ch.want[fresh+".cntan"], ch.want[fresh+".cntcm"] = BulkOf("300"), BulkOf("0")
		}
	}
	return ch
}

func (ch ColdChanges) Verify(t testing.TB, s *Server) {
	t.Helper()
	c := s.Dial(t)
	defer c.Close()
	for key, want := range ch.want {
		c.Want(want, "GET", key)
	}
}
