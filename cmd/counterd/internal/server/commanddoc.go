package server

// runCommandDocs: COMMAND DOCS [name ...]. Names that are unknown are left out.
func runCommandDocs(c *client, args [][]byte) {
	list := c.srv.commands.list
	if len(args) > 2 {
		list = nil
		for _, name := range args[2:] {
			if cmd := c.srv.commands.lookup(name); cmd != nil {
				list = append(list, cmd)
			}
		}
	}
	c.docs(list)
}

// docs appends a map from the names of commands to what people want to know of them.
func (c *client) docs(list []*command) {
	c.Out.Map(len(list))
	for _, cmd := range list {
		c.Out.BulkString(cmd.name)
		c.doc(cmd)
	}
}

func (c *client) doc(cmd *command) {
	arguments, err := parseSyntax(cmd.syntax)
	if err != nil { // a test parses all rows
		arguments = nil
	}
	pairs := 4
	if len(arguments) > 0 {
		pairs++
	}
	if len(cmd.sub) > 0 {
		pairs++
	}
	c.Out.Map(pairs)
	c.pair("summary", cmd.summary)
	c.pair("since", cmd.since)
	c.pair("group", cmd.group)
	c.pair("complexity", cmd.complexity)
	if len(arguments) > 0 {
		c.arguments(arguments)
	}
	if len(cmd.sub) > 0 {
		c.Out.BulkString("subcommands")
		c.docs(cmd.sub)
	}
}

// pair appends a key and a value of a map.
func (c *client) pair(name, value string) {
	c.Out.BulkString(name)
	c.Out.BulkString(value)
}

// arguments appends the pair "arguments" of a command, or of an argument that has some.
func (c *client) arguments(list []argument) {
	c.Out.BulkString("arguments")
	c.Out.Array(len(list))
	for i := range list {
		c.argument(&list[i])
	}
}

func (c *client) argument(a *argument) {
	var flags []string
	if a.optional {
		flags = append(flags, "optional")
	}
	if a.multiple {
		flags = append(flags, "multiple")
	}
	pairs := 2
	for _, there := range []bool{a.kind == "key", a.token != "", len(flags) > 0, len(a.args) > 0} {
		if there {
			pairs++
		}
	}
	c.Out.Map(pairs)
	c.pair("name", a.name)
	c.pair("type", a.kind)
	if a.kind == "key" {
		c.Out.BulkString("key_spec_index")
		c.Out.Int(0)
	}
	if a.token != "" {
		c.pair("token", a.token)
	}
	if len(flags) > 0 {
		c.Out.BulkString("flags")
		c.statusSet(flags)
	}
	if len(a.args) > 0 {
		c.arguments(a.args)
	}
}
