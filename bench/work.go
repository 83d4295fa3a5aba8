package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// work is something that a server is made to do from outside, beside its clients' commands.
type work interface {
	// how is the command that makes it happen.
	how() string

	// prepare makes ready for it, before anything is measured. A *notHere says that this server has no such thing.
	prepare(ctx context.Context) error

	// do has it happen once, or until a time at least. What counts is what lies between a call of mark and of the
	// function it returned.
	do(ctx context.Context, until time.Duration, mark mark) error

	// end takes back what prepare made.
	end() error
}

// mark notes that something begins, and returns what notes that it is over.
type mark func(what string) (over func())

// notHere says why a server has no such work.
type notHere struct{ why string }

func (e *notHere) Error() string { return e.why }

// WhileKinds lists what --while knows, with a line on each.
func WhileKinds() [][2]string {
	return [][2]string{
		{"bgsave", "a snapshot: BGSAVE"},
		{"demote", "ranges of posts move to files: COUNTER.DEMOTE"},
		{"rewrite", "files are written anew: COUNTER.DEMOTE of ranges in files; of others BGREWRITEAOF"},
		{"seal", "new posts come and fill ranges"},
		{"fullsync", "a replica takes a full copy"},
		{"repack", "a column comes and goes, and posts are packed anew: ADD COLUMN, DROP COLUMN"},
		{"scrub", "files are read and verified: COUNTER.SCRUB"},
		{"check", "counterctl check of the directory"},
	}
}

// isKind tells whether a list has a kind of that name.
func isKind(kinds [][2]string, name string) bool {
	return slices.ContainsFunc(kinds, func(k [2]string) bool { return k[0] == name })
}

// newWork returns the work of a kind.
func newWork(what disturbance, s *side, w *watcher, config *Config) work {
	base := worker{side: s, watcher: w}
	switch what.what {
	case "bgsave":
		return &saveWork{worker: base, command: "BGSAVE", running: "rdb_bgsave_in_progress"}
	case "rewrite":
		if s.target.Kind == Counterd {
			return &tierWork{worker: base, again: true}
		}
		return &saveWork{worker: base, command: "BGREWRITEAOF", running: "aof_rewrite_in_progress"}
	case "demote":
		return &tierWork{worker: base}
	case "seal":
		return &sealWork{worker: base, config: config}
	case "fullsync":
		return &copyWork{floodWork{worker: base, load: Load{Copy: true}, built: config.Built, apart: config.Apart}}
	case "repack":
		return &repackWork{worker: base}
	case "scrub":
		return &scrubWork{worker: base}
	case "check":
		return &checkWork{worker: base, program: config.Check, cpus: config.ServerCPUs}
	}
	return &floodWork{worker: base, load: what.load, built: config.Built, apart: config.Apart}
}

// worker is what all works have.
type worker struct {
	side    *side
	watcher *watcher
}

func (w *worker) end() error { return nil }

// only returns a *notHere unless the server is a counterd.
func (w *worker) only() error {
	if w.side.target.Kind != Counterd {
		return &notHere{"has no such thing"}
	}
	return nil
}

// send sends a command on a connection of its own, so that the watcher can ask meanwhile.
func (w *worker) send(ctx context.Context, args ...string) (wire.Value, error) {
	conn, err := wire.Dial(ctx, w.side.target.Addr, wire.Options{Password: w.side.target.Password})
	if err != nil {
		return wire.Value{}, err
	}
	defer conn.Close()
	v, err := conn.Do(args...)
	if err != nil {
		return v, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return v, nil
}

// saveWork is a snapshot, or a log that is rewritten: a command that starts it, and INFO, which tells when it is over.
type saveWork struct {
	worker
	command, running string
}

func (w *saveWork) how() string { return w.command }

// prepare waits until none is under way.
func (w *saveWork) prepare(ctx context.Context) error {
	_, err := w.watcher.until(ctx, func(l *look) bool { return !l.saving() })
	return err
}

func (w *saveWork) do(ctx context.Context, _ time.Duration, mark mark) error {
	if err := w.prepare(ctx); err != nil {
		return err
	}
	over := mark(w.command)
	defer over()
	if _, err := w.send(ctx, w.command); err != nil {
		return err
	}
	w.watcher.forks()
	l, err := w.watcher.until(ctx, func(l *look) bool { return l.info[w.running] != "1" })
	if err != nil {
		return err
	}
	for _, status := range []string{"rdb_last_bgsave_status", "aof_last_bgrewrite_status"} {
		if v := l.info[status]; v != "" && v != "ok" {
			return fmt.Errorf("%s failed: %s is %s", w.command, status, v)
		}
	}
	return nil
}

// scrubWork has the files read and verified.
type scrubWork struct{ worker }

func (w *scrubWork) how() string { return "COUNTER.SCRUB" }

// prepare makes a snapshot, so that there are files, and sees whether the server knows the command.
func (w *scrubWork) prepare(ctx context.Context) error {
	if err := w.only(); err != nil {
		return err
	}
	if l, err := w.watcher.next(ctx); err != nil {
		return err
	} else if _, ok := l.info["scrub_in_progress"]; !ok {
		return &notHere{"cannot be told to"}
	}
	if _, err := w.send(ctx, "SAVE"); err != nil {
		return err
	}
	_, err := w.watcher.until(ctx, func(l *look) bool { return l.info["scrub_in_progress"] == "0" })
	return err
}

func (w *scrubWork) do(ctx context.Context, _ time.Duration, mark mark) error {
	over := mark("scrub")
	defer over()
	_, err := w.send(ctx, "COUNTER.SCRUB")
	if err != nil && !strings.Contains(err.Error(), "already") { // by itself, an hour after the one before
		return err
	}
	_, err = w.watcher.until(ctx, func(l *look) bool { return l.info["scrub_in_progress"] == "0" })
	return err
}
