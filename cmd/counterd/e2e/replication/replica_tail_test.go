package replication

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/persist/format"
)

// loseTail makes the log of a node that is down what a power failure leaves of it: from a random byte on, behind least
// and behind all that was durable, there are zeros. It returns the log before.
func loseTail(t testing.TB, r *rand.Rand, dir string, least, end uint64) (log []byte) {
	t.Helper()
	first, log := readLog(t, dir, end)
	if first != 0 {
		t.Fatalf("the log begins at %d", first)
	}
	claim := uint64(0)
	for at := uint64(0); at < end; { // durable is at byte 16 of a frame, the length of its records at byte 4
		claim = max(claim, littleEndian(log[at+16:], 8))
		at += format.FrameHeaderLen + uint64(format.FramePayloadLen(log[at:]))
	}
	paths := harness.Segments(t, dir)
	last := paths[len(paths)-1]
	start, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(last), ".aof"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if claim = max(claim, start, least); claim >= end {
		t.Fatalf("all of the log up to %d is durable", end)
	}
	at := claim + r.Uint64N(end-claim)
	file, err := os.OpenFile(last, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(make([]byte, end-at), int64(64+at-start)); err != nil {
		t.Fatal(err)
	}
	// The background may have synced the end by now. This power failure came before.
	if err := os.RemoveAll(filepath.Join(dir, "DURABLE")); err != nil {
		t.Fatal(err)
	}
	return log
}

func littleEndian(b []byte, n int) (v uint64) {
	for i := range n {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}

// TestReplicaLostTail lets a primary's machine lose the end of its log, which its replica and that one's replica have.
// When it is back, and has taken other changes meanwhile or not, they take back exactly what it lost, and save it.
func TestReplicaLostTail(t *testing.T) {
	r, _ := harness.Random(t)
	ch := startChain(t, r, 0, "--appendfsync", "no")
	w := harness.NewExactWriter(ch.nodes[0].port, 0, r.Uint64())
	end := func() uint64 {
		n, err := strconv.ParseUint(harness.ReplicationField(ch.nodes[0].Server, "master_repl_offset"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	write := func() {
		t.Helper()
		stop, ended := make(chan struct{}), make(chan error, 1)
		from := end()
		go func() { ended <- w.Run(stop) }()
		harness.Eventually(t, time.Minute, "some changes", func() bool { return end() > from+1000 }) // on a busy machine the pause may pass without any
		time.Sleep(harness.RandomPause(r, 20*time.Millisecond, 200*time.Millisecond))
		close(stop)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	frames, taken := 0, uint64(0)
	rounds := max(2, harness.Scaled(2))
	for round := range rounds {
		write()
		ch.equal()
		kept := end()
		w.Keep, w.Done = true, nil
		before := map[int64]harness.WeiboPost{}
		for mid, p := range w.Posts {
			before[mid] = p
		}
		write()
		ch.equal()
		w.Keep = false
		var ends [3]uint64
		for i, n := range ch.nodes {
			c := n.Dial(t)
			ends[i] = uint64(harness.InfoNumber(t, c, "replication", "master_repl_offset"))
			if i > 0 && r.IntN(3) == 0 {
				harness.SaveInBackground(t, c) // made of what is going to be taken back
			}
			c.Close()
		}
		for i := range ch.nodes {
			if i > 0 && r.IntN(3) == 0 { // what it has is in a segment that its restart begins
				ch.nodes[i].Kill()
				ch.start(i)
				ch.await(i)
			}
		}
		ch.links[0].Refuse(true)
		ch.nodes[0].Kill()
		log := loseTail(t, r, ch.nodes[0].dir, kept, ends[0])
		for _, name := range []string{"REPLICAS", "REPLICAS.copy"} { // else it gets the tail from them
			if err := os.Remove(filepath.Join(ch.nodes[0].dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		ch.start(0)
		c := ch.nodes[0].Dial(t)
		at := uint64(harness.InfoNumber(t, c, "replication", "second_repl_offset"))
		c.Close()
		if at >= ends[0] {
			t.Fatalf("the log goes on at %d, it ended at %d before", at, ends[0])
		}
		// The primary holds what the kept part of the log says: a prefix of what was done.
		done := w.Done
		w.Posts, w.Open, w.Done = before, done, nil
		if r.IntN(2) == 0 {
			write()
		} else if c, err := harness.DialTimeout("tcp", w.Addr, harness.IoTimeout); err != nil {
			t.Fatal(err)
		} else {
			if ok, err := w.Settle(c); !ok {
				t.Fatal(err)
			}
			c.Close()
		}
		ch.links[0].Refuse(false)
		ch.equal()
		for i, n := range ch.nodes {
			if wrong := w.Compare(t, n.Server); wrong > 0 {
				t.Errorf("round %d: %d posts of node %d are wrong", round, wrong, i)
			}
			if i == 0 {
				continue
			}
			c := n.Dial(t)
			last := harness.InfoValue(t, c, "replication", "counterd_diverged_last")
			cuts := harness.InfoValue(t, c, "replication", "counterd_diverged_cuts")
			c.Close()
			said := map[string]string{}
			for field := range strings.SplitSeq(last, ",") {
				name, value, _ := strings.Cut(field, "=")
				said[name] = value
			}
			var numbers [4]uint64
			for k, name := range []string{"from", "to", "sets", "deletes"} {
				var err error
				if numbers[k], err = strconv.ParseUint(said[name], 10, 64); err != nil {
					t.Fatalf("node %d: counterd_diverged_cuts:%s counterd_diverged_last:%s: %v", i, cuts, last, err)
				}
			}
			from, to, sets, deletes, file := numbers[0], numbers[1], numbers[2], numbers[3], said["file"]
			if from != at || to != ends[0] {
				t.Errorf("node %d took back %d..%d, want %d..%d", i, from, to, at, ends[0])
			}
			saved, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(saved[64:], log[at:]) {
				t.Errorf("node %d: %s holds %d bytes of log, want the %d that the primary lost", i, file, len(saved)-64, len(log[at:]))
			}
			count := map[format.Kind]uint64{}
			for rest := saved[64:]; len(rest) > 0; frames++ {
				size := format.FrameHeaderLen + int(format.FramePayloadLen(rest))
				f := format.Frame{Raw: rest[:size], Payload: rest[format.FrameHeaderLen:size]}
				var rec format.Record
				if err := f.Records(&rec, 0, func(_ uint64, rec *format.Record) error {
					if rec.Kind == format.KindSetItem {
						count[format.KindSet] += uint64(len(rec.Columns))
					} else {
						count[rec.Kind]++
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				rest = rest[size:]
			}
			if count[format.KindSet] != sets || count[format.KindDelete] != deletes {
				t.Errorf("node %d: INFO says %d sets and %d deletes were taken back, %s holds %d and %d", i, sets, deletes, file, count[format.KindSet], count[format.KindDelete])
			}
			taken += sets + deletes
		}
	}
	for i, n := range ch.nodes[1:] {
		if got := n.said("copied the snapshot of the primary"); got != 0 {
			t.Errorf("node %d took %d full copies, want none", i+1, got)
		}
	}
	compared := ch.stop()
	for _, n := range ch.nodes {
		harness.WantCtl(t, 0, []string{"check", n.dir}, "nothing is damaged")
	}
	t.Logf("%d tails lost: %d frames with %d changes taken back and saved, %d bytes of log compared", rounds, frames, taken, compared)
}
