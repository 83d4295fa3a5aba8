package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// findPosts makes 30 posts: mid 1000, 2000 ..., repost 7, 14 ..., comment 0, 1, 2, 0, 1 ...
func findPosts(t testing.TB, c *conn) {
	t.Helper()
	runScript(t, c, schemaScript)
	for i := 1; i <= 30; i++ {
		c.want(":2\r\n", "HSET", strconv.Itoa(i*1000), "repost", strconv.Itoa(i*7), "comment", strconv.Itoa((i-1)%3))
	}
}

// TestFindRedisCLI holds what people see, in redis-cli and in counterctl, against what it was when it was read and
// found good: testdata/find.txt has commands behind "> " and what they print. With GOLDEN=write it is written anew.
func TestFindRedisCLI(t *testing.T) {
	if _, ok := tool(t, "redis-cli"); !ok {
		return
	}
	path := filepath.Join("testdata", "find.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, proto := range []string{"-2", "-3"} {
		s := start(t)
		findPosts(t, s.dial(t))
		var got strings.Builder
		for line := range strings.Lines(string(text)) {
			command, is := strings.CutPrefix(line, "> ")
			if !is {
				continue
			}
			got.WriteString(line)
			words := strings.Fields(command)
			if words[0] == "counterctl" {
				out, _ := counterctl(t, append([]string{words[1], s.addr}, words[2:]...)...)
				got.WriteString(strings.ReplaceAll(out, s.addr, "HOST:PORT"))
				continue
			}
			got.WriteString(strings.TrimSuffix(s.cli(t, "", append([]string{proto, "--no-raw"}, words...)...), "\n") + "\n")
		}
		if os.Getenv("GOLDEN") == "write" {
			if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got.String() != string(text) {
			t.Errorf("redis-cli %s: got\n%s\nwant\n%s", proto, got.String(), text)
		}
	}
}

// TestFindGoRedis: rows come as slices of integers in both versions of the protocol, and pages end.
func TestFindGoRedis(t *testing.T) {
	eachProtocol(t, func(t *testing.T, ctx context.Context, c *redis.Client) {
		for i := range 500 {
			if err := c.HSet(ctx, strconv.Itoa(i), "repost", i, "comment", i%2).Err(); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := c.Do(ctx, "COUNTER.TOP", "weibo", "repost", 2, "WHERE", "comment", "=", 0).Slice()
		same(t, "TOP", fmt.Sprint(rows), err, "[[498 498] [496 496]]")
		n, err := c.Do(ctx, "COUNTER.SUM", "weibo", "repost").Int64()
		same(t, "SUM", n, err, 500*499/2)
		if v, err := c.Do(ctx, "COUNTER.MAX", "weibo", "repost", "MID", ">", 500).Result(); err != redis.Nil {
			t.Errorf("MAX of nothing: got %v, error %v; want %v", v, err, redis.Nil)
		}
		seen, calls := 0, 0
		for cursor := "0"; calls == 0 || cursor != "0"; calls++ {
			page, err := c.Do(ctx, "COUNTER.FIND", "weibo", "WHERE", "comment", "=", 1, "COLUMNS", "repost", "LIMIT", 40, "CURSOR", cursor).Slice()
			if err != nil {
				t.Fatal(err)
			}
			cursor = page[0].(string)
			for _, row := range page[1].([]any) {
				if got, want := fmt.Sprint(row), fmt.Sprintf("[%d %d]", 2*seen+1, 2*seen+1); got != want {
					t.Fatalf("row %d is %s, want %s", seen, got, want)
				}
				seen++
			}
		}
		if seen != 250 || calls < 7 {
			t.Errorf("%d rows in %d pages, want 250 in 7 or more", seen, calls)
		}
		n, err = c.Do(ctx, "COUNTER.UPDATE", "weibo", "WHERE", "comment", "=", 1, "INCR", "attitude", 2).Int64()
		same(t, "UPDATE", n, err, 250)
		cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Do(ctx, "COUNTER.SUM", "weibo", "attitude")
			p.Incr(ctx, "1.cntan")
			p.Do(ctx, "COUNTER.SUM", "weibo", "attitude")
			return nil
		})
		same(t, "a pipeline", fmt.Sprint(cmds[0].(*redis.Cmd).Val(), cmds[2].(*redis.Cmd).Val()), err, "500 501")
		_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Do(ctx, "COUNTER.FIND", "weibo").Err() })
		if err == nil || !strings.Contains(err.Error(), "EXECABORT") {
			t.Errorf("FIND in a transaction: %v, want a refusal", err)
		}
	})
}

// TestFindKill kills the server while one connection changes all posts by condition, and others a post: whole posts are
// changed or none, what was acknowledged is there, and each UPDATE that was answered has changed all.
func TestFindKill(t *testing.T) {
	r, _ := random(t)
	const posts = 20_000
	dir := t.TempDir()
	s := startIn(t, dir)
	c := s.dial(t)
	runScript(t, c, schemaScript)
	for i := range posts {
		c.write(fmt.Sprintf("HSET %d repost 1 comment 1\r\n", i))
	}
	for range posts {
		c.reply()
	}
	s.kill()
	updates, counted := int64(0), int64(0) // acknowledged
	for round := range scaled(6) {
		policy := []string{"always", "everysec"}[round%2]
		s := startIn(t, dir, "--appendfsync", policy)
		c := s.dial(t)
		if n := c.do("COUNTER.COUNT", "weibo").N; n != posts {
			t.Fatalf("%d posts, want %d", n, posts)
		}
		least, most := c.do("COUNTER.MIN", "weibo", "repost").N, c.do("COUNTER.MAX", "weibo", "repost").N
		if least < 1+updates || most > least+1 {
			t.Fatalf("posts were changed %d to %d times, after %d acknowledged updates", least-1, most-1, updates)
		}
		updates = most - 1
		for v := least; v <= most; v++ { // both columns of each post
			if a, b := c.do("COUNTER.COUNT", "weibo", "WHERE", "repost", "=", fmt.Sprint(v)).N,
				c.do("COUNTER.COUNT", "weibo", "WHERE", "repost", "=", fmt.Sprint(v), "AND", "comment", "=", fmt.Sprint(v)).N; a != b {
				t.Fatalf("of %d posts with repost %d only %d were changed as a whole", a, v, b)
			}
		}
		if most > least { // level, for the next round
			c.do("COUNTER.UPDATE", "weibo", "WHERE", "repost", "=", fmt.Sprint(least), "INCR", "repost", "1", "INCR", "comment", "1")
		}
		var writers sync.WaitGroup
		for _, command := range []string{"COUNTER.UPDATE weibo INCR repost 1 INCR comment 1", "INCR 7.cntan"} {
			writers.Go(func() {
				c := s.dial(t)
				for {
					v, err := c.tryDo(strings.Fields(command)...)
					switch {
					case err != nil:
						return
					case v.Kind != ':':
						t.Errorf("%s was answered with %s", command, v)
						return
					case command[0] == 'I':
						counted = v.N
					default:
						updates++
					}
				}
			})
		}
		time.Sleep(randomPause(r, 50*time.Millisecond, 300*time.Millisecond))
		s.kill()
		writers.Wait()
		s.checkLog()
	}
	s = startIn(t, dir)
	if v, err := s.dial(t).do("GET", "7.cntan").Int(); err != nil || v < counted {
		t.Errorf("a post was counted to %d, %v, after %d was acknowledged", v, err, counted)
	}
	t.Logf("%d updates of all posts", updates)
}
