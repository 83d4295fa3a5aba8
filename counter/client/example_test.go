package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/counter/client"
)

// A counter of posts behind Sentinel: go-redis handles pools, passwords and the choice of the primary.
func Example() {
	ctx := context.Background()
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:        []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"},
		MasterName:   "mymaster",
		MinIdleConns: 20,
	})
	defer rdb.Close()
	posts, err := client.New(rdb, client.Options{Counter: "weibo"})
	if err != nil {
		log.Fatal(err)
	}
	if err := posts.Warm(ctx); err != nil { // 20 connections, before there is traffic
		log.Fatal(err)
	}
	reposts, err := posts.Incr(ctx, 19089006004, "repost")
	fmt.Println(reposts, err)
}

// A timeline's page: all columns of its posts, in one command.
func ExampleClient_Page() {
	posts, err := client.New(redis.NewClient(&redis.Options{}), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := posts.Page(context.Background(), []uint64{19089006004, 19089006001}, "comment", "repost")
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range rows {
		if row.Exists {
			fmt.Println(row.Mid, "comments:", row.Values[0], "reposts:", row.Values[1])
		}
	}
}

// How to handle an error depends on whether the change may have been made.
func ExampleIsInDoubt() {
	posts, err := client.New(redis.NewClient(&redis.Options{}), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	switch _, err := posts.Add(context.Background(), 19089006004, "like", 1); {
	case err == nil:
	case client.IsInDoubt(err):
		log.Print("it may have counted: not again, or it may count twice: ", err)
	case client.IsTransient(err):
		log.Print("it did not count: later, then: ", err)
	default:
		log.Print("it will never count: ", err)
	}
}

// Increments of viral posts are summed for 10 ms: a post costs the server one change a tick, however often it is liked.
func ExampleAggregator() {
	ctx := context.Background()
	posts, err := client.New(redis.NewClient(&redis.Options{}), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	likes, err := posts.NewAggregator(client.AggregatorOptions{
		Interval: 10 * time.Millisecond,
		OnError:  func(e *client.SumsError) { log.Print(e) },
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 1_000_000 {
		if err := likes.Incr(ctx, 19089006004, "like"); err != nil {
			log.Fatal(err)
		}
	}
	if err := likes.Close(ctx); err != nil { // all is counted, once
		log.Fatal(err)
	}
}

// A program that goes on using go-redis's own methods.
func ExampleNewHook() {
	rdb := redis.NewClient(&redis.Options{})
	rdb.AddHook(client.NewHook())
	rdb.Incr(context.Background(), "19089006004.cntrn") // a command that go-redis repeats counts once
}

// Counts are moved to another system: each repost is in one result of Drain, whatever breaks.
func ExampleClient_Drain() {
	posts, err := client.New(redis.NewClient(&redis.Options{}), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := posts.Drain(context.Background(), []uint64{19089006004, 19089006001}, "repost")
	for _, row := range rows {
		if reposts, ok := row.Value("repost"); ok {
			fmt.Println(row.Mid, "reposts:", reposts)
		}
	}
	if err != nil { // of the rows without a value: they may have been drained where it is in doubt
		log.Print(client.IsInDoubt(err), err)
	}
}

// The posts that a change by condition has changed, as they were before.
func ExampleClient_UpdateRows() {
	posts, err := client.New(redis.NewClient(&redis.Options{}), client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	spam := client.Query{From: 19089000000, Where: []client.Condition{{Column: "repost", Op: ">", Value: 1_000_000}}, Limit: 100}
	rows, err := posts.UpdateRows(context.Background(), client.ReturnOld, spam, client.Change{Do: client.SetTo, Column: "repost", N: 0})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range rows {
		fmt.Println(row.Mid, row.Columns, row.Values)
	}
}
