package manual

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Complete prints a script that completes commands, flags and the values of flags that have few. A word that is none of
// these is completed as a file's name.
func (p *Program) Complete(w io.Writer, shell string) error {
	var script string
	switch shell {
	case "bash":
		script = p.bash()
	case "zsh":
		script = p.zsh()
	case "fish":
		script = p.fish()
	default:
		return fmt.Errorf("got shell %q, want one of %s", shell, strings.Join(Shells, ", "))
	}
	_, err := io.WriteString(w, script)
	return err
}

// option is a flag for a shell.
type option struct {
	name, short, usage string
	value              bool     // it takes one
	values             []string // which these are, where they are few
}

func options(flags *pflag.FlagSet) (list []option) {
	if flags == nil {
		return nil
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		o := option{name: f.Name, short: f.Shorthand, usage: f.Usage, value: f.NoOptDefVal == ""}
		if arg := argOf(f); strings.Contains(arg, "|") && strings.ToLower(arg) == arg {
			o.values = strings.Split(arg, "|")
		}
		list = append(list, o)
	})
	return list
}

// words are the flags as they are typed.
func words(list []option) string {
	var out []string
	for _, o := range list {
		if o.short != "" {
			out = append(out, "-"+o.short)
		}
		out = append(out, "--"+o.name)
	}
	return strings.Join(out, " ")
}

// all are the options of the program and of its commands, each name once.
func (p *Program) all() []option {
	list := options(p.Flags)
	for _, c := range p.Commands {
		for _, o := range options(c.Flags) {
			if !slices.ContainsFunc(list, func(other option) bool { return other.name == o.name }) {
				list = append(list, o)
			}
		}
	}
	return list
}

func (p *Program) bash() string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("# bash completion of %s", p.Name)
	line("_%s() {", p.Name)
	line("\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} list=")
	line("\tcase $before in")
	for _, o := range p.all() {
		if o.values != nil {
			line("\t--%s) COMPREPLY=($(compgen -W %q -- \"$word\")); return ;;", o.name, strings.Join(o.values, " "))
		}
	}
	line("\tesac")
	if len(p.Commands) == 0 {
		line("\tlist=%q", words(options(p.Flags)))
	} else {
		line("\tif [ \"$COMP_CWORD\" = 1 ]; then")
		firsts, families := p.families()
		var names []string
		for _, c := range firsts {
			names = append(names, c.Name)
		}
		names = append(names, strings.Fields(words(options(p.Flags)))...)
		line("\t\tCOMPREPLY=($(compgen -W %q -- \"$word\")); return", strings.Join(names, " "))
		line("\tfi")
		for _, first := range slices.Sorted(maps.Keys(families)) {
			var seconds []string
			for _, c := range families[first] {
				seconds = append(seconds, c.Name)
			}
			line("\tif [ \"$COMP_CWORD\" = 2 ] && [ \"${COMP_WORDS[1]}\" = %s ]; then", first)
			line("\t\tCOMPREPLY=($(compgen -W %q -- \"$word\")); return", strings.Join(seconds, " "))
			line("\tfi")
		}
		line("\tcase \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in")
		for _, c := range p.Commands {
			pattern := c.Name + `\ *` // one word, whatever is next
			if first, second, ok := strings.Cut(c.Name, " "); ok {
				pattern = first + `\ ` + second
			}
			line("\t%s) list=%q ;;", pattern, words(options(c.Flags)))
		}
		line("\tesac")
	}
	line("\tcase $word in")
	line("\t-*) COMPREPLY=($(compgen -W \"$list\" -- \"$word\")) ;;")
	line("\tesac")
	line("}")
	line("complete -o default -F _%s %s", p.Name, p.Name)
	return out.String()
}

func (p *Program) zsh() string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	arguments := func(indent string, flags *pflag.FlagSet) {
		line("%s_arguments \\", indent)
		for _, o := range options(flags) {
			for _, name := range []string{"--" + o.name, "-" + o.short} {
				if name == "-" {
					continue
				}
				spec := name + "[" + zshText(o.usage) + "]"
				if o.values != nil {
					spec += ":value:(" + strings.Join(o.values, " ") + ")"
				} else if o.value {
					spec += ":value:_files"
				}
				line("%s\t'%s' \\", indent, spec)
			}
		}
		line("%s\t'*:file:_files'", indent)
	}
	line("#compdef %s", p.Name)
	if len(p.Commands) == 0 {
		arguments("", p.Flags)
		return out.String()
	}
	line("if (( CURRENT == 2 )); then")
	describe := func(indent string, list []Command) {
		line("%s\tlocal -a commands=(", indent)
		for _, c := range list {
			line("%s\t\t'%s:%s'", indent, c.Name, zshText(c.Summary))
		}
		line("%s\t)", indent)
		line("%s\t_describe command commands", indent)
		line("%s\treturn", indent)
		line("%sfi", indent)
	}
	firsts, families := p.families()
	describe("", firsts)
	line("local command=$words[2]")
	line("shift words; (( CURRENT-- ))")
	for _, first := range slices.Sorted(maps.Keys(families)) {
		line("if [[ $command == %s ]]; then", first)
		line("\tif (( CURRENT == 2 )); then")
		describe("\t", families[first])
		line("\tcommand=\"%s $words[2]\"", first)
		line("\tshift words; (( CURRENT-- ))")
		line("fi")
	}
	line("case $command in")
	for _, c := range p.Commands {
		line("%s)", strings.ReplaceAll(c.Name, " ", `\ `))
		arguments("\t", c.Flags)
		line("\t;;")
	}
	line("esac")
	return out.String()
}

// families are the commands as their first word is completed, and those of which several have the first word, by it, with
// the second one as their names.
func (p *Program) families() (firsts []Command, families map[string][]Command) {
	families = map[string][]Command{}
	for _, c := range p.Commands {
		first, second, ok := strings.Cut(c.Name, " ")
		if !ok {
			firsts = append(firsts, c)
			continue
		}
		if families[first] == nil {
			firsts = append(firsts, Command{Name: first, Summary: "commands of a " + first})
		}
		c.Name = second
		families[first] = append(families[first], c)
	}
	return firsts, families
}

// zshText makes s a description that stands in brackets and single quotes.
func zshText(s string) string {
	return strings.NewReplacer("'", "", "[", "(", "]", ")", ":", ",", `\`, "").Replace(s)
}

func (p *Program) fish() string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	flags := func(condition string, flags *pflag.FlagSet) {
		for _, o := range options(flags) {
			text := fmt.Sprintf("complete -c %s%s -l %s", p.Name, condition, o.name)
			if o.short != "" {
				text += " -s " + o.short
			}
			switch {
			case o.values != nil:
				text += " -x -a '" + strings.Join(o.values, " ") + "'"
			case o.value:
				text += " -r"
			}
			line("%s -d '%s'", text, fishText(o.usage))
		}
	}
	line("# fish completion of %s", p.Name)
	flags("", p.Flags)
	firsts, families := p.families()
	for _, c := range firsts {
		line("complete -c %s -n __fish_use_subcommand -f -a %s -d '%s'", p.Name, c.Name, fishText(c.Summary))
		seen := "__fish_seen_subcommand_from " + c.Name
		flags(" -n '"+seen+"'", c.Flags)
		for _, second := range families[c.Name] {
			line("complete -c %s -n '%s' -f -a %s -d '%s'", p.Name, seen, second.Name, fishText(second.Summary))
			flags(" -n '"+seen+"; and __fish_seen_subcommand_from "+second.Name+"'", second.Flags)
		}
	}
	return out.String()
}

func fishText(s string) string { return strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) }
