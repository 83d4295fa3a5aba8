package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}

type options struct {
	path, counterd, only, table string
	renew                       bool
	listen, server              string
}

// suites are the programs that run the tests of a project and tell which passed, by the names of their tables.
var suites = map[string]func(ctx context.Context, o options, list []row) ([]outcome, error){
	"valkey": tclSuite, "redis": tclSuite, "go-redis": goRedis, "redis-py": redisPy, "ioredis": ioredis, "rueidis": rueidis,
	"resp-compatibility": respCompatibility, "resp-compatibility-cluster": respCompatibilityCluster,
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := pflag.NewFlagSet("suites", pflag.ContinueOnError)
	flags.StringVar(&o.path, "path", "", "`FOLDER` of a checkout of the project whose suite runs")
	flags.StringVar(&o.counterd, "counterd", "bin/counterd", "`path` of the counterd program")
	flags.StringVar(&o.only, "only", "", "one unit, as unit/type/incr")
	flags.StringVar(&o.table, "table", "", "`FILE` of the table; empty: that of this program")
	flags.BoolVar(&o.renew, "renew", false, "write --table as this run would have it, with what failed tests said behind a question mark")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "keymap: address of the proxy")
	flags.StringVar(&o.server, "server", "127.0.0.1:6379", "keymap: address of the server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	name := flags.Arg(0)
	if name == "keymap" {
		return serveKeymap(ctx, o.listen, o.server)
	}
	suite, ok := suites[name]
	if !ok {
		return fmt.Errorf("got %q, want keymap or a suite that has a table: %s", name, strings.Join(tables(), ", "))
	}
	var err error
	if o.path, err = filepath.Abs(o.path); err != nil {
		return err
	}
	list, err := readList(name, o.table)
	if err != nil {
		return err
	}
	found, err := suite(ctx, o, list)
	if err != nil {
		return err
	}
	return o.compare(name, list, found)
}

// serveKeymap runs the proxy alone, before a server that is there.
func serveKeymap(ctx context.Context, listen, server string) error {
	n, err := single(ctx, server, nil)
	if err != nil {
		return err
	}
	k, err := newKeymap(listen, server, n)
	if err != nil {
		return err
	}
	fmt.Println("keys are mapped at", k.addr())
	context.AfterFunc(ctx, func() { k.listener.Close() })
	k.serve()
	return nil
}
