// Command search keeps an index of posts by their likes, and answers from it. docs/start/search.md explains it.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/counter/client"
)

// index is the likes of each post, and the position in the feed behind the last change that it has. Both are in one file, so that a crash
// keeps both or neither.
type index struct {
	mu       sync.Mutex
	Position string
	Likes    map[uint64]int64
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "the address of the search")
	addr := flag.String("counterd", "127.0.0.1:6379", "the address of counterd")
	file := flag.String("index", "index.json", "the file of the index")
	rows := flag.String("rows", "weibo.tsv", "posts for a new index, of counterctl export")
	position := flag.String("position", "weibo.position", "the position of these posts")
	flag.Parse()
	ctx := context.Background()

	posts, err := client.New(redis.NewClient(&redis.Options{Addr: *addr}), client.Options{Counter: "weibo"})
	if err != nil {
		log.Fatal(err)
	}
	ix, err := load(*file)
	if errors.Is(err, fs.ErrNotExist) {
		ix, err = begin(*rows, *position)
	}
	if err != nil {
		log.Fatal(err)
	}
	go ix.store(ctx, posts, *file)
	http.HandleFunc("GET /", ix.search)
	go func() { log.Fatal(http.ListenAndServe(*listen, nil)) }()

	for change, err := range posts.Feed(ctx, ix.Position) {
		if err != nil {
			log.Fatal(err) // *client.PositionError: export again, and remove the index
		}
		ix.apply(&change)
	}
}

// apply takes a change into the index.
func (ix *index) apply(change *client.FeedChange) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for _, part := range change.Parts {
		switch part.Kind {
		case "set":
			if i := slices.Index(part.Columns, "attitude"); i >= 0 {
				ix.Likes[part.Mid] = part.Values[i]
			}
		case "del":
			delete(ix.Likes, part.Mid)
		case "flush":
			clear(ix.Likes)
		}
	}
	ix.Position = change.Position
}

// search answers the posts with at least so many likes, most liked first.
func (ix *index) search(w http.ResponseWriter, r *http.Request) {
	least, _ := strconv.ParseInt(r.FormValue("likes"), 10, 64)
	ix.mu.Lock()
	defer ix.mu.Unlock()
	var found []uint64
	for mid, n := range ix.Likes {
		if n >= least {
			found = append(found, mid)
		}
	}
	slices.SortFunc(found, func(a, b uint64) int { return cmp.Or(cmp.Compare(ix.Likes[b], ix.Likes[a]), cmp.Compare(b, a)) })
	for _, mid := range found {
		fmt.Fprintln(w, mid, ix.Likes[mid])
	}
}

// store writes the index each second in which it has changed, and then moves the cursor: counterd keeps the log behind it.
func (ix *index) store(ctx context.Context, posts *client.Client, file string) {
	stored := ""
	for range time.Tick(time.Second) {
		ix.mu.Lock()
		position := ix.Position
		text, err := json.Marshal(ix)
		ix.mu.Unlock()
		if position == stored {
			continue
		}
		if err == nil {
			err = replace(file, text)
		}
		if err == nil {
			stored, err = position, posts.SetFeedCursor(ctx, "search", position)
		}
		if err != nil {
			log.Print(err)
		}
	}
}

// replace writes a file as a whole.
func replace(name string, text []byte) error {
	f, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

func load(file string) (*index, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	ix := new(index)
	return ix, json.Unmarshal(text, ix)
}

// begin makes an index of exported posts.
func begin(rows, position string) (*index, error) {
	text, err := os.ReadFile(position)
	if err != nil {
		return nil, err
	}
	ix := &index{Position: strings.TrimSpace(string(text)), Likes: map[uint64]int64{}}
	f, err := os.Open(rows)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Scan() // mid, and the name of the column
	for lines.Scan() {
		var mid uint64
		var likes int64
		if _, err := fmt.Sscan(lines.Text(), &mid, &likes); err != nil {
			return nil, err
		}
		ix.Likes[mid] = likes
	}
	return ix, lines.Err()
}
