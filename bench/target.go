package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/counterd/counterd/bench/procstat"
	"github.com/counterd/counterd/internal/wire"
)

// Target is a server to drive, and the data model to drive it with.
type Target struct {
	Addr     string // host:port, or a path of a unix socket
	Kind     Kind   // empty: to be found by asking
	Password string

	patience time.Duration // for the first answers; 0: answerWithin
}

// ParseTarget reads "host:port[,kind]".
func ParseTarget(s string) (Target, error) {
	addr, name, given := strings.Cut(s, ",")
	t := Target{Addr: addr}
	if !strings.Contains(addr, ":") && !strings.Contains(addr, "/") {
		return t, fmt.Errorf("server %q is not HOST:PORT or the path of a socket", addr)
	}
	if given {
		kind, err := ParseKind(name)
		if err != nil {
			return t, err
		}
		t.Kind = kind
	}
	return t, nil
}

// Dial connects.
func (t Target) Dial() (*wire.Conn, error) {
	return wire.Dial(context.Background(), t.Addr, wire.Options{Password: t.Password})
}

// answerWithin is the time for the first questions. Where something else than such a server listens, an answer may
// never come.
const answerWithin = 10 * time.Second

// ask connects, and calls questions, whose answers must come within answerWithin. The connection is open unless there
// is an error, which names the server.
func (t Target) ask(questions func(*wire.Conn) error) (*wire.Conn, error) {
	within := cmp.Or(t.patience, answerWithin)
	conn, err := wire.Dial(context.Background(), t.Addr, wire.Options{Password: t.Password, Answer: within})
	if err == nil {
		if err = questions(conn); err != nil {
			conn.Close()
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: %w", within, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Addr, err)
	}
	return conn, conn.SetDeadline(time.Time{})
}

// FindPID returns the process of target number i: the one that was given for it, else the one its INFO names.
func (t Target) FindPID(given []int, i int) (int, error) {
	if i < len(given) && given[i] != 0 {
		return given[i], nil
	}
	var m *procstat.Meter
	conn, err := t.ask(func(conn *wire.Conn) (err error) {
		m, err = procstat.NewMeter(conn, 0)
		return err
	})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if m.PID() == 0 {
		return 0, fmt.Errorf("%s does not run on this machine, as far as is to be seen", t.Addr)
	}
	return m.PID(), nil
}

// Identify asks the server for its counters. That tells counterd, which knows SCHEMA, from others; the target returned
// has its Kind set, to RedisStrings for others unless it was set before. A server of another kind has no schemas.
func (t Target) Identify(c *wire.Conn) (Target, []Schema, error) {
	if t.Kind != "" && t.Kind != Counterd {
		return t, nil, nil
	}
	v, err := c.Do("SCHEMA")
	var failed *wire.ServerError
	if errors.As(err, &failed) && strings.HasPrefix(strings.ToLower(failed.Text), "err unknown command") {
		if t.Kind == Counterd {
			return t, nil, fmt.Errorf("%s is no %s: it does not know SCHEMA", t.Addr, Counterd)
		}
		t.Kind = RedisStrings
		return t, nil, nil
	}
	if err != nil {
		return t, nil, err
	}
	t.Kind = Counterd
	schemas, err := ParseSchemas(v.Text())
	return t, schemas, err
}

// FindSchema returns the schema of the named counter, or of the only one where counter is empty.
func FindSchema(schemas []Schema, counter string) (Schema, error) {
	var names []string
	for _, schema := range schemas {
		if schema.Counter == counter || (counter == "" && len(schemas) == 1) {
			return schema, nil
		}
		names = append(names, schema.Counter)
	}
	switch {
	case len(names) == 0:
		return Schema{}, errors.New("the server has no counter yet: make one with ADD COUNTER and ADD COLUMN")
	case counter == "":
		return Schema{}, fmt.Errorf("the server has several counters, name one: %s", strings.Join(names, ", "))
	}
	return Schema{}, fmt.Errorf("the server has no counter %q; it has %s", counter, strings.Join(names, ", "))
}
