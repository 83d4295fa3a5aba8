package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/feed"
	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/counterctl/internal/sinks"
	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
)

var feedCommand = command{
	Name:    "feed",
	Data:    true,
	Args:    "HOST:PORT[,HOST:PORT...]",
	Summary: "write every change to a file, a stream of Redis, a topic of Kafka or a web service",
	Details: `Writes every change of a node, or of all shards of a cluster, as lines of JSON, and waits for further ones until it is stopped.

  counterctl export 127.0.0.1:6379 weibo --out weibo.tsv --position weibo.position     # the posts, and where to go on
  counterctl feed 127.0.0.1:6379 --from weibo.position --to changes.jsonl              # every change since then

Give the same command again after a stop, a crash or kill -9: it goes on where the sink is. --from is only for an empty sink. Several
addresses are nodes with the same log, a primary and its replicas: when one fails, another is read. Of a cluster, any nodes will do: the
command finds the primaries of all shards, follows failovers and moves of hash slots, and writes the changes of each post in order.
The command waits for nodes and sinks that are away. SIGTERM ends it behind the last batch, with status 0.

With --cursor NAME, the nodes keep the log behind the sink, up to feed-retain, in a named cursor: see COUNTER.CURSOR. It is moved once a
second behind the changes that the sink has. An empty sink begins at the cursor if it is there, else at --from. Delete the cursor with
counterctl cursors --delete NAME when the sink is no longer needed.

  --to                     how often a change is written if the command, the node or the sink is killed
  FILE.jsonl               once: each line has its position, and a torn line is cut. Another process is locked out
  FILE.jsonl.zst           once: the same, compressed
  redis://HOST/STREAM      once: the entry's id is made of the position, and Redis refuses a repeat. ?maxlen=N keeps about
                           N entries, ?db=N chooses a database. rediss:// is TLS
  kafka://HOST/TOPIC       once for consumers that read with isolation.level=read_committed: a batch is a transaction, and each
                           record has its position. HOST,HOST names further brokers; ?partition=N, ?sasl=scram-sha-512
  https://HOST/PATH        at least once: POST with lines of JSON, and the headers Counterd-After and Counterd-Position; once if
                           the service compares them. --state FILE keeps the position
  -                        once, to standard output, from the position that --from names

A line is {"position":"...","time":1700000000000,"parts":[{"kind":"set","counter":"weibo","mid":"102","values":{"comment":5}}]}.
docs/reference/feed-json.md describes it. Values are those after the change. With --latest, changes that are read together are
merged to the last values of each post. With --with-old, a part also has the values before it, "old":{"comment":4}, of counters with
old=on: see ALTER COUNTER. With both, a line that ends with "more":true belongs together with the next one: a sink has all of such lines, or
none, and a reader of standard output goes on from the position of a line without it.

A sink that was away for too long ends the command with status 1: the node keeps the log of the last changes (aof-retain), and of those
behind a cursor (feed-retain).`,
	Setup: func(flags *pflag.FlagSet) action {
		f := &feeding{}
		flags.StringVar(&f.to, "to", "", "`SINK`: -, FILE.jsonl, FILE.jsonl.zst, redis://HOST:PORT/STREAM, kafka://HOST:PORT/TOPIC or https://HOST/PATH")
		flags.StringVar(&f.from, "from", "", "where an empty sink begins: `POSITION`, a file of counterctl export --position, NOW or OLDEST")
		flags.StringVar(&f.cursor, "cursor", "", "`NAME` of a cursor that is moved behind the sink, and where an empty sink begins")
		flags.StringVar(&f.state, "state", "", "of a web service: `FILE` that keeps the position")
		flags.StringSliceVar(&f.counters, "counters", nil, "counters, separated by commas (default: all)")
		flags.StringSliceVar(&f.columns, "columns", nil, "columns, separated by commas (default: all)")
		flags.BoolVar(&f.latest, "latest", false, "merge the changes of a post that are read together")
		flags.BoolVar(&f.old, "with-old", false, "write the values before each change, too, which the log has of counters with old=on")
		flags.IntVar(&f.safe, "safe", 0, "write only changes that `N` replicas have")
		flags.BoolVar(&f.untilCaughtUp, "until-caught-up", false, "end behind the changes that were acknowledged before")
		f.reach = connect.AddFlags(flags)
		f.reachSink = connect.AddSinkFlags(flags)
		return func(ctx context.Context, out output, args []string) error {
			addrs, err := cli.One("HOST:PORT", args)
			if err != nil {
				return err
			}
			return f.run(ctx, out, strings.Split(addrs, ","))
		}
	},
}

// feeding holds the options.
type feeding struct {
	to, from, state   string
	cursor            string
	counters, columns []string
	latest, old       bool
	safe              int
	untilCaughtUp     bool
	reach, reachSink  *connect.Flags
}

// markEvery is how often a sink gets the position alone. The log of ten seconds is a small part of the log that a node keeps.
const markEvery = 10 * time.Second

func (f *feeding) run(ctx context.Context, out output, addrs []string) error {
	if f.safe < 0 {
		return misuse("--safe %d: want 0 or more", f.safe)
	}
	from, err := feedStart(f.from)
	if err != nil {
		return err
	}
	place, err := sinks.Parse(f.to, sinks.Options{Stdout: out.Stdout, State: f.state, Reach: f.reachSink})
	if err != nil {
		return err
	}
	if f.cursor != "" && !counter.ValidCursorName(f.cursor) {
		return misuse("--cursor: %v", &counter.CursorNameError{Got: f.cursor})
	}
	if !place.Keeps && from == "" && f.cursor == "" {
		return misuse("%s keeps no position: want --from", place.Name)
	}
	dial, err := dialFeed(f.reach, addrs)
	if err != nil {
		return err
	}
	log := newFollowLog(out.Stderr)
	done, err := feed.Run(ctx, feed.Options{
		Addrs: addrs, TLS: f.reach.TLS, Dial: dial, Place: place, Cursor: f.cursor, From: from,
		Counters: f.counters, Columns: f.columns, Latest: f.latest, Old: f.old, Safe: f.safe,
		UntilCaughtUp: f.untilCaughtUp, MarkEvery: markEvery, Log: log.printf, Progress: (&feedProgress{log: log}).show,
	})
	log.mu.Lock()
	log.clear()
	log.mu.Unlock()
	if errors.Is(err, feed.ErrNoStart) {
		return misuse("%s: %v", place.Name, feed.ErrNoStart)
	}
	switch {
	case err == nil && done.Position != "":
		fmt.Fprintf(out.Stderr, "%d changes to %s: it has everything up to the position %s\n", done.Changes, place.Name, done.Position)
	case err != nil && done.Changes > 0:
		fmt.Fprintf(out.Stderr, "%d changes to %s, up to the position %s, before an error\n", done.Changes, place.Name, done.Position)
	}
	return err
}

// dialFeed connects to nodes whose feed is read. The error is about an address.
func dialFeed(reach *connect.Flags, addrs []string) (dial func(ctx context.Context, addr string) (*wire.Conn, error), err error) {
	for _, addr := range addrs {
		if _, err := reach.Options(addr); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, addr string) (*wire.Conn, error) {
		opts, err := reach.Options(addr)
		if err != nil {
			return nil, err
		}
		opts.Timeout, opts.Answer, opts.Buffer = 10*time.Second, time.Minute, 256<<10
		return wire.Dial(ctx, addr, opts)
	}, nil
}

// feedStart is the position that a word names.
func feedStart(word string) (string, error) {
	if upper := strings.ToUpper(word); word == "" || upper == "NOW" || upper == "OLDEST" {
		return upper, nil
	}
	if _, err := sinks.Offset(word); err == nil {
		return word, nil
	}
	position, err := sinks.ReadPosition(word)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", misuse("--from %s: it is neither a position, nor a file with one, nor NOW or OLDEST", word)
	case err != nil:
		return "", fmt.Errorf("--from: %w", err)
	}
	if _, err := sinks.Offset(position); err != nil {
		return "", fmt.Errorf("--from %s: %w", word, err)
	}
	return position, nil
}

// feedProgress shows how far a feed is: each second on a terminal, and each ten elsewhere.
type feedProgress struct {
	log     *followLog
	changes uint64 // when it was shown
}

func (p *feedProgress) show(now feed.Progress) {
	l := p.log
	l.mu.Lock()
	defer l.mu.Unlock()
	every := progressEvery
	if l.terminal != nil {
		every = time.Second
	}
	seconds := time.Since(l.shown).Seconds()
	if seconds < every.Seconds() || now.Changes == p.changes && l.terminal == nil {
		return
	}
	text := fmt.Sprintf("feeding: %d changes, %s, %.0f changes/s", now.Changes, human.Size(now.Bytes), float64(now.Changes-p.changes)/seconds)
	if now.CaughtUp {
		text += ", caught up"
	}
	p.changes = now.Changes
	l.show(text)
}
