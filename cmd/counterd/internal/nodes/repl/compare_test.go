package repl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/internal/wire"
)

// newComparing is newMember for a node that compares all the time.
func newComparing(t testing.TB, id string, policy counter.SyncPolicy) *member {
	m := newMember(t, id, policy)
	m.kill()
	m.compares = time.Second
	m.start()
	return m
}

// plant gives a post of a replica other values behind its log's back. No values: it is removed.
func (m *member) plant(mid uint64, values ...uint64) bool {
	m.t.Helper()
	var rows []counter.PostRow
	if len(values) > 0 {
		rows = []counter.PostRow{{Mid: mid, Values: values}}
	}
	def := m.host.Store().Schema().Counter("w")
	were, err := counter.MendRange(m.host.Store(), counter.PostRange{Counter: def.ID, Lo: mid, Hi: mid + 1}, m.host.Store().Replication().Position(), rows)
	return err == nil && len(were) == 1
}

// TestCompare: while clients change posts, posts of two replicas are changed behind their logs' backs, in memory and in cold
// files. Each of them gets the primary's values again, and is counted; no other post is.
func TestCompare(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Next(t), 1))
	a, b, c := newComparing(t, "a", counter.SyncAlways), newComparing(t, "b", counter.SyncAlways), newComparing(t, "c", counter.SyncAlways)
	elect(t, a, b, 1, 1)
	c.follow(a, 1)
	for mid := range uint64(300) {
		if err := a.add(10 * mid); err != nil {
			t.Fatal(err)
		}
	}
	replicas := []*member{b, c}
	settled := func() bool {
		return !slices.ContainsFunc(replicas, func(m *member) bool {
			return m.host.Store().Replication().Position() != a.host.Store().Replication().Position()
		})
	}
	eventually(t, "both have all", settled)
	for _, m := range []*member{a, b} {
		for mid := uint64(500); mid < 1500; mid += 100 {
			_ = m.host.Store().Admin().Demote("w", mid)
		}
	}
	passes := func(n uint64) {
		t.Helper()
		at := a.node.Compare().Passes
		eventually(t, "all is compared", func() bool { return a.node.Compare().Passes >= at+n })
	}
	passes(2)
	if i := a.node.Compare(); i.Differences != 0 || i.Missed != 0 || i.Posts < 600 {
		t.Fatalf("%+v", i)
	}

	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for mid := uint64(1); ; mid += 7 {
			select {
			case <-stop:
				return
			default:
			}
			if err := a.add(mid % 5000); err != nil {
				t.Error(err)
				return
			}
		}
	})
	want := [2]uint64{}
	for n := range 8 {
		for i, m := range replicas {
			mid := 10 * (10*uint64(n) + rng.Uint64N(10))
			switch rng.IntN(3) {
			case 0:
				eventually(t, "a value is planted", func() bool { return m.plant(mid, 77) })
			case 1:
				eventually(t, "a post is removed", func() bool { return m.plant(mid) })
			default:
				eventually(t, "a post is made", func() bool { return m.plant(6000+mid, 3) })
			}
			want[i]++
		}
	}
	// A client may change such a post before it is found, which mends it too.
	eventually(t, "all are mended", func() bool {
		at := a.node.Compare()
		passes(2)
		return a.node.Compare().Differences == at.Differences
	})
	close(stop)
	writer.Wait()
	eventually(t, "both have all", settled)
	passes(2)
	all := digest(t, a.host.Store())
	for i, m := range replicas {
		info := m.node.Compare()
		if got := digest(t, m.host.Store()); got != all || info.Differences > want[i] || info.Mended != info.Differences || !strings.Contains(info.Last, "counter=w,mid=") {
			t.Errorf("%s: %d differences, %d mended, want %d; last %q\ngot  %s\nwant %s", m.id, info.Differences, info.Mended, want[i], info.Last, got, all)
		}
	}
	info := a.node.Compare()
	if sum := b.node.Compare().Differences + c.node.Compare().Differences; info.Differences != sum || sum < 8 {
		t.Errorf("the primary counts %d, its replicas %d, want 8 or more", info.Differences, sum)
	}
	t.Logf("%d posts planted: %+v", want[0]+want[1], info)
}

// TestCompareAll: all posts of a replica differ.
func TestCompareAll(t *testing.T) {
	a, b := newComparing(t, "a", counter.SyncAlways), newMember(t, "b", counter.SyncAlways)
	elect(t, a, b, 1, 1)
	for mid := range uint64(700) {
		if err := a.add(mid); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it has all", func() bool { return b.host.Store().Replication().Position() == a.host.Store().Replication().Position() })
	if i := a.node.Compare(); i.Ranges > 0 && i.Differences > 0 {
		t.Fatalf("%+v", i)
	}
	for mid := range uint64(700) {
		if !b.plant(mid, 1000) {
			t.Fatal("nothing is planted")
		}
	}
	b.kill() // and compares from now on
	b.compares = time.Second
	b.start()
	for mid := range uint64(700) { // a restart replays the log, but for what an image has
		b.plant(mid, 1000)
	}
	b.follow(a, 1)
	eventually(t, "all are mended", func() bool { return digest(t, b.host.Store()) == digest(t, a.host.Store()) })
	eventually(t, "each is counted", func() bool { return b.node.Compare().Mended >= 700 }) // a range is counted when its posts are mended
	if i := b.node.Compare(); i.Mended != 700 {
		t.Errorf("%+v", i)
	}
}

// TestCompareMessages: what is encoded is read back, and what is cut off or out of order is refused.
func TestCompareMessages(t *testing.T) {
	q := question{7, 99, counter.PostRange{Counter: 3, Group: 4, Lo: 10, Hi: 20}}
	if got, rest, err := parseQuestion(encodeQuestion(&q)[5:]); err != nil || got != q || len(rest) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	sums := []counter.Digest{{Items: 1, Sum: 2}, {Items: 3, Sum: 4}}
	if id, got, err := parseDigests(encodeDigests(7, sums)[5:]); err != nil || id != 7 || !slices.Equal(got, sums) {
		t.Errorf("%d, %v, %v", id, got, err)
	}
	rows := []counter.PostRow{{Mid: 10, Values: []uint64{1, 2}}, {Mid: 19, Values: []uint64{3, 4}}}
	if got, back, err := parseRows(encodeRows(&q, rows)[5:]); err != nil || got != q || fmt.Sprint(back) != fmt.Sprint(rows) {
		t.Errorf("%+v, %v, %v", got, back, err)
	}
	for n := range len(encodeRows(&q, rows)) - 5 {
		raw := encodeRows(&q, rows)[5:][:n]
		if _, back, err := parseRows(raw); err == nil && (len(back) == 2 || n < questionLen+1) {
			t.Errorf("%d bytes: %v", n, back)
		}
	}
	rows[0].Mid = 19
	if _, _, err := parseRows(encodeRows(&q, rows)[5:]); err == nil {
		t.Error("mids that do not rise are taken")
	}
	rows[0].Mid = 9
	if _, _, err := parseRows(encodeRows(&q, rows)[5:]); err == nil {
		t.Error("a mid out of the range is taken")
	}
	rows[0].Mid, rows[1].Mid = 10, 20
	if _, _, err := parseRows(encodeRows(&q, rows)[5:]); err == nil {
		t.Error("a mid behind the range is taken")
	}
	for n := range 8 + 16 {
		if _, _, err := parseDigests(encodeDigests(7, sums)[5:][:n]); (err == nil) != (n == 8) {
			t.Errorf("digests of %d bytes: %v", n, err)
		}
	}
	long := binary.LittleEndian.AppendUint32(nil, maxCompareMessage+1)
	if _, err := readCompare(wire.NewReader(bytes.NewReader(long), 4<<10)); !errors.Is(err, ErrProtocol) {
		t.Errorf("a message that is too long: %v", err)
	}
}

// TestCompareOlder: a replica of an older build is never asked.
func TestCompareOlder(t *testing.T) {
	a := newComparing(t, "a", counter.SyncAlways)
	a.lead(1)
	a.schema()
	p := a.node.Peers().NewPeer(&scripted{})
	defer p.Close()
	if err := p.Configure("capa", []byte("counterd1")); err != nil {
		t.Fatal(err)
	}
	if p.takesCompare || len(a.node.peers.comparer.online()) != 0 {
		t.Error("it is asked")
	}
}

// TestCompareJudges: posts of a primary are changed behind its log's back. The log says that the primary is wrong: it takes
// back what the log has, and the replica keeps what it has.
func TestCompareJudges(t *testing.T) {
	a, b := newComparing(t, "a", counter.SyncAlways), newComparing(t, "b", counter.SyncAlways)
	elect(t, a, b, 1, 1)
	for mid := range uint64(100) {
		if err := a.add(mid); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it has all", func() bool { return b.host.Store().Replication().Position() == a.host.Store().Replication().Position() })

	for mid, values := range map[uint64][]uint64{3: {77}, 40: nil, 1000: {1}} {
		eventually(t, "it is planted", func() bool { return a.plant(mid, values...) })
	}
	eventually(t, "the log wins", func() bool { return a.get(3) == 1 && a.get(40) == 1 })
	eventually(t, "both are the same", func() bool { return digest(t, a.host.Store()) == digest(t, b.host.Store()) })
	if a.get(3) != 1 || a.get(40) != 1 || b.get(3) != 1 || b.get(40) != 1 {
		t.Errorf("the primary has %d and %d, its replica %d and %d, want 1", a.get(3), a.get(40), b.get(3), b.get(40))
	}
	at := a.node.Compare().Passes
	eventually(t, "all is compared", func() bool { return a.node.Compare().Passes >= at+2 })
	if i := a.node.Compare(); i.Differences < 2 || i.Mended != i.Differences || !i.Recently() {
		t.Errorf("%+v", i)
	}
}
