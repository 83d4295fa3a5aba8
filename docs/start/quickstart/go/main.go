// Command go is the quickstart in Go: it counts, reads a timeline page, and counts once although a command is sent twice.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/redis/go-redis/v9"
)

func main() {
	addr := os.Getenv("COUNTERD")
	if addr == "" {
		addr = "127.0.0.1:6379"
	}
	ctx := context.Background()
	db := redis.NewClient(&redis.Options{Addr: addr})
	defer db.Close()

	// One number: the column with the suffix cntrn (reposts) of one post.
	reposts, err := db.Incr(ctx, "19089006004.cntrn").Result()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("reposts:", reposts)

	// Many additions in one command: 12 comments for one post, 40 likes for another.
	if err := db.Do(ctx, "COUNTER.MINCRBY", "19089006004.cntcm", 12, "19089006001.cntan", 40).Err(); err != nil {
		log.Fatal(err)
	}

	// A change with a number counts once, however often it is sent. Each process takes a producer name of its own and
	// counts up. In Go, package counter/client does this by itself.
	for range 2 {
		likes, err := db.Do(ctx, "INCRBY", "19089006001.cntan", 1, "IDMP", fmt.Sprint("go-", os.Getpid()), 1).Int64()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("likes:", likes)
	}

	// The timeline page: all columns of many posts in one command. A post without counters is nil.
	mids := []any{19089006004, 19089006001, 19089006000}
	rows, err := db.Do(ctx, append([]any{"COUNTER.MGET", "weibo"}, mids...)...).Slice()
	if err != nil {
		log.Fatal(err)
	}
	for i, row := range rows {
		if counts, ok := row.([]any); ok {
			fmt.Printf("%v: %v comments, %v reposts, %v likes\n", mids[i], counts[0], counts[1], counts[2])
		} else {
			fmt.Printf("%v: nothing yet\n", mids[i])
		}
	}
}
