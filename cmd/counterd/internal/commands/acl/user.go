package acl

import (
	"sync/atomic"
)

// User is one user, for as long as it lasts. Sessions keep it: its rights are read before each command.
type User struct {
	name   string
	rights atomic.Pointer[Rights]
	gone   atomic.Bool // it was removed; its rights are none
}

// Name is its name.
func (u *User) Name() string { return u.name }

// Rights are those that it has now.
func (u *User) Rights() *Rights { return u.rights.Load() }

// Gone tells whether it was removed: nobody may be connected by it.
func (u *User) Gone() bool { return u.gone.Load() }

// Unlimited tells whether it may do everything.
func (u *User) Unlimited() bool { return u.rights.Load().unlimited }

// Open tells whether everybody may be this user without a password.
func (u *User) Open() bool {
	r := u.rights.Load()
	return r.on && r.nopass
}

// Password tells whether there is one to give.
func (u *User) Password() bool { return !u.rights.Load().nopass }

// remove ends the user.
func (u *User) remove() {
	u.gone.Store(true)
	u.rights.Store(new(Rights))
}

// Hears tells whether it may have these subscriptions now: channels by their names, patterns to the letter.
func (u *User) Hears(name string, isPattern bool) bool {
	for _, s := range u.rights.Load().selectors {
		if s.channel([]byte(name), isPattern) {
			return true
		}
	}
	return false
}

// HearsAll tells whether there is no channel that it may not subscribe to.
func (u *User) HearsAll() bool {
	for _, s := range u.rights.Load().selectors {
		if s.allChannels {
			return true
		}
	}
	return false
}
