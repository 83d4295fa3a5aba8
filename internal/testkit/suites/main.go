package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}

type options struct {
	path, counterd, only string
	listen, server       string
	renew                bool
}

func run(ctx context.Context, args []string) error {
	var o options
	flags := pflag.NewFlagSet("suites", pflag.ContinueOnError)
	flags.StringVar(&o.path, "path", "", "`FOLDER` of a checkout of the project whose suite runs")
	flags.StringVar(&o.counterd, "counterd", "bin/counterd", "`path` of the counterd program")
	flags.StringVar(&o.only, "only", "", "one unit, as unit/type/incr")
	flags.BoolVar(&o.renew, "renew", false, "print tests that fail as lines of the list, and do not fail")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "keymap: address of the proxy")
	flags.StringVar(&o.server, "server", "127.0.0.1:6379", "keymap: address of the server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch suite := flags.Arg(0); suite {
	case "keymap":
		return o.keymap(ctx, o.listen, o.server, func(int) error { <-ctx.Done(); return nil })
	case "valkey":
		return o.tcl(ctx, suite)
	default:
		return fmt.Errorf("got %q, want valkey or keymap", suite)
	}
}

// schema is that of the one counter behind the proxy.
var schema = [][]any{
	{"ADD", "COLUMN", "t", "MID", "HINT=64", "MAX=64", "PRIMARYKEY"}, {"ADD", "COUNTER", "t"},
	{"ADD", "COLUMN", "t", "n", "HINT=8", "MAX=63", "SUFFIX=n"},
}

// keymap runs the proxy while use runs.
func (o options) keymap(ctx context.Context, listen, server string, use func(port int) error) error {
	rdb := redis.NewClient(&redis.Options{Addr: server, DisableIdentity: true})
	defer rdb.Close()
	for _, line := range schema {
		if err := rdb.Do(ctx, line...).Err(); err != nil && !strings.Contains(err.Error(), "exists") {
			return fmt.Errorf("%v: %w", line, err)
		}
	}
	n, err := newNames(ctx, rdb)
	if err != nil {
		return err
	}
	k, err := newKeymap(listen, server, n)
	if err != nil {
		return err
	}
	fmt.Println("keys are mapped at", k.addr())
	go k.serve()
	err = use(k.addr().Port)
	k.listener.Close()
	return err
}

// tcl runs the suite of Redis or Valkey: each unit with a server of its own.
func (o options) tcl(ctx context.Context, suite string) error {
	if err := checkSuite(o.path); err != nil {
		return err
	}
	list, err := readList(suite)
	if err != nil {
		return err
	}
	passed, left, wrong := 0, 0, 0
	for _, unit := range existing(o.path) {
		if o.only != "" && o.only != unit {
			continue
		}
		skip := of(list, unit)
		left += len(skip)
		found, err := o.unit(ctx, unit, skip)
		if err != nil {
			return err
		}
		good := 0
		for _, f := range found {
			if f.passed {
				good++
				continue
			}
			wrong++
			if o.renew {
				fmt.Printf("%s\t%s\t%s\n", unit, f.test, f.said)
			} else {
				fmt.Printf("FAILED  %s: %s: %s\n", unit, f.test, f.said)
			}
		}
		passed += good
		fmt.Printf("%-24s %3d passed, %3d left out\n", unit, good, len(skip))
	}
	fmt.Printf("%s: %d tests passed, %d failed, %d are left out with a reason\n", suite, passed, wrong, left)
	if wrong > 0 && !o.renew {
		return errors.New("tests failed that the list does not have")
	}
	return nil
}

// unit runs one file of the suite against a new server.
func (o options) unit(ctx context.Context, unit string, skip []leftOut) (found []outcome, err error) {
	dir, err := os.MkdirTemp("", "suites-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	server := exec.CommandContext(ctx, o.counterd, "--port", strconv.Itoa(port), "--dir", dir+"/data")
	if err := server.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	}()
	addr := "127.0.0.1:" + strconv.Itoa(port)
	if err := answers(ctx, addr); err != nil {
		return nil, err
	}
	err = o.keymap(ctx, "127.0.0.1:0", addr, func(proxy int) error {
		found, err = runUnit(ctx, o.path, proxy, unit, skip)
		return err
	})
	return found, err
}

// answers waits until a server answers.
func answers(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: addr, DisableIdentity: true})
	defer rdb.Close()
	for {
		err := rdb.Ping(ctx).Err()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// freePort returns a port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
