package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/spf13/pflag"
)

// hostile is text that a server may send: it clears a screen, sets a title, goes back over a line, and turns text
// around. Its escapes are of 7 bits, of 8 bits, and of 8 bits without UTF-8.
const hostile = "ERR \x1b[2J\x1b]0;title\x07 \r\u009b31m \x9b \u202e \x7f né 计数\u00a0✓"

// shown is how it is shown.
const shown = `ERR \u001b[2J\u001b]0;title\u0007 \u000d\u009b31m \x9b \u202e \u007f né 计数` + "\u00a0✓"

// TestVisible: whatever a command prints and whatever error it ends with, no control character comes to a terminal,
// however the text is cut into writes; data that goes elsewhere is as it was.
func TestVisible(t *testing.T) {
	tool := Tool{Name: "maker", Summary: "makes things.", Hint: func(error) string { return " (" + hostile + ")" }, Commands: []Command{
		{Name: "report", Setup: setup(func(out Output) error {
			fmt.Fprintln(out.Stdout, hostile)
			fmt.Fprintln(out.Stderr, hostile)
			return errors.New(hostile)
		})},
		{Name: "data", Data: true, Setup: setup(func(out Output) error {
			_, err := io.WriteString(out.Stdout, hostile)
			return err
		})},
		{Name: "cut", Setup: setup(func(out Output) error {
			for i := range len(hostile) {
				if n, err := io.WriteString(out.Stdout, hostile[i:i+1]); n != 1 || err != nil {
					return fmt.Errorf("got %d %v", n, err)
				}
			}
			_, err := io.WriteString(out.Stdout, "\xe8\xae") // the end of it never comes
			return err
		})},
	}}
	for _, c := range []struct {
		args           string
		stdout, stderr string
	}{
		{"report", shown + "\n", shown + "\nmaker report: " + shown + " (" + shown + ")\n"},
		{"data", hostile, ""},
		{"cut", shown + `\xe8\xae`, ""},
	} {
		var stdout, stderr bytes.Buffer
		tool.Run(t.Context(), []string{c.args}, &stdout, &stderr)
		if stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%s: got %q and %q\nwant %q and %q", c.args, stdout.String(), stderr.String(), c.stdout, c.stderr)
		}
	}
	var text string
	if err := json.Unmarshal(escape([]byte("\"a\x7f\u009b\u202e\"")), &text); err != nil || text != "a\x7f\u009b\u202e" {
		t.Errorf("JSON has become %q: %v", text, err)
	}
	if plain := []byte("two\tlines\nné"); &escape(plain)[0] != &plain[0] {
		t.Error("text without control characters was copied")
	}
}

// setup makes an action without flags of run.
func setup(run func(out Output) error) func(*pflag.FlagSet) Action {
	return func(*pflag.FlagSet) Action {
		return func(_ context.Context, out Output, _ []string) error { return run(out) }
	}
}
