package acl

import (
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/schema"
)

// Reason is why a command is refused. A later one says more: a user with several selectors is told the last.
type Reason uint8

// The reasons. The zero Reason is none.
const (
	Allowed Reason = iota
	DeniedCommand
	DeniedKey
	DeniedChannel
	DeniedAuth // a wrong password; only in the log
)

// String is the reason as ACL LOG has it.
func (r Reason) String() string {
	return [...]string{"", "command", "key", "channel", "auth"}[r]
}

// Denial is the answer to a question: why, and for which argument of the command, 0 for none in particular.
type Denial struct {
	Reason Reason
	At     int
}

// Check asks whether the user may execute a whole command, of as many arguments as it takes, on data that sch describes.
func (u *User) Check(a *command.Access, args [][]byte, sch *schema.Schema) (d Denial) {
	r := u.rights.Load()
	if r.unlimited {
		return Denial{}
	}
	d.Reason = DeniedCommand
	if a.Free {
		d.Reason = Allowed
	}
	for _, s := range r.selectors {
		if !a.Free && !s.runs(a, args) {
			continue
		}
		next := s.check(a, args, sch)
		if next.Reason == Allowed {
			return Denial{}
		}
		if next.Reason > d.Reason || next.Reason == d.Reason && next.At > d.At {
			d = next
		}
	}
	return d
}

// MayRun tells whether the user may execute a command on something.
func (u *User) MayRun(a *command.Access) bool {
	for _, s := range u.rights.Load().selectors {
		if s.has(a.ID) {
			return true
		}
	}
	return a.Free
}

// May is Check for planned commands, and short for most: those with one key. False says no more than that Check has to
// be asked.
func (u *User) May(a *command.Access, args [][]byte, sch *schema.Schema) bool {
	r := u.rights.Load()
	if r.unlimited {
		return true
	}
	if len(r.selectors) == 0 {
		return false
	}
	s := r.selectors[0]
	if !s.has(a.ID) {
		return false
	}
	need, single := a.Single()
	return single && keys{s, sch}.Key(args[1], need)
}

// check is about what a command that is allowed touches.
func (s *selector) check(a *command.Access, args [][]byte, sch *schema.Schema) Denial {
	if !s.allKeys && a.Asks() {
		k := keys{s, sch}
		need, last := a.Keys(args)
		for i := a.First; i <= last; i += a.Step {
			if !k.Key(args[i], need) {
				return Denial{DeniedKey, i}
			}
		}
		if a.AsksMore() {
			if at := a.Ask(k, args); at >= 0 {
				return Denial{DeniedKey, at}
			}
		}
	}
	if s.allChannels || !a.Talks() {
		return Denial{}
	}
	names, pattern := a.Channels(args)
	for i, name := range names {
		if !s.channel(name, pattern) {
			return Denial{DeniedChannel, i + 1}
		}
	}
	return Denial{}
}

// Text is the refusal that clients get, in Redis's words.
func (d Denial) Text(u *User, a *command.Access) string {
	switch d.Reason {
	case DeniedCommand:
		return "NOPERM User " + u.name + " has no permissions to run the '" + a.Name + "' command"
	case DeniedKey:
		return "NOPERM No permissions to access a key"
	case DeniedChannel:
		return "NOPERM No permissions to access a channel"
	}
	return ""
}

// Verbose is the text of ACL DRYRUN: which key, which channel.
func (d Denial) Verbose(u *User, a *command.Access, args [][]byte) string {
	what := ""
	switch d.Reason {
	case DeniedKey:
		what = "key"
	case DeniedChannel:
		what = "channel"
	default:
		return d.Text(u, a)[len("NOPERM "):]
	}
	if d.At == 0 {
		return "User " + u.name + " has no permissions to access all keys"
	}
	return "User " + u.name + " has no permissions to access the '" + string(args[d.At]) + "' " + what
}

// Later is the refusal of a command of a transaction that was let in when it was queued.
func (d Denial) Later() string {
	why := ""
	switch d.Reason {
	case DeniedCommand:
		why = "no permission to execute the command or subcommand"
	case DeniedKey:
		why = "no permission to touch the specified keys"
	case DeniedChannel:
		why = "no permission to access one of the channels used as arguments"
	}
	return "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. " +
		"This command is no longer allowed for the following reason: " + why
}

// Object is the refused key, channel or command, as ACL LOG has it.
func (d Denial) Object(a *command.Access, args [][]byte) string {
	if d.Reason == DeniedCommand || d.At == 0 {
		return a.Name
	}
	return string(args[d.At][:min(len(args[d.At]), maxObject)])
}
