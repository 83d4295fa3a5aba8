package server

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
)

// ACL. What users are and may do is package acl's.

func aclCommand() *row {
	const all = command.NoScript | command.Loading | command.Stale
	sub := func(name string, arity int, flags command.Flags, since, complexity, syntax, summary string, run func(*client, [][]byte)) *row {
		return &row{Name: "acl|" + name, Arity: arity, Flags: flags, Group: "server", Since: since, Complexity: complexity, Syntax: syntax, Summary: summary, Run: run}
	}
	return container("acl", "server", "6.0.0", "A container for commands about ACL users.",
		sub("whoami", 2, all, "6.0.0", "O(1)", "", "Returns the user name of this connection.", runACLWhoami),
		sub("cat", -2, all, "6.0.0", "O(N) in the number of commands", "[category]", "Returns the ACL categories, or the commands of one category.", ofTable((*commands).ReplyCategories)),
		sub("setuser", -3, all|command.Admin, "6.0.0", "O(N)", "username [rule [rule ...]]", "Creates or changes a user. All rules are applied, or none.", runACLSetUser),
		sub("getuser", 3, all|command.Admin, "6.0.0", "O(N)", "username", "Returns the rules of a user.", runACLGetUser),
		sub("deluser", -3, all|command.Admin, "6.0.0", "O(N) in the number of connections", "username [username ...]", "Deletes users and closes their connections.", runACLDelUser),
		sub("list", 2, all|command.Admin, "6.0.0", "O(N) in the number of users", "", "Returns all users in the format of an ACL file.", runACLList),
		sub("users", 2, all|command.Admin, "6.0.0", "O(N) in the number of users", "", "Returns the names of all users.", runACLUsers),
		sub("dryrun", -4, all|command.Admin, "7.0.0", "O(1)", "username command [argument [argument ...]]", "Returns whether a user may execute a command, without executing it.", runACLDryRun),
		sub("log", -2, all|command.Admin, "6.0.0", "O(N)", "[count | RESET]", "Returns the newest refused commands and logins, by default 10, or clears the log.", runACLLog),
		sub("genpass", -2, all, "6.0.0", "O(1)", "[bits]", "Returns a random password in hexadecimal digits, by default of 256 bits.", runACLGenPass),
		sub("load", 2, all|command.Admin, "6.0.0", "O(N) in the number of users", "", "Loads all users from the ACL file. An invalid line changes nothing.", runACLLoad),
		sub("save", 2, all|command.Admin, "6.0.0", "O(N) in the number of users", "", "Saves all users to the ACL file.", runACLSave),
	)
}

func runACLWhoami(c *client, _ [][]byte) { c.call.Out.BulkString(c.user.Load().Name()) }

func texts(args [][]byte) []string {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = string(a)
	}
	return list
}

func runACLSetUser(c *client, args [][]byte) {
	u, err := c.srv.users.Set(string(args[2]), texts(args[3:]))
	if err != nil {
		c.call.Out.Error("ERR " + err.Error())
		return
	}
	c.srv.log.Info("user changed", "user", u.Name(), "client", c.session.ID())
	c.call.usersChanged(c)
	c.call.Out.Status("OK")
}

func runACLDelUser(c *client, args [][]byte) {
	removed, err := c.srv.users.Remove(texts(args[2:]))
	if err != nil {
		c.call.Out.Error("ERR " + err.Error())
		return
	}
	for _, u := range removed {
		c.srv.log.Info("user deleted", "user", u.Name(), "client", c.session.ID())
	}
	c.call.usersChanged(c)
	c.call.Out.Int(int64(len(removed)))
}

func runACLGetUser(c *client, args [][]byte) {
	u := c.srv.users.Find(string(args[2]))
	if u == nil {
		c.call.Out.Null()
		return
	}
	r := u.Rights()
	parts := r.Parts()
	fields := func(p acl.Part) {
		for _, f := range [][2]string{{"commands", p.Commands}, {"keys", p.Keys}, {"channels", p.Channels}} {
			c.call.Out.BulkString(f[0])
			c.call.Out.BulkString(f[1])
		}
	}
	c.call.Out.Map(6)
	c.call.Out.BulkString("flags")
	flags := r.Flags()
	c.call.Out.Set(len(flags))
	for _, f := range flags {
		c.call.Out.BulkString(f)
	}
	c.call.Out.BulkString("passwords")
	c.call.Out.BulkStrings(r.Hashes())
	if len(parts) == 0 { // removed meanwhile
		parts = make([]acl.Part, 1)
	}
	fields(parts[0])
	c.call.Out.BulkString("selectors")
	c.call.Out.Array(len(parts) - 1)
	for _, p := range parts[1:] {
		c.call.Out.Map(3)
		fields(p)
	}
}

func runACLList(c *client, _ [][]byte) { c.call.Out.BulkStrings(c.srv.users.Lines()) }

func runACLUsers(c *client, _ [][]byte) {
	all := c.srv.users.All()
	c.call.Out.Array(len(all))
	for _, u := range all {
		c.call.Out.BulkString(u.Name())
	}
}

func runACLDryRun(c *client, args [][]byte) {
	u := c.srv.users.Find(string(args[2]))
	if u == nil {
		c.call.Out.Error("ERR User '" + resp.Printable(args[2], 128) + "' not found")
		return
	}
	args = args[3:]
	cmd := c.srv.commands.Find(args[0])
	if cmd != nil && cmd.Sub != nil && len(args) > 1 {
		cmd = cmd.Subcommand(args[1])
	}
	switch {
	case cmd == nil:
		c.call.Out.Error("ERR Command '" + resp.Printable(args[0], 128) + "' not found")
		return
	case !cmd.Takes(args):
		c.call.Out.Error(cmd.WrongNumber())
		return
	}
	d := u.Check(cmd.Access(), args, c.call.store.Schema())
	if d.Reason != acl.Allowed {
		c.call.Out.BulkString(d.Verbose(u, cmd.Access(), args))
		return
	}
	c.call.Out.Status("OK")
}

// runACLLog: ACL LOG [count | RESET].
func runACLLog(c *client, args [][]byte) {
	n := int64(10)
	switch ok := true; {
	case len(args) > 3:
		c.call.Out.Error(c.executed.WrongNumber())
		return
	case len(args) == 3 && resp.EqualFold(args[2], "RESET"):
		c.srv.denials.Reset()
		c.call.Out.Status("OK")
		return
	case len(args) == 3:
		if n, ok = resp.Number(args[2]); !ok {
			c.call.Out.Error("ERR value is not an integer or out of range")
			return
		}
	}
	entries := c.srv.denials.Newest(int(min(n, 1<<30)))
	c.call.Out.Array(len(entries))
	for _, e := range entries {
		c.call.Out.Map(10)
		c.call.Out.BulkString("count")
		c.call.Out.Int(e.Count)
		for _, f := range [][2]string{{"reason", e.Reason.String()}, {"context", e.Context}, {"object", e.Object}, {"username", e.User}} {
			c.call.Out.BulkString(f[0])
			c.call.Out.BulkString(f[1])
		}
		c.call.Out.BulkString("age-seconds")
		c.call.Out.Double(float64(e.Age().Milliseconds()) / 1000)
		c.call.Out.BulkString("client-info")
		c.call.Out.BulkString(e.Client)
		c.call.Out.BulkString("entry-id")
		c.call.Out.Int(e.ID)
		c.call.Out.BulkString("timestamp-created")
		c.call.Out.Int(e.Created.UnixMilli())
		c.call.Out.BulkString("timestamp-last-updated")
		c.call.Out.Int(e.Updated.UnixMilli())
	}
}

// maxPassBits is the longest password that ACL GENPASS makes.
const maxPassBits = 4096

func runACLGenPass(c *client, args [][]byte) {
	bits := int64(256)
	if len(args) > 3 {
		c.call.Out.Error(c.executed.WrongNumber())
		return
	}
	if len(args) == 3 {
		var ok bool
		if bits, ok = resp.Number(args[2]); !ok {
			c.call.Out.Error("ERR value is not an integer or out of range")
			return
		}
	}
	if bits <= 0 || bits > maxPassBits {
		c.call.Out.Error("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096")
		return
	}
	digits := (bits + 3) / 4
	random := make([]byte, (digits+1)/2)
	_, _ = rand.Read(random) // never fails
	c.call.Out.BulkString(hex.EncodeToString(random)[:digits])
}

const errNoACLFile = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a " +
	"CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration."

func runACLLoad(c *client, _ [][]byte) {
	conf := c.srv.config.Get()
	file := conf.ACLPath()
	if file == "" {
		c.call.Out.Error(errNoACLFile)
		return
	}
	if _, err := c.srv.users.LoadFile(file); err != nil {
		c.srv.log.Warn("ACL LOAD failed; users are unchanged", "file", file, "error", err)
		c.call.Out.Error("ERR " + strings.ReplaceAll(err.Error(), "\n", ". ") + ". WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
		return
	}
	c.srv.log.Info("users reloaded", "file", file, "client", c.session.ID())
	c.call.usersChanged(c)
	c.call.Out.Status("OK")
}

func runACLSave(c *client, _ [][]byte) {
	conf := c.srv.config.Get()
	file := conf.ACLPath()
	if file == "" {
		c.call.Out.Error(errNoACLFile)
		return
	}
	if err := c.srv.users.SaveFile(file); err != nil {
		c.srv.log.Error("ACL SAVE failed", "file", file, "error", err)
		c.call.Out.Error("ERR There was an error trying to save the ACLs. Please check the server logs for more information")
		return
	}
	c.call.Out.Status("OK")
}
