// Scenario: WATCH on a replica sees changes of the stream and of full copies.

package server

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/watch"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// TestWatchOnReplica: EXEC at a replica fails when the stream, or a full copy, changed watched keys, and only then.
func TestWatchOnReplica(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	w := a.dial()
	w.want("SET 1.cntcm 1", "+OK")
	w.want("SET 2.cntcm 1", "+OK")
	b.start(a.addr())
	same(t, a, b)
	r := b.dial()
	exec := func(watched string, changes []string, want string) {
		t.Helper()
		r.want("WATCH "+watched, "+OK")
		for _, change := range changes {
			if v := w.do(change); v.Kind == '-' {
				t.Fatalf("%s: %s", change, v)
			}
		}
		same(t, a, b)
		r.want("MULTI", "+OK")
		r.want("STRLEN 1.cntcm", "+QUEUED")
		if v := r.do("EXEC").String(); v != want {
			t.Errorf("WATCH %s, %s: EXEC gives %s, want %s", watched, changes, v, want)
		}
	}
	const fails, passes = "nil", "[:1]"
	exec("1.cntcm", nil, passes)
	exec("1.cntcm", []string{"INCR 1.cntcm"}, fails)
	exec("1.cntcm", nil, passes)
	exec("1.cntcm", []string{"INCR 1.cntrn", "INCR 2.cntcm"}, passes)
	exec("1", []string{"INCR 1.cntrn"}, fails)
	exec("1.cntrn", []string{"DEL 1", "SET 1.cntcm 1"}, fails)
	exec("1.cntan 77.cntcm", []string{"SET 77.cntrn 1"}, fails) // a new item
	exec("1.cntcm", []string{"FLUSHALL", "SET 1.cntcm 1"}, fails)
	exec("500.cntcm", []string{"ADD COLUMN weibo like hint=8 max=32 suffix=cntlk"}, fails)
	exec("no.such", []string{"SET 1.cntcm 1"}, passes)
	exec("1.cntxx", []string{"ADD COLUMN weibo xx hint=8 max=32 suffix=cntxx", "SET 1.cntxx 1"}, fails)
	if connections, items := b.srv.watches.Len(); connections != 0 || items != 0 {
		t.Errorf("%d connections watch %d items still", connections, items)
	}

	// A full copy is other data.
	c := newReplNode(t).start("")
	c.dial().want("SET 1.cntcm 9", "+OK")
	c.dial().save()
	r.want("WATCH 1.cntcm", "+OK")
	b.dial().want("REPLICAOF 127.0.0.1 "+strconv.Itoa(c.port), "+OK")
	same(t, c, b)
	r.want("MULTI", "+OK")
	r.want("GET 1.cntcm", "+QUEUED")
	r.want("EXEC", "nil")
	r.want("GET 1.cntcm", `"9"`)
}

// TestWatchWhileLoading: keys mean nothing yet, so that EXEC fails.
func TestWatchWhileLoading(t *testing.T) {
	s := wireServe(t, nil)
	s.progress.beginLoading()
	c := wireDial(t, s, 2)
	c.want("WATCH 1.cntcm", "+OK")
	s.progress.endLoading()
	c.want("MULTI", "+OK")
	c.want("INCR 1.cntcm", "+QUEUED")
	c.want("EXEC", "nil")
	c.want("MULTI", "+OK")
	c.want("INCR 1.cntcm", "+QUEUED")
	c.want("EXEC", "[:1]")
}

// BenchmarkTouch measures the cost of WATCH for a batch of a primary's stream, or of a client: nothing watched, and
// something else watched.
func BenchmarkTouch(b *testing.B) {
	store, err := counter.Open("", counter.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	if err := store.AlterScript(wireSchema); err != nil {
		b.Fatal(err)
	}
	batch := store.NewBatch()
	if err := batch.Begin(); err != nil {
		b.Fatal(err)
	}
	defer batch.End()
	def := batch.Schema().CounterNamed([]byte("weibo"))
	for i := range 256 {
		batch.Add(counter.Op{Kind: counter.OpAdd, Counter: def, Mid: uint64(i), Arg: 1})
	}
	batch.Run()
	for _, watchers := range []int{0, 100} {
		b.Run(fmt.Sprint("watchers=", watchers), func(b *testing.B) {
			var w watch.Table
			for i := range watchers {
				k, _ := batch.Schema().ParseKey(fmt.Appendf(nil, "%d.cntcm", 1000+i))
				w.Add(new(watch.Mark), []schema.Key{k})
			}
			for b.Loop() {
				w.Replicated(batch)
			}
		})
	}
}
