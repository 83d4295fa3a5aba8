package command

import (
	"slices"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/glob"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// COMMAND: the table as clients read it. go-redis and redis-py in cluster mode find keys by it and refuse commands that
// are not listed; redis-cli makes its help from COMMAND DOCS (docs.go).

// statusSet appends words as simple strings: redis-cli 7.0 aborts on bulk strings there.
func statusSet(out *resp.Replies, words []string) {
	out.Set(len(words))
	for _, w := range words {
		out.Status(w)
	}
}

// describe appends the entry of COMMAND INFO: ten elements, as clients of the cluster kind want it.
func (cmd *Row[C]) describe(out *resp.Replies) {
	out.Array(10)
	out.BulkString(cmd.Name)
	out.Int(int64(cmd.Arity))
	statusSet(out, cmd.flagList())
	out.Int(int64(cmd.First))
	out.Int(int64(cmd.Last))
	out.Int(int64(cmd.Step))
	statusSet(out, cmd.categories())
	tips := cmd.tips()
	out.Set(len(tips))
	for _, tip := range tips {
		out.BulkString(tip)
	}
	cmd.keySpec(out)
	out.Array(len(cmd.Sub))
	for _, s := range cmd.Sub {
		s.describe(out)
	}
}

// keySpec appends where the keys are, in the form of Redis 7: where to begin, and how to go on from there.
func (cmd *Row[C]) keySpec(out *resp.Replies) {
	if cmd.First == 0 {
		out.Set(0)
		return
	}
	last := cmd.Last
	if last > 0 {
		last -= cmd.First // relative to the first
	}
	out.Set(1)
	if cmd.Is("set") {
		out.Map(4)
		out.BulkString("notes")
		out.BulkString("RW and ACCESS due to the optional `GET` argument")
	} else {
		out.Map(3)
	}
	out.BulkString("flags")
	statusSet(out, cmd.keyFlags())
	part := func(name, kind string, fields ...any) {
		out.BulkString(name)
		out.Map(2)
		out.BulkString("type")
		out.BulkString(kind)
		out.BulkString("spec")
		out.Map(len(fields) / 2)
		for i := 0; i < len(fields); i += 2 {
			out.BulkString(fields[i].(string))
			out.Int(int64(fields[i+1].(int)))
		}
	}
	part("begin_search", "index", "index", cmd.First)
	part("find_keys", "range", "lastkey", last, "keystep", cmd.Step, "limit", 0)
}

// ReplyAll answers COMMAND without a subcommand.
func (t *Table[C]) ReplyAll(out *resp.Replies, _ [][]byte) {
	list := t.List
	out.Array(len(list))
	for _, cmd := range list {
		cmd.describe(out)
	}
}

// ReplyCount answers COMMAND COUNT.
func (t *Table[C]) ReplyCount(out *resp.Replies, _ [][]byte) { out.Int(int64(len(t.List))) }

// ReplyInfo answers COMMAND INFO [name ...]; null for a name that is unknown.
func (t *Table[C]) ReplyInfo(out *resp.Replies, args [][]byte) {
	if len(args) == 2 {
		t.ReplyAll(out, nil)
		return
	}
	out.Array(len(args) - 2)
	for _, name := range args[2:] {
		if cmd := t.Lookup(name); cmd != nil {
			cmd.describe(out)
		} else {
			out.Null()
		}
	}
}

// ReplyList answers COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern].
func (t *Table[C]) ReplyList(out *resp.Replies, args [][]byte) {
	keep := func(*Row[C]) bool { return true }
	switch {
	case len(args) == 2:
	case len(args) != 5 || !resp.EqualFold(args[2], "FILTERBY"):
		out.Error(items.ErrSyntax)
		return
	case resp.EqualFold(args[3], "MODULE"):
		keep = func(*Row[C]) bool { return false }
	case resp.EqualFold(args[3], "ACLCAT"):
		category := strings.ToLower(string(args[4]))
		keep = func(cmd *Row[C]) bool { return slices.Contains(categoryNames, category) && cmd.in(category) }
	case resp.EqualFold(args[3], "PATTERN"):
		pattern := strings.ToLower(string(args[4]))
		keep = func(cmd *Row[C]) bool { return glob.Match(pattern, cmd.Name) }
	default:
		out.Error(items.ErrSyntax)
		return
	}
	t.names(out, keep)
}

// names appends a set of the names of commands and subcommands.
func (t *Table[C]) names(out *resp.Replies, keep func(*Row[C]) bool) {
	var list []string
	t.Each(func(cmd *Row[C]) {
		if keep(cmd) {
			list = append(list, cmd.Name)
		}
	})
	out.BulkStrings(list)
}

// ReplyKeys answers COMMAND GETKEYS command [argument ...].
func (t *Table[C]) ReplyKeys(out *resp.Replies, args [][]byte) {
	_, keys, text := t.keys(args[2:])
	if text != "" {
		out.Error(text)
		return
	}
	out.Array(len(keys))
	for _, k := range keys {
		out.Bulk(k)
	}
}

// ReplyKeysAndFlags answers COMMAND GETKEYSANDFLAGS command [argument ...].
func (t *Table[C]) ReplyKeysAndFlags(out *resp.Replies, args [][]byte) {
	cmd, keys, text := t.keys(args[2:])
	if text != "" {
		out.Error(text)
		return
	}
	out.Array(len(keys))
	for _, k := range keys {
		out.Array(2)
		out.Bulk(k)
		statusSet(out, cmd.keyFlagsOf(args[2:]))
	}
}

// ReplyCategories answers ACL CAT [category].
func (t *Table[C]) ReplyCategories(out *resp.Replies, args [][]byte) {
	switch len(args) {
	case 2:
		out.BulkStrings(categoryNames)
	case 3:
		category := strings.ToLower(string(args[2]))
		if !slices.Contains(categoryNames, category) {
			out.Error("ERR Unknown category '" + resp.Printable(args[2], 128) + "'")
			return
		}
		t.names(out, func(cmd *Row[C]) bool { return cmd.in(category) })
	default:
		out.Error("ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.")
	}
}
