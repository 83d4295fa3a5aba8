package harness

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal runs a program on a pseudo-terminal, as a person does: redis-cli reads COMMAND DOCS, shows hints while
// one types, and aborts on replies of the wrong shape only when it is started on one.
type terminal struct {
	t      testing.TB
	master *os.File
	cmd    *exec.Cmd
	Out    *LogBuffer
}

func StartTerminal(t testing.TB, name string, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("unlock pseudo-terminal: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("number of pseudo-terminal: %v", err)
	}
	// A terminal of no columns makes the line editor ask for the cursor's position and wait for an answer.
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200}); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	term := &terminal{t: t, master: master, Out: new(LogBuffer)}
	term.cmd = exec.Command(name, args...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = slave, slave, slave
	term.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	term.cmd.Env = append(os.Environ(), "TERM=xterm", "HOME="+t.TempDir())
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			_, _ = term.Out.Write(buf[:n])
			if err != nil {
				return // EIO once the program has closed the terminal
			}
		}
	}()
	return term
}

// Typed sends keys, and returns what await needs to look at what is shown from then on only.
func (term *terminal) Typed(keys string) (from int) {
	term.t.Helper()
	from = term.Out.Size()
	if _, err := term.master.WriteString(keys); err != nil {
		term.t.Fatalf("typing %q: %v\n%s", keys, err, term.Out)
	}
	return from
}

// Await waits until the screen, beyond its first from bytes, shows all texts and ends in the given one. A line editor
// throws away what was typed before it shows its prompt, so one has to wait for that.
func (term *terminal) Await(from int, end string, texts ...string) {
	term.t.Helper()
	for deadline := time.Now().Add(IoTimeout); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		screen := term.Out.From(from)
		missing := !strings.HasSuffix(screen, end)
		for _, text := range texts {
			missing = missing || !strings.Contains(screen, text)
		}
		if !missing {
			return
		}
	}
	_ = term.cmd.Process.Kill()
	term.t.Fatalf("the terminal does not show %q and then %q:\n%q", texts, end, term.Out.From(from))
}

// Wait waits for the program's end.
func (term *terminal) Wait() error {
	done := make(chan error, 1)
	go func() { done <- term.cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(IoTimeout):
		_ = term.cmd.Process.Kill()
		return fmt.Errorf("still running after %v: %w", IoTimeout, <-done)
	}
}
