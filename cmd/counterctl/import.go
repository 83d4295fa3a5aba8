package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/node"
	"github.com/counterd/counterd/cmd/counterctl/internal/source"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/internal/tsv"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/schema"
)

var importCommand = command{
	Name:    "import",
	Args:    "SOURCE",
	Summary: "copy counters from Redis, Valkey or files into a running node",
	Details: `Reads the values of posts from SOURCE and sets them on the node --to. Then it compares counts and sums.

  counterctl import redis://10.0.0.5:6379 --to 127.0.0.1:7000 \
      --map 'post:{mid}:likes=weibo.attitude' --map 'p:{mid}:c#comments=weibo.comment' --resume import.state
  counterctl import redis://10.0.0.5 --to ... --map ... --dry-run --limit 100000     # shows what an import would do
  counterctl import posts.tsv.zst --to 127.0.0.1:7000 --counter weibo --columns mid,repost,-,attitude

SOURCE is a server or a file. - is standard input.

A server is redis://[USER[:PASSWORD]@]HOST[:PORT][/DB], rediss://... for TLS, or unix://PATH. For a cluster, name any node: the
command reads all masters. Set the password in the environment variable SOURCE_PASS, because ps shows a URL for a moment.

A file is plain, .gz or .zst, and has one post a line. The first line or --columns names its columns, which are separated by
tabs, or by commas in a .csv file. With --map, a file is a snapshot of Redis or Valkey (dump.rdb). The command verifies the
checksum of the whole snapshot before it imports anything.

  counterctl import dump.rdb.gz --to 127.0.0.1:7000 --map 'post:{mid}:likes=weibo.attitude'
  counterctl import redis://10.0.0.5 --to ... --map ... --snapshot                   # reads a snapshot, as redis-cli --rdb does
  counterctl import redis://10.0.0.5 --to ... --map ... --follow --state DIR         # and all later changes, until Ctrl-C

With --follow, the command acts as a replica of the source and applies its changes to the node until you stop it with Ctrl-C, or
until --until-caught-up ends it. However it ended, the same command continues, and no change counts twice. To move to counterd,
wait until the lag is 0, stop the writers (or run CLIENT PAUSE 60000 WRITE at the source), run the command with
--until-caught-up, and point readers and writers to counterd. The columns must be empty at first, unless you give --overwrite.
If a key is deleted at the source, its column reads 0. The command names values that a column cannot hold (negative or too
large), and exits with status 1 if there are any. The user at the source needs the rights +psync +replconf +ping +info
+select +multi +exec +get +hget +hmget +zscore +zmscore, and access to the keys.

Rules map keys to columns. The last = separates a key from its column; # separates a field of a hash, and @ a member of a sorted
set. Write \ before # or @ to take it literally.

  post:{mid}:likes=weibo.attitude              a string that holds a number
  p:{mid}:c#comments=weibo.comment             a field of a hash for each post
  p:{mid}:c#*=weibo                            fields that have the names of the counter's columns
  likes#{mid}=weibo.attitude                   a hash with a field for each post
  l:{mid/1000}#{mid%1000}=weibo.attitude       hashes of 1000 posts each
  zlikes@{mid}=weibo.attitude                  a sorted set with a member for each post
  post:{mid}=weibo(repost,comment,_)           numbers in a string and the text between them; _ skips a number
  post:{mid}=weibo[repost:u32,comment:u32]     binary, big endian as BITFIELD writes it; u32le; ",..." allows any length
  post:{mid}=weibo{reposts:repost}             JSON

{mid:16} and {mid:36} are mids in hexadecimal and in base 36. {*} matches any text up to the byte that follows it. The command
refuses two rules that can match the same key.

The command sets values. A second run over the same source therefore changes nothing, and a run after the source has changed
brings the node up to date. With --add, it adds the values instead; the source must be a file, or a server that does not change
meanwhile. With --resume FILE, an import that was interrupted, by Ctrl-C, kill -9 or a lost machine, continues where it stopped,
and with --add it counts nothing twice. The command waits while a connection is lost, or while the target is full or starting.

Exit status 0: all values that match a rule are on the target, and were verified. 1: some values are missing or differ, or the
import failed.`,
	Setup: func(flags *pflag.FlagSet) action {
		i := &importing{}
		flags.StringVar(&i.to, "to", "", "`HOST:PORT` of the counterd to write to")
		flags.StringArrayVarP(&i.rules, "map", "m", nil, "`RULE` that maps keys to columns; may be given several times")
		flags.BoolVar(&i.overlap, "overlap", false, "allow several rules for one column, each for different posts")
		flags.BoolVar(&i.create, "create", false, "add the counters and columns that rules name and the node does not have")
		flags.BoolVar(&i.dry, "dry-run", false, "write nothing; show what would be written and what would be skipped")
		flags.Uint64Var(&i.limit, "limit", 0, "with --dry-run: stop after this many keys or rows; 0 reads all")
		flags.StringVar(&i.resume, "resume", "", "`FILE` that stores the progress; if it exists, the import continues from there")
		flags.BoolVar(&i.add, "add", false, "add the values to the present ones (requires --resume)")
		flags.Float64Var(&i.rate, "rate", 0, "maximum number of values a second; 0 is no limit")
		flags.StringVar((*string)(&i.verify), "verify", "auto", "compare `WHAT` afterwards: sums, values (reads the source again), none; auto: sums, and values where sums prove nothing")
		flags.DurationVar(&i.patience, "wait", time.Minute, "how long to wait for a source or target that does not serve")
		flags.StringVar(&i.counter, "counter", "", "of a file: the counter, if the node has several")
		flags.StringSliceVar(&i.columns, "columns", nil, "of a file: names of its columns in order; - skips a column")
		flags.StringVar(&i.id, "id", "", "of a file: name of the id's column (default: mid or id, else the first)")
		flags.StringVar(&i.separator, "separator", "", "of a file: what separates columns (default: a tab; a comma for .csv)")
		flags.IntVar(&i.db, "db", 0, "of a snapshot: the database")
		flags.BoolVar(&i.snapshot, "snapshot", false, "read a snapshot of the server instead of its keys")
		flags.BoolVar(&i.follow, "follow", false, "apply the server's changes to the node until the command is stopped")
		flags.StringVar(&i.state, "state", "", "with --follow: `DIR` that stores the progress; it needs space for a snapshot, and for the changes that arrive while the snapshot is loaded")
		flags.BoolVar(&i.untilCaughtUp, "until-caught-up", false, "with --follow: end when all changes are applied that the server had when the copy was made")
		flags.BoolVar(&i.overwrite, "overwrite", false, "with --follow: allow the copy to replace the values in the columns")
		flags.BoolVar(&i.keepGoing, "keep-going", false, "of a file: skip invalid lines, and count them")
		i.reach = connect.AddFlags(flags)
		i.reachSource = connect.AddSourceFlags(flags)
		return func(ctx context.Context, out output, args []string) error {
			from, err := cli.One("SOURCE", args)
			if err != nil {
				return err
			}
			if err := i.check(); err != nil {
				return err
			}
			err = i.run(ctx, out, from)
			if err != nil && ctx.Err() != nil && !errors.Is(err, transfer.ErrInterrupted) {
				return context.Canceled // the end of connections is only a consequence
			}
			return err
		}
	},
}

// importing holds the source of an import, and the options.
type importing struct {
	to                 string
	rules              []string
	create, dry, add   bool
	overlap            bool
	limit              uint64
	resume             string
	rate               float64
	verify             transfer.Verify
	patience           time.Duration
	counter            string
	columns            []string
	id, separator      string
	keepGoing          bool
	db                 int
	snapshot, follow   bool
	state              string
	untilCaughtUp      bool
	overwrite          bool
	reach, reachSource *connect.Flags

	dial     func(context.Context) (*wire.Conn, error)         // to the target
	dialNode func(context.Context, string) (*wire.Conn, error) // to a node of the target
}

func (i *importing) check() error {
	switch {
	case i.to == "":
		return misuse("want --to HOST:PORT, the counterd to write to")
	case i.add && i.resume == "" && !i.dry:
		return misuse("--add wants --resume FILE: without it an import that is ended could not go on, and a second one would add all twice")
	case i.follow && (i.state == "" || i.add || i.dry || i.snapshot || i.resume != ""):
		return misuse("--follow wants --state DIR, and goes with none of --add, --dry-run, --snapshot and --resume")
	case !i.follow && (i.state != "" || i.untilCaughtUp || i.overwrite):
		return misuse("--state, --until-caught-up and --overwrite are for --follow")
	case i.db < 0:
		return misuse("--db %d: want 0 or more", i.db)
	case i.limit > 0 && !i.dry:
		return misuse("--limit is for --dry-run")
	case i.rate < 0 || i.patience < 0:
		return misuse("--rate and --wait: want 0 or more")
	case i.verify != transfer.VerifyAuto && i.verify != transfer.VerifySums && i.verify != transfer.VerifyFull && i.verify != transfer.VerifyNone:
		return misuse("--verify %s: want auto, sums, values or none", i.verify)
	}
	return nil
}

// origin is the source of an import, which can be opened more than once, and the columns of its items.
type origin struct {
	open    func(context.Context) (transfer.Source, error)
	columns []mapping.Column
	rules   []string // the options that select the data, for the resume file
	unit    string   // the unit: keys or rows
	close   func() error
}

func (i *importing) run(ctx context.Context, out output, src string) error {
	opts, err := i.reach.Options(i.to)
	if err != nil {
		return err
	}
	opts.Answer = node.Timeout
	i.dial = func(ctx context.Context) (*wire.Conn, error) { return wire.Dial(ctx, i.to, opts) }
	i.dialNode = func(ctx context.Context, addr string) (*wire.Conn, error) {
		opts, err := i.reach.Options(addr)
		if err != nil {
			return nil, err
		}
		opts.Answer = node.Timeout
		return wire.Dial(ctx, addr, opts)
	}
	show := newImportProgress(out.Stderr)
	defer show.finish()
	sch, err := i.firstSchema(ctx, show.note)
	if err != nil {
		return err
	}
	var from *origin
	switch server := strings.Contains(src, "://"); {
	case server && i.follow:
		show.finish()
		return i.keepUp(ctx, out, src, &sch)
	case i.follow || i.snapshot && !server:
		return misuse("--follow and --snapshot want a server, redis://HOST")
	case server && i.snapshot:
		from, err = i.download(ctx, out, src, &sch, show)
	case server:
		from, err = i.redis(ctx, out, src, &sch, show)
	case len(i.rules) > 0:
		from, err = i.dump(ctx, out, src, "", &sch, show)
	default:
		from, err = i.file(ctx, src, sch, show)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(src, ":"):
		return fmt.Errorf("%w (write redis://%s for a server)", err, src)
	case err != nil:
		return err
	}
	defer from.close()
	show.unit = from.unit
	if i.dry {
		return i.dryRun(ctx, out, from, show)
	}
	return i.move(ctx, out, from, sch, show)
}

// firstSchema is schema, and waits for a target that does not serve yet as long as --wait says.
func (i *importing) firstSchema(ctx context.Context, note func(string)) (sch *schema.Schema, err error) {
	waiting := func(err error) {
		note(fmt.Sprintf("waiting for the target, for %v at most: %s", i.patience, cli.Text(err)))
	}
	err = transfer.Patiently(ctx, i.patience, waiting, func() error {
		sch, err = i.schema(ctx)
		return err
	})
	return sch, err
}

// schema asks the target for its counters and columns.
func (i *importing) schema(ctx context.Context) (*schema.Schema, error) {
	n, err := node.Dial(ctx, i.to, i.reach)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	return n.Schema()
}

// parseRules finds the rules' columns on the target, and makes those that are missing if that is wanted.
func (i *importing) parseRules(ctx context.Context, out output, sch **schema.Schema) (*mapping.Rules, error) {
	if len(i.rules) == 0 {
		return nil, misuse("want --map RULE, which says what keys mean")
	}
	rules, err := mapping.Parse(i.rules, *sch)
	var missing *mapping.MissingError
	if errors.As(err, &missing) && i.create {
		if *sch, err = i.make(ctx, out, *sch, missing.Statements); err != nil {
			return nil, err
		}
		rules, err = mapping.Parse(i.rules, *sch)
	}
	switch {
	case errors.As(err, &missing):
		return nil, fmt.Errorf("%s: %w\n(--create adds them so: of 32 bits at most)", i.to, err)
	case err != nil:
		return nil, misuse("--map: %v", err)
	}
	if err := rules.Repeated(); err != nil && !i.add && !i.overlap {
		return nil, misuse("--map: %v: of a post that has both, chance decides which value stays (--add adds them; --overlap, if no post has both)", err)
	}
	return rules, nil
}

// make runs statements on the target and returns its schema. A dry run only shows them, and returns the schema that the
// target would have.
func (i *importing) make(ctx context.Context, out output, before *schema.Schema, statements []string) (*schema.Schema, error) {
	if i.dry {
		script := strings.Join(statements, "\n") + "\n"
		fmt.Fprintf(out.Stdout, "these would be added to %s:\n%s", i.to, script)
		return schema.ParseScript(strings.NewReader(script), before)
	}
	n, err := node.Dial(ctx, i.to, i.reach)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	for _, s := range statements {
		if _, err := n.Do(strings.Fields(s)...); err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
		fmt.Fprintf(out.Stderr, "%s\n", s)
	}
	return n.Schema()
}

// redis is a server to read.
func (i *importing) redis(ctx context.Context, out output, url string, sch **schema.Schema, show *importProgress) (*origin, error) {
	addr, dial, db, err := i.server(url)
	if err != nil {
		return nil, err
	}
	rules, err := i.parseRules(ctx, out, sch)
	if err != nil {
		return nil, err
	}
	o := source.RedisOptions{Addr: addr, Dial: dial, DB: db, Rules: rules, Patience: i.patience, Log: show.note}
	return &origin{
		open:    func(ctx context.Context) (transfer.Source, error) { return source.OpenRedis(ctx, o) },
		columns: rules.Columns(), rules: i.rules, unit: "keys",
		close: func() error { return nil },
	}, nil
}

// server is where a URL leads.
func (i *importing) server(url string) (addr string, dial wire.Options, db int, err error) {
	parsed, err := goredis.ParseURL(url)
	if err != nil {
		return "", dial, 0, misuse("SOURCE: %v", redactURL(err, url))
	}
	i.reachSource.TLS = i.reachSource.TLS || parsed.TLSConfig != nil
	dial, err = i.reachSource.Options(parsed.Addr)
	if parsed.Password != "" {
		dial.Password = parsed.Password
	}
	if parsed.Username != "" {
		dial.User = parsed.Username
	}
	return parsed.Addr, dial, parsed.DB, err
}

// redactURL takes a URL, which may hold a password, out of an error.
func redactURL(err error, url string) error {
	return errors.New(strings.ReplaceAll(strings.ReplaceAll(err.Error(), fmt.Sprintf("%q", url), "the URL"), url, "the URL"))
}

// file is a file to read.
func (i *importing) file(ctx context.Context, path string, sch *schema.Schema, show *importProgress) (*origin, error) {
	o := source.FileOptions{Path: path, KeepGoing: i.keepGoing, TSV: tsv.Options{Columns: i.columns, ID: i.id}}
	switch counters := sch.Counters(); {
	case i.counter != "":
		if o.Counter = sch.Counter(i.counter); o.Counter == nil {
			return nil, fmt.Errorf("%s has no counter %q; to add it:\n  ADD COUNTER %s", i.to, i.counter, i.counter)
		}
	case len(counters) == 1:
		o.Counter = counters[0]
	default:
		return nil, misuse("%s has %d counters: want --counter NAME", i.to, len(counters))
	}
	name := strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst")
	switch separator := []rune(i.separator); {
	case i.separator == `\t` || i.separator == "\t":
	case len(separator) == 1 && !strings.ContainsAny(i.separator, "\"\r\n"):
		o.TSV.Comma = separator[0]
	case len(separator) > 0:
		return nil, misuse("--separator %q: want one character, and no quote", i.separator)
	case strings.EqualFold(filepath.Ext(name), ".csv"):
		o.TSV.Comma = ','
	}
	o.Progress = func(rows uint64) { show.show("checking", rows, 0, 0) }
	show.unit = "rows"
	f, err := source.NewFile(ctx, o)
	if err != nil {
		return nil, err
	}
	rules := []string{"file", o.Counter.Name, i.id, i.separator, strings.Join(i.columns, ","), fmt.Sprint(i.keepGoing)}
	return &origin{open: f.Open, columns: f.Columns(), rules: rules, unit: "rows", close: f.Close}, nil
}

// move does it.
func (i *importing) move(ctx context.Context, out output, from *origin, sch *schema.Schema, show *importProgress) error {
	sink := transfer.SinkOptions{Dial: i.dial, Schema: sch, Columns: from.columns, Rate: i.rate, Patience: i.patience, Log: show.note}
	var err error
	if sink.Shards, err = transfer.FindShards(ctx, sink, i.to, i.dialNode); err != nil {
		return fmt.Errorf("%s: %w", i.to, err)
	}
	result, err := transfer.Import(ctx, transfer.ImportOptions{
		Open:   from.open,
		Target: i.to, Rules: from.rules, Add: i.add, Resume: i.resume, Verify: i.verify,
		Sink:     sink,
		Progress: show.show, Log: show.note,
	})
	show.finish()
	if result.Keys > 0 || err == nil {
		i.report(out, from, result)
	}
	switch {
	case err != nil:
		return i.hint(err)
	case i.verify != transfer.VerifyNone && !result.Verified.OK, lost(&result.Skipped) > 0, result.Refused > 0:
		return errReported
	}
	return nil
}

// hint says how to go on after an error.
func (i *importing) hint(err error) error {
	var wrong *transfer.StateError
	switch {
	case errors.As(err, &wrong):
		return err
	case i.resume != "":
		return fmt.Errorf("%w\nThe same command goes on from there (%s)", err, i.resume)
	}
	return fmt.Errorf("%w\nGive the same command again: it begins anew, and sets the same values. With --resume FILE an import continues where it was", err)
}

// lost is how many values and keys that fit a rule are not on the target.
func lost(t *mapping.Tally) uint64 {
	return t.Total() - t.Count(mapping.NoRule) - t.Count(mapping.NoField) - t.Count(mapping.Vanished)
}
