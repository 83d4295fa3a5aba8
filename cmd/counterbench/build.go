package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/bench"
	"github.com/counterd/counterd/bench/postgen"
	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/cmd/internal/bytesize"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

var buildCommand = command{
	Name:    "build",
	Summary: "create a data directory of generated posts, of any size",
	Details: `Makes a directory that counterd opens, of posts as counterbench run generates them, without a server: old posts in
files, the newest in memory. counterbench run --built measures a server that has opened it. To make a directory of your
own posts: counterctl build.

  counterbench build --posts 1000000000 --out data
  counterd --dir data --maxmemory 2gb
  counterbench run --built --posts 1000000000 --workloads timeline,cold`,
	Setup: func(flags *pflag.FlagSet) action {
		var o buildOptions
		flags.StringVar(&o.out, "out", "", "`DIR` to make; it must not be there")
		flags.IntVar(&o.posts, "posts", 1_000_000, "posts to generate")
		flags.Uint64Var(&o.seed, "seed", 1, "of all that is random")
		flags.StringVar(&o.hot, "hot", "64mb", "`memory` that the newest posts may take")
		flags.IntVar(&o.filePosts, "file-posts", 0, "`posts` of a file (default: 256 Ki, for over 2 billion posts 1 Mi)")
		flags.BoolVar(&o.cluster, "cluster", false, "by group of hash slots, for a node of a cluster")
		flags.BoolVar(&o.progress, "progress", true, "show progress: a bar on a terminal, lines elsewhere")
		return func(ctx context.Context, out output, args []string) error {
			if len(args) != 0 || o.out == "" {
				return misuse("takes no arguments, only flags, and wants --out DIR")
			}
			return o.run(ctx, out)
		}
	},
}

type buildOptions struct {
	out               string
	posts, filePosts  int
	seed              uint64
	hot               string
	cluster, progress bool
}

const (
	buildPiece  = 64 << 10 // posts that are generated at once
	manyPosts   = 2_000_000_000
	manyPerFile = 1 << 20
)

func (o *buildOptions) run(ctx context.Context, out output) error {
	hot, err := bytesize.Parse(o.hot)
	if err != nil {
		return misuse("--hot: %v", err)
	}
	posts, err := postgen.ComputePosts(o.posts, o.seed)
	if err != nil {
		return misuse("--posts: %v", err)
	}
	script, err := schema.ParseScript(strings.NewReader(strings.Join(bench.WeiboScript, "\n")), schema.Empty())
	if err != nil {
		return err
	}
	c := script.Counters()[0]
	rows, err := postgen.NewRows(len(c.Columns), o.seed)
	if err != nil {
		return err
	}
	if o.filePosts == 0 && o.posts > manyPosts {
		o.filePosts = manyPerFile
	}
	b, err := counter.NewBuild(o.out, counter.BuildOptions{Schema: script, SlotGroups: o.cluster, FilePosts: o.filePosts, HotBytes: int64(hot)})
	if err != nil {
		return err
	}
	shown := newProgress(out.Stderr, o.progress, "building", "posts", o.posts)
	err = generate(ctx, o.posts, posts, rows, len(c.Columns), func(p counter.Posts) error {
		shown.add(len(p.Mids))
		return b.Add(c, p)
	})
	var result *counter.BuildResult
	if err == nil {
		result, err = b.Finish()
	}
	shown.finish()
	if err != nil {
		return errors.Join(err, b.Abort())
	}
	printBuilt(out.Stdout, result)
	return nil
}

// generate makes posts on all processors and gives them to add in order.
func generate(ctx context.Context, n int, posts *postgen.ComputedPosts, rows *postgen.Rows, columns int, add func(counter.Posts) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	pieces := (n + buildPiece - 1) / buildPiece
	workers := runtime.GOMAXPROCS(0)
	made := make([]chan counter.Posts, workers) // worker w makes the pieces w, w+workers, ...
	for w := range made {
		made[w] = make(chan counter.Posts, 2)
		wg.Add(1)
		go func() {
			defer wg.Done()
			for piece := w; piece < pieces; piece += workers {
				from := piece * buildPiece
				select {
				case made[w] <- generatePiece(from, min(buildPiece, n-from), posts, rows, columns):
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	for piece := range pieces {
		select {
		case p := <-made[piece%workers]:
			if err := add(p); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func generatePiece(from, n int, posts *postgen.ComputedPosts, rows *postgen.Rows, columns int) counter.Posts {
	p := counter.Posts{Mids: posts.Append(make([]uint64, 0, n), from, n), Columns: make([][]uint64, columns)}
	row := make([]uint64, columns)
	for c := range p.Columns {
		p.Columns[c] = make([]uint64, n)
	}
	for i := range n {
		rows.Fill(from+i, row)
		for c, v := range row {
			p.Columns[c][i] = v
		}
	}
	return p
}

// printBuilt prints a summary of the directory made.
func printBuilt(w io.Writer, r *counter.BuildResult) {
	bytes := r.ColdBytes + r.HotBytes
	fmt.Fprintf(w, "%s posts in %s: %.2f M posts/s\n", report.Int(int(r.Posts)), r.Took.Round(time.Millisecond), float64(r.Posts)/1e6/r.Took.Seconds())
	fmt.Fprintf(w, "%s in %d files: %.3f bytes each\n", report.Int(int(r.Posts-r.HotPosts)), r.ColdFiles, float64(r.ColdBytes)/float64(max(r.Posts-r.HotPosts, 1)))
	fmt.Fprintf(w, "%s in memory, %d images: %.3f bytes each\n", report.Int(int(r.HotPosts)), r.HotImages, float64(r.HotBytes)/float64(max(r.HotPosts, 1)))
	fmt.Fprintf(w, "%.3f bytes a post in all\n", float64(bytes)/float64(max(r.Posts, 1)))
}
