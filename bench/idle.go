package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/counterd/counterd/bench/procstat"
	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/internal/wire"
)

// IdleConfig says how many connections to open and let be.
type IdleConfig struct {
	Targets     []Target      // one or two, measured one after the other
	PIDs        []int         // their processes; 0 or missing: found out
	Connections int           // to each
	Settle      time.Duration // for which the server's memory may move, at most, before it is read

	// Progress is told how many connections are open. It may be nil.
	Progress func(open int, what string)
}

// MaxIdle bounds the connections of an IdleConfig: the addresses 127.0.0.1 to 127.0.0.250, with perAddress each.
const MaxIdle = 250 * perAddress

const (
	// perAddress is how many connections are made from one of the machine's own addresses to one port: Linux gives out
	// 28,232 ports a pair of addresses.
	perAddress = 25_000

	// spareFiles are those a process has open beside the connections.
	spareFiles = 64

	settleEvery = 100 * time.Millisecond // between two looks at the server's memory
	settleLooks = 5                      // so many must be alike,
	settlePart  = 200                    // to a 200th
)

// FilesError says that a process may not open as many files as connections were asked for.
type FilesError struct{ Want, Limit uint64 }

func (e *FilesError) Error() string {
	return fmt.Sprintf("%d open files are allowed to this process and %d are needed: raise the limit (ulimit -Hn), or open fewer connections", e.Limit, e.Want)
}

// Idle opens connections to each server, has each answer one PING, and reports by how much the server's resident memory
// grows. The kernel's memory for sockets is not in it. A server that had as many connections before has kept memory of
// theirs and grows less: start it anew for a true value.
func Idle(ctx context.Context, config IdleConfig) (*report.Idle, error) {
	if n := len(config.Targets); n != 1 && n != 2 {
		return nil, fmt.Errorf("%d servers, want one or two", n)
	}
	if config.Connections < 1 || config.Connections > MaxIdle {
		return nil, fmt.Errorf("%d connections, want 1..%d", config.Connections, MaxIdle)
	}
	if config.Settle < 0 {
		return nil, fmt.Errorf("a time to settle of %s, want 0 or more", config.Settle)
	}
	if err := allowFiles(uint64(config.Connections) + spareFiles); err != nil {
		return nil, err
	}
	result := &report.Idle{Version: report.IdleVersion, Started: time.Now().UTC().Truncate(time.Second), Host: host(), Connections: config.Connections}
	for i, target := range config.Targets {
		server, err := idleSide(ctx, target, &config, i)
		if err != nil {
			return nil, err
		}
		result.Servers = append(result.Servers, server)
	}
	return result, nil
}

// allowFiles raises the process's limit of open files to n where that is needed.
func allowFiles(n uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	if limit.Cur >= n {
		return nil
	}
	// Only root may raise the hard limit.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: max(n, limit.Max)}); err != nil {
		return &FilesError{Want: n, Limit: limit.Max}
	}
	return nil
}

// idleSide measures one server.
func idleSide(ctx context.Context, target Target, config *IdleConfig, number int) (s report.IdleServer, err error) {
	pid := 0
	if number < len(config.PIDs) {
		pid = config.PIDs[number]
	}
	var meter *procstat.Meter
	conn, err := target.ask(func(conn *wire.Conn) error {
		if meter, err = procstat.NewMeter(conn, pid); err != nil {
			return err
		}
		info, err := procstat.ReadInfo(conn)
		if err != nil {
			return err
		}
		before, err := meter.Usage()
		s = report.IdleServer{Addr: target.Addr, Version: info.Version(), Local: meter.PID() != 0, Before: before.RSS}
		return err
	})
	if err != nil {
		return s, err
	}
	defer conn.Close()

	var conns []*wire.Conn
	closeAll := func() {
		for _, c := range conns {
			c.Close()
		}
		conns = nil
	}
	defer closeAll()
	start := time.Now()
	for i := range config.Connections {
		if ctx.Err() != nil {
			return s, context.Cause(ctx)
		}
		c, err := dialIdle(target, conn, i)
		if err != nil {
			return s, idleError(target.Addr, err, i, config.Connections)
		}
		conns = append(conns, c)
		if _, err := c.Do("PING"); err != nil {
			return s, idleError(target.Addr, err, i, config.Connections)
		}
		if config.Progress != nil {
			config.Progress(i+1, target.Addr)
		}
	}
	s.Seconds = time.Since(start).Seconds()
	if s.Open, s.Busy, err = settle(ctx, meter, config.Settle); err != nil {
		return s, err
	}
	closeAll()
	s.Closed, _, err = settle(ctx, meter, config.Settle)
	return s, err
}

// idleError says which connection failed, and why it may be where a server says only half of it.
func idleError(addr string, err error, i, of int) error {
	hint := ""
	if strings.Contains(err.Error(), "max number of clients") {
		hint = "; start the server with a higher --maxclients"
	}
	return fmt.Errorf("%s: connection %d of %d: %w%s", addr, i+1, of, err, hint)
}

// dialIdle makes connection number i. A port of one of the machine's own addresses serves one connection to a server;
// so more of them than an address has ports come from several: 127.0.0.1, 127.0.0.2, and so on.
func dialIdle(target Target, beside *wire.Conn, i int) (*wire.Conn, error) {
	// The smallest buffers: 10,000 connections are to take less of the generator than of the server.
	opts := wire.Options{Password: target.Password, Buffer: 1}
	if host, _, err := net.SplitHostPort(beside.RemoteAddr()); err == nil && i >= perAddress {
		ip := net.ParseIP(host).To4()
		if ip == nil || !ip.IsLoopback() {
			return nil, fmt.Errorf("from one address to %s no more than %d", host, perAddress)
		}
		opts.Local = &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i/perAddress))}
	}
	c, err := wire.Dial(context.Background(), target.Addr, opts)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return nil, fmt.Errorf("%w: raise the limit (ulimit -n)", err)
	}
	return c, err
}

// settle waits until the server's memory rests, for as long as most, and returns it, with the processors that the
// server kept busy meanwhile.
func settle(ctx context.Context, meter *procstat.Meter, most time.Duration) (rss int64, busy float64, err error) {
	first, err := meter.Usage()
	if err != nil {
		return 0, 0, err
	}
	start, last, alike := time.Now(), first, 0
	for time.Since(start) < most && alike < settleLooks {
		select {
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		case <-time.After(settleEvery):
		}
		now, err := meter.Usage()
		if err != nil {
			return 0, 0, err
		}
		alike++
		if moved := now.RSS - last.RSS; max(moved, -moved) > last.RSS/settlePart {
			alike = 0
		}
		last = now
	}
	return last.RSS, (last.CPU() - first.CPU()).Seconds() / max(time.Since(start).Seconds(), 1e-3), nil
}
