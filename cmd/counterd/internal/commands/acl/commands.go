package acl

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/schema"
)

// Conn is the part of a connection and of its server that the ACL commands use.
type Conn interface {
	// Call has its replies.
	Call() *items.Call
	// ID is the number of the connection.
	ID() int64
	// User is the connection's user.
	User() *User
	// Users are all users, and Denials the log of refusals.
	Users() *Users
	Denials() *Log
	// File is where the users are kept; empty: nowhere.
	File() string
	Logger() *slog.Logger
	// Schema is the schema that keys are read by.
	Schema() *schema.Schema
	// Lookup finds the command of a whole command line; nil: there is none, or its arguments are too few or too many.
	Lookup(args [][]byte) (cmd *command.Access, refused string)
	// WrongNumber is the error for the number of arguments of the command.
	WrongNumber() string
	// ReplyCategories answers ACL CAT.
	ReplyCategories(args [][]byte)
	// UsersChanged closes the connections of users that are gone, and of those that are told what they may not hear now.
	UsersChanged()
}

// Command is ACL, for a table whose handlers see a C: on gives what the handlers here see of it.
func Command[C any](on func(C) Conn) *command.Row[C] {
	const all = command.NoScript | command.Loading | command.Stale
	sub := func(name string, arity int, flags command.Flags, since, complexity, syntax, summary string, run func(Conn, [][]byte)) *command.Row[C] {
		return &command.Row[C]{Name: "acl|" + name, Arity: arity, Flags: flags, Group: "server", Since: since, Complexity: complexity, Syntax: syntax, Summary: summary,
			Run: func(c C, args [][]byte) { run(on(c), args) }}
	}
	return command.Container(func(c C) *resp.Replies { return &on(c).Call().Out }, "acl", "server", "6.0.0", "A container for commands about ACL users.",
		sub("whoami", 2, all, "6.0.0", "O(1)", "", "Returns the user name of this connection.", runWhoami),
		sub("cat", -2, all, "6.0.0", "O(N) in the number of commands", "[category]", "Returns the ACL categories, or the commands of one category.", Conn.ReplyCategories),
		sub("setuser", -3, all|command.Admin, "6.0.0", "O(N)", "username [rule [rule ...]]", "Creates or changes a user. All rules are applied, or none.", runSetUser),
		sub("getuser", 3, all|command.Admin, "6.0.0", "O(N)", "username", "Returns the rules of a user.", runGetUser),
		sub("deluser", -3, all|command.Admin, "6.0.0", "O(N) in the number of connections", "username [username ...]", "Deletes users and closes their connections.", runDelUser),
		sub("list", 2, all|command.Admin, "6.0.0", "O(N) in the number of users", "", "Returns all users in the format of an ACL file.", runList),
		sub("users", 2, all|command.Admin, "6.0.0", "O(N) in the number of users", "", "Returns the names of all users.", runUsers),
		sub("dryrun", -4, all|command.Admin, "7.0.0", "O(1)", "username command [argument [argument ...]]", "Returns whether a user may execute a command, without executing it.", runDryRun),
		sub("log", -2, all|command.Admin, "6.0.0", "O(N)", "[count | RESET]", "Returns the newest refused commands and logins, by default 10, or clears the log.", runLog),
		sub("genpass", -2, all, "6.0.0", "O(1)", "[bits]", "Returns a random password in hexadecimal digits, by default of 256 bits.", runGenPass),
		sub("load", 2, all|command.Admin, "6.0.0", "O(N) in the number of users", "", "Loads all users from the ACL file. An invalid line changes nothing.", runLoad),
		sub("save", 2, all|command.Admin, "6.0.0", "O(N) in the number of users", "", "Saves all users to the ACL file.", runSave),
	)
}

func runWhoami(c Conn, _ [][]byte) { c.Call().Out.BulkString(c.User().Name()) }

func texts(args [][]byte) []string {
	list := make([]string, len(args))
	for i, a := range args {
		list[i] = string(a)
	}
	return list
}

func runSetUser(c Conn, args [][]byte) {
	u, err := c.Users().Set(string(args[2]), texts(args[3:]))
	if err != nil {
		c.Call().Out.Error("ERR " + err.Error())
		return
	}
	c.Logger().Info("user changed", "user", u.Name(), "client", c.ID())
	c.UsersChanged()
	c.Call().Out.Status("OK")
}

func runDelUser(c Conn, args [][]byte) {
	removed, err := c.Users().Remove(texts(args[2:]))
	if err != nil {
		c.Call().Out.Error("ERR " + err.Error())
		return
	}
	for _, u := range removed {
		c.Logger().Info("user deleted", "user", u.Name(), "client", c.ID())
	}
	c.UsersChanged()
	c.Call().Out.Int(int64(len(removed)))
}

func runGetUser(c Conn, args [][]byte) {
	u := c.Users().Find(string(args[2]))
	if u == nil {
		c.Call().Out.Null()
		return
	}
	r := u.Rights()
	parts := r.Parts()
	fields := func(p Part) {
		for _, f := range [][2]string{{"commands", p.Commands}, {"keys", p.Keys}, {"channels", p.Channels}} {
			c.Call().Out.BulkString(f[0])
			c.Call().Out.BulkString(f[1])
		}
	}
	c.Call().Out.Map(6)
	c.Call().Out.BulkString("flags")
	flags := r.Flags()
	c.Call().Out.Set(len(flags))
	for _, f := range flags {
		c.Call().Out.BulkString(f)
	}
	c.Call().Out.BulkString("passwords")
	c.Call().Out.BulkStrings(r.Hashes())
	if len(parts) == 0 { // removed meanwhile
		parts = make([]Part, 1)
	}
	fields(parts[0])
	c.Call().Out.BulkString("selectors")
	c.Call().Out.Array(len(parts) - 1)
	for _, p := range parts[1:] {
		c.Call().Out.Map(3)
		fields(p)
	}
}

func runList(c Conn, _ [][]byte) { c.Call().Out.BulkStrings(c.Users().Lines()) }

func runUsers(c Conn, _ [][]byte) {
	all := c.Users().All()
	c.Call().Out.Array(len(all))
	for _, u := range all {
		c.Call().Out.BulkString(u.Name())
	}
}

func runDryRun(c Conn, args [][]byte) {
	u := c.Users().Find(string(args[2]))
	if u == nil {
		c.Call().Out.Error("ERR User '" + resp.Printable(args[2], 128) + "' not found")
		return
	}
	args = args[3:]
	cmd, refused := c.Lookup(args)
	if cmd == nil {
		c.Call().Out.Error(refused)
		return
	}
	d := u.Check(cmd, args, c.Schema())
	if d.Reason != Allowed {
		c.Call().Out.BulkString(d.Verbose(u, cmd, args))
		return
	}
	c.Call().Out.Status("OK")
}

// runLog: ACL LOG [count | RESET].
func runLog(c Conn, args [][]byte) {
	n := int64(10)
	switch ok := true; {
	case len(args) > 3:
		c.Call().Out.Error(c.WrongNumber())
		return
	case len(args) == 3 && resp.EqualFold(args[2], "RESET"):
		c.Denials().Reset()
		c.Call().Out.Status("OK")
		return
	case len(args) == 3:
		if n, ok = resp.Number(args[2]); !ok {
			c.Call().Out.Error("ERR value is not an integer or out of range")
			return
		}
	}
	entries := c.Denials().Newest(int(min(n, 1<<30)))
	c.Call().Out.Array(len(entries))
	for _, e := range entries {
		c.Call().Out.Map(10)
		c.Call().Out.BulkString("count")
		c.Call().Out.Int(e.Count)
		for _, f := range [][2]string{{"reason", e.Reason.String()}, {"context", e.Context}, {"object", e.Object}, {"username", e.User}} {
			c.Call().Out.BulkString(f[0])
			c.Call().Out.BulkString(f[1])
		}
		c.Call().Out.BulkString("age-seconds")
		c.Call().Out.Double(float64(e.Age().Milliseconds()) / 1000)
		c.Call().Out.BulkString("client-info")
		c.Call().Out.BulkString(e.Client)
		c.Call().Out.BulkString("entry-id")
		c.Call().Out.Int(e.ID)
		c.Call().Out.BulkString("timestamp-created")
		c.Call().Out.Int(e.Created.UnixMilli())
		c.Call().Out.BulkString("timestamp-last-updated")
		c.Call().Out.Int(e.Updated.UnixMilli())
	}
}

// maxPassBits is the longest password that ACL GENPASS makes.
const maxPassBits = 4096

func runGenPass(c Conn, args [][]byte) {
	bits := int64(256)
	if len(args) > 3 {
		c.Call().Out.Error(c.WrongNumber())
		return
	}
	if len(args) == 3 {
		var ok bool
		if bits, ok = resp.Number(args[2]); !ok {
			c.Call().Out.Error("ERR value is not an integer or out of range")
			return
		}
	}
	if bits <= 0 || bits > maxPassBits {
		c.Call().Out.Error("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096")
		return
	}
	digits := (bits + 3) / 4
	random := make([]byte, (digits+1)/2)
	_, _ = rand.Read(random) // never fails
	c.Call().Out.BulkString(hex.EncodeToString(random)[:digits])
}

// ErrNoFile answers ACL LOAD and SAVE of a server without an ACL file.
const ErrNoFile = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a " +
	"CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration."

func runLoad(c Conn, _ [][]byte) {
	file := c.File()
	if file == "" {
		c.Call().Out.Error(ErrNoFile)
		return
	}
	if _, err := c.Users().LoadFile(file); err != nil {
		c.Logger().Warn("ACL LOAD failed; users are unchanged", "file", file, "error", err)
		c.Call().Out.Error("ERR " + strings.ReplaceAll(err.Error(), "\n", ". ") + ". WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
		return
	}
	c.Logger().Info("users reloaded", "file", file, "client", c.ID())
	c.UsersChanged()
	c.Call().Out.Status("OK")
}

func runSave(c Conn, _ [][]byte) {
	file := c.File()
	if file == "" {
		c.Call().Out.Error(ErrNoFile)
		return
	}
	if err := c.Users().SaveFile(file); err != nil {
		c.Logger().Error("ACL SAVE failed", "file", file, "error", err)
		c.Call().Out.Error("ERR There was an error trying to save the ACLs. Please check the server logs for more information")
		return
	}
	c.Call().Out.Status("OK")
}
