package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/counterd/counterd/bench/procstat"
)

// checkWork runs counterctl check on the server's directory: on the server's processors and, as an operator would,
// with nice.
type checkWork struct {
	worker
	program string // counterctl
	cpus    []int  // the server's; none: all
	dir     string
}

// checkNice is the niceness of the check.
const checkNice = "19"

func (w *checkWork) how() string { return "nice counterctl check" }

func (w *checkWork) prepare(ctx context.Context) error {
	if err := w.only(); err != nil {
		return err
	}
	if w.program == "" {
		return &notHere{"there is no counterctl"}
	}
	if w.side.meter.PID() == 0 {
		return &notHere{"runs on another machine"}
	}
	v, err := w.send(ctx, "CONFIG", "GET", "dir")
	if err != nil {
		return err
	}
	if len(v.Array) != 2 || v.Array[1].Str == "" {
		return &notHere{"has no directory"}
	}
	w.dir = v.Array[1].Str
	_, err = w.send(ctx, "SAVE") // or there would be the log alone
	return err
}

func (w *checkWork) do(ctx context.Context, _ time.Duration, mark mark) error {
	cmd := exec.CommandContext(ctx, w.program, "check", "--quiet", w.dir)
	if nice, err := exec.LookPath("nice"); err == nil {
		cmd = exec.CommandContext(ctx, nice, append([]string{"-n", checkNice}, cmd.Args...)...)
	}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	over := mark("check")
	defer over()
	if err := cmd.Start(); err != nil {
		return err
	}
	if len(w.cpus) > 0 {
		if _, err := procstat.Pin(cmd.Process.Pid, w.cpus); err != nil && ctx.Err() == nil {
			return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, said.String())
	}
	return nil
}
