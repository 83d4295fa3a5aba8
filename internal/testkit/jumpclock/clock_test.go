package jumpclock

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestMain is also the process whose clock is set: it prints the time, and whether the monotonic clock goes on, for each line that it reads.
func TestMain(m *testing.M) {
	if os.Getenv("JUMPCLOCK_CHILD") == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.Unix(), now.Sub(began) < time.Hour && now.Sub(began) >= 0)
	}
}

// TestClock: the process that is set has another wall time at once, again and again, its monotonic clock goes on, and this process has the machine's.
func TestClock(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "JUMPCLOCK_CHILD=1")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }()
	defer in.Close()
	said := bufio.NewReader(out)
	ask := func() (seconds int64, monotonic bool) {
		t.Helper()
		if _, err := fmt.Fprintln(in); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscanln(said, &seconds, &monotonic); err != nil {
			t.Fatal(err)
		}
		return seconds, monotonic
	}
	ask()
	c, err := Attach(child.Process.Pid)
	if errors.Is(err, ErrNotHere) {
		t.Logf("left out: %v", err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []time.Duration{0, 300 * 24 * time.Hour, -300 * 24 * time.Hour, time.Second, -50 * 365 * 24 * time.Hour, 0} {
		if err := c.Set(by); err != nil {
			t.Fatal(err)
		}
		before := time.Now().Unix()
		got, monotonic := ask()
		if behind := time.Now().Unix(); got < before+int64(by/time.Second) || got > behind+int64(by/time.Second) || !monotonic {
			t.Errorf("set by %v: the process has %d, this one %d to %d; its monotonic clock goes on: %t", by, got, before, behind, monotonic)
		}
	}
}
