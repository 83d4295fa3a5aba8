package server

import (
	"strings"
	"testing"
)

// show writes arguments in one line, with types.
func show(args []argument) string {
	parts := make([]string, len(args))
	for i, a := range args {
		s := a.name + ":" + a.kind
		if a.token != "" {
			s = a.token + "=" + s
		}
		if a.optional {
			s += "?"
		}
		if a.multiple {
			s += "+"
		}
		if len(a.args) > 0 {
			s += "(" + show(a.args) + ")"
		}
		parts[i] = s
	}
	return strings.Join(parts, " ")
}

func TestParseSyntax(t *testing.T) {
	for _, c := range []struct{ syntax, want string }{
		{"", ""},
		{"key", "key:key"},
		{"key increment", "key:key increment:integer"},
		{"key [key ...]", "key:key+"},
		{"[section [section ...]]", "section:string?+"},
		{"key value [key value ...]", "key_value:block+(key:key value:string)"},
		{"key field value [field value ...]", "key:key field_value:block+(field:string value:string)"},
		{"counter mid [mid ...]", "counter:string mid:integer+"},
		{"[NX | XX] [GET]", "nx_xx:oneof?(NX=nx:pure-token XX=xx:pure-token) GET=get:pure-token?"},
		{"cursor [MATCH pattern] [COUNT count]", "cursor:integer MATCH=pattern:pattern? COUNT=count:integer?"},
		{"[TYPE type] [ID client-id [client-id ...]]", "TYPE=type:string? ID=client-id:integer?+"},
		{"[protover [AUTH username password] [SETNAME clientname]]",
			"protover_username_password_clientname:block?(protover:integer AUTH=username_password:block?(username:string password:string) SETNAME=clientname:string?)"},
		{"COUNTER counter | COLUMN counter name [max=bits]",
			"counter_counter_name_max=bits:oneof(COUNTER=counter:string counter_name_max=bits:block(COLUMN=counter_name:block(counter:string name:string) max=bits:string?))"},
		{"a b c d | e", "arguments_e:oneof(arguments:block(a:string b:string c:string d:string) e:string)"},
	} {
		args, err := parseSyntax(c.syntax)
		if got := show(args); err != nil || got != c.want {
			t.Errorf("%q: got %s, %v, want %s", c.syntax, got, err, c.want)
		}
	}
	for _, bad := range []string{"[key", "key]", "[key ... key]", "...", "[[key]"} {
		if args, err := parseSyntax(bad); err == nil {
			t.Errorf("%q: got %s, want an error", bad, show(args))
		}
	}
}

// least is the smallest number of words that arguments take, and whether they can take more.
func least(args []argument) (n int, more bool) {
	for _, a := range args {
		words, open := 1, a.multiple || a.optional
		switch a.kind {
		case "block":
			var inner bool
			words, inner = least(a.args)
			open = open || inner
		case "oneof":
			words = 1 << 20
			for i := range a.args {
				w, inner := least(a.args[i : i+1])
				open = open || inner || i > 0 && w != words
				words = min(words, w)
			}
		}
		if a.token != "" && a.kind != "pure-token" {
			words++
		}
		if !a.optional {
			n += words
		}
		more = more || open
	}
	return n, more
}

// TestTable checks that rows are whole, and that what they say of their arguments is the same in all places.
func TestTable(t *testing.T) {
	names := make(map[string]bool)
	known := newCommands()
	known.each(func(cmd *command) {
		if names[cmd.name] || cmd.name != strings.ToLower(cmd.name) || len(cmd.name) > maxName {
			t.Errorf("%s: a second one, or not in lower case, or too long", cmd.name)
		}
		names[cmd.name] = true
		if cmd.group == "" || cmd.since == "" || cmd.summary == "" || cmd.complexity == "" || cmd.arity == 0 {
			t.Errorf("%s: something is missing in %+v", cmd.name, []any{cmd.group, cmd.since, cmd.summary, cmd.complexity, cmd.arity})
		}
		if known.lookup([]byte(strings.ToUpper(cmd.name))) != cmd {
			t.Errorf("%s: not found", cmd.name)
		}
		ways := 0
		for _, there := range []bool{cmd.plan != nil, cmd.run != nil, cmd.sub != nil} {
			if there {
				ways++
			}
		}
		if ways != 1 && !cmd.is("command") {
			t.Errorf("%s: %d of plan, run and sub, want 1", cmd.name, ways)
		}
		args, err := parseSyntax(cmd.syntax)
		if err != nil {
			t.Errorf("%s: %v", cmd.name, err)
		}
		if (cmd.first > 0) != strings.Contains(show(args), ":key") {
			t.Errorf("%s: first key is %d, arguments %s", cmd.name, cmd.first, show(args))
		}
		if cmd.sub != nil || cmd.is("quit") || cmd.is("client|kill") { // QUIT takes anything, KILL at least one of its options
			return
		}
		name := 1 + strings.Count(cmd.name, "|")
		n, more := least(args)
		if want := name + n; more && cmd.arity > 0 || max(cmd.arity, -cmd.arity) != want {
			// Arity may ask for less than the documentation: the command itself then checks.
			if cmd.arity > 0 || -cmd.arity > want {
				t.Errorf("%s: arity %d, but %d words at least in %q (more: %v)", cmd.name, cmd.arity, want, cmd.syntax, more)
			}
		}
	})
}
