package counting

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

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/redis/go-redis/v9"
)

// findPosts makes 30 posts: mid 1000, 2000 ..., repost 7, 14 ..., comment 0, 1, 2, 0, 1 ...
func findPosts(t testing.TB, c *harness.Conn) {
	t.Helper()
	harness.RunScript(t, c, harness.SchemaScript)
	for i := 1; i <= 30; i++ {
		c.Want(":2\r\n", "HSET", strconv.Itoa(i*1000), "repost", strconv.Itoa(i*7), "comment", strconv.Itoa((i-1)%3))
	}
}

// TestFindRedisCLI holds what people see, in redis-cli and in counterctl, against what it was when it was read and
// found good: testdata/find.txt has commands behind "> " and what they print. With GOLDEN=write it is written anew.
func TestFindRedisCLI(t *testing.T) {
	if _, ok := harness.Tool(t, "redis-cli"); !ok {
		return
	}
	path := filepath.Join("testdata", "find.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, proto := range []string{"-2", "-3"} {
		s := harness.Start(t)
		findPosts(t, s.Dial(t))
		var got strings.Builder
		for line := range strings.Lines(string(text)) {
			command, is := strings.CutPrefix(line, "> ")
			if !is {
				continue
			}
			got.WriteString(line)
			words := strings.Fields(command)
			if words[0] == "counterctl" {
				out, _ := harness.Counterctl(t, append([]string{words[1], s.Addr}, words[2:]...)...)
				got.WriteString(strings.ReplaceAll(out, s.Addr, "HOST:PORT"))
				continue
			}
			got.WriteString(strings.TrimSuffix(s.Cli(t, "", append([]string{proto, "--no-raw"}, words...)...), "\n") + "\n")
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
	harness.EachProtocol(t, func(t *testing.T, ctx context.Context, c *redis.Client) {
		for i := range 500 {
			if err := c.HSet(ctx, strconv.Itoa(i), "repost", i, "comment", i%2).Err(); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := c.Do(ctx, "COUNTER.TOP", "weibo", "repost", 2, "WHERE", "comment", "=", 0).Slice()
		harness.Same(t, "TOP", fmt.Sprint(rows), err, "[[498 498] [496 496]]")
		n, err := c.Do(ctx, "COUNTER.SUM", "weibo", "repost").Int64()
		harness.Same(t, "SUM", n, err, 500*499/2)
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
		harness.Same(t, "UPDATE", n, err, 250)
		cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Do(ctx, "COUNTER.SUM", "weibo", "attitude")
			p.Incr(ctx, "1.cntan")
			p.Do(ctx, "COUNTER.SUM", "weibo", "attitude")
			return nil
		})
		harness.Same(t, "a pipeline", fmt.Sprint(cmds[0].(*redis.Cmd).Val(), cmds[2].(*redis.Cmd).Val()), err, "500 501")
		_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Do(ctx, "COUNTER.FIND", "weibo").Err() })
		if err == nil || !strings.Contains(err.Error(), "EXECABORT") {
			t.Errorf("FIND in a transaction: %v, want a refusal", err)
		}
	})
}

// TestFindKill kills the server while one connection changes all posts by condition, and others a post: whole posts are
// changed or none, what was acknowledged is there, and each UPDATE that was answered has changed all.
func TestFindKill(t *testing.T) {
	r, _ := harness.Random(t)
	const posts = 20_000
	dir := t.TempDir()
	s := harness.StartIn(t, dir)
	c := s.Dial(t)
	harness.RunScript(t, c, harness.SchemaScript)
	for i := range posts {
		c.Write(fmt.Sprintf("HSET %d repost 1 comment 1\r\n", i))
	}
	for range posts {
		c.Reply()
	}
	s.Kill()
	updates, counted := int64(0), int64(0) // acknowledged
	for round := range harness.Scaled(6) {
		policy := []string{"always", "everysec"}[round%2]
		s := harness.StartIn(t, dir, "--appendfsync", policy)
		c := s.Dial(t)
		if n := c.Do("COUNTER.COUNT", "weibo").N; n != posts {
			t.Fatalf("%d posts, want %d", n, posts)
		}
		least, most := c.Do("COUNTER.MIN", "weibo", "repost").N, c.Do("COUNTER.MAX", "weibo", "repost").N
		if least < 1+updates || most > least+1 {
			t.Fatalf("posts were changed %d to %d times, after %d acknowledged updates", least-1, most-1, updates)
		}
		updates = most - 1
		for v := least; v <= most; v++ { // both columns of each post
			if a, b := c.Do("COUNTER.COUNT", "weibo", "WHERE", "repost", "=", fmt.Sprint(v)).N,
				c.Do("COUNTER.COUNT", "weibo", "WHERE", "repost", "=", fmt.Sprint(v), "AND", "comment", "=", fmt.Sprint(v)).N; a != b {
				t.Fatalf("of %d posts with repost %d only %d were changed as a whole", a, v, b)
			}
		}
		if most > least { // level, for the next round
			c.Do("COUNTER.UPDATE", "weibo", "WHERE", "repost", "=", fmt.Sprint(least), "INCR", "repost", "1", "INCR", "comment", "1")
		}
		var writers sync.WaitGroup
		for _, command := range []string{"COUNTER.UPDATE weibo INCR repost 1 INCR comment 1", "INCR 7.cntan"} {
			writers.Go(func() {
				c := s.Dial(t)
				for {
					v, err := c.TryDo(strings.Fields(command)...)
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
		time.Sleep(harness.RandomPause(r, 50*time.Millisecond, 300*time.Millisecond))
		s.Kill()
		writers.Wait()
		s.CheckLog()
	}
	s = harness.StartIn(t, dir)
	if v, err := s.Dial(t).Do("GET", "7.cntan").Int(); err != nil || v < counted {
		t.Errorf("a post was counted to %d, %v, after %d was acknowledged", v, err, counted)
	}
	t.Logf("%d updates of all posts", updates)
}
