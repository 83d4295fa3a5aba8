package addload

import (
	"fmt"
	"strconv"
	"strings"
)

// Form is how an INCR is numbered.
type Form string

const (
	Plain      Form = "plain"      // it is not
	Connection Form = "connection" // CLIENT IDMP
	Arguments  Form = "arguments"  // IDMP producer number
)

// Case is a server and a form of INCR.
type Case struct {
	Name, Addr string
	Form       Form
	PID        int // of the server; 0: INFO tells
}

// ParseCase reads NAME=HOST:PORT,FORM[,PID].
func ParseCase(s string) (c Case, err error) {
	name, rest, ok := strings.Cut(s, "=")
	parts := strings.Split(rest, ",")
	if !ok || len(parts) < 2 || len(parts) > 3 {
		return c, fmt.Errorf("got %q, want NAME=HOST:PORT,FORM[,PID]", s)
	}
	c = Case{Name: name, Addr: parts[0], Form: Form(parts[1])}
	if c.Form != Plain && c.Form != Connection && c.Form != Arguments {
		return c, fmt.Errorf("form: got %q, want %s, %s or %s", parts[1], Plain, Connection, Arguments)
	}
	if len(parts) == 3 {
		if c.PID, err = strconv.Atoi(parts[2]); err != nil {
			return c, fmt.Errorf("process: got %q, want a number", parts[2])
		}
	}
	return c, nil
}
