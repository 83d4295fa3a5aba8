package server

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/brake"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/schema"
)

// login is who a connection is, and how it has shown that. Only the goroutine that runs the session uses it, except for
// user.
type login struct {
	authed   bool                     // user may execute commands
	user     atomic.Pointer[acl.User] // never nil; others read it
	failures int                      // wrong passwords, one after the other

	users    *acl.Users
	guesses  *brake.Guesses
	session  *front.Session
	blocking *blocking
	denials  *acl.Log
	describe func() string // the connection as CLIENT LIST shows it, for ACL LOG
}

const (
	// freeFailures is how often a connection may give a wrong password without having to wait.
	freeFailures = 3
	// failurePause is how long it waits from then on before each answer, right or wrong. EXEC waits for those in its queue.
	failurePause = time.Second
)

// admitted tells whether the connection may execute more than AUTH: it has shown who it is, or need not any more.
func (l *login) admitted() bool {
	if !l.authed && l.users.Default().Open() {
		l.become(l.users.Default())
	}
	return l.authed
}

// become makes the connection a user's.
func (l *login) become(u *acl.User) {
	l.user.Store(u)
	l.authed, l.failures = true, 0
	l.session.Trust(true)
}

// authenticate makes the connection a user's if the password is right, and notes it in ACL LOG if not. queued is set in EXEC.
func (l *login) authenticate(by string, name, pass []byte, held, queued bool) bool {
	right, ok := l.attempt(held, name, pass)
	if !right {
		l.noteDenial(acl.DeniedAuth, by, string(name), queued)
	}
	return ok
}

// attempt makes the connection a user's if the password is right. Not in a loop after too many failures: then it waits,
// unless EXEC, which holds the store, has done so for it. right tells whether the password was.
func (l *login) attempt(held bool, name, pass []byte) (right, ok bool) {
	if l.failures >= freeFailures && !held {
		l.pause(1)
	}
	var u *acl.User
	if check, ok := l.mayGuess(held); ok {
		u = l.users.Authenticate(name, pass)
		check.Judge(u != nil)
	}
	if u == nil {
		l.failures++
		return false, false
	}
	l.become(u)
	return true, !u.Gone() // it may have been removed since; the remover may not have seen this connection
}

// awaitGuesses makes EXEC wait for the passwords in its queue, as they would wait one by one if all of them were wrong. With the
// store held nobody can wait. REQUIRES not InLoop.
func (l *login) awaitGuesses(passwords int) {
	if paid := l.failures + passwords - freeFailures; passwords > 0 && paid > 0 {
		l.pause(paid)
	}
}

// guessesWait tells whether another password has to wait.
func (l *login) guessesWait() bool { return l.failures >= freeFailures || l.guesses.Waits(l.ip()) }

// pause waits for the time that so many passwords take. It is a place where commands block: see blocking.
func (l *login) pause(passwords int) {
	l.blocking.block(context.Background(), func(ctx context.Context) {
		select {
		case <-time.After(time.Duration(passwords) * failurePause):
		case <-ctx.Done():
		}
	})
}

// mayGuess begins the check of a password when the brake on the connection's address lets it. false: the connection has
// ended, or the store is held and too many wrong passwords came from the address.
func (l *login) mayGuess(held bool) (check brake.Check, ok bool) {
	if l.session.InLoop() || held {
		return l.guesses.Try(l.ip())
	}
	if !l.guesses.Waits(l.ip()) {
		if check, ok = l.guesses.Try(l.ip()); ok {
			return check, true
		}
	}
	l.blocking.block(context.Background(), func(ctx context.Context) {
		var err error
		check, err = l.guesses.Wait(ctx, l.ip())
		ok = err == nil
	})
	return check, ok
}

// reset gives the connection the user that it had at first.
func (l *login) reset() {
	l.user.Store(l.users.Default())
	l.authed = l.users.Default().Open()
	l.session.Trust(l.authed)
}

// ip is the address of the client without its port, or the zero Addr if it came over a unix socket.
func (l *login) ip() netip.Addr {
	if addr, ok := l.session.Conn().RemoteAddr().(*net.TCPAddr); ok {
		return addr.AddrPort().Addr()
	}
	return netip.Addr{}
}

// denied tells whether the connection's user may not execute a whole command, and notes it if so. queued is set for a command of
// a transaction. names is the schema that keys are read by.
func (l *login) denied(cmd *command.Access, args [][]byte, names *schema.Schema, queued bool) acl.Denial {
	u := l.user.Load()
	d := u.Check(cmd, args, names)
	if d.Reason != acl.Allowed {
		l.noteDenial(d.Reason, d.Object(cmd, args), u.Name(), queued)
	}
	return d
}

// noteDenial adds to ACL LOG.
func (l *login) noteDenial(reason acl.Reason, object, user string, queued bool) {
	context := "toplevel"
	if queued {
		context = "multi"
	}
	l.denials.Add(reason, context, object, user, l.describe)
}
