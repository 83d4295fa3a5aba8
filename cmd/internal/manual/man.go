package manual

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// Man prints the manual page, in the macros of man(7).
func (p *Program) Man(w io.Writer, version string) error {
	out := &roff{}
	out.line(".TH %s %d \"\" %q \"counterd manual\"", strings.ToUpper(p.Name), p.Section, p.Name+" "+version)
	out.section("NAME")
	out.line(`%s \- %s`, escape(p.Name), escape(strings.TrimSuffix(p.Summary, ".")))
	out.section("SYNOPSIS")
	if len(p.Commands) == 0 {
		out.synopsis(p.Name, p.Args)
	}
	for _, c := range p.Commands {
		out.synopsis(p.Name+" "+c.Name, c.Args)
	}
	if p.Description != "" {
		out.section("DESCRIPTION")
		out.text(p.Description)
	}
	if len(p.Commands) > 0 {
		out.section("COMMANDS")
	}
	for _, c := range p.Commands {
		out.line(".SS %q", strings.TrimSpace(c.Name+" "+c.Args))
		out.text(strings.ToUpper(c.Summary[:1]) + c.Summary[1:] + ".")
		out.line(".PP")
		out.text(c.Details)
		out.flags(c.Flags)
	}
	if p.Flags != nil && p.Flags.HasFlags() {
		out.section("OPTIONS")
		out.groups(p)
	}
	for _, n := range p.Notes {
		out.section(n.Title)
		out.text(n.Text)
	}
	if len(p.SeeAlso) > 0 {
		out.section("SEE ALSO")
		out.line("%s", escape(strings.Join(p.SeeAlso, ", ")))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// roff is a page under way.
type roff struct{ strings.Builder }

func (r *roff) line(format string, args ...any) { fmt.Fprintf(r, format+"\n", args...) }

func (r *roff) section(title string) { r.line(".SH %s", escape(strings.ToUpper(title))) }

func (r *roff) synopsis(name, args string) {
	r.line(`.B %s`, escape(name))
	r.line("%s", escape(strings.TrimSpace("[flags] "+args)))
	r.line(".br")
}

// text prints paragraphs, which empty lines part. Lines that are indented stay as they are.
func (r *roff) text(s string) {
	asIs := false
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\n")
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		if indented != asIs && line != "" {
			if asIs = indented; asIs {
				r.line(".PP\n.nf\n.RS")
			} else {
				r.line(".RE\n.fi\n.PP")
			}
		}
		switch {
		case line == "":
			r.line(".PP")
		default:
			r.line("%s", escape(strings.TrimPrefix(line, "\t")))
		}
	}
	if asIs {
		r.line(".RE\n.fi")
	}
}

// groups prints a program's flags: those of no group first, then each group under its heading.
func (r *roff) groups(p *Program) {
	listed := make(map[string]bool)
	for _, g := range p.Groups {
		for _, name := range g.Flags {
			listed[name] = true
		}
	}
	p.Flags.VisitAll(func(f *pflag.Flag) {
		if !listed[f.Name] {
			r.flag(f)
		}
	})
	for _, g := range p.Groups {
		r.line(".SS %q", g.Title)
		for _, name := range g.Flags {
			r.flag(p.Flags.Lookup(name))
		}
	}
}

func (r *roff) flags(flags *pflag.FlagSet) {
	if flags != nil {
		flags.VisitAll(r.flag)
	}
}

func (r *roff) flag(f *pflag.Flag) {
	if f.Hidden {
		return
	}
	name := `\fB\-\-` + escape(f.Name) + `\fR`
	if f.Shorthand != "" {
		name = `\fB\-` + f.Shorthand + `\fR, ` + name
	}
	_, usage := pflag.UnquoteUsage(f)
	if arg := argOf(f); arg != "" {
		name += ` \fI` + escape(arg) + `\fR`
	}
	r.line(".TP\n%s", name)
	usage = strings.ToUpper(usage[:1]) + usage[1:]
	if !strings.HasSuffix(usage, ".") {
		usage += "."
	}
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
		usage += " The default is " + strings.Trim(f.DefValue, "[]") + "."
	}
	r.line("%s", escape(usage))
}

// escape makes s text that troff prints as it is.
func escape(s string) string {
	s = strings.ReplaceAll(s, `\`, `\e`)
	s = strings.ReplaceAll(s, "-", `\-`)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
