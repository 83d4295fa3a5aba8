package tools

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestScriptVerbatim runs the project's first example, line by line as it is printed in the documentation.
func TestScriptVerbatim(t *testing.T) {
	if _, ok := harness.Tool(t, "redis-cli"); !ok {
		return
	}
	const use = `set 19089006004.cntcm 987654
incr 888888.cntrn
get 123456.cntan
del 19089006004
`
	for _, order := range []struct{ name, script string }{{"column first", harness.SchemaScript}, {"counter first", harness.CounterFirst}} {
		t.Run(order.name, func(t *testing.T) {
			s := harness.Start(t)
			for run := range 2 {
				got := s.Cli(t, order.script+use)
				want := strings.Repeat("OK\n", 5) + "OK\n" + strconv.Itoa(run+1) + "\n\n1\n"
				if got != want {
					t.Errorf("run %d\n got %q\nwant %q", run+1, got, want)
				}
			}
			if got := s.Cli(t, "", "get", "19089006004.cntcm"); got != "\n" {
				t.Errorf("a deleted item reads as %q, want nil", got)
			}
			if got := s.Cli(t, "", "get", "888888.cntcm"); got != "0\n" {
				t.Errorf("a column never set reads as %q, want its default 0", got)
			}
		})
	}
}

// TestSchemaPrintsItself checks that what SCHEMA prints recreates the schema, in another server and in the same one.
func TestSchemaPrintsItself(t *testing.T) {
	if _, ok := harness.Tool(t, "redis-cli"); !ok {
		return
	}
	a, b := harness.Start(t), harness.Start(t)
	harness.RunScript(t, a.Dial(t), harness.SchemaScript+harness.PlainScript)
	printed := a.Cli(t, "", "schema")
	for _, part := range []string{"weibo", "comment", "cntcm", "repost", "attitude", "hint=16", "hint=8", "max=32"} {
		if !strings.Contains(printed, part) {
			t.Errorf("SCHEMA does not print %q:\n%s", part, printed)
		}
	}
	for _, s := range []*harness.Server{b, a} {
		out := s.Cli(t, printed)
		if strings.Trim(out, "OK\n") != "" || out == "" {
			t.Errorf("the lines that SCHEMA printed were answered\n%s\nwant only OK. They are:\n%s", out, printed)
		}
		if again := s.Cli(t, "", "schema"); again != printed {
			t.Errorf("recreated schema\n got %q\nwant %q", again, printed)
		}
	}
}

// TestSchemaDifference checks that a redefinition which differs is refused, names the difference and changes nothing.
func TestSchemaDifference(t *testing.T) {
	s := harness.Start(t)
	c := s.Dial(t)
	harness.SeedSchema(t, c)
	before := c.Do("SCHEMA").Raw
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
		v := c.Do(strings.Fields(line.script)...)
		if v.Kind != '-' || !strings.Contains(v.Text, line.names) {
			t.Errorf("%s\n got %q, want an error that names %s", line.script, v.Raw, line.names)
		}
	}
	if after := c.Do("SCHEMA").Raw; after != before {
		t.Errorf("refused definitions changed the schema\n got %q\nwant %q", after, before)
	}
}

// TestCLIModes goes through the modes of redis-cli, each of which has needs of its own.
func TestCLIModes(t *testing.T) {
	if _, ok := harness.Tool(t, "redis-cli"); !ok {
		return
	}
	sock := harness.SocketPath(t)
	s := harness.Start(t, "--unixsocket", sock)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript+harness.PlainScript)
	items := harness.FillItems(t, s)

	t.Run("one-shot", func(t *testing.T) {
		for _, call := range []struct{ args, want string }{
			{"set 77.cntcm 41", "OK\n"}, {"incr 77.cntcm", "42\n"}, {"-n 0 get 77.cntcm", "42\n"},
			{"-3 get 77.cntcm", "42\n"}, {"-3 mget 77.cntcm 76.cntcm", "42\n\n"},
			{"--no-raw get 76.cntcm", "(nil)\n"}, {"--no-raw -3 get 76.cntcm", "(nil)\n"},
			{"--no-raw incr 77.cntcm", "(integer) 43\n"}, {"del 77", "1\n"}, {"ping", "PONG\n"},
			{"hset h:1 a 1 b 2 c 3", "3\n"}, {"hgetall h:1", "a\n1\nb\n2\nc\n3\n"},
			{"--json -3 hgetall h:1", `{"a":"1","b":"2","c":"3"}` + "\n"}, {"del h:1", "1\n"},
		} {
			if got := s.Cli(t, "", strings.Fields(call.args)...); got != call.want {
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
			resp = harness.AppendCall(resp, "INCR", "", first+uint64(i), ".cntcm", -1)
			fmt.Fprintf(&inline, "INCR %d.cntcm\r\n", first+i)
		}
		for _, input := range []string{string(resp), inline.String()} {
			out := s.Cli(t, input, "--pipe")
			if want := fmt.Sprintf("errors: 0, replies: %d\n", n); !strings.HasSuffix(out, want) {
				t.Errorf("got %q, want it to end in %q", out, want)
			}
		}
		harness.BulkParallel(t, s, 1, n, func(dst []byte, i int) []byte {
			return harness.AppendCall(dst, "GETSET", "", first+uint64(i), ".cntcm", 0)
		}, harness.WantReply("$2"))
		harness.BulkParallel(t, s, 1, n, func(dst []byte, i int) []byte {
			return harness.AppendCall(dst, "DEL", "", first+uint64(i), "", -1)
		}, harness.WantReply(":1"))
	})
	t.Run("scan", func(t *testing.T) {
		keys := strings.Fields(s.Cli(t, "", "--scan"))
		slices.Sort(keys)
		if want := items.SortedKeys(); !slices.Equal(keys, want) {
			t.Errorf("--scan printed %d keys (%.120s), want %d (%.120s)", len(keys), strings.Join(keys, " "), len(want), strings.Join(want, " "))
		}
		for _, pattern := range []string{"h:*", "n:10?", "5[0-4]*", "nothing*", "*"} {
			got := strings.Fields(s.Cli(t, "", "--scan", "--pattern", pattern))
			slices.Sort(got)
			if want := items.Matching(pattern); !slices.Equal(got, want) {
				t.Errorf("--scan --pattern %s printed %d keys, want %d\n got %.200s\nwant %.200s", pattern, len(got), len(want), strings.Join(got, " "), strings.Join(want, " "))
			}
		}
	})
	t.Run("bigkeys", func(t *testing.T) {
		want := fmt.Sprintf("Sampled %d keys in the keyspace!", items.Len())
		for _, flag := range []string{"--bigkeys", "--memkeys"} {
			if out := s.Cli(t, "", flag); !strings.Contains(out, want) || strings.Contains(out, "rror") || strings.Contains(out, "Warning") {
				t.Errorf("%s: want %q and no error\n%s", flag, want, out)
			}
		}
	})
	t.Run("stat", func(t *testing.T) {
		stdbuf, err := exec.LookPath("stdbuf")
		if err != nil {
			t.Fatal("stdbuf (coreutils) is not installed")
		}
		cmd := exec.CommandContext(t.Context(), stdbuf, "-oL", "redis-cli", "-p", strconv.Itoa(s.Port), "--stat")
		out := new(harness.LogBuffer)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { // it runs until it is killed
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^%d +[0-9.]+[KMG] +[1-9][0-9]* +0 +[0-9]+ \(\+[0-9]+\) +[0-9]+ +$`, items.Len()))
		harness.Eventually(t, time.Minute, fmt.Sprintf("a row with %d keys, memory, clients, requests and connections", items.Len()), func() bool { return row.MatchString(out.String()) })
	})
	t.Run("latency", func(t *testing.T) {
		out := s.Cli(t, "", "--latency") // not on a terminal it samples for one second: min max avg count
		if !regexp.MustCompile(`^[0-9]+ [0-9]+ [0-9.]+ [1-9][0-9]*\n$`).MatchString(out) {
			t.Errorf("got %q", out)
		}
	})
	t.Run("interactive", func(t *testing.T) { testInteractive(t, s) })
}

// testInteractive starts redis-cli on a terminal, where it takes its help and its hints from COMMAND DOCS.
func testInteractive(t *testing.T, s *harness.Server) {
	prompt := s.Addr + "> "
	term := harness.StartTerminal(t, "redis-cli", "-p", strconv.Itoa(s.Port))
	term.Await(0, prompt)
	// The hint for the arguments appears beside "incr " before the line is entered.
	from := term.Typed("incr ")
	term.Await(from, "", "key")
	from = term.Typed("91.cntcm\r")
	term.Await(from, "\n"+prompt, "(integer) 1")
	for _, line := range []struct{ typed, shown string }{
		{"help incr", "summary:"}, {"help add", "summary:"}, {"help counter.mget", "summary:"}, {"help @string", "INCR"},
		{"hello 3", "proto"}, {"get 91.cntrn", `"0"`}, {"hgetall 91", `"comment" => "1"`}, {"del 91", "(integer) 1"},
	} {
		from = term.Typed(line.typed + "\r")
		term.Await(from, "\n"+prompt, line.shown)
	}
	term.Typed("quit\r")
	if err := term.Wait(); err != nil {
		t.Errorf("redis-cli: %v\n%s", err, term.Out)
	}
	if strings.Contains(term.Out.String(), "ssert") {
		t.Errorf("redis-cli refused a reply:\n%s", term.Out)
	}
}
