package reference

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/docpage"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// groups are the headings of the page, in its order.
var groups = []struct{ name, title string }{
	{"counterd", "Posts and queries"}, {"string", "Single counters"}, {"hash", "Posts as hashes"}, {"generic", "Keys"}, {"transactions", "Transactions"},
	{"pubsub", "Publish and subscribe"}, {"connection", "Connections"}, {"server", "Server"}, {"cluster", "Cluster"}, {"scripting", "Scripting"},
}

// command is what a server says of one of its commands.
type command struct {
	name, group, summary, since, complexity, syntax string
	flags, categories                               []string
	sub                                             []command
}

// TestReferenceCommands makes docs/reference/commands.md: of each command what the server says of it, what extras adds,
// and an example that is run here.
func TestReferenceCommands(t *testing.T) {
	socket := serve(t)
	c := dial(t, socket)
	infos := make(map[string][2][]string)
	var info func(list []resptest.Value)
	info = func(list []resptest.Value) {
		for _, v := range list {
			infos[v.List[0].Text] = [2][]string{texts(v.List[2]), texts(v.List[6])}
			info(v.List[9].List)
		}
	}
	info(c.do("COMMAND").List)
	all := commands(t, c.do("COMMAND", "DOCS"), infos)

	var out strings.Builder
	seen := make(map[string]bool)
	for _, g := range groups {
		fmt.Fprintf(&out, "\n## %s\n", g.title)
		for i := range all {
			if all[i].group == g.name {
				page(t, &out, socket, &all[i], seen)
			}
		}
	}
	for i := range all {
		if !seen[all[i].name] {
			t.Errorf("%s is in no group of the page: %q", all[i].name, all[i].group)
		}
	}
	for name := range extras {
		if !seen[name] {
			t.Errorf("extras has %s, which is no command", name)
		}
	}
	docpage.Check(t, "docs/reference/commands.md", "commands", out.String())
}

// page appends what is to be said of a command.
func page(t *testing.T, out *strings.Builder, socket string, c *command, seen map[string]bool) {
	seen[c.name] = true
	title := strings.ToUpper(strings.ReplaceAll(c.name, "|", " "))
	if strings.HasSuffix(c.name, "|help") {
		return
	}
	x, ok := extras[c.name]
	if !ok && len(c.sub) == 0 {
		t.Errorf("extras has nothing of %s: want its reply", c.name)
	}
	fmt.Fprintf(out, "\n### %s\n\n%s\n\n", title, c.summary)
	if len(c.sub) == 0 || c.name == "command" {
		fmt.Fprintf(out, "    %s\n\n", strings.TrimSpace(title+" "+c.syntax))
		row := func(name, value string) {
			if value != "" {
				fmt.Fprintf(out, "- %s: %s\n", name, value)
			}
		}
		row("Reply", x.reply)
		row("Errors", x.errors)
		row("Complexity", c.complexity)
		since := "Redis " + c.since
		if c.group == "counterd" || strings.HasPrefix(c.name, "counter.") || c.name == "client|idmp" {
			since = "counterd " + c.since
		}
		row("Since", since)
		row("Flags", strings.Join(c.flags, ", "))
		row("ACL categories", strings.Join(c.categories, ", "))
		row("Difference from Redis", x.differs)
	}
	if x.example != "" {
		fmt.Fprintf(out, "\n```\n%s```\n", run(t, socket, x.example))
	}
	for i := range c.sub {
		page(t, out, socket, &c.sub[i], seen)
	}
}

// run executes the lines of an example, separated by semicolons, on an empty server and returns them with their replies.
func run(t *testing.T, socket, lines string) string {
	t.Helper()
	c := dial(t, socket)
	if v := c.do("FLUSHALL"); v.Kind == '-' {
		t.Fatal(v.Text)
	}
	var out strings.Builder
	for line := range strings.SplitSeq(lines, ";") {
		line = strings.TrimSpace(line)
		fmt.Fprintf(&out, "> %s\n%s\n", line, printed(c.do(words(line)...)))
	}
	return out.String()
}

// commands reads a reply of COMMAND DOCS.
func commands(t *testing.T, docs resptest.Value, infos map[string][2][]string) (list []command) {
	for i := 0; i+1 < len(docs.List); i += 2 {
		name, doc := docs.List[i].Text, docs.List[i+1]
		c := command{name: name, group: doc.Get(t, "group").Text, summary: doc.Get(t, "summary").Text, since: doc.Get(t, "since").Text,
			complexity: doc.Get(t, "complexity").Text, flags: infos[name][0], categories: infos[name][1]}
		for j := 0; j+1 < len(doc.List); j += 2 {
			switch doc.List[j].Text {
			case "arguments":
				c.syntax = syntax(t, doc.List[j+1].List)
			case "subcommands":
				c.sub = commands(t, doc.List[j+1], infos)
			}
		}
		list = append(list, c)
	}
	return list
}

// syntax is the text of a list of arguments.
func syntax(t *testing.T, list []resptest.Value) string {
	var parts []string
	for _, a := range list {
		parts = append(parts, argument(t, a))
	}
	return strings.Join(parts, " ")
}

func argument(t *testing.T, a resptest.Value) string {
	fields := make(map[string]resptest.Value)
	for i := 0; i+1 < len(a.List); i += 2 {
		fields[a.List[i].Text] = a.List[i+1]
	}
	flags, kind := texts(fields["flags"]), fields["type"].Text
	optional := slices.Contains(flags, "optional")
	text := fields["name"].Text
	switch kind {
	case "pure-token":
		text = ""
	case "block":
		text = syntax(t, fields["arguments"].List)
	case "oneof":
		var choices []string
		for _, choice := range fields["arguments"].List {
			choices = append(choices, argument(t, choice))
		}
		text = strings.Join(choices, " | ")
		if !optional || fields["token"].Text != "" {
			text = "<" + text + ">"
		}
	}
	again := slices.Contains(flags, "multiple_token")
	if slices.Contains(flags, "multiple") && !again {
		text += " [" + text + " ...]"
	}
	text = strings.TrimSpace(fields["token"].Text + " " + text)
	if again {
		text += " [" + text + " ...]"
	}
	if optional {
		text = "[" + text + "]"
	}
	return text
}

func texts(v resptest.Value) (list []string) {
	for _, e := range v.List {
		list = append(list, e.Text)
	}
	return list
}
