package feed

import (
	"strings"
	"sync"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/vfs"
)

// fedStore is a store with a number of changes, 64 of which share a frame, as of a client that sends 64 commands at a time.
func fedStore(t testing.TB, changes int) *counter.Store {
	t.Helper()
	store, err := counter.Open("data", counter.Options{FS: vfs.NewSim(), Manual: true, SnapshotGrowth: -1, AppendFsync: counter.SyncAlways})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.AlterScript("add counter weibo\nadd column weibo comment hint=8 max=32 suffix=cntcm\nadd column weibo repost hint=8 max=32 suffix=cntrn\nadd counter user\nadd column user post hint=8 max=32 suffix=cntus\n"); err != nil {
		t.Fatal(err)
	}
	b := store.NewBatch()
	for n := 0; n < changes; n += 64 {
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		for i := range min(64, changes-n) {
			def := b.Schema().Counters()[i%2]
			b.Add(counter.Op{Kind: counter.OpAdd, Counter: def, Mid: uint64(19089006004 + (n+i)*7919%300_000*7), Arg: 1})
		}
		b.Run()
		b.End()
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// TestSharedMemory: commands work in memory of each other, and each has the reply that it had alone.
func TestSharedMemory(t *testing.T) {
	store := fedStore(t, 500)
	ask := func(words string) string {
		c := &conn{t: t, store: store}
		c.safe = func(int) uint64 { return store.Replication().Durable() }
		run(c, args("COUNTER.FEED FROM OLDEST "+words))
		defer c.call.Out.DropLarge()
		return string(c.call.Out.From(0))
	}
	kinds := []string{"COUNT 10000", "COUNT 3", "LATEST", "LATEST COUNTERS user", "COLUMNS repost", "MID < 19089006100"}
	alone := make([]string, len(kinds))
	for i, words := range kinds {
		if alone[i] = ask(words); !strings.HasPrefix(alone[i], "*2\r\n") || i > 0 && alone[i] == alone[0] {
			t.Fatalf("%s: got %.200q", words, alone[i])
		}
	}
	var askers sync.WaitGroup
	for n := range 4 {
		askers.Go(func() {
			for i := range 20 {
				if at := (n + i) % len(kinds); ask(kinds[at]) != alone[at] {
					t.Errorf("%s has another reply beside others", kinds[at])
				}
			}
		})
	}
	askers.Wait()
}

// BenchmarkReply reads 2^16 changes of one column each, 10,000 at a time, and takes the replies off; or 576 at a time, as a client that follows 100,000
// INCR a second.
func BenchmarkReply(b *testing.B) {
	const changes = 1 << 16
	store := fedStore(b, changes)
	for _, words := range []string{"COUNT 10000", "COUNT 576", "COUNT 10000 LATEST"} {
		b.Run(words, func(b *testing.B) {
			c := &conn{store: store}
			c.safe = func(int) uint64 { return store.Replication().Durable() }
			n := 0
			for b.Loop() {
				for from, last := "OLDEST", ""; from != last; {
					last = from
					run(c, args("COUNTER.FEED FROM "+from+" "+words))
					head := c.call.Out.From(0)
					from = strings.SplitN(string(head[:min(len(head), 300)]), "\r\n", 4)[2]
					c.call.Out.DropLarge()
				}
				n += changes
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/change")
		})
	}
}

// args are the words of a command.
func args(text string) (list [][]byte) {
	for _, w := range strings.Fields(text) {
		list = append(list, []byte(w))
	}
	return list
}
