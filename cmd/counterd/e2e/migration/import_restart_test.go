package migration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/programs"
)

// importer is a run of counterctl import that may be killed.
type importer struct {
	cmd *exec.Cmd
	out harness.LogBuffer
}

func startImport(t testing.TB, args ...string) *importer {
	t.Helper()
	path, err := programs.Path("counterctl")
	if err != nil {
		t.Fatal(err)
	}
	i := &importer{cmd: exec.Command(path, args...)}
	i.cmd.Stdout, i.cmd.Stderr = &i.out, &i.out
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := i.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return i
}

// saysComplete tells whether the import had been complete before this run. A tool that is killed between its last write and its end has done
// all; the next one says so.
func (i *importer) saysComplete() bool {
	return strings.Contains(i.out.String(), "this import is complete")
}

// startOn runs a server on a given port, on which another one may have been killed.
func startOn(t testing.TB, name, path string, port int, args ...string) *harness.Server {
	t.Helper()
	harness.NoteSources()
	s := &harness.Server{T: t, Name: name, Log: new(harness.LogBuffer), Port: port, Exited: make(chan struct{})}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.Cmd = exec.Command(path, append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1"}, args...)...)
	s.Cmd.Stdout, s.Cmd.Stderr = s.Log, s.Log
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.ExitErr = s.Cmd.Wait()
		close(s.Exited)
	}()
	t.Cleanup(s.Cleanup)
	if !s.AwaitPing() {
		t.Fatalf("%s did not answer PING\n%s", name, s.Log)
	}
	return s
}

// TestImportKilled kills the importer, the target and the source at random moments, and goes on: in the end all is there, and
// nothing was added twice.
func TestImportKilled(t *testing.T) {
	t.Parallel()
	for _, add := range []bool{false, true} {
		t.Run(fmt.Sprintf("add=%v", add), func(t *testing.T) {
			t.Parallel()
			_, seed := harness.Random(t)
			rng := rand.New(rand.NewPCG(uint64(seed), uint64(len(t.Name()))))
			dir := t.TempDir()
			path, ok := harness.Tool(t, "redis-server")
			if !ok {
				return
			}
			sourcePort, targetPort := freeport.Take(t), freeport.Take(t)
			beginSource := func() *harness.Server {
				return startOn(t, "redis-server", path, sourcePort, "--dir", dir, "--save", "", "--appendonly", "no")
			}
			src := beginSource()
			c, m := redisClient(t, src), moved{}
			fillShapes(t, rng, c, harness.Scaled(16_000), m)
			c.Save(context.Background())
			targetDir := t.TempDir()
			beginTarget := func() *harness.Server {
				return startOn(t, "counterd", harness.CounterdPath, targetPort, "--dir", targetDir, "--schema", "../../weibo.schema")
			}
			s := beginTarget()
			args := append([]string{"import", "redis://" + src.Addr, "--to", s.Addr, "--resume", filepath.Join(t.TempDir(), "state"), "--rate", "20000"}, everyShape...)
			if add {
				args = append(args, "--add")
				cs := s.Dial(t)
				for mid, row := range m { // some are there before
					if mid%5 == 0 {
						cs.Do("HSET", fmt.Sprint(mid), "attitude", "1000")
						row[attitude] += 1000
						m[mid] = row
					}
				}
				cs.Close()
			}
			kills := map[string]int{}
			for round := 0; ; round++ {
				i := startImport(t, args...)
				ended := make(chan error, 1)
				go func() { ended <- i.cmd.Wait() }()
				var err error
				for alive := true; alive; {
					pause := time.Duration(rng.IntN(300)) * time.Millisecond
					if round > 8 {
						pause = time.Hour
					}
					select {
					case err = <-ended:
						alive = false
					case <-time.After(pause):
						switch n := rng.IntN(4); {
						case n == 0:
							kills["target"]++
							s.Kill()
							s = beginTarget()
						case n == 1 && !add && kills["source"] < 2: // of additions from a source that is gone nobody can know which were made
							kills["source"]++
							src.Kill()
							src = beginSource()
						case n == 2:
							kills["interrupt"]++
							_ = i.cmd.Process.Signal(os.Interrupt)
							err, alive = <-ended, false
							if text := i.out.String(); err != nil && !strings.Contains(text, "The same command goes on from there") && i.cmd.ProcessState.ExitCode() == 1 && !strings.Contains(text, "connection re") && !strings.Contains(text, "counterctl import: interrupted") {
								t.Errorf("an import that was interrupted says %s", text)
							}
						default:
							kills["importer"]++
							_ = i.cmd.Process.Kill()
							err, alive = <-ended, false
						}
					}
				}
				if err == nil {
					if !strings.Contains(i.out.String(), "verified: ") {
						t.Errorf("%s", i.out.String())
					}
					break
				}
				if stopped := kills["importer"] + kills["interrupt"]; stopped > 0 && i.saysComplete() {
					break
				}
				known := []string{"interrupted", "restarted", "connection refused", "connection reset", "EOF", "LOADING"} // the last four at its start
				if text := i.out.String(); i.cmd.ProcessState.ExitCode() == 1 && !slices.ContainsFunc(known, func(k string) bool { return strings.Contains(text, k) }) {
					t.Fatalf("round %d: %s", round, text)
				}
				if round > 30 {
					t.Fatalf("the import does not end: %s", i.out.String())
				}
			}
			t.Log(kills)
			m.want(t, "in the end", s)
			if add {
				harness.WantCtl(t, 1, args, "this import is complete")
				m.want(t, "after a second import", s)
			}
		})
	}
}
