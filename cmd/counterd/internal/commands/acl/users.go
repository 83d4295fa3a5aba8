package acl

//lint:file-ignore ST1005 the errors are Redis's words

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Default is the name of the user that every connection is before it says another.
const Default = "default"

const (
	// maxUsers are there at most: 10,000 with five rules each took 10 MB, and 110 ms to read from a file.
	maxUsers = 100000
	// maxName is the longest name of a user, in bytes.
	maxName = 256
)

// Users are all users of a server. There is always one called default.
type Users struct {
	catalog *Catalog
	deflt   *User // never removed

	allChannels atomic.Bool // acl-pubsub-default allchannels: channels of new users

	mu     sync.RWMutex // guards the rest; changes of users are made one at a time
	byName map[string]*User
	start  *Rights // of default where no line of a file is about it: it has the password of requirepass
}

// NewUsers are the users of a new server: default, which has all rights and no password.
func NewUsers(c *Catalog) *Users {
	us := &Users{catalog: c, deflt: &User{name: Default}, byName: make(map[string]*User)}
	us.start = us.defaultRights()
	us.deflt.rights.Store(us.start)
	us.byName[Default] = us.deflt
	return us
}

func (us *Users) defaultRights() *Rights {
	r := newRights(us.catalog, true)
	for _, rule := range []string{"+@all", "~*", "on", "nopass"} {
		_ = r.apply(us.catalog, rule, true) // they are right
	}
	return r.seal()
}

// SetPubsubDefault is acl-pubsub-default: whether new users may use all channels.
func (us *Users) SetPubsubDefault(allChannels bool) { us.allChannels.Store(allChannels) }

// Default is the user of that name.
func (us *Users) Default() *User { return us.deflt }

// Find returns a user by its name, nil if there is none.
func (us *Users) Find(name string) *User {
	us.mu.RLock()
	defer us.mu.RUnlock()
	return us.byName[name]
}

// All are the users in order of their names.
func (us *Users) All() []*User {
	us.mu.RLock()
	defer us.mu.RUnlock()
	all := make([]*User, 0, len(us.byName))
	for _, name := range slices.Sorted(maps.Keys(us.byName)) {
		all = append(all, us.byName[name])
	}
	return all
}

// Lines are the users as a file has them: "user name rules".
func (us *Users) Lines() []string {
	all := us.All()
	lines := make([]string, len(all))
	for i, u := range all {
		lines[i] = "user " + u.name + " " + u.Rights().String()
	}
	return lines
}

// Set makes a user, or changes one, by rules: all of them or none. The error is in the words of ACL SETUSER.
func (us *Users) Set(name string, rules []string) (*User, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	merged, open := merge(rules)
	if open != "" {
		return nil, fmt.Errorf("Unmatched parenthesis in acl selector starting at '%s'.", shown(open))
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	u := us.byName[name]
	allChannels := us.allChannels.Load()
	r := newRights(us.catalog, allChannels)
	if u != nil {
		r = u.rights.Load().clone()
	}
	for _, rule := range merged {
		if err := r.apply(us.catalog, rule, allChannels); err != nil {
			return nil, fmt.Errorf("Error in ACL SETUSER modifier '%s': %w", shown(rule), err)
		}
	}
	if u == nil {
		if len(us.byName) >= maxUsers {
			return nil, fmt.Errorf("too many users, want at most %d", maxUsers)
		}
		u = &User{name: name}
		us.byName[name] = u
	}
	u.rights.Store(r.seal())
	return u, nil
}

func checkName(name string) error {
	switch {
	case badName(name):
		return errors.New("Usernames can't contain spaces or null characters")
	case strings.IndexAny(name, "\"'") == 0: // in a configuration file it would be a quote
		return errors.New("a user name cannot begin with a quote")
	case name == "" || len(name) > maxName:
		return fmt.Errorf("a user name has 1..%d bytes, got %d", maxName, len(name))
	}
	return nil
}

// SetPassword gives default the password of requirepass, or takes it if there is none. A file that is loaded later and
// says nothing of default leaves it that password: Redis drops it then, and lets in every client that does not log in.
func (us *Users) SetPassword(pass string) {
	rules := []string{"nopass"}
	if pass != "" {
		rules = []string{"resetpass", ">" + pass}
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	change := func(of *Rights) *Rights {
		r := of.clone()
		for _, rule := range rules {
			_ = r.apply(us.catalog, rule, false) // a password that is too long was refused by config
		}
		return r.seal()
	}
	us.start = change(us.start)
	us.deflt.rights.Store(change(us.deflt.rights.Load()))
}

// Configure makes users of a configuration's lines, "name rules": all of them or none. default begins anew if one is
// about it.
func (us *Users) Configure(lines []string) error {
	users := make(map[string]*Rights)
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) == 0 {
			return errors.New("user: got nothing, want a name and rules")
		}
		name := words[0]
		if err := checkName(name); err != nil {
			return fmt.Errorf("user: %w", err)
		}
		if users[name] != nil {
			return fmt.Errorf("user %s: Duplicate user found. A user can only be defined once in config files", name)
		}
		r, rule, err := us.make(words[1:])
		if err != nil {
			return fmt.Errorf("user %s: '%s': %w", name, shown(rule), err)
		}
		users[name] = r
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	for name, r := range users {
		us.put(name, r)
	}
	return nil
}

// put puts rights in force. REQUIRES mu.
func (us *Users) put(name string, r *Rights) {
	u := us.byName[name]
	if u == nil {
		u = &User{name: name}
		us.byName[name] = u
	}
	u.rights.Store(r)
}

// Plain tells whether there is no user but default, as it is with no other setting than requirepass.
func (us *Users) Plain(pass string) bool {
	other := NewUsers(us.catalog)
	other.SetPassword(pass)
	return slices.Equal(us.Lines(), other.Lines())
}

// ErrDefault refuses to remove default.
var ErrDefault = errors.New("The 'default' user cannot be removed")

// Remove removes users, and returns those that were there.
func (us *Users) Remove(names []string) (removed []*User, err error) {
	if slices.Contains(names, Default) {
		return nil, ErrDefault
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	for _, name := range names {
		if u := us.byName[name]; u != nil {
			delete(us.byName, name)
			u.remove()
			removed = append(removed, u)
		}
	}
	return removed, nil
}

// Load takes the users of a file's lines in the place of all that there are: all of them or, with an error that names
// the lines, none. default is as at the start unless a line says otherwise. Those that are not there any more are
// returned. name is the file's, for the error.
func (us *Users) Load(name, text string) (removed []*User, err error) {
	next, err := us.parse(name, text)
	if err != nil {
		return nil, err
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	if next[Default] == nil {
		next[Default] = us.start
	}
	for name, u := range us.byName {
		if next[name] == nil {
			delete(us.byName, name)
			u.remove()
			removed = append(removed, u)
		}
	}
	for name, r := range next {
		us.put(name, r)
	}
	return removed, nil
}

// parse reads the lines of a file: "user name rules", or nothing.
func (us *Users) parse(file, text string) (map[string]*Rights, error) {
	users := make(map[string]*Rights)
	var wrong []error
	bad := func(n int, format string, args ...any) {
		if len(wrong) < 20 { // the rest would say little more
			wrong = append(wrong, fmt.Errorf("%s:%d: "+format, append([]any{file, n}, args...)...))
		}
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] != "user" || len(words) < 2 {
			bad(n, "should start with user keyword followed by the username")
			continue
		}
		if err := checkName(words[1]); err != nil {
			bad(n, "%w", err)
			continue
		}
		if users[words[1]] != nil {
			bad(n, "Duplicate user '%s' found. A user can only be defined once in config files", words[1])
			continue
		}
		if len(users) >= maxUsers {
			bad(n, "there are more than %d users", maxUsers)
			break
		}
		r, rule, err := us.make(words[2:])
		switch {
		case err != nil && rule != "":
			bad(n, "Error in applying operation '%s': %w", shown(rule), err)
		case err != nil:
			bad(n, "%w", err)
		}
		users[words[1]] = r
	}
	if wrong != nil {
		return nil, errors.Join(wrong...)
	}
	return users, nil
}

// make makes a new user's rights of words. rule is the rule that err is about.
func (us *Users) make(words []string) (r *Rights, rule string, err error) {
	allChannels := us.allChannels.Load()
	r = newRights(us.catalog, allChannels)
	rules, open := merge(words)
	if open != "" {
		return r, open, errors.New("Unmatched parenthesis in selector definition")
	}
	for _, rule := range rules {
		if err := r.apply(us.catalog, rule, allChannels); err != nil {
			return r, rule, err
		}
	}
	return r.seal(), "", nil
}

// Authenticate returns the user of that name if it is on and the password is right, else nil. It takes as long for a
// name that is nobody's.
func (us *Users) Authenticate(name, password []byte) *User {
	if len(password) > maxPasswordSize {
		return nil
	}
	u := us.Find(string(name))
	h := hash(sha256.Sum256(password))
	r := &nobody
	if u != nil {
		r = u.rights.Load()
	}
	right := 0
	for i := range r.passwords {
		right |= subtle.ConstantTimeCompare(h[:], r.passwords[i][:])
	}
	if !r.on || !r.nopass && right == 0 {
		return nil
	}
	return u
}

// nobody is compared with where there is no such user.
var nobody = Rights{passwords: make([]hash, 1)}
