package secretargs

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestTake: the process has its secrets, and other processes cannot see them.
func TestTake(t *testing.T) {
	if os.Getenv("SECRETARGS_TEST") == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestTake$", "-test.v", "--", "--pass=one", "--port=two", "--key", "three", "--pass", "--four", "five",
			"redis://h:1/", "redis://u:p@:w@h/1", "--from=rediss://:pw@h", "--pass")
		cmd.Env = append(os.Environ(), "SECRETARGS_TEST=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	before := slices.Clone(os.Args)
	for i := range before {
		before[i] = strings.Clone(before[i])
	}
	args := Take(func(flag string) bool { return flag == "pass" || flag == "key" })
	if !slices.Equal(args, before) {
		t.Errorf("got %q, want %q", args, before)
	}
	shown, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		t.Skip(err)
	}
	if text := strings.ReplaceAll(string(shown), "\x00", " "); !strings.HasSuffix(text, " -- --pass=*** --port=two --key ***** --pass ****** five redis://h:1/ redis://u:******** --from=rediss://:**** --pass ") {
		t.Errorf("shown: %q", text)
	}
}
