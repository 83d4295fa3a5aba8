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
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/schema"
)

// Users, as connections have them. Package acl knows their rights.

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

// follows tells whether a connection is shown all commands, or carries the log, and its user has no right to that.
// Any goroutine may call it.
func follows(c *client) bool {
	u := c.login.user.Load()
	may := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			cmd := c.srv.commands.Lookup([]byte(name))
			return cmd != nil && u.MayRun(cmd.Access())
		})
	}
	return c.subscriber.monitor.Load() && !may("monitor") || c.info.peer.Load() != nil && !may("psync", "sync")
}

// eavesdrops tells whether a connection is told of keys, in BCAST mode, that its user has no right to read. Anybody
// may call it.
func eavesdrops(c *client) bool {
	state := c.tracker.state()
	if !state.On || !state.Broadcast {
		return false
	}
	args := [][]byte{[]byte("client"), []byte("tracking"), []byte("on"), []byte("bcast")}
	for _, p := range state.Prefixes {
		args = append(args, []byte("prefix"), []byte(p))
	}
	a := c.srv.commands.Lookup([]byte("client|tracking")).Access()
	return c.login.user.Load().Check(a, args, c.srv.store().Schema()).Reason == acl.DeniedKey
}

// usersChanged closes the connections of users that are not there any more, and those that are told what they may not
// hear or read now. The connection that sent the command is closed after its reply.
func (c *call) usersChanged(asks *client) {
	n := 0
	for _, k := range c.srv.connected() {
		if !k.login.user.Load().Gone() && !k.subscriber.overhears(k.login.user.Load()) && !eavesdrops(k) && !follows(k) {
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

func onACL(h front.Handler) acl.Conn { return aclConn{h.(*client)} }

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
