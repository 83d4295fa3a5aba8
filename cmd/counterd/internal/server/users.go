package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/net/brake"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
)

// Users, as connections have them. What they may do is package acl's.

const (
	// freeFailures is how often a connection may give a wrong password without having to wait.
	freeFailures = 3
	// failurePause is how long it waits from then on before each answer, right or wrong. EXEC waits for those in its queue.
	failurePause = time.Second
)

// openUsers makes the users of the configuration, and takes the commands out of the table that are disabled.
func (s *Server) openUsers(c *config.Config) error {
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

// CheckUsers tells what is wrong with the users of a configuration and the commands that it disables, as New does.
func CheckUsers(c *config.Config) error {
	return (&Server{commands: command.NewTable(table())}).openUsers(c)
}

// userLines are the "user" lines of the configuration file that CONFIG REWRITE writes, without that word.
func (s *Server) userLines(c *config.Config) []string {
	if c.ACLFile != "" || s.users.Plain(c.RequirePass) {
		return nil
	}
	lines := s.users.Lines()
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "user ")
	}
	return lines
}

// admitted tells whether the connection may execute more than AUTH: it has shown who it is, or need not any more.
func (c *client) admitted() bool {
	if !c.authed && c.srv.users.Default().Open() {
		c.become(c.srv.users.Default())
	}
	return c.authed
}

// become makes the connection a user's.
func (c *client) become(u *acl.User) {
	c.user.Store(u)
	c.authed, c.failures = true, 0
	c.session.Trust(true)
}

// authenticate makes the connection a user's if the password is right. Not in a loop after too many failures: then it
// waits, unless EXEC has done so for it.
func (c *client) authenticate(by string, name, pass []byte) bool {
	if c.failures >= freeFailures && !c.call.executing {
		c.pause(1)
	}
	var u *acl.User
	if check, ok := c.mayGuess(); ok {
		u = c.srv.users.Authenticate(name, pass)
		check.End(u != nil)
	}
	if u == nil {
		c.failures++
		c.noteDenial(acl.DeniedAuth, by, string(name))
		return false
	}
	c.become(u)
	return !u.Gone() // it may have been removed since; who removed it may not have seen this connection
}

// awaitGuesses makes EXEC wait for the passwords in its queue, as they would wait one by one if all of them were wrong.
// With the store held nobody can wait. false: the connection has ended, and nothing is executed. REQUIRES not InLoop.
func (c *client) awaitGuesses() bool {
	paid := c.failures + c.multi.passwords - freeFailures
	c.multi.passwords = 0 // they wait once
	if paid <= 0 {
		return true
	}
	c.pause(paid)
	if c.call.loading || c.call.store != c.srv.current.Load() {
		c.call.begin()
	}
	return !c.session.Closing
}

// pause waits for the time that so many passwords take. It is a place where commands block: see block.
func (c *client) pause(passwords int) {
	c.block(context.Background(), func(ctx context.Context) {
		select {
		case <-time.After(time.Duration(passwords) * failurePause):
		case <-ctx.Done():
		}
	})
}

// mayGuess begins the check of a password when the brake on the connection's address lets it: see mayWait. false: the
// connection has ended, or the store is held and too many wrong passwords came from the address.
func (c *client) mayGuess() (check brake.Check, ok bool) {
	if c.session.InLoop() || c.call.executing {
		return c.srv.guesses.Try(c.info.ip())
	}
	if !c.srv.guesses.Waits(c.info.ip()) {
		if check, ok = c.srv.guesses.Try(c.info.ip()); ok {
			return check, true
		}
	}
	c.block(context.Background(), func(ctx context.Context) {
		var err error
		check, err = c.srv.guesses.Wait(ctx, c.info.ip())
		ok = err == nil
	})
	return check, ok
}

// deauthenticate brings the connection back to what it was when it came.
func (c *client) deauthenticate() {
	c.user.Store(c.srv.users.Default())
	c.authed = c.srv.users.Default().Open()
	c.session.Trust(c.authed)
}

// may is denied for commands that are planned: it notes nothing, and most are answered by a few compares.
func (c *client) may(cmd *row, args [][]byte) bool {
	u := c.user.Load()
	if u.Unlimited() {
		return true
	}
	return u.May(cmd.Access(), args, c.call.names()) || u.Check(cmd.Access(), args, c.call.names()).Reason == acl.Allowed
}

// denied tells whether the connection's user may not execute a whole command, and notes it if so.
func (c *client) denied(cmd *row, args [][]byte) acl.Denial {
	u := c.user.Load()
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
	u := c.user.Load()
	if c.subs.Count() == 0 || u.HearsAll() {
		return false
	}
	return c.srv.pubsub.Any(&c.subs, func(kind pubsub.Kind, name string) bool { return !u.Hears(name, kind == pubsub.Pattern) })
}

// follows tells whether the connection is shown all commands, or carries the log, and its user has no right to that.
// Anybody may call it.
func (c *client) follows() bool {
	u := c.user.Load()
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
		if !k.user.Load().Gone() && !k.overhears() && !k.eavesdrops() && !k.follows() {
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
