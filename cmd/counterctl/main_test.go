package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
)

// ctl runs the tool.
func ctl(t testing.TB, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, err bytes.Buffer
	status = program.Run(t.Context(), args, &out, &err)
	return out.String(), err.String(), status
}

// TestWrongUse: the error for a wrong argument or a missing password names what to give.
func TestWrongUse(t *testing.T) {
	noauth := fmt.Errorf("10.0.0.5:6379: %w", &wire.ServerError{Text: "NOAUTH Authentication required."})
	if got := hint(noauth); !strings.Contains(got, "COUNTERD_PASS") {
		t.Errorf("no password: hint %q", got)
	}
	if got := hint(&wire.ServerError{Text: "ERR no"}); got != "" {
		t.Errorf("another error: hint %q", got)
	}
	for command, want := range map[string]string{
		"ping":                 "counterctl ping: want HOST:PORT (--help says more)\n",
		"ping a b":             "counterctl ping: got 2 arguments [\"a\" \"b\"], want one: HOST:PORT (--help says more)\n",
		"repair":               "counterctl repair: want DIR (--help says more)\n",
		"cursors":              "counterctl cursors: want HOST:PORT (--help says more)\n",
		"import --to 10.0.0.5": "counterctl import: want SOURCE (--help says more)\n",
	} {
		if _, got, status := ctl(t, strings.Fields(command)...); status != 2 || got != want {
			t.Errorf("%s: %d, %q, want %q", command, status, got, want)
		}
	}
	for addr, want := range map[string]string{"10.0.0.5": "want HOST:PORT, got \"10.0.0.5\"", "10.0.0.5:x": "the port \"x\" is no number"} {
		if _, got, status := ctl(t, "ping", addr); status != 1 || !strings.Contains(got, want) {
			t.Errorf("ping %s: %d, %q, want %q", addr, status, got, want)
		}
	}
}

func TestParseMoment(t *testing.T) {
	for text, want := range map[string]datadir.Target{
		"0":                             {},
		"18446744073709551615":          {Offset: 1<<64 - 1},
		"@0":                            {Time: time.UnixMilli(0)},
		"@1767366245.5":                 {Time: time.UnixMilli(1767366245500)},
		"2026-01-02T15:04:05Z":          {Time: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)},
		"2026-01-02T15:04:05.25+08:00":  {Time: time.Date(2026, 1, 2, 7, 4, 5, 250e6, time.UTC)},
		human.Clock(1_767_366_245_123):  {Time: time.UnixMilli(1_767_366_245_123)},
		"1970-01-01T00:00:00.000+00:00": {Time: time.UnixMilli(0)},
	} {
		got, err := parseMoment(text)
		if err != nil || got.Offset != want.Offset || !got.Time.Equal(want.Time) {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "@", "@x", "@-1", "@1e300", "yesterday", "2026-01-02", "18446744073709551616"} {
		if got, err := parseMoment(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// TestFresh: a directory in which no server wrote anything is an empty one, not a damaged one.
func TestFresh(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "LOCK"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "dump", "dump --rows", "dump --commands"} {
		if out, text, status := ctl(t, append(strings.Fields(command), dir)...); status != 0 {
			t.Errorf("%s: %d, %s%s", command, status, out, text)
		}
	}
}

// TestTool makes a directory with the engine, and runs every command on it.
func TestTool(t *testing.T) {
	dir := t.TempDir()
	store, err := counter.Open(dir, counter.Options{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	incr := func(key string, by int64) {
		t.Helper()
		if _, err := store.Incr(key, by); err != nil {
			t.Fatal(err)
		}
	}
	must(store.AlterScript("add counter weibo\nadd column weibo comment hint=4 max=32 suffix=c\nadd column weibo repost hint=16 max=63 suffix=r"))
	incr("7.c", 5)
	incr("8.r", 70_000)
	must(store.Snapshot())
	incr("7.c", 1)

	out, note, status := ctl(t, "check", dir)
	if status != 0 || !strings.Contains(out, "nothing is damaged") || !strings.Contains(note, "a server has the directory open") {
		t.Errorf("check of a directory in use: %d\n%s%s", status, out, note)
	}
	if _, text, status := ctl(t, "repair", dir); status != 1 || !strings.Contains(text, "stop it first") {
		t.Errorf("repair of a directory in use: %d, %s", status, text)
	}
	must(store.Close())

	for name, want := range map[string][]string{
		"--rows":                      {"MANIFEST-1", "counter weibo", "weibo:7 comment=5 repost=0", "set weibo 7 comment=6"},
		"--only=manifests":            {"manifest MANIFEST-1"},
		"--only=log,files":            {"segment 0", "set weibo 8 repost=70000"},
		"--frames":                    {"frame offset 0 to"},
		"--mid=8":                     {"set weibo 8"},
		"--commands":                  {"add counter weibo\r\n", "HSET weibo:7 comment 6 repost 0\r\n", "HSET weibo:8 comment 0 repost 70000\r\n"},
		"--commands --resp --mid=7-7": {"*6\r\n$4\r\nHSET\r\n$7\r\nweibo:7\r\n$7\r\ncomment\r\n$1\r\n6\r\n"},
	} {
		out, text, status := ctl(t, append(append([]string{"dump"}, strings.Fields(name)...), dir)...)
		if status != 0 {
			t.Errorf("dump %s: %d, %s", name, status, text)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("dump %s does not say %q:\n%s", name, w, out)
			}
		}
		if name == "--mid=8" && strings.Contains(out, "set weibo 7") || strings.Contains(name, "7-7") && strings.Contains(out, "weibo:8") {
			t.Errorf("dump %s lets through:\n%s", name, out)
		}
	}
	full, _, _ := ctl(t, "dump", "--only=log", dir)
	lines := strings.Split(strings.TrimSpace(full), "\n")
	offset, _, _ := strings.Cut(lines[len(lines)-1], " ")
	if rest, _, _ := ctl(t, "dump", "--only=log", "--from", offset, dir); strings.Contains(rest, " set ") {
		t.Errorf("dump --from %s:\n%s", offset, rest)
	}
	if rest, _, _ := ctl(t, "dump", "--only=log", "--to", "10", dir); strings.Contains(rest, " set ") {
		t.Errorf("dump --to 10:\n%s", rest)
	}
	if out, text, status := ctl(t, "repair", dir); status != 0 || !strings.Contains(out, "nothing to repair") {
		t.Errorf("repair: %d, %s%s", status, out, text)
	}
	for _, args := range []string{"check", "dump", "dump --rows", "dump --commands", "repair", "restore --to " + offset + " --out " + dir + "/../cut"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // a signal, before anything was read
		var out, text bytes.Buffer
		if status := program.Run(ctx, append(strings.Fields(args), dir), &out, &text); status != 1 || !strings.Contains(text.String(), "interrupted") {
			t.Errorf("%s, interrupted: %d, %s%s", args, status, &out, &text)
		}
	}
	if left, err := filepath.Glob(dir + "/../cut*"); err != nil || len(left) > 0 {
		t.Errorf("an interrupted restore left %q, %v", left, err)
	}
	to := dir + "/../restored"
	if out, text, status := ctl(t, "restore", dir, "--to", offset, "--out", to); status != 0 || !strings.Contains(out, "restored the state at offset "+offset) {
		t.Errorf("restore: %d, %s%s", status, out, text)
	}
	if out, text, status := ctl(t, "dump", "--commands", to); status != 0 || !strings.Contains(out, "HSET weibo:7 comment 6 repost 0") {
		t.Errorf("dump of what was restored: %d, %s%s", status, out, text)
	}
}

// TestCheckDirectory: a directory in place of a file is named, with advice.
func TestCheckDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"LOCK", "DURABLE"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if name == "DURABLE" {
			if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, text, status := ctl(t, "check", dir); status != 1 || !strings.Contains(text, "DURABLE") || !strings.Contains(text, "move it away") {
		t.Errorf("%d, %s", status, text)
	}
}

// TestCheckOfAnotherVersion: of data that another version wrote, check does not advise a repair, which refuses them.
func TestCheckOfAnotherVersion(t *testing.T) {
	for version, want := range map[uint16]string{1: "export the posts with the version of counterd that wrote them", 999: "or a newer one"} {
		dir, _ := newDir(t)
		segments, err := filepath.Glob(filepath.Join(dir, "log", "*.aof"))
		if err != nil || len(segments) == 0 {
			t.Fatalf("got no segments: %v", err)
		}
		for _, path := range segments {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			binary.LittleEndian.PutUint16(b[8:], version)
			binary.LittleEndian.PutUint32(b[60:], format.Checksum(b[:60]))
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		text, _, status := ctl(t, "check", dir)
		if status != 1 || !strings.Contains(text, want) || strings.Contains(text, "counterctl repair") {
			t.Errorf("version %d: status %d, want 1 and %q: %s", version, status, want, text)
		}
		if _, text, status := ctl(t, "repair", dir); status != 1 || !strings.Contains(text, format.ErrUnsupportedFormat.Error()) {
			t.Errorf("repair of version %d: status %d, want 1: %s", version, status, text)
		}
	}
}
