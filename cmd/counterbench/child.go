package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/bench/procstat"
	"github.com/counterd/counterd/internal/wire"
)

const (
	startWithin = 15 * time.Second // from starting a server to its first PONG
	stopWithin  = 10 * time.Second // from SIGTERM to SIGKILL
)

// child is a server that this process started, and stops.
type child struct {
	*process
	addr string
	log  string // path of its output
}

// freePort returns a port that is free now on the address.
func freePort(bind string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(bind, "0"))
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// startChild starts a server and waits until it answers PING. Its output goes to a file in dir.
func startChild(ctx context.Context, dir, bind string, port int, program string, args ...string) (*child, error) {
	c := &child{addr: net.JoinHostPort(bind, strconv.Itoa(port)), log: filepath.Join(dir, filepath.Base(program)+".log")}
	var err error
	if c.process, err = startProcess(c.log, program, args...); err != nil {
		return nil, err
	}
	if err := c.waitReady(ctx); err != nil {
		c.stop()
		return nil, fmt.Errorf("%s did not start: %w%s", program, err, c.lastLines())
	}
	return c, nil
}

// waitReady asks PING until the answer is PONG; before that a server may refuse connections, or load its data.
func (c *child) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("no answer to PING within %s", startWithin))
	defer cancel()
	for {
		select {
		case <-c.done:
			if c.err == nil {
				return errors.New("it ended at once")
			}
			return c.err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
		conn, err := wire.Dial(ctx, c.addr, wire.Options{Timeout: time.Second})
		if err != nil {
			continue
		}
		conn.SetDeadline(time.Now().Add(time.Second))
		_, err = conn.Do("PING")
		conn.Close()
		if err == nil {
			return nil
		}
	}
}

// private returns the resident bytes of the server that are no pages of files.
func (c *child) private() (int64, error) { return procstat.ReadPrivate(c.cmd.Process.Pid) }

// lastLines returns the end of the server's output, to follow an error.
func (c *child) lastLines() string {
	text, err := os.ReadFile(c.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if err != nil || lines[0] == "" {
		return ""
	}
	const most = 5
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	return "; it said:\n  " + strings.Join(lines, "\n  ")
}
