package counter_test

import (
	"fmt"
	"log"
	"os"

	"github.com/counterd/counterd/counter"
)

// A program that keeps counters of posts in itself, without a server.
func Example() {
	dir, err := os.MkdirTemp("", "counters")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := counter.Open(dir, counter.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = s.AlterScript("add counter weibo\n" +
		"add column weibo repost hint=16 max=32 suffix=cntrn\n" +
		"add column weibo comment hint=16 max=32 suffix=cntcm")
	if err != nil {
		log.Fatal(err)
	}

	if _, err := s.Incr("19089006004.cntrn", 2); err != nil {
		log.Fatal(err)
	}
	n, err := s.Incr("19089006004.cntrn", -1)
	fmt.Println("reposts:", n, err)
	_, err = s.Incr("19089006004.cntrn", -5)
	fmt.Println(err)

	values, err := s.MGet("19089006004.cntrn", "19089006004.cntcm", "7.cntrn")
	fmt.Println(values, err)

	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		var items []counter.ScanItem
		if items, cursor, err = s.Scan(cursor, 100); err != nil {
			log.Fatal(err)
		}
		for _, i := range items {
			fmt.Println(i.Counter.Name, i.Mid)
		}
	}

	if err := s.Snapshot(); err != nil { // or leave it to the store
		log.Fatal(err)
	}
	if err := s.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// reposts: 1 <nil>
	// counter: value out of range
	// [{1 true} {0 true} {0 false}] <nil>
	// weibo 19089006004
}

// A batch runs many operations at once. A group in it is made whole or not at all.
func ExampleBatch() {
	s, err := counter.Open("", counter.Options{}) // in memory only
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	err = s.AlterScript("add counter weibo\n" +
		"add column weibo repost hint=16 max=32 suffix=cntrn\n" +
		"add column weibo small hint=4 max=4 suffix=small")
	if err != nil {
		log.Fatal(err)
	}

	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		log.Fatal(err)
	}
	weibo := b.Schema().Counter("weibo")
	b.Add(counter.Op{Kind: counter.OpAdd, Counter: weibo, Column: 0, Mid: 7, Arg: 3})
	first := b.Len()
	b.Add(counter.Op{Kind: counter.OpSet, Counter: weibo, Column: 0, Mid: 8, Arg: 100})
	b.Add(counter.Op{Kind: counter.OpSet, Counter: weibo, Column: 1, Mid: 8, Arg: 100}) // more than 4 bits hold
	b.ChangeSet(first)
	b.Run()
	b.End()
	if err := b.Commit(); err != nil { // the log has it: now it may be told
		log.Fatal(err)
	}
	fmt.Println(b.Op(0).Value, b.Op(2).Err)

	_, found, err := s.Get("8.cntrn")
	fmt.Println(found, err)
	// Output:
	// 3 counter: value out of range
	// false <nil>
}
