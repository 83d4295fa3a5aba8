package server

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/schema"
)

// Users, as connections have them. What they may do is package acl's.

// openUsers makes the users of the configuration, and takes the commands out of the table that are disabled.
func (s *shared) openUsers(c *config.Config) error {
	s.users = acl.NewUsers(acl.NewCatalog(s.commands.Access()))
	s.users.SetPubsubDefault(c.ACLPubsubDefault == config.AllChannels)
	for _, name := range c.DisableCommand {
		if s.commands.Lookup([]byte(name)) == nil && acl.Foreign(name) {
			continue // it is not here anyway
		}
		if !s.commands.Disable(name) {
			return fmt.Errorf("disable-command: got %q, which is no command, and no subcommand such as config|set", name)
		}
	}
	if c.RequirePass != "" {
		s.users.SetPassword(c.RequirePass)
	}
	if c.ACLFile != "" {
		_, err := s.users.LoadFile(c.ACLPath())
		if err != nil {
			return fmt.Errorf("aclfile: %w", err)
		}
		return nil
	}
	return s.users.Configure(c.Users)
}

// userLines are the "user" lines of the configuration file that CONFIG REWRITE writes, without that word.
func (s *shared) userLines(c *config.Config) []string {
	if c.ACLFile != "" || s.users.Plain(c.RequirePass) {
		return nil
	}
	lines := s.users.Lines()
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "user ")
	}
	return lines
}

// authenticate makes the connection a user's if the password is right, and notes it if not.
func (c *client) authenticate(by string, name, pass []byte) bool {
	right, ok := c.login.attempt(c.call.executing, name, pass)
	if !right {
		c.noteDenial(acl.DeniedAuth, by, string(name))
	}
	return ok
}

// awaitGuesses makes EXEC wait for the passwords in its queue, as they would wait one by one if all of them were wrong.
// With the store held nobody can wait. false: the connection has ended, and nothing is executed. REQUIRES not InLoop.
func (c *client) awaitGuesses() bool {
	paid := c.login.failures + c.multi.passwords - freeFailures
	c.multi.passwords = 0 // they wait once
	if paid <= 0 {
		return true
	}
	c.login.pause(paid)
	if c.call.loading || c.call.store != c.srv.current.Load() {
		c.call.begin()
	}
	return !c.session.Closing
}

// may is denied for commands that are planned: it notes nothing, and most are answered by a few compares.
func (c *client) may(cmd *row, args [][]byte) bool {
	u := c.login.user.Load()
	if u.Unlimited() {
		return true
	}
	return u.May(cmd.Access(), args, c.call.names()) || u.Check(cmd.Access(), args, c.call.names()).Reason == acl.Allowed
}

// denied tells whether the connection's user may not execute a whole command, and notes it if so.
func (c *client) denied(cmd *row, args [][]byte) acl.Denial {
	u := c.login.user.Load()
	d := u.Check(cmd.Access(), args, c.call.names())
	if d.Reason != acl.Allowed {
		c.noteDenial(d.Reason, d.Object(cmd.Access(), args), u.Name())
	}
	return d
}

// noteDenial adds to ACL LOG.
func (c *client) noteDenial(reason acl.Reason, object, user string) {
	context := "toplevel"
	if c.multi.active || c.call.executing {
		context = "multi"
	}
	c.srv.denials.Add(reason, context, object, user, func() string {
		c.publish(0) // the command that it is at
		return c.line()
	})
}

// overhears tells whether the connection has a subscription that its user has no right to. Anybody may call it.
func (c *client) overhears() bool {
	u := c.login.user.Load()
	if c.subs.Count() == 0 || u.HearsAll() {
		return false
	}
	return c.srv.pubsub.Any(&c.subs, func(kind pubsub.Kind, name string) bool { return !u.Hears(name, kind == pubsub.Pattern) })
}

// follows tells whether the connection is shown all commands, or carries the log, and its user has no right to that.
// Anybody may call it.
func (c *client) follows() bool {
	u := c.login.user.Load()
	may := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			cmd := c.srv.commands.Lookup([]byte(name))
			return cmd != nil && u.MayRun(cmd.Access())
		})
	}
	return c.monitors.Load() && !may("monitor") || c.peer.Load() != nil && !may("psync", "sync")
}

// usersChanged closes the connections of users that are not there any more, and those that are told what they may not
// hear or read now. The one that asks is closed after its answer.
func (c *call) usersChanged(asks *client) {
	n := 0
	for _, k := range c.srv.connected() {
		if !k.login.user.Load().Gone() && !k.overhears() && !k.eavesdrops() && !k.follows() {
			continue
		}
		n++
		if k == asks {
			k.session.Closing = true
		} else {
			k.session.Conn().Close()
		}
	}
	if n > 0 {
		c.srv.log.Info("closed connections of users that were changed or deleted", "number", n, "client", c.session.ID())
	}
}

// aclConn is a connection as the ACL commands see it.
type aclConn struct{ c *client }

func onACL(c *client) acl.Conn { return aclConn{c} }

func (a aclConn) Call() *items.Call      { return &a.c.call.items }
func (a aclConn) ID() int64              { return a.c.session.ID() }
func (a aclConn) User() *acl.User        { return a.c.login.user.Load() }
func (a aclConn) Users() *acl.Users      { return a.c.srv.users }
func (a aclConn) Denials() *acl.Log      { return &a.c.srv.denials }
func (a aclConn) Logger() *slog.Logger   { return a.c.srv.log }
func (a aclConn) Schema() *schema.Schema { return a.c.call.store.Schema() }
func (a aclConn) WrongNumber() string    { return a.c.executed.WrongNumber() }
func (a aclConn) ReplyCategories(args [][]byte) {
	a.c.srv.commands.ReplyCategories(&a.c.call.items.Out, args)
}
func (a aclConn) UsersChanged() { a.c.call.usersChanged(a.c) }

func (a aclConn) File() string {
	conf := a.c.srv.config.Get()
	return conf.ACLPath()
}

func (a aclConn) Lookup(args [][]byte) (*command.Access, string) {
	cmd := a.c.srv.commands.Find(args[0])
	if cmd != nil && cmd.Sub != nil && len(args) > 1 {
		cmd = cmd.Subcommand(args[1])
	}
	switch {
	case cmd == nil:
		return nil, "ERR Command '" + resp.Printable(args[0], 128) + "' not found"
	case !cmd.Takes(args):
		return nil, cmd.WrongNumber()
	}
	return cmd.Access(), ""
}
