package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/bench"
	"github.com/counterd/counterd/bench/benchtest"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "posts.tsv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// weibo starts a counterd with the generated posts' schema.
func weibo(t *testing.T) *benchtest.Server {
	t.Helper()
	s := benchtest.Start(t, true)
	if err := runScript(s.Addr, strings.Join(bench.WeiboScript, "\n")); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends a command and returns the reply's text.
func ask(t *testing.T, s *benchtest.Server, command string) string {
	t.Helper()
	conn, err := bench.Target{Addr: s.Addr}.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	v, err := conn.Do(strings.Fields(command)...)
	if err != nil {
		t.Fatal(err)
	}
	return v.Text()
}

func TestLoad(t *testing.T) {
	var file strings.Builder
	fmt.Fprintln(&file, "# mid\trepost\t-\tcomment")
	for i := range 5000 {
		fmt.Fprintf(&file, "%d\t%d\ttext\t%d\n", 1000+i, i, 2*i)
	}
	path := writeFile(t, file.String())
	for _, clients := range []string{"1", "3"} {
		s := weibo(t)
		status, out, errs := tool(t, "load", path, "--server", s.Addr, "--clients", clients)
		if status != 0 || errs != "" || !strings.HasPrefix(out, "loaded 5,000 rows of "+path+" into "+s.Addr+" in ") ||
			!strings.HasSuffix(out, " rows/s, 0 errors\n") {
			t.Fatalf("status %d\n%s%s", status, out, errs)
		}
		if got := ask(t, s, "COUNTER.MGET weibo 1000 1007 5999"); got != "0\n0\n0\n14\n7\n0\n9998\n4999\n0" {
			t.Errorf("the server has %q", got)
		}
	}
}

// TestLoadPipe: what can be read only once is loaded too, and checked to its end before anything is sent.
func TestLoadPipe(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	feed := func(t *testing.T, text string) (r *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer w.Close()
			_, _ = io.WriteString(w, text)
		}()
		return r
	}
	rows := "# mid\trepost\n" + strings.Repeat("1\t2\n", 100_000)
	for _, way := range []string{"-", "fifo"} {
		s := weibo(t)
		load := func(text string) (status int, out, errs string) {
			r := feed(t, text)
			defer r.Close()
			if way == "-" {
				defer func(old *os.File) { os.Stdin = old }(os.Stdin)
				os.Stdin = r
				return tool(t, "load", "-", "--server", s.Addr)
			}
			return tool(t, "load", fmt.Sprintf("/dev/fd/%d", r.Fd()), "--server", s.Addr)
		}
		if status, out, errs := load(rows + "5\tx\n"); status != 1 || !strings.Contains(errs, `:100002: column 2 "repost": "x" is not a whole number`) {
			t.Errorf("%s: status %d\n%s%s", way, status, out, errs)
		}
		if got := ask(t, s, "DBSIZE"); got != "0" {
			t.Errorf("%s: %s posts were sent of a file with a bad line", way, got)
		}
		if status, out, errs := load(rows + "1000\t7\n"); status != 0 || !strings.HasPrefix(out, "loaded 100,001 rows of ") {
			t.Errorf("%s: status %d\n%s%s", way, status, out, errs)
		}
		if got := ask(t, s, "GET 1000.cntrn"); got != "7" {
			t.Errorf("%s: the server has %q", way, got)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary directory: %v, %v", left, err)
	}
}

// TestLoadPipeInterrupted: a pipe that nobody writes to holds up no signal.
func TestLoadPipeInterrupted(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := copyUntil(ctx, io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLoadIntoRedis(t *testing.T) {
	path := writeFile(t, "mid\ta\tb\n7\t1\t2\n8\t3\t4\n")
	for kind, question := range map[string]string{"": "MGET 7.a 7.b 8.a 8.b", "redis-hash": "HMGET 7 a b"} {
		s := benchtest.Start(t, false)
		status, out, errs := tool(t, "load", path, "--server", s.Addr, "--kind", kind)
		if status != 0 || !strings.HasPrefix(out, "loaded 2 rows") {
			t.Fatalf("kind %q: status %d\n%s%s", kind, status, out, errs)
		}
		if got := ask(t, s, question); !strings.HasPrefix(got, "1\n2") {
			t.Errorf("kind %q: the server has %q", kind, got)
		}
	}
}

// TestLoadRefuses checks that nothing is sent of a file that has a bad line anywhere, or does not fit the server.
func TestLoadRefuses(t *testing.T) {
	good := "1\t2\t3\t4\n"
	for _, test := range []struct{ name, file, flags, want string }{
		{"bad number", "# mid repost attitude comment\n" + strings.Repeat(good, 2000) + "5\t6\t7\tx\n", "",
			`FILE:2002: column 4 "comment": "x" is not a whole number 0..4294967295`},
		{"too large", "# mid\trepost\n1\t4294967296\n", "",
			`FILE:2: column 2 "repost": "4294967296" is not a whole number 0..4294967295`},
		{"missing column", good + "1\t2\t3\n", "--columns mid,repost,attitude,comment",
			"FILE:2: 3 columns, want 4 separated by tabs (mid repost attitude comment)"},
		{"no names", good, "", `FILE:1: "1\t2\t3\t4", want a header line that names the columns, or names given by --columns`},
		{"unknown column", "# mid\treposts\n1\t2\n", "",
			`counter "weibo" has no column "reposts"; it has comment, repost, attitude (--columns names the file's columns, - passes one over)`},
		{"unknown counter", "# mid\trepost\n1\t2\n", "--counter reddit", `the server has no counter "reddit"; it has weibo`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := weibo(t)
			path := writeFile(t, test.file)
			status, out, errs := tool(t, append([]string{"load", path, "--server", s.Addr}, strings.Fields(test.flags)...)...)
			want := "counterbench load: " + strings.ReplaceAll(test.want, "FILE", path) + "\n"
			if status != 1 || out != "" || errs != want {
				t.Errorf("status %d, output %q, error\n%swant\n%s", status, out, errs, want)
			}
			if size := ask(t, s, "DBSIZE"); size != "0" {
				t.Errorf("the server has %s posts, want none", size)
			}
		})
	}
}

// TestLoadCountsRefusals checks that rows which the server refuses are counted and reported.
func TestLoadCountsRefusals(t *testing.T) {
	s := weibo(t)
	seen := 0
	s.Before = func(command string) error {
		if command == "hset" {
			if seen++; seen > 2 {
				return fmt.Errorf("OOM command not allowed when used memory > 'maxmemory'")
			}
		}
		return nil
	}
	path := writeFile(t, "mid\trepost\n1\t1\n2\t2\n3\t3\n4\t4\n")
	status, out, errs := tool(t, "load", path, "--server", s.Addr)
	if status != 1 || !strings.HasPrefix(out, "loaded 2 rows") || !strings.HasSuffix(out, "2 errors\n") ||
		errs != "counterbench load: the server refused 2 rows, the first: post 3: server: OOM command not allowed when used memory > 'maxmemory'\n" {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}

func TestLoadNoServer(t *testing.T) {
	port, err := freePort("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	status, _, errs := tool(t, "load", writeFile(t, "mid\ta\n1\t1\n"), "--server", fmt.Sprint("127.0.0.1:", port))
	if status != 1 || !strings.Contains(errs, "connection refused") {
		t.Errorf("status %d: %s", status, errs)
	}
}
