// Scenario: no system call that goes past the runtime of Go waits

package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRawCalls: a system call that goes past the runtime of Go keeps a processor until it returns, and the whole process
// stands still if it does not. So the few that there are never wait, and each stands here with the reason.
func TestRawCalls(t *testing.T) {
	never := map[string]string{
		"SYS_IO_SUBMIT":   "of a sync, which is handed to a thread of the kernel",
		"SYS_EPOLL_PWAIT": "with a time of 0",
		"SYS_PPOLL":       "with a time of 0",
		"SYS_RECVFROM":    "with MSG_DONTWAIT",
		"SYS_SENDTO":      "with MSG_DONTWAIT",
	}
	call := regexp.MustCompile(`\.RawSyscall6?\((?:unix|syscall)\.(\w+)`)
	found := 0
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range call.FindAllSubmatch(text, -1) {
			found++
			if never[string(m[1])] == "" {
				t.Errorf("%s: RawSyscall of %s: may it wait? Use Syscall, or say here why it never does", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < len(never) {
		t.Errorf("%d calls found, fewer than are listed: is the source not there?", found)
	}
}
