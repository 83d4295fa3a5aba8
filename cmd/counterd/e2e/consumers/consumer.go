package consumers

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/programs"
)

// Sink is where a consumer's changes go.
type Sink struct {
	To      []string // arguments of counterctl feed
	Break   func()   // ends the sink and starts it again, or breaks connections to it; nil: it has no process
	Repeats bool     // it takes a change at least once
	// Read returns the lines of JSON that came since the last call.
	Read func() ([]string, error)
}

// Consumer is a program that follows the feed, and its sink.
type Consumer struct {
	Name string
	Sink
	*Replay
	Kills int // of the program

	t       testing.TB
	command func() *exec.Cmd
	process *exec.Cmd
	log     *harness.LogBuffer
}

// newConsumer makes a consumer, which is not started yet.
func newConsumer(t testing.TB, name string, sink *Sink, command func() *exec.Cmd) *Consumer {
	c := &Consumer{Name: name, Sink: *sink, Replay: NewReplay(sink.Repeats), t: t, command: command, log: new(harness.LogBuffer)}
	t.Cleanup(func() {
		c.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", name, c.log)
		}
	})
	return c
}

// NewTool makes a consumer of counterctl feed.
func NewTool(t testing.TB, name, addrs string, sink *Sink, args ...string) *Consumer {
	t.Helper()
	path, err := programs.Path("counterctl")
	if err != nil {
		t.Fatal(err)
	}
	args = append(append([]string{"feed", addrs, "--from", "OLDEST"}, args...), sink.To...)
	return newConsumer(t, name, sink, func() *exec.Cmd { return exec.Command(path, args...) })
}

// Start starts the program.
func (c *Consumer) Start() {
	c.t.Helper()
	c.process = c.command()
	c.process.Stdout, c.process.Stderr, c.process.SysProcAttr = c.log, c.log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.process.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// Kill ends the program by SIGKILL.
func (c *Consumer) Kill() {
	if c.process != nil {
		_ = c.process.Process.Kill()
		_ = c.process.Wait()
		c.process = nil
	}
}

// Restart kills the program and starts it again.
func (c *Consumer) Restart() {
	c.t.Helper()
	c.Kill()
	c.Kills++
	c.Start()
}

// Stop ends the program by SIGTERM, which is no error.
func (c *Consumer) Stop() {
	c.t.Helper()
	_ = c.process.Process.Signal(syscall.SIGTERM)
	if err := c.process.Wait(); err != nil {
		c.t.Errorf("%s: %v\n%s", c.Name, err, c.log)
	}
	c.process = nil
}

// Look applies the changes that came since the last call. The error is of a change that must not come there.
func (c *Consumer) Look() error {
	lines, err := c.Sink.Read()
	if err == nil {
		err = c.Replay.Add(lines)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return nil
}
