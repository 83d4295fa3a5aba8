package harness

import (
	"context"
	"os/exec"
	"strings"
	"testing"
)

// RunCounterd runs the binary in a directory of its own to its end, which must come by itself, and returns its output
// and exit status.
func RunCounterd(t testing.TB, args ...string) (out string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), IoTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, CounterdPath, args...)
	cmd.Dir = t.TempDir()
	data, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("counterd %s did not end\n%s", strings.Join(args, " "), data)
	}
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	return string(data), cmd.ProcessState.ExitCode()
}
