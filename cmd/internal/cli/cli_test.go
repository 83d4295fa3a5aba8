package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/internal/version"
)

func TestRun(t *testing.T) {
	tool := Tool{Name: "maker", Summary: "makes things.", Hint: func(err error) string {
		if strings.Contains(err.Error(), "wood") {
			return " (buy some)"
		}
		return ""
	}, Commands: []Command{
		{Name: "chair", Args: "WOOD", Summary: "make a chair", Details: "Of wood.", Setup: func(flags *pflag.FlagSet) Action {
			legs := flags.Int("legs", 4, "how many")
			return func(ctx context.Context, out Output, args []string) error {
				switch {
				case len(args) != 1:
					return Misuse("want WOOD")
				case args[0] == "none":
					return errors.New("no wood")
				case args[0] == "said":
					return ErrReported
				case args[0] == "stop":
					return fmt.Errorf("sawing: %w", context.Canceled)
				}
				fmt.Fprintf(out.Stdout, "%s with %d legs\n", args[0], *legs)
				return nil
			}
		}},
		{Name: "table", Summary: "make a table", Setup: func(*pflag.FlagSet) Action { return nil }},
	}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		args           string
		ctx            context.Context
		status         int
		stdout, stderr string
	}{
		{"", t.Context(), 0, "maker makes things.\n\n  maker chair      WOOD   make a chair\n  maker table             make a table\n" +
			"  maker completion SHELL  print completion for bash, zsh or fish\n  maker man               print the manual page\n" +
			"  maker version           print the version\n\nmaker COMMAND --help describes a command and lists its flags.\n", ""},
		{"version", t.Context(), 0, "maker " + version.String() + "\n", ""},
		{"--version", t.Context(), 0, "maker " + version.String() + "\n", ""},
		{"man now", t.Context(), 2, "", "maker man: got 1 arguments [\"now\"], want none (--help says more)\n"},
		{"completion csh", t.Context(), 2, "", "maker completion: got shell \"csh\", want one of bash, zsh, fish (--help says more)\n"},
		{"chair oak --legs 3", t.Context(), 0, "oak with 3 legs\n", ""},
		{"chair --help", t.Context(), 0, "usage: maker chair WOOD [flags]\n\nOf wood.\n\nflags:\n      --legs int   how many (default 4)\n", ""},
		{"table --help", t.Context(), 0, "usage: maker table [flags]\n\n\n", ""},
		{"chair", t.Context(), 2, "", "maker chair: want WOOD (--help says more)\n"},
		{"chair oak --arms 2", t.Context(), 2, "", "maker chair: unknown flag: --arms (--help lists the flags)\n"},
		{"chair none", t.Context(), 1, "", "maker chair: no wood (buy some)\n"},
		{"chair said", t.Context(), 1, "", ""},
		{"chair stop", ended, 1, "", "maker chair: interrupted\n"},
		{"chair stop", t.Context(), 1, "", "maker chair: sawing: context canceled\n"},
	} {
		var stdout, stderr bytes.Buffer
		status := tool.Run(c.ctx, strings.Fields(c.args), &stdout, &stderr)
		if status != c.status || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%q: status %d, %q, %q, want %d, %q, %q", c.args, status, &stdout, &stderr, c.status, c.stdout, c.stderr)
		}
	}
	for _, args := range []string{"chair oak", "chair --help", ""} { // a full disk
		var stderr bytes.Buffer
		if status := tool.Run(t.Context(), strings.Fields(args), fullWriter{}, &stderr); status != 1 || stderr.String() != "maker: no room\n" {
			t.Errorf("%q on a full disk: status %d, %q", args, status, &stderr)
		}
	}
	for _, c := range [][2]string{{"man", ".SS \"chair WOOD\""}, {"man", `\fB\-\-legs\fR \fIint\fR`}, {"completion fish", "__fish_seen_subcommand_from chair' -l legs"}} {
		var stdout, stderr bytes.Buffer
		if status := tool.Run(t.Context(), strings.Fields(c[0]), &stdout, &stderr); status != 0 || !strings.Contains(stdout.String(), c[1]) {
			t.Errorf("%s: %d, no %q in %s%s", c[0], status, c[1], &stdout, &stderr)
		}
	}
	var stderr bytes.Buffer
	if status := tool.Run(t.Context(), []string{"bed"}, nil, &stderr); status != 2 || stderr.String() != "maker: no command is called \"bed\" (maker --help lists the commands)\n" {
		t.Errorf("bed: %d, %q", status, &stderr)
	}
}

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errors.New("no room") }

// TestGroups: the help shows the groups under their titles, and every command can be run.
func TestGroups(t *testing.T) {
	run := func(*pflag.FlagSet) Action {
		return func(_ context.Context, out Output, _ []string) error { fmt.Fprintln(out.Stdout, "done"); return nil }
	}
	tool := &Tool{Name: "maker", Summary: "makes things.", Groups: []Group{{"Wood", []Command{{Name: "chair", Summary: "make a chair", Setup: run}}},
		{"Stone", []Command{{Name: "wall", Args: "N", Summary: "make a wall", Setup: run}}}}}
	var out, said strings.Builder
	if status := tool.Run(t.Context(), nil, &out, &said); status != 0 || !strings.HasPrefix(out.String(), "maker makes things.\n\nWood:\n  maker chair             make a chair\n\nStone:\n  maker wall       N      make a wall\n\nThe tool itself:\n") {
		t.Errorf("%d, %s%s", status, &out, &said)
	}
	out.Reset()
	if status := tool.Run(t.Context(), []string{"wall"}, &out, &said); status != 0 || out.String() != "done\n" {
		t.Errorf("%d, %s%s", status, &out, &said)
	}
}

// TestAlmostRight: a misspelt command or flag is answered with the nearest name, and the first word of several commands with
// a list of these.
func TestAlmostRight(t *testing.T) {
	setup := func(flags *pflag.FlagSet) Action {
		flags.String("colour", "", "its colour")
		return func(context.Context, Output, []string) error { return nil }
	}
	tool := &Tool{Name: "maker", Summary: "makes things.", Commands: []Command{{Name: "chair", Summary: "make a chair", Setup: setup},
		{Name: "wall build", Args: "N", Summary: "make a wall", Setup: setup}, {Name: "wall paint", Summary: "paint it", Setup: setup}}}
	const walls = "  maker wall build N      make a wall\n  maker wall paint        paint it\n"
	for _, c := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"chiar", 2, "", "maker: no command is called \"chiar\": did you mean \"chair\"? (maker --help lists the commands)\n"},
		{"wall piant", 2, "", "maker: no command is called \"wall piant\": did you mean \"wall paint\"? (maker --help lists the commands)\n"},
		{"wall --help", 0, walls, ""},
		{"wall", 2, "", "maker: wall alone is no command, want one of these:\n\n" + walls},
		{"chair --color red", 2, "", "maker chair: unknown flag: --color: did you mean --colour? (--help lists the flags)\n"},
	} {
		var stdout, stderr strings.Builder
		if status := tool.Run(t.Context(), strings.Fields(c.args), &stdout, &stderr); status != c.status || stdout.String() != c.stdout || stderr.String() != c.stderr {
			t.Errorf("%s: status %d, %q, %q, want %d, %q, %q", c.args, status, stdout.String(), stderr.String(), c.status, c.stdout, c.stderr)
		}
	}
}
