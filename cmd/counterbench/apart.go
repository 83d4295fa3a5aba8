package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/counterd/counterd/bench"
)

// asLoad makes this program the process that loads a server beside the clients that are measured (bench.Load).
const asLoad = "COUNTERBENCH_LOAD"

// runLoad is that process.
func runLoad() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if bench.RunLoad(ctx, os.Stdin, os.Stdout) != nil { // it has said so
		os.Exit(1)
	}
}

// politely are programs that start another one so that the clients that are measured come first, the best one first. Linux takes the processor from a
// process of the class idle as soon as another one wakes up. From a process of lower priority alone it does so when its slice of 3 ms is over: PUBLISH to 5,000
// subscribers by such a process made others wait for 6.7 ms instead of 1.1 (p99).
var politely = [][]string{{"chrt", "-i", "0"}, {"nice", "-n", "19"}}

// apart starts the process, by the first of politely that is there.
func apart(ctx context.Context) (io.WriteCloser, io.Reader, func() error, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	for _, by := range politely {
		if path, err := exec.LookPath(by[0]); err == nil {
			cmd = exec.CommandContext(ctx, path, append(by[1:len(by):len(by)], self)...)
			break
		}
	}
	cmd.Env = append(os.Environ(), asLoad+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, fmt.Errorf("start the process that loads the server: %w", err)
	}
	return in, out, cmd.Wait, nil
}

// findCounterctl returns counterctl: the one beside this program, or the one in the path; empty where there is none.
func findCounterctl() string {
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), "counterctl"); isProgram(beside) {
			return beside
		}
	}
	path, _ := exec.LookPath("counterctl")
	return path
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
