// Package cli is the frame of counterd's tools: commands with flags, help, and exit status.
//
//	counterctl                       what there is
//	counterctl restore --help        one command in full
//	counterctl restore DIR --to ...  run it
//	counterctl completion bash       completion for a shell; man: the manual page; version
//
// Exit status: 0 for success, 1 for a failure, 2 for a command line that is not understood. The first Ctrl-C or SIGTERM
// ends the command's context, so that it ends in order; a second one ends the process.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/internal/manual"
	"github.com/counterd/counterd/cmd/internal/secretargs"
	"github.com/counterd/counterd/cmd/internal/spelling"
	"github.com/counterd/counterd/internal/version"
)

// Tool is a program of several commands.
type Tool struct {
	Name     string
	Summary  string // one sentence
	Commands []Command
	Groups   []Group  // more commands, which the help shows under titles
	SeeAlso  []string // other manual pages

	// Hint, if set, says more behind an error that alone leaves a reader at a loss; it may return "".
	Hint func(err error) string
}

// Group is commands that belong together.
type Group struct {
	Title    string
	Commands []Command
}

// Command is one of a tool's commands.
type Command struct {
	Name    string // one word, or two of which several commands have the first
	Args    string // its arguments besides flags; may be empty
	Summary string
	Details string
	// Data tells that Stdout gets data, which is written byte for byte unless Stdout is a terminal.
	Data bool
	// Setup declares the flags and returns what runs when they are parsed.
	Setup func(flags *pflag.FlagSet) Action
}

// Action executes a command with the arguments besides the flags.
type Action func(ctx context.Context, out Output, args []string) error

// Output is where a command writes. Control characters in its output are made visible, except in Data and Terminal.
type Output struct{ Stdout, Stderr io.Writer }

// ErrReported ends a command with status 1 after it has said all itself.
var ErrReported = errors.New("reported")

// usageError is a command line that cannot be run.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// Misuse returns the error, status 2, of a command line that cannot be run.
func Misuse(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// One returns the only argument of a command. want names it in the error for none or several.
func One(want string, args []string) (string, error) {
	switch len(args) {
	case 0:
		return "", Misuse("want %s", want)
	case 1:
		return args[0], nil
	}
	return "", Misuse("got %d arguments %q, want one: %s", len(args), args, want)
}

// Main runs the tool with the process's arguments and ends the process.
func (t *Tool) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	args := secretargs.Take(func(flag string) bool { return flag == "pass" })
	os.Exit(t.Run(ctx, args[1:], os.Stdout, os.Stderr))
}

// Run runs the tool and returns its exit status.
func (t *Tool) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out, said := &checkedWriter{w: stdout}, &visible{w: stderr}
	defer said.flush()
	stderr = said
	status := t.dispatch(ctx, args, out, stderr)
	if out.err != nil && status == 0 { // half of a report must not pass for all of it
		fmt.Fprintf(stderr, "%s: %v\n", t.Name, out.err)
		return 1
	}
	return status
}

// checkedWriter remembers the first error, which those who print do not ask for.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if err != nil && c.err == nil {
		c.err = err
	}
	return n, err
}

func (t *Tool) dispatch(ctx context.Context, args []string, stdout *checkedWriter, stderr io.Writer) int {
	if len(args) == 0 || isHelp(args[0]) {
		t.usage(stdout)
		return 0
	}
	if args[0] == "--version" {
		args[0] = "version"
	}
	for _, c := range t.all() {
		if n := c.named(args); n > 0 {
			if c.Data && !isTerminal(stdout.w) {
				return t.run(ctx, &c, args[n:], Output{stdout, stderr})
			}
			shown := &visible{w: stdout}
			defer shown.flush()
			return t.run(ctx, &c, args[n:], Output{shown, stderr})
		}
	}
	return t.unknown(args, stdout, stderr)
}

// unknown answers arguments that are no command. The first word of several commands, alone or with --help, lists these.
func (t *Tool) unknown(args []string, stdout, stderr io.Writer) int {
	name := args[0]
	family := slices.DeleteFunc(t.all(), func(c Command) bool { return !strings.HasPrefix(c.Name, name+" ") })
	switch {
	case len(family) > 0 && len(args) > 1 && isHelp(args[1]):
		t.list(stdout, family)
		return 0
	case len(family) > 0 && len(args) == 1:
		fmt.Fprintf(stderr, "%s: %s alone is no command, want one of these:\n\n", t.Name, name)
		t.list(stderr, family)
		return 2
	case len(family) > 0:
		name += " " + args[1]
	}
	nearest := spelling.Nearest(name, func(yield func(string) bool) {
		for _, c := range t.all() {
			if !yield(c.Name) {
				return
			}
		}
	})
	if nearest != "" {
		nearest = fmt.Sprintf(": did you mean %q?", nearest)
	}
	fmt.Fprintf(stderr, "%s: no command is called %q%s (%s --help lists the commands)\n", t.Name, name, nearest, t.Name)
	return 2
}

func isHelp(arg string) bool { return arg == "-h" || arg == "--help" || arg == "help" }

// named is how many of the arguments are the command's name; 0: it is another.
func (c *Command) named(args []string) int {
	words := strings.Fields(c.Name)
	if len(args) < len(words) || !slices.Equal(words, args[:len(words)]) {
		return 0
	}
	return len(words)
}

// all are the tool's commands, and those that every tool has.
func (t *Tool) all() []Command {
	all := slices.Clone(t.Commands)
	for _, g := range t.groups() {
		all = append(all, g.Commands...)
	}
	return all
}

// groups are the tool's groups, and that of the commands that every tool has.
func (t *Tool) groups() []Group {
	return append(slices.Clone(t.Groups), Group{"The tool itself", t.common()})
}

// common are the commands that every tool has.
func (t *Tool) common() []Command {
	none := func(run func(out Output) error) func(*pflag.FlagSet) Action {
		return func(*pflag.FlagSet) Action {
			return func(_ context.Context, out Output, args []string) error {
				if len(args) != 0 {
					return Misuse("got %d arguments %q, want none", len(args), args)
				}
				return run(out)
			}
		}
	}
	return []Command{
		{Name: "completion", Args: "SHELL", Summary: "print completion for bash, zsh or fish", Details: "SHELL is bash, zsh or fish. In bash: source <(" + t.Name + " completion bash)",
			Setup: func(*pflag.FlagSet) Action {
				return func(_ context.Context, out Output, args []string) error {
					if len(args) != 1 || !slices.Contains(manual.Shells, args[0]) {
						return Misuse("got shell %q, want one of %s", strings.Join(args, " "), strings.Join(manual.Shells, ", "))
					}
					return t.manual().Complete(out.Stdout, args[0])
				}
			}},
		{Name: "man", Summary: "print the manual page", Details: "Prints the manual page, for man -l or a file in man1.",
			Setup: none(func(out Output) error { return t.manual().Man(out.Stdout, version.String()) })},
		{Name: "version", Summary: "print the version", Details: "Prints the version.",
			Setup: none(func(out Output) error {
				_, err := fmt.Fprintln(out.Stdout, t.Name, version.String())
				return err
			})},
	}
}

// manual is the tool for its manual page.
func (t *Tool) manual() *manual.Program {
	p := &manual.Program{Name: t.Name, Summary: t.Summary, Section: 1, SeeAlso: t.SeeAlso, Notes: []manual.Note{{Title: "Exit status",
		Text: "0 if all is well, 1 if the work failed or found something wrong, 2 for a command line that is not understood."}}}
	for _, c := range t.all() {
		flags := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
		flags.SortFlags = false
		c.Setup(flags)
		p.Commands = append(p.Commands, manual.Command{Name: c.Name, Args: c.Args, Summary: c.Summary, Details: c.Details, Flags: flags})
	}
	return p
}

func (t *Tool) usage(w io.Writer) {
	fmt.Fprintf(w, "%s %s\n\n", t.Name, t.Summary)
	t.list(w, t.Commands)
	for _, g := range t.groups() {
		if len(t.Groups) > 0 {
			fmt.Fprintf(w, "%s:\n", g.Title)
		}
		t.list(w, g.Commands)
		if len(t.Groups) > 0 {
			fmt.Fprintln(w)
		}
	}
	if len(t.Groups) == 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%s COMMAND --help describes a command and lists its flags.\n", t.Name)
}

// list prints commands, a line each, in the columns that fit all commands.
func (t *Tool) list(w io.Writer, commands []Command) {
	var names, args int
	for _, c := range t.all() {
		names, args = max(names, len(c.Name)), max(args, len(c.Args))
	}
	for _, c := range commands {
		fmt.Fprintf(w, "  %s %-*s %-*s  %s\n", t.Name, names, c.Name, args, c.Args, c.Summary)
	}
}

func (t *Tool) run(ctx context.Context, c *Command, args []string, out Output) int {
	flags := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.SetOutput(out.Stderr)
	action := c.Setup(flags)
	fail := func(status int, err error, more string) int {
		fmt.Fprintf(out.Stderr, "%s %s: %s%s\n", t.Name, c.Name, Text(err), more)
		return status
	}
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(out.Stdout, "usage: %s\n\n%s\n", strings.Join(strings.Fields(t.Name+" "+c.Name+" "+c.Args+" [flags]"), " "), c.Details)
		if flags.HasFlags() {
			fmt.Fprintf(out.Stdout, "\nflags:\n%s", flags.FlagUsages())
		}
		return 0
	} else if err != nil {
		return fail(2, err, suggestFlag(err, flags)+" (--help lists the flags)")
	}
	err := action(ctx, out, flags.Args())
	var wrong *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		return fail(2, err, " (--help says more)")
	case errors.Is(err, ErrReported):
		return 1
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return fail(1, errors.New("interrupted"), "")
	case t.Hint != nil:
		return fail(1, err, t.Hint(err))
	}
	return fail(1, err, "")
}

// suggestFlag asks, behind the error for an unknown flag, whether another name was meant.
func suggestFlag(err error, flags *pflag.FlagSet) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	if nearest := spelling.NearestFlag(unknown.GetSpecifiedName(), flags); nearest != "" {
		return ": did you mean --" + nearest + "?"
	}
	return ""
}
