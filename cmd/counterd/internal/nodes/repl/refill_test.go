package repl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// asked is a node whose only helper answers REPLCONF rows as a test says. words are those behind rows.
type asked struct {
	*testHost
	node  *Node
	asks  int
	reply func(words []string) string
}

func newAsked(t *testing.T, h *testHost) *asked {
	a := &asked{testHost: h}
	connect := func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		a.asks++
		go func() {
			defer far.Close()
			r := wire.NewReader(far, 4<<10)
			for {
				v, err := r.ReadValue()
				if err != nil || len(v.Array) < 3 {
					return
				}
				words := make([]string, len(v.Array)-2)
				for i := range words {
					words[i] = v.Array[i+2].Text()
				}
				if _, err := far.Write([]byte(a.reply(words))); err != nil {
					return
				}
			}
		}()
		return near, nil
	}
	a.node = NewNode(h, func() Settings { return Settings{Timeout: time.Minute, Connect: connect, FS: h.disk()} }, slog.New(slog.DiscardHandler))
	a.node.refills.retry = map[counter.PostRange]time.Time{}
	a.node.link = &Link{primary: Address{"helper", 1}, state: LinkConnected}
	return a
}

// replyBy has another node answer by a function of its side. An error is answered with a code.
func (a *asked) replyBy(n *Node, give func(*Node, [][]byte) ([]byte, error), code string) {
	a.reply = func(words []string) string {
		var raw [][]byte
		for _, w := range words {
			raw = append(raw, []byte(w))
		}
		got, err := give(n, raw)
		if err != nil {
			return fmt.Sprintf("-%s %s\r\n", code, strings.ReplaceAll(err.Error(), "\n", " "))
		}
		return fmt.Sprintf("$%d\r\n%s\r\n", len(got), got)
	}
}

// posts is the answer with some posts of a range at an offset.
func posts(at uint64, r counter.PostRange, rows []counter.PostRow) string {
	raw := encodeRows(&question{at: at, r: r}, rows)[5:]
	return fmt.Sprintf("$%d\r\n%s\r\n", len(raw), raw)
}

// damagedHost is a store with a range whose cold file is damaged, and the posts that it had.
func damagedHost(t *testing.T) (h *testHost, r counter.PostRange, rows []counter.PostRow) {
	t.Helper()
	h = &testHost{t: t, sim: vfs.NewSim()}
	s := h.open()
	if _, err := s.Replication().Lead(); err != nil {
		t.Fatal(err)
	}
	if err := s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if err := s.Set(fmt.Sprintf("%d.n", i), uint64(i*1000)); err != nil {
			t.Fatal(err)
		}
	}
	h.commit()
	if err := s.Admin().Demote("w", 0); err != nil {
		t.Fatal(err)
	}
	r = counter.PostRange{Counter: s.Schema().Counter("w").ID, Hi: 1 << 62}
	if err := counter.NewRangeCopier(s).Rows(r, 1<<20, func(part counter.PostRange, _ uint64, all []counter.PostRow) { r, rows = part, all }); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Snapshot(), s.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := h.sim.List("data/cold")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		file, err := h.sim.OpenRW("data/cold/" + name)
		if err != nil {
			t.Fatal(err)
		}
		size, err := file.Size()
		if err == nil { // in a page: header, index and footer are whole
			_, err = file.WriteAt([]byte{0x55, 0xaa, 0x55}, size/3)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s = h.open()
	for _, row := range rows {
		_, _, _ = s.Get(fmt.Sprintf("%d.n", row.Mid))
	}
	found := counter.DamagedRanges(s)
	if !slices.Contains(found, r) || len(rows) == 0 {
		t.Fatalf("damaged: %+v, want %+v with posts", found, r)
	}
	t.Cleanup(func() { _ = h.Store().Close() })
	return h, r, rows
}

// TestRows: a node gives posts of its own history alone, at an offset that it has reached, and none while it heals.
func TestRows(t *testing.T) {
	h := newWorld(t).primary
	n := newTestNode(h)
	store := h.Store()
	end := h.commit()
	id := store.Schema().Counter("w").ID
	ask := func(term string, since uint64, counter string) ([]byte, error) {
		words := []string{term, strconv.FormatUint(since, 10), counter, "0", "0", "1000000"}
		raw := make([][]byte, len(words))
		for i := range words {
			raw[i] = []byte(words[i])
		}
		return Rows(n, raw)
	}
	own := strconv.FormatUint(uint64(id), 10)
	raw, err := ask(termOf(store), end, own)
	if err != nil {
		t.Fatal(err)
	}
	q, _, err := parseRows(raw)
	if err != nil || q.at < end || q.r.Counter != id || q.r.Lo != 0 || q.r.Hi == 0 {
		t.Errorf("%+v, %v", q, err)
	}
	var later *notYetError
	if _, err := ask(termOf(store), store.Replication().Position()+1, own); !errors.As(err, &later) {
		t.Errorf("posts of an offset that is to come: %v", err)
	}
	if _, err := ask(format.NewReplID().String(), end, own); err == nil || !strings.HasPrefix(err.Error(), "NOMASTERLINK the log") {
		t.Errorf("posts of another history: %v", err)
	}
	for _, bad := range []string{"4294967296", "-1", "w"} {
		if _, err := ask(termOf(store), end, bad); !errors.Is(err, ErrProtocol) {
			t.Errorf("counter %s: %v", bad, err)
		}
	}
	n.healing.now.Store(&format.Healing{Reason: "a bad page"})
	if _, err := ask(termOf(store), end, own); err == nil || !strings.HasPrefix(err.Error(), "NOMASTERLINK the data") {
		t.Errorf("posts of a node that heals: %v", err)
	}
}

// TestFetchedPosts: answers are put together, and refused where they are not about the range that was asked for, or older than the
// question.
func TestFetchedPosts(t *testing.T) {
	h := &testHost{t: t, sim: vfs.NewSim()}
	h.open()
	defer h.Store().Close()
	a := newAsked(t, h)
	r := counter.PostRange{Counter: 3, Lo: 10, Hi: 90}
	half := func(lo, hi uint64) counter.PostRange { return counter.PostRange{Counter: 3, Lo: lo, Hi: hi} }
	row := func(mid uint64) []counter.PostRow { return []counter.PostRow{{Mid: mid, Values: []uint64{mid}}} }
	waits := 0
	a.reply = func(words []string) string {
		if waits++; waits == 1 {
			return "-NOTYET 4\r\n"
		}
		if words[4] == "10" {
			return posts(140, half(10, 50), row(20))
		}
		return posts(120, half(50, 90), row(60))
	}
	rows, at, err := a.node.refills.fetch(t.Context(), Address{}, "term", 100, r)
	if err != nil || at != 140 || len(rows) != 2 || rows[0].Mid != 20 || rows[1].Mid != 60 {
		t.Fatalf("%v at %d, %v", rows, at, err)
	}
	other := r
	other.Counter = 4
	group := r
	group.Group = 1
	for name, reply := range map[string]string{
		"another counter": posts(140, other, nil),
		"another group":   posts(140, group, nil),
		"from elsewhere":  posts(140, half(11, 90), nil),
		"from before":     posts(140, half(9, 90), nil),
		"beyond the end":  posts(140, half(10, 91), nil),
		"nothing":         posts(140, half(10, 10), nil),
		"old posts":       posts(99, r, nil),
	} {
		a.reply = func([]string) string { return reply }
		if rows, _, err := a.node.refills.fetch(t.Context(), Address{}, "term", 100, r); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v, %v", name, rows, err)
		}
	}
}

// TestRefill: a range whose file is damaged gets the posts of the other node, and a snapshot has them. They are asked for at the
// offset where this log ends.
func TestRefill(t *testing.T) {
	h, r, rows := damagedHost(t)
	a := newAsked(t, h)
	log := h.Store().Replication()
	a.reply = func(words []string) string {
		if words[1] != strconv.FormatUint(log.Position(), 10) || words[0] != termOf(h.Store()) {
			t.Errorf("asked %v, the log ends at %d", words, log.Position())
		}
		lo, _ := strconv.ParseUint(words[4], 10, 64)
		hi, _ := strconv.ParseUint(words[5], 10, 64)
		part := counter.PostRange{Counter: r.Counter, Lo: lo, Hi: hi}
		return posts(log.Position(), part, slices.DeleteFunc(slices.Clone(rows), func(row counter.PostRow) bool { return row.Mid < lo || row.Mid >= hi }))
	}
	before := log.Manifests()[0].Generation
	a.node.refills.all(t.Context())
	if n := a.node.Refilled(); n.Ranges == 0 || n.Posts < uint64(len(rows)) || n.Failed != 0 {
		t.Errorf("%+v", n)
	}
	if found := counter.DamagedRanges(h.Store()); len(found) > 0 {
		t.Errorf("still damaged: %+v", found)
	}
	if now := log.Manifests()[0].Generation; now == before {
		t.Error("no snapshot: the next start meets the damage again")
	}
	h.again()
	var got []counter.PostRow
	err := counter.NewRangeCopier(h.Store()).Rows(r, 1<<20, func(_ counter.PostRange, _ uint64, all []counter.PostRow) { got = all })
	if err != nil || fmt.Sprint(got) != fmt.Sprint(rows) {
		t.Errorf("%v\nwant %v, %v", got, rows, err)
	}
}

// TestRefillOfAnotherTerm: a term begins while the posts are on their way. The log behind the question may be of another writer then,
// so they are not taken. The range rests before it is asked for again.
func TestRefillOfAnotherTerm(t *testing.T) {
	h, r, rows := damagedHost(t)
	a := newAsked(t, h)
	a.reply = func(words []string) string {
		if _, err := h.Store().Replication().Lead(); err != nil {
			t.Error(err)
		}
		lo, _ := strconv.ParseUint(words[4], 10, 64)
		hi, _ := strconv.ParseUint(words[5], 10, 64)
		return posts(h.Store().Replication().Position(), counter.PostRange{Counter: r.Counter, Lo: lo, Hi: hi}, rows)
	}
	if _, _, err := a.node.refills.one(t.Context(), h.Store(), r); !errors.Is(err, counter.ErrElsewhere) {
		t.Errorf("posts of another term: %v", err)
	}
	a.node.refills.all(t.Context())
	asks := a.asks
	if failed := a.node.Refilled().Failed; failed == 0 || len(a.node.refills.retry) == 0 {
		t.Fatalf("%d failures, %d ranges rest", failed, len(a.node.refills.retry))
	}
	a.node.refills.all(t.Context())
	if a.asks != asks {
		t.Error("asked again at once")
	}
	if found := counter.DamagedRanges(h.Store()); !slices.Contains(found, r) {
		t.Errorf("the posts were taken: %+v", found)
	}
}

// TestRefillFromOlder: a primary of an older version does not know the question for posts of a range. The link asks it for a full copy
// instead, behind a few attempts.
func TestRefillFromOlder(t *testing.T) {
	h, _, _ := damagedHost(t)
	a := newAsked(t, h)
	a.reply = func([]string) string { return "-ERR Unrecognized REPLCONF option: rows\r\n" }
	for i := range mendBehind {
		if a.node.link.wantMend.Load() {
			t.Errorf("a copy is asked for behind %d attempts, want %d", i, mendBehind)
		}
		clear(a.node.refills.retry) // the rest is over
		a.node.refills.all(t.Context())
	}
	if n := a.node.Refilled(); !a.node.link.wantMend.Load() || n.Ranges != 0 || a.asks != mendBehind {
		t.Errorf("a copy is asked for: %t; %d asks, %+v", a.node.link.wantMend.Load(), a.asks, n)
	}
}

// TestRefillFailureOnce: a node without replicas cannot fill a range, and tries again and again. It logs that once.
func TestRefillFailureOnce(t *testing.T) {
	h, r, _ := damagedHost(t)
	var text strings.Builder
	n := NewNode(h, func() Settings { return Settings{Timeout: time.Minute, FS: h.disk()} }, slog.New(slog.NewTextHandler(&text, nil)))
	for range 5 {
		clear(n.refills.retry) // the rest is over
		n.refills.all(t.Context())
	}
	if failed, lines := n.Refilled().Failed, strings.Count(text.String(), "cannot be filled"); failed != 5 || lines != 1 {
		t.Errorf("%d failures, want 5; logged %d times, want once: %s", failed, lines, text.String())
	}
	if n.refills.news(r, errNoHelper) || !n.refills.news(r, counter.ErrElsewhere) {
		t.Error("another failure is to be logged, and the same is not")
	}
}
