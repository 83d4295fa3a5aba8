package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/bench"
	"github.com/counterd/counterd/bench/procstat"
	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/bench/sample"
)

var demoCommand = command{
	Name:    "demo",
	Summary: "start a server, load real posts, and show the results",
	Details: `Starts counterd on a free port of this machine, loads real posts into it, reads timeline pages for a few
seconds, and shows memory, speed and a few posts; then stops it. Where a redis-server is installed, the
same posts are loaded into one for a few seconds, to compare.`,
	Setup: func(flags *pflag.FlagSet) action {
		var opts demoOptions
		flags.StringVar(&opts.counterd, "counterd", "counterd", "`path` of the counterd program")
		flags.StringVar(&opts.redis, "redis", "redis-server", "`path` of the redis-server to compare with; empty: estimate")
		flags.StringVar(&opts.sample, "sample", "", "`FILE` of posts (default: a built-in sample of Reddit)")
		flags.StringVar(&opts.schema, "schema", "", "`FILE` with the script that makes the sample's counter (default: the built-in sample's)")
		flags.StringVar(&opts.counter, "counter", "", "`name` of the counter (default: the only one)")
		flags.StringVar(&opts.bind, "bind", "127.0.0.1", "`address` to listen on")
		flags.IntVar(&opts.port, "port", 0, "port to listen on (default: a free one)")
		flags.StringVar(&opts.dir, "dir", "", "`folder` for the server's data (default: a temporary one)")
		flags.DurationVar(&opts.reading, "duration", 3*time.Second, "how long to read pages")
		flags.BoolVar(&opts.stay, "stay", false, "keep the server running until Ctrl-C")
		flags.BoolVar(&opts.progress, "progress", true, "show progress: a bar on a terminal, lines elsewhere")
		return func(ctx context.Context, out output, args []string) error {
			if len(args) != 0 {
				return misuse("takes no arguments, only flags")
			}
			if opts.sample != "" && opts.schema == "" {
				return misuse("--sample needs a --schema")
			}
			return demo(ctx, out, opts)
		}
	},
}

type demoOptions struct {
	counterd, redis         string
	sample, schema, counter string
	bind                    string
	port                    int
	dir                     string
	reading                 time.Duration
	stay, progress          bool
}

// demo runs the demo. Whatever happens, the servers it started are stopped and its temporary folder is removed.
func demo(ctx context.Context, out output, opts demoOptions) (err error) {
	temp, err := os.MkdirTemp("", "counterd-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if opts.dir == "" {
		opts.dir = temp
	}
	file := postFile{name: sample.Name, open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(sample.Reddit)), nil
	}}
	if opts.sample != "" {
		file = postFile{name: opts.sample, open: openPath(opts.sample)}
	}

	server, err := startCounterd(ctx, temp, opts)
	if err != nil {
		return err
	}
	defer server.stop()
	target := bench.Target{Addr: server.addr, Kind: bench.Counterd}
	plan, err := planLoad(ctx, target, opts.counter, file)
	if err != nil {
		return err
	}
	result := demoResult{plan: plan, name: "posts of " + file.name, counterd: memory{basis: "measured: growth of its private memory"}}
	if opts.sample == "" {
		result.name = "real posts of Reddit"
	}
	fmt.Fprintf(out.Stdout, "Loading %s %s into counterd at %s ...\n", report.Int(plan.rows), result.name, server.addr)
	if result.load, result.counterd.bytes, err = loadChild(ctx, out, server, plan, opts.progress); err != nil {
		return err
	}
	if blocks := blockBytes(target); blocks > 0 {
		result.counterd.basis += fmt.Sprintf(", %s of them the posts' blocks", report.Significant(float64(blocks)/float64(plan.rows)))
	}
	posts, err := readPosts(plan)
	if err != nil {
		return err
	}
	fmt.Fprintf(out.Stdout, "Reading timeline pages for %s ...\n", opts.reading)
	if result.pages, err = readPages(ctx, plan, posts.mids, opts.reading); err != nil {
		return err
	}
	if result.top, err = posts.readTop(plan); err != nil {
		return err
	}
	result.redis = redisMemory(ctx, out, temp, plan, opts)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	result.print(out.Stdout, server.addr, opts.stay)
	if opts.stay {
		fmt.Fprintln(out.Stdout, "The server runs until Ctrl-C.")
		select {
		case <-ctx.Done():
		case <-server.done:
			return fmt.Errorf("%s ended: %v", opts.counterd, server.err)
		}
	}
	return nil
}

// startCounterd starts the server, with the schema of the posts.
func startCounterd(ctx context.Context, temp string, opts demoOptions) (*child, error) {
	port := opts.port
	if port == 0 {
		var err error
		if port, err = freePort(opts.bind); err != nil {
			return nil, err
		}
	}
	args := []string{"--bind", opts.bind, "--port", strconv.Itoa(port), "--dir", opts.dir}
	if opts.schema != "" {
		args = append(args, "--schema", opts.schema)
	}
	server, err := startChild(ctx, temp, opts.bind, port, opts.counterd, args...)
	if err != nil || opts.schema != "" {
		return server, err
	}
	if err := runScript(server.addr, sample.Script); err != nil {
		server.stop()
		return nil, err
	}
	return server, nil
}

// runScript sends the lines of a script as commands.
func runScript(addr, script string) error {
	conn, err := bench.Target{Addr: addr}.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for line := range strings.Lines(script) {
		if words := strings.Fields(line); len(words) > 0 {
			if _, err := conn.Do(words...); err != nil {
				return fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
			}
		}
	}
	return nil
}

// loadChild loads the file and returns by how much the private memory of the server's process grew.
func loadChild(ctx context.Context, out output, server *child, plan *loadPlan, progress bool) (bench.LoadResult, int64, error) {
	before, err := server.private()
	if err != nil {
		return bench.LoadResult{}, 0, err
	}
	result, err := plan.send(ctx, out, 1, progress)
	if err == nil && result.Refused > 0 {
		err = fmt.Errorf("the server refused %d rows, the first: %w", result.Refused, result.First)
	}
	if err != nil {
		return result, 0, err
	}
	after, err := settled(ctx, server)
	return result, after - before, err
}

// settled waits until a server has given back the memory that it needs only under load, such as log buffers: until its
// memory has not shrunk for 2.5 s, 10 s at most. It returns that memory.
func settled(ctx context.Context, server *child) (int64, error) {
	const look, atRest, most = 250 * time.Millisecond, 10, 40
	var least int64
	for i, last := 0, 0; i-last < atRest && i < most; i++ {
		now, err := server.private()
		if err != nil {
			return 0, err
		}
		if least == 0 || now < least {
			least, last = now, i
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(look):
		}
	}
	return least, nil
}

// blockBytes adds up what COUNTER.BLOCKS says the blocks take; 0 where it does not tell.
func blockBytes(target bench.Target) (total int64) {
	conn, err := target.Dial()
	if err != nil {
		return 0
	}
	defer conn.Close()
	v, err := conn.Do("COUNTER.BLOCKS")
	if err != nil {
		return 0
	}
	for word := range strings.FieldsSeq(v.Text()) {
		if text, ok := strings.CutPrefix(word, "bytes="); ok {
			n, _ := strconv.ParseInt(text, 10, 64)
			total += n
		}
	}
	return total
}

// memory is the memory of the posts in a server.
type memory struct {
	bytes int64
	basis string // how the number came about
}

// redisMemory returns what the posts take in plain Redis: measured where there is one, else estimated.
func redisMemory(ctx context.Context, out output, temp string, plan *loadPlan, opts demoOptions) memory {
	if opts.redis != "" {
		if path, err := exec.LookPath(opts.redis); err == nil {
			measured, err := measureRedis(ctx, out, temp, path, plan, opts)
			if err == nil {
				return measured
			}
			if ctx.Err() == nil {
				fmt.Fprintf(out.Stderr, "%s cannot be compared with: %v\n", opts.redis, err)
			}
		}
	}
	return estimateRedis(plan)
}

func measureRedis(ctx context.Context, out output, temp, path string, plan *loadPlan, opts demoOptions) (memory, error) {
	port, err := freePort(opts.bind)
	if err != nil {
		return memory{}, err
	}
	server, err := startChild(ctx, temp, opts.bind, port, path, "--bind", opts.bind, "--port", strconv.Itoa(port),
		"--dir", temp, "--save", "", "--appendonly", "no")
	if err != nil {
		return memory{}, err
	}
	defer server.stop()
	fmt.Fprintf(out.Stdout, "Loading the same posts into %s, to compare ...\n", path)
	same := *plan
	same.target = bench.Target{Addr: server.addr, Kind: bench.RedisStrings}
	if same.model, err = bench.NewModel(bench.RedisStrings, plan.schema); err != nil {
		return memory{}, err
	}
	conn, err := same.target.Dial()
	if err != nil {
		return memory{}, err
	}
	defer conn.Close()
	info, err := procstat.ReadInfo(conn)
	if err != nil {
		return memory{}, err
	}
	_, grown, err := loadChild(ctx, out, server, &same, opts.progress)
	return memory{grown, "measured in redis-server " + info["redis_version"]}, err
}

// estimateRedis adds up what Redis 7 allocates for a string a counter: a table slot of 8 bytes and an entry of 24, the
// key with 2 bytes around it, and an object of 16 unless the value is below 10,000, of which there are shared ones.
// Rounding by the allocator is left out, except for the key, so this is a lower bound.
func estimateRedis(plan *loadPlan) memory {
	const slot, entry, around, object, shared = 8, 24, 2, 16, 10000
	r, err := plan.file.reader()
	if err != nil {
		return memory{basis: err.Error()}
	}
	defer r.Close()
	total := int64(0)
	row := make([]uint64, len(plan.schema.Columns))
	for {
		mid, err := r.Read(row)
		if err != nil {
			return memory{total, "estimated: at least Redis 7's table slot, entry, key, object"}
		}
		digits := len(strconv.FormatUint(mid, 10))
		for i, v := range row {
			key := digits + len(".") + len(plan.schema.Columns[i].Suffix) + around
			total += slot + entry + int64(key+7)/8*8
			if v >= shared {
				total += object
			}
		}
	}
}
