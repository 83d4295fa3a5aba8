package bench

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/counterd/counterd/bench/postgen"
	"github.com/counterd/counterd/internal/testkit/racetest"
)

func testWorkload(t testing.TB, name string, data *Dataset) Workload {
	t.Helper()
	trace, err := postgen.NewTrace([]uint64{50, 10, 50, 30, 10, 50})
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWorkload(name, WorkloadOptions{Data: data, Seed: 5, Page: 20, Trace: trace, Touched: 1})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// draw returns n operations of a client, as text.
func draw(w Workload, client, clients, n int) []string {
	stream := w.Stream(client, clients)
	var op Op
	var ops []string
	for range n {
		if !stream.Next(&op) {
			break
		}
		switch op.Kind {
		case OpPage:
			ops = append(ops, fmt.Sprint("page", op.Page))
		case OpRow:
			ops = append(ops, fmt.Sprint("row", op.Post))
		default:
			ops = append(ops, fmt.Sprint(op.Kind, op.Post, op.Col))
		}
	}
	return ops
}

// TestStreamsRepeat checks what verifying a run stands on: a stream drawn again is the same.
func TestStreamsRepeat(t *testing.T) {
	racetest.Skip(t, "one goroutine draws long streams")
	data := testData(t, 10_000)
	for _, described := range Workloads() {
		name := described[0]
		if name == "load" {
			continue // its clients share the posts as they come
		}
		first := draw(testWorkload(t, name, data), 3, 8, 2000)
		again := draw(testWorkload(t, name, data), 3, 8, 2000)
		if len(first) != 2000 || !slices.Equal(first, again) {
			t.Errorf("%s: %d operations differ from the %d drawn again", name, len(first), len(again))
		}
		if name != "replay" && slices.Equal(first, draw(testWorkload(t, name, data), 4, 8, 2000)) {
			t.Errorf("%s: two clients do the same", name)
		}
	}
}

func TestLoadCoversAll(t *testing.T) {
	data := testData(t, 1003)
	w := testWorkload(t, "load", data)
	a, b := w.Stream(0, 2), w.Stream(1, 2)
	seen := make([]int, 1003)
	var op Op
	for more := true; more; {
		moreA, moreB := a.Next(&op), false
		if moreA {
			seen[op.Post]++
		}
		if moreB = b.Next(&op); moreB {
			seen[op.Post]++
		}
		more = moreA || moreB
	}
	for i, n := range seen {
		if n != 1 {
			t.Fatalf("post %d was loaded %d times", i, n)
		}
	}
}

// TestMixed checks the parts of the operations, and that a client reads and increments only posts that are surely
// there, its newest among them.
func TestMixed(t *testing.T) {
	data := testData(t, 10_000)
	w := testWorkload(t, "mixed", data)
	const n, client, clients = 200_000, 2, 5
	stream := w.Stream(client, clients)
	var op Op
	count, added, young := map[OpKind]int{}, map[int]bool{}, 0
	for range n {
		stream.Next(&op)
		count[op.Kind]++
		switch op.Kind {
		case OpRow:
			if (op.Post-data.Loaded)%clients != client || op.Post < data.Loaded || added[op.Post] {
				t.Fatalf("client %d of %d added post %d", client, clients, op.Post)
			}
			added[op.Post] = true
		case OpIncr:
			if op.Post >= data.Loaded && !added[op.Post] {
				t.Fatalf("post %d was incremented and not there", op.Post)
			}
		case OpPage:
			for _, post := range op.Page {
				if post < 0 || post >= data.Loaded && !added[post] {
					t.Fatalf("post %d is on a page and not there", post)
				}
				if post >= data.Loaded {
					young++
				}
			}
		}
	}
	if young < count[OpPage] {
		t.Errorf("%d of the posts on %d pages are new ones, want more", young, count[OpPage])
	}
	for kind, want := range map[OpKind]float64{OpPage: 0.95, OpIncr: 0.05, OpRow: 0.0025} {
		if part := float64(count[kind]) / n; math.Abs(part-want) > 0.1*want {
			t.Errorf("operations of kind %d: %.4f, want %.4f", kind, part, want)
		}
	}
}

func TestCold(t *testing.T) {
	data := testData(t, 10_000)
	stream := testWorkload(t, "cold", data).Stream(0, 1)
	var op Op
	newest := 0
	for range 5000 {
		stream.Next(&op)
		for _, post := range op.Page {
			newest = max(newest, post)
		}
	}
	if newest > 9000 || newest < 8900 {
		t.Errorf("the newest post read is %d, want one just below 9000", newest)
	}
}

// TestFirehose checks that every post comes once, nearly in order, and a few very late.
func TestFirehose(t *testing.T) {
	data := testData(t, 100)
	w := testWorkload(t, "firehose", data)
	const clients, each = 4, 100_000
	streams := make([]Stream, clients)
	for i := range streams {
		streams[i] = w.Stream(i, clients)
	}
	seen := map[int]bool{}
	highest, below, veryLateSeen := 0, 0, 0
	var op Op
	for range each {
		for _, stream := range streams {
			stream.Next(&op)
			if op.Kind != OpRow || op.Post < data.Loaded || seen[op.Post] {
				t.Fatalf("operation %+v, a second time: %v", op, seen[op.Post])
			}
			seen[op.Post] = true
			if op.Post < highest {
				below++
			}
			if op.Post < highest-lateBy/2 {
				veryLateSeen++
			}
			highest = max(highest, op.Post)
		}
	}
	const total = clients * each
	if part := float64(below) / total; part < 0.6 || part > 0.95 {
		t.Errorf("%.3f of the posts came below the highest, want about 0.73", part)
	}
	if part := float64(veryLateSeen) / total; part < 0.003 || part > 0.006 {
		t.Errorf("%.4f of the posts came very late, want 0.005", part)
	}
	missing := 0
	for i := data.Loaded; i < highest-2*lateBy; i++ {
		if !seen[i] {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d posts never came", missing)
	}
}

func TestReplay(t *testing.T) {
	w := testWorkload(t, "replay", testData(t, 10))
	if posts := w.Posts(); posts.Len() != 3 || posts.MID(0) != 10 || posts.MID(2) != 50 {
		t.Fatalf("posts %v", posts)
	}
	// Client 0 of 2 has the events 0, 2, 4 over and over: posts 50, 50, 10.
	if got := draw(w, 0, 2, 4); !slices.Equal(got, []string{"1 2 1", "1 2 1", "1 0 1", "1 2 1"}) {
		t.Errorf("operations %q", got)
	}
}

func TestUniform(t *testing.T) {
	data := testData(t, 1000)
	w, err := NewWorkload("incr", WorkloadOptions{Data: data, Seed: 1, Uniform: true})
	if err != nil {
		t.Fatal(err)
	}
	stream, hits := w.Stream(0, 1), make([]int, 1000)
	var op Op
	for range 100_000 {
		stream.Next(&op)
		hits[op.Post]++
	}
	if low, high := slices.Min(hits), slices.Max(hits); low < 50 || high > 160 {
		t.Errorf("posts were chosen %d to %d times, want about 100", low, high)
	}
}

func TestUnknownWorkload(t *testing.T) {
	if _, err := NewWorkload("nothing", WorkloadOptions{Data: testData(t, 1)}); err == nil {
		t.Error("no error")
	}
	if _, err := NewWorkload("replay", WorkloadOptions{Data: testData(t, 1)}); err == nil {
		t.Error("replay without a trace: no error")
	}
}

func testData(t testing.TB, posts int) *Dataset {
	t.Helper()
	data, err := NewDataset(posts, 3, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
