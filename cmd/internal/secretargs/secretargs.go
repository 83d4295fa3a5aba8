// Package secretargs keeps secrets of the command line out of the list of processes.
//
// What a process was started with is shown to everybody on the machine by ps, from the process's own memory. Take copies
// the arguments and writes over those that hold secrets, as redis-cli and mysql do. For a moment they were there: a file
// or an environment variable is the better place.
package secretargs

import (
	"os"
	"runtime"
	"strings"
	"unsafe"
)

// Take returns a copy of os.Args, and then writes asterisks over the values of the flags that secret tells of, wherever
// the process's arguments are kept: os.Args too. Call it once, before anything else reads them.
func Take(secret func(flag string) bool) []string {
	args := make([]string, len(os.Args))
	for i, a := range os.Args {
		args[i] = strings.Clone(a)
	}
	if runtime.GOOS != "linux" { // elsewhere os.Args may be copies, or memory that cannot be written to
		return args
	}
	for _, v := range values(args, secret) {
		blank(os.Args[v.arg][v.from:])
	}
	return args
}

// value is where a secret stands: behind that byte of that argument.
type value struct{ arg, from int }

// values finds "--flag=value" and "--flag value", and URLs with a password. A value that looks like a flag is one still.
func values(args []string, secret func(flag string) bool) (found []value) {
	for i := 1; i < len(args); i++ {
		name, ok := strings.CutPrefix(args[i], "--")
		switch at := strings.IndexByte(name, '='); {
		case password(args[i]) > 0:
			found = append(found, value{i, password(args[i])})
		case !ok || name == "":
		case at >= 0 && secret(name[:at]):
			found = append(found, value{i, len("--") + at + 1})
		case at < 0 && secret(name) && i+1 < len(args):
			i++
			found = append(found, value{i, 0})
		}
	}
	return found
}

// password is where in a URL, scheme://user:password@host, the password begins; 0: there is none.
func password(arg string) int {
	scheme := strings.Index(arg, "://")
	if scheme < 1 {
		return 0
	}
	start := scheme + len("://")
	user := arg[start : start+max(strings.LastIndexByte(arg[start:], '@'), 0)]
	colon := strings.IndexByte(user, ':')
	if colon < 0 {
		return 0
	}
	return start + colon + 1
}

// blank writes over a string of os.Args, which lies where the system has put the arguments: not among Go's constants.
func blank(s string) {
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	for i := range b {
		b[i] = '*'
	}
}
