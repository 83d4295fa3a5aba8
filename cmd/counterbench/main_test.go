package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/internal/testkit/benchtest"
)

// asServer makes the test's own program a server, which the demo can start: "counterd" or "redis".
const asServer = "COUNTERBENCH_TEST_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(asServer); kind != "" {
		serve()
		return
	}
	os.Exit(m.Run())
}

// serve is a server with counterd's flags, until SIGTERM.
func serve() {
	flags := pflag.NewFlagSet("server", pflag.ExitOnError)
	bind, port := flags.String("bind", "", ""), flags.Int("port", 0, "")
	dir := flags.String("dir", "", "")
	flags.String("schema", "", "")
	flags.Parse(os.Args[1:])
	if os.Getenv(asServer) == "broken" {
		fmt.Println("cannot open the log:\ndisk on fire")
		os.Exit(3)
	}
	if _, err := os.Stat(*dir); err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", *bind, *port))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	stop := (&benchtest.Server{Counterd: true}).Serve(l)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
	stop()
}

// tool runs the tool in this process.
func tool(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return toolContext(ctx, args...)
}

func toolContext(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = program.Run(ctx, args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestUsage(t *testing.T) {
	status, out, _ := tool(t)
	if status != 0 {
		t.Errorf("status %d alone, want 0", status)
	}
	for _, c := range program.Commands {
		if !strings.Contains(out, "counterbench "+c.Name) {
			t.Errorf("usage does not name %s:\n%s", c.Name, out)
		}
		status, help, errs := tool(t, c.Name, "--help")
		if status != 0 || errs != "" || !strings.HasPrefix(help, "usage: counterbench "+c.Name) {
			t.Errorf("%s --help: status %d\n%s%s", c.Name, status, help, errs)
		}
		for line := range strings.Lines(help) {
			if len(line) > 160 {
				t.Errorf("%s --help: a line of %d characters: %s", c.Name, len(line), line)
			}
		}
	}
}

func TestMisuse(t *testing.T) {
	for _, args := range []string{"nothing", "run a", "run --nothing", "run --server nowhere", "run --kind oracle",
		"idle --server nowhere", "demo now", "demo --sample f"} {
		if status, _, errs := tool(t, strings.Fields(args)...); status != 2 || !strings.HasPrefix(errs, "counterbench") {
			t.Errorf("%s: status %d, want 2\n%s", args, status, errs)
		}
	}
}
