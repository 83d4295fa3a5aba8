package sinks

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/internal/connect"
)

// TestParse: a text that names no place is refused with words that help, and no error shows a password.
func TestParse(t *testing.T) {
	reach := func() *connect.Flags { return connect.AddSinkFlags(pflag.NewFlagSet("", pflag.ContinueOnError)) }
	for to, want := range map[string]string{
		"": "want --to", "a.txt": ".jsonl.zst", "ftp://x/y": "redis://", "redis://h:1": "STREAM", "redis://h:1/": "STREAM", "redis://u:secret@/x": "no URL with a host",
		"redis://u:secret@h:x/y": "no URL", "redis://u:secret@h/s?maxlen=x": "maxlen=N", "redis://h/s?x=1": "db=N", "http://u:secret@h/x": "--state",
	} {
		_, err := Parse(to, Options{Reach: reach()})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q", to, err, want)
		}
	}
	for to, name := range map[string]string{"-": "standard output", "a.jsonl": "a.jsonl", "dir/a.jsonl.zst": "dir/a.jsonl.zst", "redis://u:secret@h/s?db=2&maxlen=7": "redis://h/s?db=2&maxlen=7", "rediss://h:1/s": "rediss://h:1/s"} {
		p, err := Parse(to, Options{Reach: reach()})
		if err != nil || p.Name != name || p.Keeps != (to != "-") {
			t.Errorf("%s: got %+v, %v", to, p, err)
		}
	}
	if _, err := Parse("a.jsonl", Options{State: "x"}); err == nil {
		t.Error("--state was taken for a file")
	}
}
