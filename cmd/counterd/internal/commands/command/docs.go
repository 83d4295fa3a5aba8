package command

import "github.com/counterd/counterd/cmd/counterd/internal/net/resp"

// ReplyDocs answers COMMAND DOCS [name ...]. Names that are unknown are left out.
func (t *Table[C]) ReplyDocs(out *resp.Replies, args [][]byte) {
	list := t.List
	if len(args) > 2 {
		list = nil
		for _, name := range args[2:] {
			if cmd := t.Lookup(name); cmd != nil {
				list = append(list, cmd)
			}
		}
	}
	docs(out, list)
}

// docs appends a map from the names of commands to their documentation.
func docs[C any](out *resp.Replies, list []*Row[C]) {
	out.Map(len(list))
	for _, cmd := range list {
		out.BulkString(cmd.Name)
		cmd.doc(out)
	}
}

func (cmd *Row[C]) doc(out *resp.Replies) {
	arguments, err := ParseSyntax(cmd.Syntax)
	if err != nil { // a test parses all rows
		arguments = nil
	}
	pairs := 4
	if len(arguments) > 0 {
		pairs++
	}
	if len(cmd.Sub) > 0 {
		pairs++
	}
	out.Map(pairs)
	pair(out, "summary", cmd.Summary)
	pair(out, "since", cmd.Since)
	pair(out, "group", cmd.Group)
	pair(out, "complexity", cmd.Complexity)
	if len(arguments) > 0 {
		replyArguments(out, arguments)
	}
	if len(cmd.Sub) > 0 {
		out.BulkString("subcommands")
		docs(out, cmd.Sub)
	}
}

// pair appends a key and a value of a map.
func pair(out *resp.Replies, name, value string) {
	out.BulkString(name)
	out.BulkString(value)
}

// replyArguments appends the pair "arguments" of a command, or of an argument that has some.
func replyArguments(out *resp.Replies, list []Argument) {
	out.BulkString("arguments")
	out.Array(len(list))
	for i := range list {
		list[i].reply(out)
	}
}

func (a *Argument) reply(out *resp.Replies) {
	var flags []string
	if a.Optional {
		flags = append(flags, "optional")
	}
	if a.Multiple {
		flags = append(flags, "multiple")
	}
	if a.Again {
		flags = append(flags, "multiple_token")
	}
	pairs := 2
	for _, there := range []bool{a.Kind == "key", a.Token != "", len(flags) > 0, len(a.Args) > 0} {
		if there {
			pairs++
		}
	}
	out.Map(pairs)
	pair(out, "name", a.Name)
	pair(out, "type", a.Kind)
	if a.Kind == "key" {
		out.BulkString("key_spec_index")
		out.Int(0)
	}
	if a.Token != "" {
		pair(out, "token", a.Token)
	}
	if len(flags) > 0 {
		out.BulkString("flags")
		statusSet(out, flags)
	}
	if len(a.Args) > 0 {
		replyArguments(out, a.Args)
	}
}
