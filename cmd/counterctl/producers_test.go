// Scenario: producers, dump shows the producer of a numbered change, and the store's memory of
// producers.

package main

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
)

// TestProducers: dump shows the producer of a numbered change, and the memory of each producer.
func TestProducers(t *testing.T) {
	dir := t.TempDir()
	s, err := counter.Open(dir, counter.Options{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	once := func(producer string, seq uint64, result counter.Result, ops ...counter.Op) {
		t.Helper()
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		for _, op := range ops {
			op.Counter = b.Schema().Counter("weibo")
			b.Add(op)
		}
		o, _ := b.Once(0)
		o.Producer, o.Seq, o.Hash, o.Room = []byte(producer), seq, 0xabcde, 100
		o.Make = func(*counter.Batch, *counter.Once, int, int) counter.Result { return result }
		b.Run()
		b.End()
		if err := errors.Join(o.Err, b.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AlterScript("add counter weibo\nadd column weibo comment hint=4 max=32 suffix=c"); err != nil {
		t.Fatal(err)
	}
	once("me", 7_000_000, counter.Result{Kind: counter.ResultInt, N: 5}, counter.Op{Kind: counter.OpAdd, Mid: 7, Arg: 5})
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	from := s.Replication().Position()
	once("me", 7_000_001, counter.Result{Kind: counter.ResultBulk, N: 5}, counter.Op{Kind: counter.OpReset, Mid: 7})
	once("you", 1, counter.Result{Kind: counter.ResultBlob, Blob: []byte("two")}, counter.Op{Kind: counter.OpSet, Mid: 7, Arg: 3}, counter.Op{Kind: counter.OpSet, Mid: 8, Arg: 3})
	once("you", 2, counter.Result{Kind: counter.ResultNil})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args     []string
		want     []string
		wantNone []string
	}{
		{nil, []string{
			` define 0 "me" epoch 0 base 6998976`, ` once "me" 7000000 hash 0abcde result next`, ` set weibo 7 comment=5`,
			` once "me" 7000001 hash 0abcde group 26 result bulk 5`, ` once "you" 1 hash 0abcde group 26 result blob "two"`,
			` once "you" 2 hash 0abcde group `, ` result nil`, "1 producers, offset ",
		}, []string{"producer#"}},
		{[]string{"--rows"}, []string{"file 1 producers, offset ", `  producer "me" epoch 0 highest 7000000 floor 0 entries 1 used 2`}, []string{`producer "you"`}},
		{[]string{"--only=log", "--from", strconv.FormatUint(from, 10)}, []string{` once producer#0 base+1025 hash 0abcde group 26 result bulk 5`}, []string{`"me"`}},
		{[]string{"--only=log", "--mid=8"}, []string{"set weibo 8"}, []string{"once", "define"}},
	} {
		out, text, status := ctl(t, append(append([]string{"dump"}, c.args...), dir)...)
		if status != 0 {
			t.Errorf("dump %v: %d, %s", c.args, status, text)
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("dump %v does not say %q:\n%s", c.args, w, out)
			}
		}
		for _, w := range c.wantNone {
			if strings.Contains(out, w) {
				t.Errorf("dump %v says %q:\n%s", c.args, w, out)
			}
		}
	}
	if out, text, status := ctl(t, "check", dir); status != 0 || !strings.Contains(out, "nothing is damaged") {
		t.Errorf("check: %d, %s%s", status, out, text)
	}
}
