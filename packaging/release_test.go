// Package packaging tests the script that makes a release.
package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRelease runs release.sh in a repository with a make dist that is quick: what it refuses, and what it leaves.
func TestRelease(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CHECKS=check", "KEY="+filepath.Join(dir, "../key"), "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(name string, args ...string) string {
		t.Helper()
		out, err := run(name, args...)
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return out
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := run("packaging/release.sh", args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("release.sh %q: got %v, want a refusal with %q\n%s", args, err, want, out)
		}
	}
	script, err := os.ReadFile("release.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "repository")
	write("packaging/release.sh", string(script))
	write("packaging/allowed_signers", "")
	write(".gitignore", "dist\n")
	write("CHANGELOG.md", "# Changelog\n\n## 1.3.0 (unreleased)\n\n- New.\n\n## 1.2.3 (2027-01-31)\n\n- This.\n- That.\n\n## 1.2.2 (2027-01-01)\n\n- Old.\n")
	write("Makefile", ".PHONY: check dist\ncheck:\n\t@test ! -e broken\ndist:\n\t@rm -rf dist && mkdir dist && echo $(VERSION) >dist/file && cd dist && sha256sum * >SHA256SUMS\n")
	must("git", "init", "-q")
	must("git", "add", "-A")
	must("git", "commit", "-qm", "all")
	must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", "../key")

	refused("want one such as 1.2.3", "v1.2.3")
	refused("want the tag v1.2.3 at HEAD", "1.2.3")
	must("git", "tag", "v1.2.3")
	refused("is not in packaging/allowed_signers", "1.2.3")
	key, err := os.ReadFile(filepath.Join(dir, "../key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	write("packaging/allowed_signers", "somebody "+string(key))
	refused("uncommitted changes", "1.2.3")
	must("git", "commit", "-qam", "signers")
	refused("want the tag v1.2.3 at HEAD", "1.2.3")
	must("git", "tag", "-f", "v1.2.3")
	must("git", "tag", "v1.3.0")
	refused("no section '## 1.3.0", "1.3.0")

	if out := must("packaging/release.sh", "1.2.3"); !strings.Contains(out, "git push origin v1.2.3") {
		t.Errorf("release.sh says:\n%s", out)
	}
	if notes := must("cat", "dist/NOTES.md"); strings.TrimSpace(notes) != "- This.\n- That." {
		t.Errorf("got the notes %q", notes)
	}
	verify := "ssh-keygen -Y verify -f packaging/allowed_signers -I somebody -n counterd-release -s dist/SHA256SUMS.sig <dist/SHA256SUMS"
	must("sh", "-c", verify)
	write("dist/SHA256SUMS", "0000 file\n")
	if out, err := run("sh", "-c", verify); err == nil {
		t.Errorf("changed checksums are verified: %s", out)
	}
	if out := must("packaging/release.sh", "--dry-run", "1.4.0"); !strings.Contains(out, "dry run") || strings.TrimSpace(must("cat", "dist/NOTES.md")) != "- New." {
		t.Errorf("a dry run says:\n%s", out)
	}
}
