package feedjoin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// entry is a change of a simulated log: the post has a value from now on, or came from another shard.
type entry struct {
	post, value int
	gain        *Gain
}

// model is a cluster whose posts move between shards. Each shard has a log, one offset a change.
type model struct {
	mu       sync.Mutex
	rng      *rand.Rand
	logs     map[uint64][]entry
	first    map[uint64]int // the oldest entry that is kept
	owner    []uint64       // by post
	values   []int
	slow     uint64 // a shard whose replies take long
	headless uint64 // a shard without a primary: its number is not known
	fails    bool
}

func newModel(rng *rand.Rand, shards, posts int) *model {
	m := &model{rng: rng, logs: map[uint64][]entry{}, first: map[uint64]int{}, owner: make([]uint64, posts), values: make([]int, posts)}
	for id := range shards {
		m.logs[uint64(id+1)] = nil
	}
	for post := range m.owner {
		m.owner[post] = 1
	}
	return m
}

// step increments a post, or moves it.
func (m *model) step() {
	m.mu.Lock()
	defer m.mu.Unlock()
	post := m.rng.IntN(len(m.owner))
	at := m.owner[post]
	if m.rng.IntN(8) == 0 {
		to := uint64(m.rng.IntN(len(m.logs)) + 1)
		if to != at {
			gain := &Gain{Groups: fmt.Sprint(post), From: at, Offset: uint64(len(m.logs[at]))}
			m.logs[to] = append(m.logs[to], entry{gain: gain})
			m.owner[post] = to
		}
		return
	}
	m.values[post]++
	m.logs[at] = append(m.logs[at], entry{post: post, value: m.values[post]})
}

func (m *model) total() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.values {
		n += v
	}
	return n
}

func offsetText(n int) string {
	p := counter.FeedPosition{Frame: uint64(n)}
	return p.String()
}

var errModel = errors.New("the node does not answer")

func (m *model) Shards(context.Context) ([]uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails && m.rng.IntN(4) == 0 {
		return nil, errModel
	}
	ids, err := []uint64{}, error(nil)
	for id := range m.logs {
		if id == m.headless {
			err = errModel
			continue
		}
		ids = append(ids, id)
	}
	return ids, err
}

func (m *model) Ends(_ uint64, _ string, err error) error {
	if gone := Refusal(err.Error(), err); gone != nil {
		return gone
	}
	return nil
}

func (m *model) Reader(_ context.Context, shard uint64) (Reader[entry], error) {
	return &modelReader{m, shard}, nil
}

type modelReader struct {
	m     *model
	shard uint64
}

func (r *modelReader) Close() {}

func (r *modelReader) Read(ctx context.Context, from string) (reply Reply[entry], err error) {
	m := r.m
	m.mu.Lock()
	pause := time.Duration(m.rng.IntN(20)) * time.Millisecond
	if m.slow == r.shard {
		pause += 300 * time.Millisecond
	}
	_, known := m.logs[r.shard]
	fails := m.fails && m.rng.IntN(5) == 0 || !known
	m.mu.Unlock()
	if !sleep.For(ctx, pause) {
		return reply, ctx.Err()
	}
	if fails {
		return reply, errModel
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	log := m.logs[r.shard]
	offset, ok := Offset(from)
	at := int(offset)
	switch {
	case from == Now:
		return Reply[entry]{Next: offsetText(len(log))}, nil
	case !ok:
		return reply, fmt.Errorf("ERR not a position: %s", from)
	case at < m.first[r.shard]:
		return reply, fmt.Errorf("POSGONE %s no longer kept", offsetText(m.first[r.shard]))
	}
	for end := min(len(log), at+1+m.rng.IntN(7)); at < end; at++ {
		c := Change[entry]{Position: offsetText(at + 1), Value: log[at]}
		if log[at].gain != nil {
			c.Gains = []Gain{*log[at].gain}
		}
		reply.Changes = append(reply.Changes, c)
	}
	reply.Next = offsetText(at)
	return reply, nil
}

// consumer checks that each value of a post is the one behind the last.
type consumer struct {
	seen     []int
	total    int
	position string
}

func (c *consumer) take(b *Batch[entry], i int) error {
	e := b.Changes[i].Value
	c.position = b.Position(i)
	if e.gain != nil {
		return nil
	}
	if c.seen[e.post]++; c.seen[e.post] != e.value {
		return fmt.Errorf("post %d has %d of shard %d, want %d", e.post, e.value, b.Shard, c.seen[e.post])
	}
	c.total++
	return nil
}

// TestFeed: a consumer that ends now and then, and goes on from its last position, sees each value of each post once and in order, while
// posts move between shards one of which is slow, and nodes fail.
func TestFeed(t *testing.T) {
	for range 6 {
		synctest.Test(t, testFeed)
	}
}

func testFeed(t *testing.T) {
	rng := seed.Rand(t) // that of the consumer; the writer and the shards draw from their own
	m := newModel(rand.New(rand.NewPCG(rng.Uint64(), 0)), 3, 12)
	m.slow, m.fails = uint64(1+rng.IntN(3)), rng.IntN(2) == 0
	for range 300 { // all at once, as behind an outage: the place that a gain waits for is far behind
		m.step()
	}
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		for range 600 {
			m.step()
			time.Sleep(2 * time.Millisecond)
		}
	}()
	c := &consumer{seen: make([]int, 12), position: Oldest}
	for done := false; !done; {
		f, err := Open(t.Context(), m, Options{From: c.position})
		if err != nil {
			t.Fatal(err)
		}
		for left := 20 + rng.IntN(200); left > 0 && !done; {
			b, err := f.Next()
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Changes {
				if err := c.take(&b, i); err != nil {
					t.Fatal(err)
				}
				if left--; left == 0 {
					break
				}
			}
			if len(b.Changes) == 0 && f.Settled() {
				c.position = f.Position()
			}
			select {
			case <-stop:
				done = c.total == m.total()
			default:
			}
		}
		f.Close()
	}
}

// TestNow: no change is given before the place of each shard is known, so a consumer that goes on from the first change that it saw misses
// none of another shard.
func TestNow(t *testing.T) { synctest.Test(t, testNow) }

func testNow(t *testing.T) {
	m := newModel(seed.Rand(t), 2, 1)
	m.slow = 2
	f, err := Open(t.Context(), m, Options{From: Now})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range 100 {
			m.step()
			time.Sleep(10 * time.Millisecond)
		}
	}()
	for range 10 {
		b, err := f.Next()
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Changes {
			p, err := ParsePosition(b.Position(i))
			if _, ok := p.Sum(); err != nil || !ok || len(p) != 2 {
				t.Errorf("a change at %q, %v: want a place of each shard", b.Position(i), err)
			}
		}
	}
	f.Close()
	time.Sleep(2 * time.Second) // the writer's end
}

// TestOldest: where the logs no longer have their beginning, a feed begins at the oldest that there is; a position further behind ends it.
func TestOldest(t *testing.T) { synctest.Test(t, testOldest) }

func testOldest(t *testing.T) {
	m := newModel(seed.Rand(t), 2, 1)
	for range 50 {
		m.logs[1] = append(m.logs[1], entry{value: len(m.logs[1]) + 1})
	}
	m.first[1] = 20
	f, err := Open(t.Context(), m, Options{From: Oldest, Polls: true})
	if err != nil {
		t.Fatal(err)
	}
	var values []int
	for !f.CaughtUp() {
		b, err := f.Next()
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Changes {
			values = append(values, b.Changes[i].Value.value)
		}
	}
	end := f.Position()
	f.Close()
	if len(values) != 30 || values[0] != 21 || end != (Position{1: offsetText(50), 2: offsetText(0)}).String() {
		t.Errorf("got %v, at %s", values, end)
	}
	f, err = Open(t.Context(), m, Options{From: Position{1: offsetText(5), 2: offsetText(0)}.String()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Next()
	}
	gone, ok := errors.AsType[*PositionError](err)
	if !ok || gone.Shard != 1 || gone.Next != (Position{1: offsetText(20), 2: offsetText(0)}).String() || gone.At != (Position{1: offsetText(5), 2: offsetText(0)}).String() {
		t.Errorf("got %+v", err)
	}
}

// TestShardLeft: a gain of a shard that has left is an error.
func TestShardLeft(t *testing.T) { synctest.Test(t, testShardLeft) }

func testShardLeft(t *testing.T) {
	m := newModel(seed.Rand(t), 1, 1)
	m.logs[1] = []entry{{gain: &Gain{From: 9, Offset: 5}}}
	f, err := Open(t.Context(), m, Options{From: Oldest})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Next()
	}
	if !errors.Is(err, ErrShardLeft) {
		t.Errorf("got %v", err)
	}
}

// TestShardLeftAndRead: a feed whose position names a shard that has left goes on with the others, and comes to its end. A gain in front of which changes of that
// shard were not read is an error, behind all changes before it.
func TestShardLeftAndRead(t *testing.T) {
	for _, read := range []int{5, 4} {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(seed.Rand(t), 1, 1)
			m.logs[1] = []entry{{value: 1}, {gain: &Gain{From: 2, Offset: 5}}, {value: 2}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of the simulated clock
			defer cancel()
			f, err := Open(ctx, m, Options{From: Position{1: offsetText(0), 2: offsetText(read)}.String(), Polls: true})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			sum := 0
			for err == nil && !f.CaughtUp() {
				var b Batch[entry]
				b, err = f.Next()
				for i := range b.Changes {
					sum += b.Changes[i].Value.value
				}
			}
			if want := (Position{1: offsetText(3), 2: offsetText(5)}).String(); read == 5 && (err != nil || sum != 3 || f.Position() != want) {
				t.Errorf("all of the shard was read: got %d, %v at %s, want all changes, and the end at %s", sum, err, f.Position(), want)
			}
			if read == 4 && (!errors.Is(err, ErrShardLeft) || sum != 1) {
				t.Errorf("the last change of the shard was not read: got %d and %v, want the changes in front of the gain and ErrShardLeft", sum, err)
			}
		})
	}
}

// TestHeadless: a feed begins when it knows all shards, also a shard without a primary for a while. Where it has a position, it gives the changes
// of the others meanwhile, and a gain of such a shard waits.
func TestHeadless(t *testing.T) { synctest.Test(t, testHeadless) }

func testHeadless(t *testing.T) {
	m := newModel(seed.Rand(t), 2, 1)
	m.logs[2] = []entry{{value: 1}, {value: 2}}
	lead := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.headless = 0
		m.logs[2] = append(m.logs[2], entry{value: 3})
	}
	m.headless = 2
	time.AfterFunc(10*time.Second, lead)
	f, err := Open(t.Context(), m, Options{From: Now})
	if err != nil {
		t.Fatal(err)
	}
	for !f.CaughtUp() {
		b, err := f.Next()
		if err != nil || len(b.Changes) > 0 && b.Changes[0].Value.value < 3 {
			t.Fatalf("got %v, %v, want no change that was made before", b.Changes, err)
		}
	}
	f.Close()
	m.headless = 2
	m.logs[1] = []entry{{value: 7}, {gain: &Gain{From: 2, Offset: 2}}}
	f, err = Open(t.Context(), m, Options{From: Position{1: offsetText(0)}.String()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var values []int
	for len(values) < 5 {
		b, err := f.Next()
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Changes {
			if values = append(values, b.Changes[i].Value.value); len(values) == 1 {
				time.AfterFunc(10*time.Second, lead)
			}
		}
	}
	if fmt.Sprint(values[:3]) != "[7 1 2]" {
		t.Errorf("got the values %v, want those of the shard that the gain names in front of it", values)
	}
}

// TestCaughtUpWithNewShard: a feed that is to end where it has caught up waits for a shard that its position does not name and that has no primary now.
func TestCaughtUpWithNewShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(seed.Rand(t), 2, 1)
		m.logs[1], m.logs[2] = []entry{{value: 1}}, []entry{{value: 2}}
		m.headless = 2
		time.AfterFunc(10*time.Second, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.headless = 0
		})
		f, err := Open(t.Context(), m, Options{From: Position{1: offsetText(0)}.String(), Polls: true})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		sum := 0
		for !f.CaughtUp() {
			b, err := f.Next()
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Changes {
				sum += b.Changes[i].Value.value
			}
		}
		if sum != 3 {
			t.Errorf("the sum of the values is %d, want 3, as both shards have a change", sum)
		}
	})
}

// cursors are the cursors of a cluster.
type cursors struct {
	*model
	at map[uint64]string
}

func (c *cursors) Do(_ context.Context, shard uint64, words ...string) (string, bool, error) {
	if words[1] == "SET" {
		if shard == 3 {
			return "", false, errModel
		}
		c.at[shard] = words[3]
		return "OK", true, nil
	}
	text, ok := c.at[shard]
	return text, ok, nil
}

// TestCursor: each shard has its own place.
func TestCursor(t *testing.T) {
	c := &cursors{newModel(seed.Rand(t), 3, 1), map[uint64]string{}}
	if at, err := Cursor(t.Context(), c, "search"); at != "" || err != nil {
		t.Errorf("got %q, %v", at, err)
	}
	want := Position{1: offsetText(5), 2: offsetText(9)}.String()
	if err := SetCursor(t.Context(), c, "search", want); err != nil {
		t.Error(err)
	}
	if at, err := Cursor(t.Context(), c, "search"); at != want || err != nil {
		t.Errorf("got %q, %v, want %q", at, err, want)
	}
	c.headless = 2
	if at, err := Cursor(t.Context(), c, "search"); !errors.Is(err, errModel) {
		t.Errorf("a shard has no primary: got %q, %v", at, err)
	}
	if err := SetCursor(t.Context(), c, "search", Position{1: offsetText(6), 3: offsetText(1)}.String()); !errors.Is(err, errModel) || c.at[1] != offsetText(6) {
		t.Errorf("one of two shards: got %v, %v", err, c.at)
	}
	c.headless = 0
	delete(c.logs, 3)
	if err := SetCursor(t.Context(), c, "search", Position{1: offsetText(7), 3: offsetText(1)}.String()); err != nil || c.at[1] != offsetText(7) {
		t.Errorf("a shard has left: got %v, %v", err, c.at)
	}
}
