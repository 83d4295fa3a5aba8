package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/follow"
	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/source"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/schema"
)

// followLog writes what following tells, and a line that is overwritten each second where that can be.
type followLog struct {
	mu       sync.Mutex
	w        io.Writer
	terminal io.Writer // nil: w is none
	open     bool      // the last line is to be overwritten
	shown    time.Time
	before   follow.Progress
}

func newFollowLog(w io.Writer) *followLog {
	l := &followLog{w: w, shown: time.Now()}
	if terminal, ok := cli.Terminal(w); ok {
		l.terminal = terminal
	}
	return l
}

// printf writes a line that stays.
func (l *followLog) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	fmt.Fprintf(l.w, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func (l *followLog) clear() {
	if l.open {
		fmt.Fprint(l.terminal, "\r\x1b[K")
		l.open = false
	}
}

// progressEvery is how often a line is written that is not overwritten.
const progressEvery = 10 * time.Second

// progress tells how far following is.
func (l *followLog) progress(p follow.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terminal == nil && time.Since(l.shown) < progressEvery && p.Phase == l.before.Phase {
		return
	}
	text := ""
	switch seconds := time.Since(l.shown).Seconds(); {
	case p.Phase == "following":
		text = fmt.Sprintf("following: lag %.1f s, %s behind, %.0f commands/s, offset %d", p.Lag.Seconds(), human.Size(uint64(p.Behind)), float64(p.Commands-l.before.Commands)/max(seconds, 0.1), p.Offset)
		if p.Stale > 0 {
			text += fmt.Sprintf(", %d keys hold no number that fits", p.Stale)
		}
	case p.Total > 0:
		text = fmt.Sprintf("%s: %s of %s", p.Phase, human.Size(p.Done), human.Size(p.Total))
	default:
		text = fmt.Sprintf("%s: %s", p.Phase, human.Size(p.Done))
	}
	l.before = p
	l.show(text)
}

// show writes a line that the next one overwrites where that can be. The caller holds mu.
func (l *followLog) show(text string) {
	l.clear()
	if l.shown = time.Now(); l.terminal != nil {
		fmt.Fprint(l.w, text)
		l.open = true
		return
	}
	fmt.Fprintln(l.w, time.Now().Format("15:04:05 ")+text)
}

// followError is a target that changes of several hash slots cannot be written to as one.
type followError struct{ to string }

func (e *followError) Error() string {
	return fmt.Sprintf("%s is a cluster, and --follow wants one server as its target: nothing was written. Without --follow, import works into a cluster", e.to)
}

// keepUp keeps the target up with a server.
func (i *importing) keepUp(ctx context.Context, out output, url string, sch **schema.Schema) error {
	addr, opts, db, err := i.server(url)
	if err != nil {
		return err
	}
	rules, err := i.parseRules(ctx, out, sch)
	if err != nil {
		return err
	}
	sink := transfer.SinkOptions{Schema: *sch, Columns: rules.Columns(), Patience: i.patience}
	switch shards, err := transfer.FindShards(ctx, sink, i.to, i.dialNode); {
	case err != nil:
		return fmt.Errorf("%s: %w", i.to, err)
	case shards != nil:
		return &followError{i.to}
	}
	opts.Buffer = 256 << 10
	return followSource(ctx, out, follow.Options{
		Source: func(ctx context.Context) (*wire.Conn, error) { return wire.Dial(ctx, addr, opts) }, Target: i.dial,
		Name:   fmt.Sprintf("%s database %d to %s: %s", addr, db, i.to, strings.Join(i.rules, " ")),
		Schema: *sch, Rules: rules, DB: db, Dir: i.state, Overwrite: i.overwrite, UntilCaughtUp: i.untilCaughtUp, Rate: i.rate,
	})
}

// dump is a snapshot in a file.
func (i *importing) dump(ctx context.Context, out output, path, name string, sch **schema.Schema, show *importProgress) (*origin, error) {
	rules, err := i.parseRules(ctx, out, sch)
	if err != nil {
		return nil, err
	}
	show.unit = "bytes"
	d, err := source.NewDump(ctx, source.DumpOptions{Path: path, Name: name, DB: i.db, Rules: rules, Log: show.note, Progress: func(done, total uint64) { show.show("checking", done, total, 0) }})
	if err != nil {
		return nil, err
	}
	return &origin{open: d.Open, columns: rules.Columns(), rules: i.rules, unit: "keys", close: d.Close}, nil
}

// download is a snapshot that a server is asked for. It is in a temporary file meanwhile.
func (i *importing) download(ctx context.Context, out output, url string, sch **schema.Schema, show *importProgress) (*origin, error) {
	addr, opts, db, err := i.server(url)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "counterctl-*.rdb")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	opts.Buffer, show.unit = 256<<10, "bytes"
	dial := func(ctx context.Context) (*wire.Conn, error) { return wire.Dial(ctx, addr, opts) }
	err = follow.Download(ctx, dial, f, func(done, total uint64) { show.show("downloading", done, total, 0) })
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	i.db = db
	return i.dump(ctx, out, f.Name(), addr+"'s snapshot", sch, show)
}

// followSource keeps a target up with a source until ctx ends, and tells how it ended.
func followSource(ctx context.Context, out output, o follow.Options) error {
	log := newFollowLog(out.Stderr)
	o.Log, o.Progress = log.printf, log.progress
	r, err := follow.Run(ctx, o)
	log.mu.Lock()
	log.clear()
	log.mu.Unlock()
	if r != nil {
		printFollowed(out.Stdout, r)
	}
	if err != nil {
		return err
	}
	if r.Stale > 0 {
		return errReported
	}
	return nil
}

// printFollowed sums up.
func printFollowed(w io.Writer, r *follow.Result) {
	if r.Phase != "following" {
		fmt.Fprintf(w, "the copy is not complete: give the same command again, and it begins anew\n")
		return
	}
	fmt.Fprintf(w, "the target is what the source was at offset %d: %d commands, %d changes of numbers, %d copies, %s not yet applied\n",
		r.Offset, r.Commands, r.Changes, r.Copies, human.Size(uint64(r.Behind)))
	for _, s := range r.Skipped.List() {
		if s.Reason != mapping.NoRule {
			fmt.Fprintf(w, "  %d values: %v: %s\n", s.Count, s.Reason, strings.Join(s.Examples, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Unknown)) {
		fmt.Fprintf(w, "  %d keys were read again after %s\n", r.Unknown[name], name)
	}
	if r.Expiring > 0 {
		fmt.Fprintf(w, "  %d times a key was to expire: here numbers stay. While following, what expires at the source is reset\n", r.Expiring)
	}
	if r.Stale > 0 {
		fmt.Fprintf(w, "%d keys hold what their columns cannot: the target does not have their numbers\n", r.Stale)
	}
}
