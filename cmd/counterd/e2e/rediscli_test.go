package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cli runs redis-cli against a server and returns what it printed, standard error included. The exit
// status must be 0.
func (s *server) cli(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ioTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "redis-cli", append([]string{"-p", strconv.Itoa(s.port)}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestScriptVerbatim runs the project's first example, line by line as it is printed in the documentation.
func TestScriptVerbatim(t *testing.T) {
	if _, ok := tool(t, "redis-cli"); !ok {
		return
	}
	const use = `set 19089006004.cntcm 987654
incr 888888.cntrn
get 123456.cntan
del 19089006004
`
	for _, order := range []struct{ name, script string }{{"column first", schemaScript}, {"counter first", counterFirst}} {
		t.Run(order.name, func(t *testing.T) {
			s := start(t)
			for run := range 2 {
				got := s.cli(t, order.script+use)
				want := strings.Repeat("OK\n", 5) + "OK\n" + strconv.Itoa(run+1) + "\n\n1\n"
				if got != want {
					t.Errorf("run %d\n got %q\nwant %q", run+1, got, want)
				}
			}
			if got := s.cli(t, "", "get", "19089006004.cntcm"); got != "\n" {
				t.Errorf("a deleted item reads as %q, want nil", got)
			}
			if got := s.cli(t, "", "get", "888888.cntcm"); got != "0\n" {
				t.Errorf("a column never set reads as %q, want its default 0", got)
			}
		})
	}
}

// TestSchemaPrintsItself checks that what SCHEMA prints recreates the schema, in another server and in the same one.
func TestSchemaPrintsItself(t *testing.T) {
	if _, ok := tool(t, "redis-cli"); !ok {
		return
	}
	a, b := start(t), start(t)
	runScript(t, a.dial(t), schemaScript+plainScript)
	printed := a.cli(t, "", "schema")
	for _, part := range []string{"weibo", "comment", "cntcm", "repost", "attitude", "hint=16", "hint=8", "max=32"} {
		if !strings.Contains(printed, part) {
			t.Errorf("SCHEMA does not print %q:\n%s", part, printed)
		}
	}
	for _, s := range []*server{b, a} {
		out := s.cli(t, printed)
		if strings.Trim(out, "OK\n") != "" || out == "" {
			t.Errorf("the lines that SCHEMA printed were answered\n%s\nwant only OK. They are:\n%s", out, printed)
		}
		if again := s.cli(t, "", "schema"); again != printed {
			t.Errorf("recreated schema\n got %q\nwant %q", again, printed)
		}
	}
}

// TestSchemaDifference checks that a redefinition which differs is refused, names the difference and changes nothing.
func TestSchemaDifference(t *testing.T) {
	s := start(t)
	c := s.dial(t)
	seedSchema(t, c)
	before := c.do("SCHEMA").Raw
	for _, line := range []struct{ script, names string }{
		{"add column weibo comment hint=8 max=32 default=0 suffix=cntcm", "hint"},
		{"add column weibo comment hint=16 max=33 default=0 suffix=cntcm", "max"},
		{"add column weibo comment hint=16 max=32 default=1 suffix=cntcm", "default"},
		{"add column weibo comment hint=16 max=32 default=0 suffix=other", "suffix"},
		{"add column weibo fourth hint=8 max=32 suffix=cntcm", "suffix"},
		{"add column weibo fourth hint=0 max=32 suffix=x", "hint"},
		{"add column weibo fourth hint=33 max=32 suffix=x", "hint"},
		{"add column weibo fourth hint=8 max=65 suffix=x", "max"},
		{"add column weibo fourth hint=8 max=8 default=256 suffix=x", "default"},
		{"add column weibo fourth hint=8 max=8 suffix=a-b", "suffix"},
	} {
		v := c.do(strings.Fields(line.script)...)
		if v.Kind != '-' || !strings.Contains(v.Text, line.names) {
			t.Errorf("%s\n got %q, want an error that names %s", line.script, v.Raw, line.names)
		}
	}
	if after := c.do("SCHEMA").Raw; after != before {
		t.Errorf("refused definitions changed the schema\n got %q\nwant %q", after, before)
	}
}

// TestCLIModes goes through the modes of redis-cli, each of which has needs of its own.
func TestCLIModes(t *testing.T) {
	if _, ok := tool(t, "redis-cli"); !ok {
		return
	}
	sock := socketPath(t)
	s := start(t, "--unixsocket", sock)
	runScript(t, s.dial(t), schemaScript+plainScript)
	items := fillItems(t, s)

	t.Run("one-shot", func(t *testing.T) {
		for _, call := range []struct{ args, want string }{
			{"set 77.cntcm 41", "OK\n"}, {"incr 77.cntcm", "42\n"}, {"-n 0 get 77.cntcm", "42\n"},
			{"-3 get 77.cntcm", "42\n"}, {"-3 mget 77.cntcm 76.cntcm", "42\n\n"},
			{"--no-raw get 76.cntcm", "(nil)\n"}, {"--no-raw -3 get 76.cntcm", "(nil)\n"},
			{"--no-raw incr 77.cntcm", "(integer) 43\n"}, {"del 77", "1\n"}, {"ping", "PONG\n"},
			{"hset h:1 a 1 b 2 c 3", "3\n"}, {"hgetall h:1", "a\n1\nb\n2\nc\n3\n"},
			{"--json -3 hgetall h:1", `{"a":"1","b":"2","c":"3"}` + "\n"}, {"del h:1", "1\n"},
		} {
			if got := s.cli(t, "", strings.Fields(call.args)...); got != call.want {
				t.Errorf("redis-cli %s\n got %q\nwant %q", call.args, got, call.want)
			}
		}
	})
	t.Run("unix socket", func(t *testing.T) {
		out, err := exec.Command("redis-cli", "-s", sock, "ping").CombinedOutput()
		if string(out) != "PONG\n" || err != nil {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("pipe", func(t *testing.T) {
		const n, first = 5000, 1 << 40 // beyond the items that the other modes count
		var resp []byte
		var inline strings.Builder
		for i := range n {
			resp = appendCall(resp, "INCR", "", first+uint64(i), ".cntcm", -1)
			fmt.Fprintf(&inline, "INCR %d.cntcm\r\n", first+i)
		}
		for _, input := range []string{string(resp), inline.String()} {
			out := s.cli(t, input, "--pipe")
			if want := fmt.Sprintf("errors: 0, replies: %d\n", n); !strings.HasSuffix(out, want) {
				t.Errorf("got %q, want it to end in %q", out, want)
			}
		}
		bulkParallel(t, s, 1, n, func(dst []byte, i int) []byte {
			return appendCall(dst, "GETSET", "", first+uint64(i), ".cntcm", 0)
		}, wantReply("$2"))
		bulkParallel(t, s, 1, n, func(dst []byte, i int) []byte {
			return appendCall(dst, "DEL", "", first+uint64(i), "", -1)
		}, wantReply(":1"))
	})
	t.Run("scan", func(t *testing.T) {
		keys := strings.Fields(s.cli(t, "", "--scan"))
		slices.Sort(keys)
		if want := items.sortedKeys(); !slices.Equal(keys, want) {
			t.Errorf("--scan printed %d keys (%.120s), want %d (%.120s)", len(keys), strings.Join(keys, " "), len(want), strings.Join(want, " "))
		}
		for _, pattern := range []string{"h:*", "n:10?", "5[0-4]*", "nothing*", "*"} {
			got := strings.Fields(s.cli(t, "", "--scan", "--pattern", pattern))
			slices.Sort(got)
			if want := items.matching(pattern); !slices.Equal(got, want) {
				t.Errorf("--scan --pattern %s printed %d keys, want %d\n got %.200s\nwant %.200s", pattern, len(got), len(want), strings.Join(got, " "), strings.Join(want, " "))
			}
		}
	})
	t.Run("bigkeys", func(t *testing.T) {
		want := fmt.Sprintf("Sampled %d keys in the keyspace!", items.len())
		for _, flag := range []string{"--bigkeys", "--memkeys"} {
			if out := s.cli(t, "", flag); !strings.Contains(out, want) || strings.Contains(out, "rror") || strings.Contains(out, "Warning") {
				t.Errorf("%s: want %q and no error\n%s", flag, want, out)
			}
		}
	})
	t.Run("stat", func(t *testing.T) {
		stdbuf, err := exec.LookPath("stdbuf")
		if err != nil {
			t.Fatal("stdbuf (coreutils) is not installed")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, stdbuf, "-oL", "redis-cli", "-p", strconv.Itoa(s.port), "--stat")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // it runs until it is killed
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^%d +[0-9.]+[KMG] +[1-9][0-9]* +0 +[0-9]+ \(\+[0-9]+\) +[0-9]+ +$`, items.len()))
		if !row.Match(out.Bytes()) {
			t.Errorf("no row with %d keys, memory, clients, requests and connections in\n%s", items.len(), &out)
		}
	})
	t.Run("latency", func(t *testing.T) {
		out := s.cli(t, "", "--latency") // not on a terminal it samples for one second: min max avg count
		if !regexp.MustCompile(`^[0-9]+ [0-9]+ [0-9.]+ [1-9][0-9]*\n$`).MatchString(out) {
			t.Errorf("got %q", out)
		}
	})
	t.Run("interactive", func(t *testing.T) { testInteractive(t, s) })
}

// testInteractive starts redis-cli on a terminal, where it takes its help and its hints from COMMAND DOCS.
func testInteractive(t *testing.T, s *server) {
	prompt := s.addr + "> "
	term := startTerminal(t, "redis-cli", "-p", strconv.Itoa(s.port))
	term.await(0, prompt)
	// The hint for the arguments appears beside "incr " before the line is entered.
	from := term.typed("incr ")
	term.await(from, "", "key")
	from = term.typed("91.cntcm\r")
	term.await(from, "\n"+prompt, "(integer) 1")
	for _, line := range []struct{ typed, shown string }{
		{"help incr", "summary:"}, {"help add", "summary:"}, {"help counter.mget", "summary:"}, {"help @string", "INCR"},
		{"hello 3", "proto"}, {"get 91.cntrn", `"0"`}, {"hgetall 91", `"comment" => "1"`}, {"del 91", "(integer) 1"},
	} {
		from = term.typed(line.typed + "\r")
		term.await(from, "\n"+prompt, line.shown)
	}
	term.typed("quit\r")
	if err := term.wait(); err != nil {
		t.Errorf("redis-cli: %v\n%s", err, term.out)
	}
	if strings.Contains(term.out.String(), "ssert") {
		t.Errorf("redis-cli refused a reply:\n%s", term.out)
	}
}

// keySet is what a server has been filled with.
type keySet map[string]bool

// fillItems makes items of every kind of key and returns them by the names that SCAN must give them.
func fillItems(t testing.TB, s *server) keySet {
	t.Helper()
	c := s.dial(t)
	keys := keySet{}
	for i := range 300 {
		mid := strconv.Itoa(i*i + 100)
		c.want("+OK\r\n", "SET", mid+".cntcm", "5")
		c.want("+OK\r\n", "SET", "n:"+mid, "5")
		c.want(":3\r\n", "HSET", "h:"+mid, "a", "1", "b", "2", "c", "3")
		keys[mid], keys["n:"+mid], keys["h:"+mid] = true, true, true
	}
	return keys
}

func (k keySet) len() int { return len(k) }

func (k keySet) sortedKeys() []string {
	keys := make([]string, 0, len(k))
	for key := range k {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// matching returns the keys that match a pattern of *, ? and [a-b], sorted.
func (k keySet) matching(pattern string) []string {
	re := regexp.MustCompile("^" + strings.NewReplacer("*", ".*", "?", ".", ".", `\.`).Replace(pattern) + "$")
	return slices.DeleteFunc(k.sortedKeys(), func(key string) bool { return !re.MatchString(key) })
}
