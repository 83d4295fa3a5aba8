// Scenario: random requests of many producers, beside a model that remembers everything.

package producers

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	testseed "github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
)

var seed = testseed.Value

// check verifies what must hold of a table at any time.
func (t *Table) check() error {
	var all size
	listed := 0
	older := uint32(none)
	for number := t.oldest; number != none; number = t.places[number].newer {
		p := t.places[number]
		if p.older != older {
			return fmt.Errorf("list: %d is behind %d, which says it is behind %d", number, older, p.older)
		}
		older = number
		listed++
	}
	if older != t.newest {
		return fmt.Errorf("list ends at %d, newest is %d", older, t.newest)
	}
	found, links, linkBytes := 0, 0, int64(0)
	for number, p := range t.places {
		if p == nil {
			if uint32(number) < t.hole {
				return fmt.Errorf("number %d is free, below %d", number, t.hole)
			}
			continue
		}
		found++
		now := p.size()
		if isLink(p.id) {
			links, linkBytes = links+1, linkBytes+now.bytes
		}
		all.bytes, all.results, all.numbers = all.bytes+now.bytes, all.results+now.results, all.numbers+now.numbers
		if at, ok := t.byID[p.id]; !ok || at != uint32(number) {
			return fmt.Errorf("%q has number %d, the map says %d", p.id, number, at)
		}
		if err := p.check(); err != nil {
			return fmt.Errorf("%q: %w", p.id, err)
		}
	}
	if found != listed || found != len(t.byID) {
		return fmt.Errorf("%d producers, %d in the list, %d in the map", found, listed, len(t.byID))
	}
	if links != t.links || linkBytes != t.linkBytes {
		return fmt.Errorf("%d links of %d bytes, %d of %d counted", links, linkBytes, t.links, t.linkBytes)
	}
	if counted := (size{t.bytes, t.results, t.numbers}); all != counted {
		return fmt.Errorf("they are %+v, %+v counted", all, counted)
	}
	return nil
}

func (p *producer) check() error {
	live := 0
	for i := range p.ring.n {
		e := p.ring.at(i)
		if e.seq < p.from || i > 0 && e.seq <= p.ring.at(i-1).seq {
			return fmt.Errorf("entry %d has seq %d, from %d", i, e.seq, p.from)
		}
		if p.made.has(e.seq) {
			return fmt.Errorf("seq %d has a result, and has none", e.seq)
		}
		live += int(e.size)
		if e.size > 0 && e.value+uint64(e.size) > uint64(len(p.blobs)) {
			return fmt.Errorf("seq %d: blob [%d,+%d) of %d", e.seq, e.value, e.size, len(p.blobs))
		}
	}
	if live != p.live {
		return fmt.Errorf("blobs of %d bytes, %d counted", live, p.live)
	}
	if p.made.count > 0 && p.made.lowest() < p.from {
		return fmt.Errorf("seq %d was made, from %d", p.made.lowest(), p.from)
	}
	return p.made.check()
}

// sameAs compares what repeats are answered from: not the times of last use, which repeats change and the log does not.
func (t *Table) sameAs(o *Table) error {
	if len(t.byID) != len(o.byID) {
		return fmt.Errorf("%d and %d producers", len(t.byID), len(o.byID))
	}
	for number, p := range t.places {
		if p == nil {
			continue
		}
		q := o.at(uint32(number))
		if q == nil || p.id != q.id || p.epoch != q.epoch || p.base != q.base || p.from != q.from || p.ring.n != q.ring.n || p.made.count != q.made.count || !slices.Equal(p.made.spans, q.made.spans) {
			return fmt.Errorf("number %d: %+v and %+v", number, p, q)
		}
		for i := range p.ring.n {
			e, f := p.ring.at(i), q.ring.at(i)
			if e.seq != f.seq || e.meta != f.meta || !sameResult(p.result(e), q.result(f)) {
				return fmt.Errorf("%q: %+v and %+v", p.id, e, f)
			}
		}
	}
	return nil
}

func sameResult(a, b format.Result) bool {
	return a.Kind == b.Kind && a.N == b.N && bytes.Equal(a.Blob, b.Blob)
}

// model is a table as maps, and slow.
type model struct {
	limits    Limits
	producers map[string]*modelProducer
	stamp     int
}

type modelProducer struct {
	epoch  uint64
	done   map[uint64]modelEntry // with results
	made   map[uint64]bool       // without
	blocks map[uint64]int        // seqs of made, by block
	floor  uint64                // seqs below are expired
	used   int64
	stamp  int // order of last use
}

type modelEntry struct {
	hash   uint32
	group  uint8
	result format.Result
}

func (m *model) touch(p *modelProducer, now int64) {
	if p.used != now {
		m.stamp++
		p.used, p.stamp = now, m.stamp
	}
}

func (m *model) begin(r *Request) (Verdict, format.Result) {
	p := m.producers[string(r.ID)]
	if p == nil {
		for _, v := range m.victims(string(r.ID)) {
			if r.Now-m.producers[v].used < m.limits.MinIdle {
				return Full, format.Result{}
			}
		}
		return Fresh, format.Result{}
	}
	if r.Epoch < p.epoch {
		return Fenced, format.Result{}
	}
	if e, ok := p.done[r.Seq]; ok {
		if e.hash != r.Hash {
			return Mismatch, format.Result{}
		}
		m.touch(p, r.Now)
		return Repeat, e.result
	}
	if p.made[r.Seq] {
		m.touch(p, r.Now)
		return Repeat, format.Result{Kind: format.ResultGone}
	}
	if r.Seq < p.floor {
		return Expired, format.Result{}
	}
	return Fresh, format.Result{}
}

// victims are the producers that are forgotten for a new one: the longest idle ones, until it has room. A client has room while clients, and links above their
// share, are fewer than the limit. A link has room while links are fewer than their share, or all are fewer than both. The share of links is not for clients.
func (m *model) victims(id string) (list []string) {
	links := 0
	for v := range m.producers {
		if isLink(v) {
			links++
		}
	}
	clients, share := len(m.producers)-links, m.limits.links
	room := func() bool {
		if isLink(id) {
			return links < share || clients+links < m.limits.Producers+share
		}
		return clients+max(0, links-share) < m.limits.Producers
	}
	for _, v := range slices.SortedFunc(maps.Keys(m.producers), func(a, b string) int { return m.producers[a].stamp - m.producers[b].stamp }) {
		if room() {
			break
		}
		switch {
		case !isLink(v):
			clients--
		case isLink(id) || links > share:
			links--
		default:
			continue
		}
		list = append(list, v)
	}
	return list
}

func (m *model) producer(id string, now int64) *modelProducer {
	p := m.producers[id]
	if p == nil {
		for _, v := range m.victims(id) {
			delete(m.producers, v)
		}
		m.stamp++
		p = &modelProducer{done: map[uint64]modelEntry{}, made: map[uint64]bool{}, blocks: map[uint64]int{}, used: now, stamp: m.stamp}
		m.producers[id] = p
	}
	m.touch(p, now)
	return p
}

func (m *model) insert(r *Request, group uint8, result format.Result) {
	p := m.producer(string(r.ID), r.Now)
	p.epoch = max(p.epoch, r.Epoch)
	p.done[r.Seq] = modelEntry{r.Hash, group, result}
	if len(p.done) > Window {
		p.retire(slices.Min(slices.Collect(maps.Keys(p.done))))
	}
	if len(p.made) > maxMade {
		p.expire(slices.Min(slices.Collect(maps.Keys(p.made)))/blockSeqs + 1)
	} else if spans, end := p.spans(); spans > maxSpans {
		p.expire(end)
	}
}

// retire takes over a seq whose result goes.
func (p *modelProducer) retire(seq uint64) {
	delete(p.done, seq)
	p.made[seq] = true
	p.blocks[seq/blockSeqs]++
}

// expire forgets the seqs of blocks below.
func (p *modelProducer) expire(block uint64) {
	p.floor = block * blockSeqs
	maps.DeleteFunc(p.made, func(seq uint64, _ bool) bool { return seq < p.floor })
	maps.DeleteFunc(p.blocks, func(b uint64, _ int) bool { return b < block })
}

// spans counts the spans of made, and finds the end of the lowest; 0: there are no more than blocks, which are few. Runs of full blocks are
// shorter here than the 64 that a span has at most.
func (p *modelProducer) spans() (n int, end uint64) {
	if len(p.blocks) <= maxSpans {
		return 0, 0
	}
	last := uint64(0)
	for i, block := range slices.Sorted(maps.Keys(p.blocks)) {
		if i == 0 || block != last+1 || p.blocks[block] < blockSeqs || p.blocks[last] < blockSeqs {
			n++
		}
		if last = block; n == 1 {
			end = block + 1
		}
	}
	return n, end
}

func (m *model) compare(t *Table) error {
	for id, p := range m.producers {
		_, q := t.find([]byte(id), none)
		if q == nil || q.epoch != p.epoch || int(q.ring.n) != len(p.done) || q.from != p.floor || int(q.made.count) != len(p.made) {
			return fmt.Errorf("%q: got %+v, want %+v", id, q, p)
		}
		for seq := range p.made {
			if !q.made.has(seq) {
				return fmt.Errorf("%q: seq %d was made, and is not known", id, seq)
			}
		}
		for i := range q.ring.n {
			e := q.ring.at(i)
			want, ok := p.done[e.seq]
			if !ok || e.hash() != want.hash || e.group() != want.group || !sameResult(q.result(e), want.result) {
				return fmt.Errorf("%q seq %d: got %+v, want %+v", id, e.seq, e, want)
			}
		}
	}
	if len(m.producers) != t.Len() {
		return fmt.Errorf("got %d producers, want %d", t.Len(), len(m.producers))
	}
	return nil
}

func randomResult(rnd *rand.Rand) format.Result {
	r := format.Result{Kind: format.ResultKind(1 + rnd.IntN(6))}
	switch r.Kind {
	case format.ResultInt, format.ResultBulk:
		r.N = rnd.Uint64() >> rnd.IntN(64)
	case format.ResultBlob:
		r.Blob = make([]byte, rnd.IntN(40)*rnd.IntN(40))
		for i := range r.Blob {
			r.Blob[i] = byte(rnd.Uint32())
		}
	}
	return r
}

// TestModel: random requests against a table of maps; a second table gets what a log would have of the first, and both
// are written and read now and then.
func TestModel(t *testing.T) {
	t.Logf("-seed=%d", *seed)
	var all [Full + 1]int
	series := 0
	for run := range 20 {
		rnd := rand.New(rand.NewPCG(*seed, uint64(run)))
		limits := Limits{Producers: 1 + rnd.IntN(12), Bytes: 1 << 30, MinIdle: int64(rnd.IntN(20)), links: 1 + rnd.IntN(3), linkBytes: 1 << 20}
		tab, replica := New(limits), New(limits)
		m := model{limits: limits, producers: map[string]*modelProducer{}}
		ids, steps := 10, 6000
		if run == 0 { // as many as are remembered, and more
			ids, steps = 1, 15_000
		}
		links := rnd.IntN(2) == 0
		now, next := int64(1000), map[string]uint64{}
		hint := uint32(0)
		var seen [Full + 1]int
		for step := range steps {
			if rnd.IntN(8) == 0 {
				now += int64(rnd.IntN(4))
			}
			if rnd.IntN(60) == 0 {
				now += limits.MinIdle
			}
			id := fmt.Sprintf("producer-%d", rnd.IntN(ids))
			if links && rnd.IntN(2) == 0 {
				id = linkPrefix + id
			}
			r := Request{ID: []byte(id), Seq: next[id], Hash: uint32(rnd.IntN(1 << 21)), Now: now, Room: format.MaxResult}
			if rnd.IntN(2) == 0 {
				r.Hint = hint
			}
			if p := m.producers[id]; p != nil {
				r.Epoch = p.epoch
				if rnd.IntN(50) == 0 {
					r.Epoch += uint64(rnd.IntN(4)) - min(p.epoch, 1)
				}
			}
			switch rnd.IntN(10) {
			case 0:
				r.Seq -= min(r.Seq, uint64(rnd.IntN(1500)>>rnd.IntN(4))) // a repeat, with a result or without, or a gap
			case 1:
				r.Seq += uint64(rnd.IntN(5))
			case 3:
				if p := m.producers[id]; p != nil && len(p.done) > 0 && next[id] > 0 { // about the end of the window
					r.Seq = slices.Min(slices.Collect(maps.Keys(p.done))) + uint64(rnd.IntN(4))
					r.Seq -= min(r.Seq, uint64(rnd.IntN(4)))
				}
			case 2:
				if rnd.IntN(30) == 0 {
					r.Seq += rnd.Uint64() >> rnd.IntN(64) >> 1 // the base moves
				}
			}
			if p := m.producers[id]; p != nil && rnd.IntN(3) > 0 {
				if e, ok := p.done[r.Seq]; ok {
					r.Hash = e.hash
				}
			}
			if rnd.IntN(40) == 0 {
				fence(t, tab, replica, &m, id, now)
				continue
			}
			if n := rnd.IntN(200) >> rnd.IntN(7); rnd.IntN(20) == 0 {
				series += runSeries(t, rnd, tab, replica, &m, &r, n)
				if p := m.producers[id]; p != nil && len(p.done) > 0 {
					next[id] = max(next[id], slices.Max(slices.Collect(maps.Keys(p.done)))+1)
				}
				continue
			}
			try := begin(tab, &r)
			verdict, result := m.begin(&r)
			if try.Verdict != verdict || verdict == Repeat && !sameResult(try.Result, result) {
				t.Fatalf("run %d step %d: %+v: got %+v, want %v %+v", run, step, r, try, verdict, result)
			}
			seen[verdict]++
			if verdict == Fresh && rnd.IntN(20) == 0 {
				continue // the change was refused: nothing was logged
			}
			if hint = try.Number; try.Define && verdict <= Repeat {
				for _, n := range try.Forget {
					must(t, replica.Define(n, 0, 0, nil, now))
				}
				must(t, replica.Define(try.Number, try.Epoch, try.Base, r.ID, now))
			}
			switch verdict {
			case Repeat:
				if try.Define {
					tab.InsertFence(r.ID, &try, now, uint64(step))
					m.producers[id].epoch = r.Epoch
				}
			case Fresh:
				result, group := randomResult(rnd), uint8(rnd.Uint32())
				tab.Insert(&r, &try, result, group, uint64(step))
				if less := r.Seq - try.Base; less > MaxSeqLess {
					t.Fatalf("seq %d, base %d", r.Seq, try.Base)
				} else if !replica.Apply(try.Number, less, r.Hash, group, result, now) {
					t.Fatalf("number %d is unknown", try.Number)
				}
				m.insert(&r, group, result)
				next[id] = max(next[id], r.Seq+1)
			}
			if step%100 == 0 {
				must(t, tab.check())
				must(t, replica.check())
				must(t, m.compare(tab))
				must(t, tab.sameAs(replica))
			}
			if rnd.IntN(300) == 0 {
				tab = copyOf(t, tab)
			}
			if rnd.IntN(300) == 0 {
				replica = copyOf(t, replica)
			}
		}
		if s := tab.Stats(); s.Unknown > 0 {
			t.Fatalf("%+v", s)
		}
		for v, n := range seen {
			all[v] += n
		}
	}
	if series == 0 {
		t.Error("no request was in a series")
	}
}

// runSeries makes n requests as a series, as far as the table takes them as one. Some are refused after the look. It returns how many were new.
func runSeries(t *testing.T, rnd *rand.Rand, tab, replica *Table, m *model, r *Request, n int) (fresh int) {
	var try Try
	fresh = tab.BeginSeries(r, n, &try)
	if fresh == 0 {
		return 0
	}
	var entries []Entry
	for i := range fresh {
		one := *r
		one.Seq, one.Hash = r.Seq+uint64(i), uint32(rnd.IntN(1<<21))
		if verdict, _ := m.begin(&one); verdict != Fresh {
			t.Fatalf("series of %d from %d: seq %d is %v", n, r.Seq, one.Seq, verdict)
		}
		if rnd.IntN(30) == 0 {
			continue
		}
		result, group := format.Result{Kind: format.ResultInt, N: rnd.Uint64() >> (rnd.IntN(40) + 20)}, uint8(rnd.Uint32())
		entries = append(entries, Entry{one.Seq, result.N, one.Hash, group})
		if !replica.Apply(try.Number, one.Seq-try.Base, one.Hash, group, result, r.Now) {
			t.Fatalf("number %d is unknown", try.Number)
		}
		m.insert(&one, group, result)
		if rnd.IntN(50) == 0 {
			tab.InsertSeries(&try, entries, r.Now, 1)
			entries = entries[:0]
		}
	}
	if len(entries) > 0 {
		tab.InsertSeries(&try, entries, r.Now, 1)
	}
	return fresh
}

func fence(t *testing.T, tab, replica *Table, m *model, id string, now int64) {
	try := tab.BeginFence([]byte(id), now)
	p := m.producers[id]
	if p == nil {
		if verdict, _ := m.begin(&Request{ID: []byte(id), Now: now}); verdict != try.Verdict {
			t.Fatalf("fence: got %v, want %v", try.Verdict, verdict)
		}
		if try.Verdict == Full {
			return
		}
	}
	for _, n := range try.Forget {
		must(t, replica.Define(n, 0, 0, nil, now))
	}
	must(t, replica.Define(try.Number, try.Epoch, try.Base, []byte(id), now))
	tab.InsertFence([]byte(id), &try, now, 1)
	p = m.producer(id, now)
	if p.epoch++; try.Epoch != p.epoch {
		t.Fatalf("fence: got epoch %d, want %d", try.Epoch, p.epoch)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// copyOf writes a table and reads it back.
func copyOf(t testing.TB, tab *Table) *Table {
	image := tab.AppendImage(nil)
	if int64(len(image)) > tab.ImageBytes() {
		t.Fatalf("an image of %d bytes, at most %d were said", len(image), tab.ImageBytes())
	}
	back, err := Load(image, tab.limits)
	must(t, err)
	must(t, back.check())
	must(t, back.sameAs(tab))
	if !bytes.Equal(back.AppendImage(nil), image) {
		t.Fatal("the image of the image differs")
	}
	return back
}
