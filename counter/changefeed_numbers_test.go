// Scenario: producer and number of a numbered change in the feed.

package counter

import (
	"fmt"
	"slices"
	"testing"

	"github.com/counterd/counterd/schema"
)

// feedNumbers are the changes of a feed with their producers and numbers.
func feedNumbers(t testing.TB, s *Store, from FeedPosition) (list []string, at FeedPosition) {
	t.Helper()
	f, err := s.Feeds().Open(from, FeedFilter{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		c, err := f.Next(s.data.Log.Durable(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if c == nil {
			return list, f.Position()
		}
		if c.Parts[0].Kind == FeedSchema {
			continue
		}
		text := parts(changeText(c))
		if c.Numbered {
			text += fmt.Sprintf(" by %q %d", c.Producer, c.Seq)
		}
		list = append(list, text)
	}
}

// TestFeedNumbers: the feed tells producer and number of each numbered change and of no other, before and behind restarts, and on a
// position behind the record that names the producer.
func TestFeedNumbers(t *testing.T) {
	s, opts := openFeed(t)
	b, err := s.Feeds().Oldest()
	if err != nil {
		t.Fatal(err)
	}
	def := func() *schema.Counter { return s.Schema().Counter("a") }
	seq, want := uint64(1<<40), []string(nil)
	play := func(producer string, op Op, text string) {
		t.Helper()
		seq += 1000 // so that the base moves
		op.Counter = def()
		numbered(t, s, Once{Producer: []byte(producer), Seq: seq}, op)
		if text != "" {
			want = append(want, fmt.Sprintf("%s by %q %d", text, producer, seq))
		}
	}
	work := func() {
		t.Helper()
		for i := range 40 {
			play(fmt.Sprint("p", i%3), Op{Kind: OpSet, Mid: 1, Arg: uint64(1000 + i)}, fmt.Sprintf("set a:1 v=%d", 1000+i))
			play("q", Op{Kind: OpSet, Mid: 1, Arg: 5, Cond: IfAbsent}, "") // it changes nothing
			feedIncr(t, s, "1.w", 1)
			v, _, err := s.Get("1.w")
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("set a:1 w=%d", v))
		}
		play("q", Op{Kind: OpDelete, Mid: 1}, "del a:1")
		o := Once{Producer: []byte("tx"), Seq: seq}
		transaction(t, s, &o, func(b *Batch) Result {
			b.Add(Op{Kind: OpSet, Counter: def(), Mid: 3, Arg: 1})
			b.Add(Op{Kind: OpSet, Counter: def(), Mid: 4, Arg: 1})
			b.Run()
			return Result{Kind: ResultOK}
		})
		want = append(want, fmt.Sprintf("set a:3 v=1 set a:4 v=1 by \"tx\" %d", seq))
	}
	check := func(what string, known int) {
		t.Helper()
		got, _ := feedNumbers(t, s, b)
		if !slices.Equal(got, want) {
			t.Errorf("%s, from the beginning: got %q, want %q", what, got, want)
		}
		// From each change on, as a consumer that comes with a position, and has not read what names the producer.
		for at, i := b, -1; ; i++ {
			f, err := s.Feeds().Open(at, FeedFilter{})
			if err != nil {
				t.Fatal(err)
			}
			c, err := f.Next(s.data.Log.Durable(), 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			if c == nil {
				break
			}
			at = c.Position
			if i >= known && c.Numbered && c.Producer == "" {
				t.Errorf("%s: change %d, %s, of an unknown producer", what, i, changeText(c))
			}
			if i >= 0 && c.Producer != "" && want[i] != fmt.Sprintf("%s by %q %d", parts(changeText(c)), c.Producer, c.Seq) {
				t.Errorf("%s: change %d: got %s by %q %d, want %s", what, i, changeText(c), c.Producer, c.Seq, want[i])
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	work()
	check("at first", 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, "data", *opts, "")
	check("behind a restart", 0)
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	known := len(want)
	work()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, "data", *opts, "")
	work()
	check("behind a snapshot and a restart", known)
}
