package libraries

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/counter/client"
	"github.com/counterd/counterd/internal/numbered"
	"github.com/redis/go-redis/v9"
)

// numberedExample is one command of each name that accepts a number. Each has a post of its own, whose column repost is
// 100 before, and what that column is afterwards if the command was made once. EXEC is no command of its own.
var numberedExample = map[string]struct {
	command string
	want    string
}{
	"INCR": {"INCR %d.cntrn", "101"}, "INCRBY": {"INCRBY %d.cntrn 3", "103"}, "DECR": {"DECR %d.cntrn", "99"}, "DECRBY": {"DECRBY %d.cntrn 3", "97"},
	"INCREX": {"INCREX %d.cntrn BYINT 5", "105"}, "HINCRBY": {"HINCRBY %d repost 2", "102"}, "SET": {"SET %d.cntrn 7", "7"}, "GETSET": {"GETSET %d.cntrn 8", "8"},
	"SETNX": {"SETNX %d.cntrn 9", "100"}, "GETDEL": {"GETDEL %d.cntrn", "0"}, "HSET": {"HSET %d repost 4", "4"}, "HMSET": {"HMSET %d repost 4", "4"},
	"HSETNX": {"HSETNX %d repost 4", "100"}, "MSET": {"MSET %d.cntrn 6", "6"}, "DEL": {"DEL %d.cntrn", "0"}, "UNLINK": {"UNLINK %d.cntrn", "0"}, "HDEL": {"HDEL %d repost", "0"}, "COUNTER.MINCRBY": {"COUNTER.MINCRBY %d.cntrn 5 QUIET", "105"},
	"COUNTER.MSET": {"COUNTER.MSET weibo %d 5 COLUMNS repost", "5"}, "COUNTER.DRAIN": {"COUNTER.DRAIN %d.cntrn", "0"},
	"COUNTER.UPDATE": {"COUNTER.UPDATE weibo MID = %d INCR repost 1", "101"},
}

// forgetful is a proxy that lets each command which accepts a number happen and loses the first reply to it, with its
// connection.
type forgetful struct {
	to string

	mu    sync.Mutex
	tails map[string][]string // by name, what each try had as its last three arguments
}

func (p *forgetful) serve(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer up.Close()
	lost := make(chan struct{}) // closed before the request whose reply is to be lost
	var once sync.Once
	go func() {
		defer up.Close()
		r := bufio.NewReader(c)
		for {
			args, raw, err := readRequest(r)
			if err != nil {
				return
			}
			if name := strings.ToUpper(args[0]); numbered.Accepts(strings.ToLower(name)) {
				p.mu.Lock()
				p.tails[name] = append(p.tails[name], strings.Join(args[max(0, len(args)-3):], " "))
				first := len(p.tails[name]) == 1
				p.mu.Unlock()
				if first {
					once.Do(func() { close(lost) })
				}
			}
			if _, err := io.WriteString(up, raw); err != nil {
				return
			}
		}
	}()
	b := make([]byte, 1<<16)
	for {
		n, err := up.Read(b)
		select {
		case <-lost: // the client waits for each reply, so this one is of that request
			return
		default:
		}
		if err != nil {
			return
		}
		if _, err := c.Write(b[:n]); err != nil {
			return
		}
	}
}

// readRequest reads an array of bulk strings, and returns it as it was sent too.
func readRequest(r *bufio.Reader) (args []string, raw string, err error) {
	line := func() (n int) {
		var s string
		if s, err = r.ReadString('\n'); err == nil {
			raw += s
			n, err = strconv.Atoi(strings.TrimSpace(s[1:]))
		}
		return n
	}
	n := line()
	for i := 0; i < n && err == nil; i++ {
		b := make([]byte, line()+2)
		if err == nil {
			_, err = io.ReadFull(r, b)
		}
		raw += string(b)
		args = append(args, string(b[:len(b)-2]))
	}
	if err == nil && len(args) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return args, raw, err
}

// TestHowtoEveryCommand loses the first reply to each command that accepts a number. The class of each library sends the
// command a second time under the same number, and the post is changed once.
func TestHowtoEveryCommand(t *testing.T) {
	names := slices.DeleteFunc(numbered.Names(), func(name string) bool { return name == "EXEC" })
	for _, library := range []struct {
		name string
		send func(t *testing.T, port int, commands []string)
	}{
		{"go-redis", func(t *testing.T, port int, commands []string) {
			rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + strconv.Itoa(port), DialTimeout: harness.IoTimeout, ReadTimeout: harness.IoTimeout})
			defer rdb.Close()
			rdb.AddHook(client.NewHook())
			for _, command := range commands {
				var args []any
				for word := range strings.FieldsSeq(command) {
					args = append(args, word)
				}
				if err := rdb.Do(context.Background(), args...).Err(); err != nil {
					t.Errorf("%s: %v", command, err)
				}
			}
		}},
		{"redis-py", func(t *testing.T, port int, commands []string) {
			if python := pythonWithRedis(t); python != "" {
				runLibrary(t, []string{"PYTHONPATH=" + howtoDir(t), "PYTHONDONTWRITEBYTECODE=1"}, python,
					append([]string{filepath.Join("testdata", "howto_every.py"), strconv.Itoa(port)}, commands...)...)
			}
		}},
		{"ioredis", func(t *testing.T, port int, commands []string) {
			if env, ok := nodeWithIoredis(t); ok {
				runLibrary(t, env, "node", append([]string{filepath.Join("testdata", "howto_every.js"), strconv.Itoa(port), howtoDir(t)}, commands...)...)
			}
		}},
	} {
		t.Run(library.name, func(t *testing.T) {
			t.Parallel()
			s := harness.Start(t)
			harness.RunScript(t, s.Dial(t), harness.SchemaScript)
			c := s.Dial(t)
			var commands []string
			for i, name := range names {
				example, ok := numberedExample[name]
				if !ok {
					t.Fatalf("%s has no example in numberedExample", name)
				}
				c.Do("SET", fmt.Sprintf("%d.cntrn", i+1), "100")
				commands = append(commands, fmt.Sprintf(example.command, i+1))
			}
			p := &forgetful{to: s.Addr, tails: map[string][]string{}}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go p.serve(conn)
				}
			}()
			library.send(t, l.Addr().(*net.TCPAddr).Port, commands)
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.tails) == 0 {
				return // the library is not installed, which was said
			}
			for i, name := range names {
				tails := p.tails[name]
				if len(tails) != 2 || tails[0] != tails[1] || !strings.HasPrefix(tails[0], "IDMP ") {
					t.Errorf("%s was sent with %q, want it twice with one number", name, tails)
				}
				if got, err := c.Do("GET", fmt.Sprintf("%d.cntrn", i+1)).Int(); err != nil || strconv.FormatInt(got, 10) != numberedExample[name].want {
					t.Errorf("after %q whose reply was lost once, the column is %d, %v, want %s", commands[i], got, err, numberedExample[name].want)
				}
			}
		})
	}
}

// runLibrary runs a program that must end well.
func runLibrary(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%.2000s", name, err, out)
	}
}
