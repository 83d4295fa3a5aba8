package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/internal/numbered"
)

// takesKey tells whether a key is among arguments.
func takesKey(args []command.Argument) bool {
	return slices.ContainsFunc(args, func(a command.Argument) bool { return a.Kind == "key" || takesKey(a.Args) })
}

// least is the smallest number of words that arguments take, and whether they can take more.
func least(args []command.Argument) (n int, more bool) {
	for _, a := range args {
		words, open := 1, a.Multiple || a.Optional
		switch a.Kind {
		case "block":
			var inner bool
			words, inner = least(a.Args)
			open = open || inner
		case "oneof":
			words = 1 << 20
			for i := range a.Args {
				w, inner := least(a.Args[i : i+1])
				open = open || inner || i > 0 && w != words
				words = min(words, w)
			}
		}
		if a.Token != "" && a.Kind != "pure-token" {
			words++
		}
		if !a.Optional {
			n += words
		}
		more = more || open
	}
	return n, more
}

// TestTable checks that rows are whole, and that what they say of their arguments is the same in all places.
func TestTable(t *testing.T) {
	names := make(map[string]bool)
	known := command.NewTable(allRows())
	known.Each(func(cmd *row) {
		if names[cmd.Name] || cmd.Name != strings.ToLower(cmd.Name) || len(cmd.Name) > command.MaxName {
			t.Errorf("%s: a second one, or not in lower case, or too long", cmd.Name)
		}
		names[cmd.Name] = true
		if cmd.Group == "" || cmd.Since == "" || cmd.Summary == "" || cmd.Complexity == "" || cmd.Arity == 0 {
			t.Errorf("%s: something is missing in %+v", cmd.Name, []any{cmd.Group, cmd.Since, cmd.Summary, cmd.Complexity, cmd.Arity})
		}
		if known.Lookup([]byte(strings.ToUpper(cmd.Name))) != cmd {
			t.Errorf("%s: not found", cmd.Name)
		}
		ways := 0
		for _, there := range []bool{cmd.Plan != nil, cmd.Run != nil, cmd.Sub != nil} {
			if there {
				ways++
			}
		}
		if ways != 1 && !cmd.Is("command") {
			t.Errorf("%s: %d of plan, run and sub, want 1", cmd.Name, ways)
		}
		syntax := strings.TrimSuffix(" "+cmd.Syntax, command.IdmpSyntax) // arguments after IDMP do not count for the arity
		if takes := syntax != " "+cmd.Syntax; takes != (cmd.Flags&command.Idmp != 0) {
			t.Errorf("%s: syntax %q, takes IDMP: %v", cmd.Name, cmd.Syntax, !takes)
		}
		if _, err := command.ParseSyntax(cmd.Syntax); err != nil {
			t.Errorf("%s: %v", cmd.Name, err)
		}
		args, err := command.ParseSyntax(syntax)
		if err != nil {
			t.Errorf("%s: %v", cmd.Name, err)
		}
		if cmd.HasKeys() != takesKey(args) && !cmd.Is("cluster|keyslot") { // which computes with its key and touches nothing
			t.Errorf("%s: first key is %d, arguments %+v", cmd.Name, cmd.First, args)
		}
		if cmd.Sub != nil || cmd.Is("quit") || cmd.Is("client|kill") { // QUIT takes anything, KILL at least one of its options
			return
		}
		name := 1 + strings.Count(cmd.Name, "|")
		n, more := least(args)
		if want := name + n; more && cmd.Arity > 0 || max(cmd.Arity, -cmd.Arity) != want {
			// Arity may ask for less than the documentation: the command itself then checks.
			if cmd.Arity > 0 || -cmd.Arity > want {
				t.Errorf("%s: arity %d, but %d words at least in %q (more: %v)", cmd.Name, cmd.Arity, want, cmd.Syntax, more)
			}
		}
	})
}

// TestNumberedCommands compares the rows that accept IDMP with the list that clients go by, and each such row's syntax.
func TestNumberedCommands(t *testing.T) {
	listed := make(map[string]bool)
	for _, name := range numbered.Names() {
		listed[strings.ToLower(name)] = true
	}
	command.NewTable(allRows()).Each(func(cmd *row) {
		if accepts := cmd.Flags&command.Idmp != 0; accepts != listed[cmd.Name] {
			t.Errorf("%s: it accepts a number: %v, and package numbered lists it: %v", cmd.Name, accepts, listed[cmd.Name])
		}
		if accepts := strings.HasSuffix(cmd.Syntax, strings.TrimSpace(command.IdmpSyntax)); accepts != listed[cmd.Name] {
			t.Errorf("%s: its syntax is %q, and package numbered lists it: %v", cmd.Name, cmd.Syntax, listed[cmd.Name])
		}
		delete(listed, cmd.Name)
	})
	for name := range listed {
		t.Errorf("package numbered lists %s, which is no command", name)
	}
}
