// Scenario: console blocks of pages print what they show.

package docs

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/programs"
	"github.com/counterd/counterd/internal/testkit/racetest"
)

// A console block begins with a prompt: "$ " of a shell, or that of redis-cli. It is executed, in the order of its page:
//
//	$ redis-cli INCR 7.cntrn       a command of the shell; "> " begins a line that continues it
//	(integer) 1                    what it prints
//	127.0.0.1:6379> GET 7.cntrn    a command that redis-cli is given, in one session with those next to it
//	"1"
//
// "..." stands for what varies: for any text within a line, and for any lines where it stands alone. All blocks of a page
// share a directory and its servers. A page that starts no server itself finds an empty one on port 6379, with the example
// schema. Ports of the text stand for free ones. A command that ends in "&" is a server, and ends with its page.
// A block without a prompt is not executed: it needs other machines, or takes too long.

// patience is how long a command, or the start of a server, may take.
const patience = 5 * time.Minute

// prompt is redis-cli's, with the port.
var prompt = regexp.MustCompile(`^127\.0\.0\.1:(\d+)(?:\(TX\))?> (.*)$`)

// ports are those that pages may name. Each stands for a free one of this machine while the page is executed.
var ports = []int{6379, 6380, 6381, 7000, 7001, 7002, 8080, 9100}

// step is a command, or a session of redis-cli, and what it must print.
type step struct {
	line  int
	shell string   // the command, or empty for a session
	port  int      // of a session
	input []string // of a session
	want  []string
}

// console is a page that is being executed.
type console struct {
	t       *testing.T
	dir     string
	free    map[int]int // the port that stands for the one in the text
	servers []*exec.Cmd
	logs    []*os.File
	ended   []chan struct{} // closed when the server has ended
}

// TestConsole executes the blocks of each page that begin with a prompt.
func TestConsole(t *testing.T) {
	racetest.Skip(t, "it runs programs")
	if _, err := exec.LookPath("redis-cli"); err != nil {
		fmt.Fprintf(os.Stderr, "LEFT OUT: %s: redis-cli is not installed\n", t.Name())
		return
	}
	executed := 0
	for _, page := range pages(t) {
		steps := stepsOf(t, page)
		if len(steps) == 0 {
			continue
		}
		executed += len(steps)
		if program := missing(steps); program != "" {
			fmt.Fprintf(os.Stderr, "LEFT OUT: %s/%s: %s is not installed\n", t.Name(), page, program)
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t)
			if !slices.ContainsFunc(steps, func(s step) bool { return strings.HasSuffix(s.shell, "&") }) {
				c.serve("counterd --dir data --schema cmd/counterd/weibo.schema &")
			}
			for _, s := range steps {
				c.run(page, s)
			}
		})
	}
	if executed < 10 {
		t.Errorf("executed %d steps only", executed)
	}
}

// missing is a program that a page needs and the machine does not have, or empty.
func missing(steps []step) string {
	for _, s := range steps {
		if program, _, _ := strings.Cut(s.shell, " "); program == "curl" || program == "openssl" {
			if _, err := exec.LookPath(program); err != nil {
				return program
			}
		}
	}
	return ""
}

// stepsOf reads what a page's console blocks say.
func stepsOf(t *testing.T, page string) (steps []step) {
	t.Helper()
	lines := read(t, page)
	for i := 0; i < len(lines); i++ {
		if !strings.HasPrefix(lines[i], "```") {
			continue
		}
		end := i + 1
		for end < len(lines) && !strings.HasPrefix(lines[end], "```") {
			end++
		}
		if end == len(lines) {
			t.Fatalf("%s:%d: the block does not end", page, i+1)
		}
		if block := lines[i+1 : end]; len(block) > 0 && (strings.HasPrefix(block[0], "$ ") || prompt.MatchString(block[0])) {
			steps = append(steps, parse(block, i+2)...)
		}
		i = end
	}
	return steps
}

// parse reads one block, whose first line has the number first.
func parse(block []string, first int) (steps []step) {
	for i, line := range block {
		last := len(steps) - 1
		if m := prompt.FindStringSubmatch(line); m != nil {
			port, _ := strconv.Atoi(m[1])
			if last < 0 || steps[last].shell != "" || steps[last].port != port {
				steps = append(steps, step{line: first + i, port: port})
				last++
			}
			steps[last].input = append(steps[last].input, m[2])
		} else if command, ok := strings.CutPrefix(line, "$ "); ok {
			// redis-cli alone is the session that follows.
			if next := i + 1; strings.HasPrefix(command, "redis-cli") && next < len(block) && prompt.MatchString(block[next]) {
				continue
			}
			steps = append(steps, step{line: first + i, shell: command})
		} else if more, ok := strings.CutPrefix(line, "> "); ok && steps[last].shell != "" && len(steps[last].want) == 0 {
			steps[last].shell += "\n" + more
		} else {
			steps[last].want = append(steps[last].want, line)
		}
	}
	return steps
}

func newConsole(t *testing.T) *console {
	c := &console{t: t, dir: t.TempDir(), free: map[int]int{}}
	for _, port := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c.free[port] = l.Addr().(*net.TCPAddr).Port
	}
	// The page's commands see the repository's folders, with the programs in bin.
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(c.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"counterd", "counterctl", "counterbench"} {
		program, err := programs.Path(name)
		if err != nil {
			t.Fatal(err)
		}
		c.link(program, filepath.Join("bin", name))
	}
	for _, entry := range entries {
		if name := entry.Name(); name != "bin" && !strings.HasPrefix(name, ".") {
			c.link(filepath.Join(whole, name), name)
		}
	}
	// The shims give the programs the port that stands for their default one. make run builds with the profile for minutes
	// at worst; here it starts the programs that are built already, with the arguments that the Makefile gives.
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Fatal(err)
	}
	c.shim("redis-cli", fmt.Sprintf("exec %s -p %d --no-raw \"$@\"", cli, c.free[6379]))
	c.shim("counterd", fmt.Sprintf("case \" $* \" in *' --port '*|*' --config '*|*' --version '*|*' --help '*) exec bin/counterd \"$@\";; esac\nexec bin/counterd --port %d \"$@\"", c.free[6379]))
	c.shim("make", fmt.Sprintf("exec $(/usr/bin/env -u MAKEFLAGS -u MAKELEVEL make -C %s -n --no-print-directory \"$@\" PORT=%d | tail -1)", whole, c.free[6379]))
	t.Cleanup(c.end)
	return c
}

func (c *console) link(target, name string) {
	c.t.Helper()
	if err := os.Symlink(target, filepath.Join(c.dir, name)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *console) shim(name, script string) {
	c.t.Helper()
	dir := filepath.Join(c.dir, ".shims")
	if name == "make" { // it calls the real one
		script = "PATH=${PATH#*:}\n" + script
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	// A process that another page starts meanwhile has the open file until its exec, and then the script is "text file busy" for this page:
	// https://go.dev/issue/22315.
	syscall.ForkLock.RLock()
	err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+script+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		c.t.Fatal(err)
	}
}

// real puts the ports of this machine into a text of the page.
func (c *console) real(text string) string {
	for named, free := range c.free {
		text = regexp.MustCompile(`\b`+strconv.Itoa(named)+`\b`).ReplaceAllString(text, strconv.Itoa(free))
	}
	return text
}

// shown is the reverse.
func (c *console) shown(text string) string {
	for named, free := range c.free {
		text = regexp.MustCompile(`\b`+strconv.Itoa(free)+`\b`).ReplaceAllString(text, strconv.Itoa(named))
	}
	return text
}

// address finds addresses of machines.
var address = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`)

// command is bash's, in the directory of the page.
func (c *console) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", c.real(text))
	cmd.Dir = c.dir
	path := filepath.Join(c.dir, ".shims") + ":" + filepath.Join(c.dir, "bin") + ":" + os.Getenv("PATH")
	cmd.Env = append(os.Environ(), "PATH="+path, "NO_COLOR=1", "TERM=dumb")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	return cmd
}

// run executes a step and compares what it prints.
func (c *console) run(page string, s step) {
	c.t.Helper()
	for _, found := range address.FindAllString(s.shell, -1) {
		if found != "127.0.0.1" {
			c.t.Errorf("%s:%d: %s: it names another machine: write the block without a prompt", page, s.line, s.shell)
			return
		}
	}
	if strings.HasSuffix(s.shell, "&") {
		c.serve(s.shell)
		return
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	cmd := c.command(ctx, s.shell)
	if s.shell == "" {
		cmd = c.command(ctx, fmt.Sprintf("redis-cli -p %d", s.port))
		cmd.Stdin = strings.NewReader(c.real(strings.Join(s.input, "\n")) + "\n")
	}
	out, err := cmd.CombinedOutput()
	got := c.shown(string(out))
	if err != nil {
		c.t.Errorf("%s:%d: %s: %v\n%s", page, s.line, s.shell, err, got)
	} else if !matches(s.want, got) {
		c.t.Errorf("%s:%d: %s%s\nprints\n%s\nthe page shows\n%s", page, s.line, s.shell, strings.Join(s.input, "; "), got, strings.Join(s.want, "\n"))
	}
}

// serve starts a server and waits until it answers.
func (c *console) serve(text string) {
	c.t.Helper()
	log, err := os.CreateTemp(c.dir, "server-*.log")
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := c.command(context.Background(), "exec "+strings.TrimSuffix(text, "&"))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	c.servers, c.logs, c.ended = append(c.servers, cmd), append(c.logs, log), append(c.ended, ended)
	port := 6379
	if strings.HasPrefix(text, "go run ") { // a program of the page: it serves HTTP
		port = 8080
	}
	if m := regexp.MustCompile(`(?:--port|PORT=|--listen 127.0.0.1:) ?(\d+)`).FindStringSubmatch(text); m != nil {
		port, _ = strconv.Atoi(m[1])
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", c.free[port])); err == nil {
			answer := make([]byte, 5)
			_, _ = conn.Write([]byte("PING\r\n"))
			_, err := conn.Read(answer)
			conn.Close()
			if err == nil && (string(answer) == "+PONG" || strings.HasPrefix(string(answer), "HTTP/")) {
				return
			}
		}
		select {
		case <-ended:
			c.t.Fatalf("%s: it has ended", text)
		default:
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: nothing answers on port %d", text, port)
		}
	}
}

// end stops the page's servers, and shows their logs where the page failed.
func (c *console) end() {
	for i, cmd := range c.servers {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-c.ended[i]
		if text, err := os.ReadFile(c.logs[i].Name()); err == nil && c.t.Failed() {
			c.t.Logf("server %d:\n%s", i+1, text)
		}
		c.logs[i].Close()
	}
}

// matches compares what was printed with what a page shows. Empty lines and blanks at the ends of lines do not count.
func matches(want []string, got string) bool {
	var pattern strings.Builder
	pattern.WriteString("^")
	for _, line := range want {
		switch line = strings.TrimRight(line, " "); line {
		case "":
		case "...":
			pattern.WriteString(`(?:.*\n)*?`)
		default:
			pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`) + `\n`)
		}
	}
	pattern.WriteString("$")
	var text bytes.Buffer
	for line := range strings.Lines(got) {
		if line = strings.TrimRight(line, " \r\n"); line != "" {
			text.WriteString(line + "\n")
		}
	}
	return regexp.MustCompile(pattern.String()).Match(text.Bytes())
}

// TestMatches: a page that shows something else is found out.
func TestMatches(t *testing.T) {
	for _, c := range []struct {
		want []string
		got  string
		is   bool
	}{
		{[]string{"OK"}, "OK\n", true},
		{[]string{"OK"}, "OK\n\n", true},
		{[]string{"OK"}, "", false},
		{[]string{}, "OK\n", false},
		{[]string{"1) ...", "..."}, "1) \"a\"\n2) \"b\"\n", true},
		{[]string{"offset ..., id 5"}, "offset 17, id 5\n", true},
		{[]string{"offset ..., id 5"}, "offset 17, id 6\n", false},
		{[]string{"...", "end"}, "a\nb\nend\n", true},
		{[]string{"...", "end"}, "a\nb\n", false},
		{[]string{"(integer) 1"}, "(integer) 12\n", false},
	} {
		if matches(c.want, c.got) != c.is {
			t.Errorf("%q is what %q shows: want %v", c.got, c.want, c.is)
		}
	}
}
