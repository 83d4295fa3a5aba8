package gather

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// versions is a reply in all versions of the protocol.
type versions [3]resp.Replies

func newVersions() *versions {
	v := new(versions)
	for i, version := range []int{resp.Neutral, 2, 3} {
		v[i].SetProtocol(version)
	}
	return v
}

func (v *versions) each(f func(out *resp.Replies)) {
	for i := range v {
		f(&v[i])
	}
}

// add appends a random reply of short and long elements, some of which are not alike in all versions.
func (v *versions) add(rng *rand.Rand, depth int) {
	kind := rng.IntN(10)
	if depth == 0 {
		kind = rng.IntN(6)
	}
	number := int64(rng.Uint64() >> (1 + rng.IntN(63)))
	text := bytes.Repeat([]byte("a\r\n"), rng.IntN(40))
	inner := rng.IntN(15)
	switch kind {
	case 0, 1:
		v.each(func(out *resp.Replies) { out.Int(number) })
	case 2:
		v.each(func(out *resp.Replies) { out.Bulk(text) })
	case 3:
		v.each(func(out *resp.Replies) { out.Null() })
	case 4:
		v.each(func(out *resp.Replies) { out.NullArray() })
	case 5:
		v.each(func(out *resp.Replies) { out.Status("OK") })
	case 6:
		v.each(func(out *resp.Replies) { out.Map(inner) })
		inner *= 2
	case 7:
		v.each(func(out *resp.Replies) { out.Set(inner) })
	default:
		v.each(func(out *resp.Replies) { out.Array(inner) })
	}
	for range inner {
		if kind > 5 {
			v.add(rng, depth-1)
		}
	}
}

// TestReplies finds the ends of random replies, which come in pieces and with others behind them, and appends the replies in the
// versions of the protocol.
func TestReplies(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		v := newVersions()
		v.add(rng, 3)
		reply := v[0].From(0)
		for i, version := range []int{resp.Neutral, 2, 3} {
			if i == 0 {
				continue
			}
			var out resp.Replies
			out.SetProtocol(version)
			more := append(bytes.Clone(reply), ":1\r\n*2\r\n:1\r\n:2\r\n"...)
			if n := AppendNext(&out, more); n != len(reply) || !bytes.Equal(out.From(0), v[i].From(0)) {
				t.Fatalf("%q in version %d: got %d bytes %q, want %d, %q", reply, version, n, out.From(0), len(reply), v[i].From(0))
			}
			if cut := rng.IntN(len(reply)); AppendNext(&out, reply[:cut]) != 0 || Size(reply[:cut]) != 0 {
				t.Fatalf("%q cut to %d bytes is whole", reply, cut)
			}
		}
		var s scanner
		for have := 0; ; {
			have = min(len(reply), have+1+rng.IntN(len(reply)))
			n, err := s.next(reply[:have])
			if err != nil || n != 0 && n != len(reply) || (n == 0) != (have < len(reply)) {
				t.Fatalf("%q, %d bytes: got %d, %v", reply, have, n, err)
			}
			if n > 0 {
				break
			}
		}
	}
}

// TestBadReplies: bytes that are no reply are refused, also where they look like a short one.
func TestBadReplies(t *testing.T) {
	for _, bad := range []string{":12345\n:1234567890\r\n", ":\n:1\r\n:1\r\n:1\r\n:1\r\n", "*1\r:1\r\n:1\r\n:1\r\n:1\r\n", "?1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"} {
		var s scanner
		if n, err := s.next([]byte(bad)); err == nil {
			t.Errorf("%q: got %d bytes, want an error", bad, n)
		}
	}
}

// BenchmarkPage finds the end of a page of 20 posts with three counters each, as a link does, and appends its rows one by one, as a forward
// port does.
func BenchmarkPage(b *testing.B) {
	var page resp.Replies
	page.SetProtocol(resp.Neutral)
	page.Array(20)
	for i := range 20 {
		page.Array(3)
		for c := range 3 {
			page.Int(int64(i*c*37 + c))
		}
	}
	reply := page.From(0)
	var out resp.Replies
	for range b.N {
		var s scanner
		if n, err := s.next(reply); n != len(reply) || err != nil {
			b.Fatal(n, err)
		}
		out.Cut(0)
		for rest := Elements(reply); len(rest) > 0; {
			n := AppendNext(&out, rest)
			rest = rest[n:]
		}
	}
}
