package tools

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/tlstest"
)

// TestCheckConfig: --check-config says what is wrong with settings, their file and the schema's, and starts nothing.
func TestCheckConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.conf", "port 7000\nhz 10\ndir "+filepath.Join(dir, "data")+"\nschema "+write("good.schema", "add counter a\n")+"\n")
	for _, c := range []struct {
		args   []string
		status int
		words  []string
	}{
		{[]string{"--config", good}, 0, []string{"hz: ignored, this setting of Redis has no meaning in counterd", "configuration OK"}},
		{[]string{good}, 0, []string{"configuration OK"}},
		{[]string{good, "--port", "70000"}, 1, []string{"port", "70000"}},
		{[]string{"--config", write("bad.conf", "port x\nnosuch 1\n")}, 1, []string{"line 1", "line 2", "nosuch"}},
		{[]string{"--schema", write("bad.schema", "add counter a\nadd column b\n")}, 1, []string{"bad.schema", "2"}},
		{[]string{"--schema", filepath.Join(dir, "none")}, 1, []string{"none"}},
		{[]string{good, "another"}, 1, []string{"another"}},
		{[]string{good, "--appendonly", "no"}, 0, []string{"data is kept in memory only", "configuration OK"}},
		{[]string{write("memory.conf", "appendonly no\n")}, 1, []string{"line 1", "appendonly yes", "save \"\""}},
	} {
		out, status := harness.RunCounterd(t, append([]string{"--check-config"}, c.args...)...)
		if status != c.status {
			t.Errorf("%v: status %d, want %d\n%s", c.args, status, c.status, out)
		}
		for _, w := range c.words {
			if !strings.Contains(out, w) {
				t.Errorf("%v: no %q in\n%s", c.args, w, out)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		t.Error("a data directory was made")
	}
}

// TestServiceManager is what systemd hears: loading, ready when clients are served, stopping.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	port := freeport.Take(t)
	cmd := exec.Command(harness.CounterdPath, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", t.TempDir())
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	hear := func(what string) {
		t.Helper()
		_ = socket.SetReadDeadline(time.Now().Add(harness.IoTimeout))
		for b := make([]byte, 1<<10); ; {
			n, err := socket.Read(b)
			if err != nil {
				t.Fatalf("no %s: %v", what, err)
			}
			if strings.HasPrefix(string(b[:n]), what+"\n") {
				return
			}
		}
	}
	hear("READY=1")
	c, err := harness.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), harness.IoTimeout)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.TryDo("PING"); err != nil || v.Raw != "+PONG\r\n" {
		t.Errorf("%v, %v", v, err)
	}
	c.Close()
	harness.WantCtl(t, 0, []string{"ping", "127.0.0.1:" + strconv.Itoa(port)}, "it serves")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hear("STOPPING=1")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	harness.WantCtl(t, 1, []string{"ping", "127.0.0.1:" + strconv.Itoa(port)}, "refused")
}

// TestHealthCheck: the health check of the image finds the server's port, TLS and unix socket in the settings of its
// process, and says no of a server that refuses, and of a process that is none.
func TestHealthCheck(t *testing.T) {
	t.Parallel()
	ca := tlstest.NewCA(t)
	tlsPort := freeport.Take(t)
	socket := filepath.Join(t.TempDir(), "s")
	file := filepath.Join(t.TempDir(), "counterd.conf")
	if err := os.WriteFile(file, []byte("appendonly yes\nmaxclients 100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"port":     {},
		"password": {"--requirepass", "s3cret"},
		"file":     {"--config", file},
		"TLS":      append(harness.TlsArgs(ca, ca.Pair("localhost"), tlsPort), "--tls-auth-clients", "yes"),
		"socket":   {"--unixsocket", socket},
	} {
		s := harness.Start(t, args...)
		pid := strconv.Itoa(s.Cmd.Process.Pid)
		if out, status := harness.RunCounterd(t, "--health-check", pid); status != 0 || out != "" {
			t.Errorf("%s: %d, %s", name, status, out)
		}
		if name == "port" {
			c := s.Dial(t)
			c.Do("CLIENT", "PAUSE", "100000", "ALL")
			if out, status := harness.RunCounterd(t, "--health-check", pid); status != 1 {
				t.Errorf("a server that does not answer: %d, %s", status, out)
			}
		}
	}
	if out, status := harness.RunCounterd(t, "--health-check", strconv.Itoa(os.Getpid())); status != 1 {
		t.Errorf("a process that is no counterd: %d, %s", status, out)
	}
}

// TestPackaged checks what packages bring: settings that are good, and a unit that systemd understands and that lets the
// server have what it needs and little else.
func TestPackaged(t *testing.T) {
	t.Parallel()
	const dir = "../../../../packaging/"
	conf, err := filepath.Abs(dir + "counterd.conf")
	if err != nil {
		t.Fatal(err)
	}
	if out, status := harness.RunCounterd(t, "--check-config", "--config", conf); status != 0 || !strings.Contains(out, "configuration OK") {
		t.Errorf("counterd.conf: %d\n%s", status, out)
	}
	compose, err := os.ReadFile(dir + "compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`command: \[("--.*)\]`).FindAllSubmatch(compose, -1) {
		var args []string
		for _, quoted := range strings.Split(string(m[1]), ", ") {
			arg, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatalf("compose.yaml: %s: %v", quoted, err)
			}
			args = append(args, strings.Replace(arg, "/usr/share/counterd/weibo.schema", filepath.Join(filepath.Dir(conf), "../cmd/counterd/weibo.schema"), 1))
		}
		if out, status := harness.RunCounterd(t, append(args, "--check-config")...); status != 0 {
			t.Errorf("compose.yaml: %q: %d\n%s", args, status, out)
		}
	}
	// What the files of an archive take from elsewhere has to be in the archive.
	dist, err := os.ReadFile(dir + "dist.sh")
	if err != nil {
		t.Fatal(err)
	}
	dockerfile, err := os.ReadFile(dir + "Dockerfile.archive")
	if err != nil {
		t.Fatal(err)
	}
	taken := regexp.MustCompile(`(?m)^COPY (?:--chmod=0755 )?([^-\n].*) /usr/\S+$`).FindAllSubmatch(dockerfile, -1)
	taken = append(taken, regexp.MustCompile(`"\./([a-z.]+):/`).FindAllSubmatch(compose, -1)...)
	if len(taken) < 6 || bytes.Contains(compose, []byte(`"../`)) {
		t.Errorf("%d lines take files, and compose.yaml takes none from outside of its folder:\n%s", len(taken), compose)
	}
	for _, m := range taken {
		for _, file := range strings.Fields(string(m[1])) {
			if name := filepath.Base(file); !strings.HasPrefix(file, "bin/") && !bytes.Contains(dist, []byte(name)) {
				t.Errorf("%s is taken, and dist.sh does not put it into the archive", file)
			}
		}
	}
	unit, err := os.ReadFile(dir + "counterd.service")
	if err != nil {
		t.Fatal(err)
	}
	// counterd reads boot_id and meminfo, and Go's listeners somaxconn: without these a cluster's node that was killed counts as one whose
	// machine lost power, and 128 connections wait instead of 4096. A node asks for its own addresses by netlink.
	if bytes.Contains(unit, []byte("\nProcSubset=")) || !regexp.MustCompile(`(?m)^RestrictAddressFamilies=.* AF_NETLINK\b`).Match(unit) {
		t.Errorf("the unit hides what the server asks the kernel for:\n%s", unit)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		os.Stderr.WriteString("LEFT OUT: TestPackaged: systemd-analyze is not installed: the unit is not verified\n")
		return
	}
	unit = bytes.ReplaceAll(unit, []byte("/usr/bin/counterd"), []byte(harness.CounterdPath)) // it is not installed
	unit = bytes.ReplaceAll(unit, []byte("Documentation="), []byte("# "))
	path := filepath.Join(t.TempDir(), "counterd.service")
	if err := os.WriteFile(path, unit, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// Of 0 to 100: 20 is what redis-server's unit of Debian has.
	if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=15", path).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
