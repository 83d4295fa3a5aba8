package web

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Guard says who may see what. It is asked by several goroutines at once, for each request anew: a password that was
// changed, or a user that was deleted, counts at once.
type Guard interface {
	// Protected tells whether only connections from this machine are to be answered.
	Protected() bool
	// Open tells whether the default user needs no password: then nobody is asked for one.
	Open() bool
	// Login checks a name and a password, in constant time. remote is the client's address, host:port, for a log of
	// refusals and for a brake on guesses: Login may wait until ctx ends, which is the request's. For Open it is not
	// called.
	Login(ctx context.Context, user, password, remote string) (User, bool)
	// Anybody is who asks while Open holds.
	Anybody() User
}

// User is a user that was let in.
type User interface {
	// May tells whether the user may run a command, "info" or "slowlog|get".
	May(command string) bool
}

const deniedText = "DENIED counterd is running in protected mode: no password is set, and this connection does not come from 127.0.0.1 or ::1. " +
	"Set a password with --requirepass, or turn protected mode off with --protected-mode no if the network is trusted."

// protected answers others than this machine only if the guard lets it.
func (s *Server) protected(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fromHere(r) && s.opts.Guard.Protected() {
			refuse(w, http.StatusForbidden, deniedText)
			return
		}
		h.ServeHTTP(w, r)
	})
}

type userKey struct{}

// users authenticates the request.
func (s *Server) users(h http.Handler, commands []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var user User
		if s.opts.Guard.Open() {
			if !namesThisMachine(r.Host) && fromHere(r) {
				refuse(w, http.StatusForbidden, "without a password this is served under 127.0.0.1, [::1] or localhost only: a page of another site could read it under another name")
				return
			}
			user = s.opts.Guard.Anybody()
		} else {
			name, password, given := r.BasicAuth()
			ok := false
			if given {
				if name == "" {
					name = "default"
				}
				user, ok = s.login(r, name, password)
			}
			if !ok {
				w.Header().Set("WWW-Authenticate", `Basic realm="counterd", charset="UTF-8"`)
				refuse(w, http.StatusUnauthorized, "WRONGPASS user name and password required (those of AUTH)")
				return
			}
		}
		for _, c := range commands {
			if !user.May(c) {
				refuse(w, http.StatusForbidden, "NOPERM this user may not run "+strings.ToUpper(strings.ReplaceAll(c, "|", " ")))
				return
			}
		}
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

// login asks the guard, which may let the request wait.
func (s *Server) login(r *http.Request, name, password string) (User, bool) {
	defer Waiting(r)()
	return s.opts.Guard.Login(r.Context(), name, password, r.RemoteAddr)
}

// May tells whether the user of a request to HandleUsers may run a command; of other requests nobody may.
func May(r *http.Request, command string) bool {
	user, ok := r.Context().Value(userKey{}).(User)
	return ok && user.May(command)
}

// fromHere tells whether a request comes from this machine.
func fromHere(r *http.Request) bool {
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

// namesThisMachine tells whether the Host of a request is a number or localhost, which no other site can take.
func namesThisMachine(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}
