// Command counterd is a counter service for posts that speaks the Redis protocol. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterd/internal/server"
	"github.com/counterd/counterd/counter"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		if !errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "counterd:", err)
			os.Exit(1)
		}
	}
}

// flags binds the command line to a configuration.
func flags(c *server.Config) (fs *pflag.FlagSet, version *bool) {
	fs = pflag.NewFlagSet("counterd", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.StringSliceVar(&c.Bind, "bind", c.Bind, "addresses to listen on, separated by commas; * or 0.0.0.0 is all of IPv4, ::* or :: all of IPv6, a leading - lets a missing one pass")
	fs.IntVar(&c.Port, "port", c.Port, "TCP port, 0 for none")
	fs.StringVar(&c.UnixSocket, "unixsocket", c.UnixSocket, "path of a unix socket to listen on too")
	fs.Var((*octalFlag)(&c.UnixSocketPerm), "unixsocketperm", "its permissions")
	fs.StringVar(&c.SchemaFile, "schema", c.SchemaFile, "schema script to run at start")
	fs.StringVar(&c.Dir, "dir", c.Dir, "data directory; it is made if it is not there")
	fs.Var((*yesNoFlag)(&c.AppendOnly), "appendonly", "keep data on disk; no: in memory only")
	fs.StringVar(&c.AppendFsync, "appendfsync", c.AppendFsync, "when the log is synced: always (before each reply), everysec or no")
	fs.Var((*bytesFlag)(&c.MaxMemory), "maxmemory", "what posts may take in memory, e.g. 4gb; the oldest above it go to files. 0 for no limit")
	fs.Var((*bytesFlag)(&c.AOFRetain), "aof-retain", "log kept beyond what recovery needs, e.g. 10gb: for replicas that come back")
	fs.Var((*bytesFlag)(&c.AOFRewriteMin), "auto-aof-rewrite-min-size", "log growth at which a snapshot is made by itself, 0 for never")
	fs.StringVar(&c.RequirePass, "requirepass", c.RequirePass, "password that clients must give")
	fs.Var((*yesNoFlag)(&c.ProtectedMode), "protected-mode", "without a password, serve this machine only")
	fs.IntVar(&c.MaxClients, "maxclients", c.MaxClients, "connections at most")
	fs.Var(&c.MaxMemoryClients, "maxmemory-clients", "what all connections may hold in buffers together, e.g. 64mb or 5% of maxmemory; above it the largest are closed. 0 for no limit")
	fs.Var(&c.OutputLimits, "client-output-buffer-limit", "what subscribers may leave unread, e.g. \"pubsub 32mb 8mb 60\": at once, and for so many seconds")
	fs.IntVar(&c.Timeout, "timeout", c.Timeout, "seconds until an idle connection is closed, 0 for never")
	fs.IntVar(&c.TCPKeepalive, "tcp-keepalive", c.TCPKeepalive, "seconds between keepalive probes, 0 for none")
	fs.StringVar(&c.LogLevel, "loglevel", c.LogLevel, "debug, verbose, notice or warning")
	fs.Int64Var(&c.SlowlogSlower, "slowlog-log-slower-than", c.SlowlogSlower, "microseconds above which a command enters SLOWLOG, -1 for none")
	fs.IntVar(&c.SlowlogMaxLen, "slowlog-max-len", c.SlowlogMaxLen, "entries that SLOWLOG keeps")
	fs.StringVar(&c.ReplicaOf, "replicaof", c.ReplicaOf, "primary to follow, \"host port\"; empty: this is a primary")
	fs.StringVar(&c.MasterAuth, "masterauth", c.MasterAuth, "password for the primary")
	fs.StringVar(&c.MasterUser, "masteruser", c.MasterUser, "user name for the primary")
	fs.IntVar(&c.ReplicaPriority, "replica-priority", c.ReplicaPriority, "Sentinel makes the replica with the lowest a primary; 0 is never")
	fs.StringVar(&c.AnnounceIP, "replica-announce-ip", c.AnnounceIP, "address that others are told to reach this replica at")
	fs.IntVar(&c.AnnouncePort, "replica-announce-port", c.AnnouncePort, "port for that, 0 for --port")
	fs.Var((*yesNoFlag)(&c.Announced), "replica-announced", "whether Sentinel tells clients of this replica")
	fs.Var((*yesNoFlag)(&c.ServeStale), "replica-serve-stale-data", "whether a replica answers reads while it has no link to its primary")
	fs.IntVar(&c.MinReplicas, "min-replicas-to-write", c.MinReplicas, "replicas that must follow for changes to be taken")
	fs.IntVar(&c.MinReplicasMaxLag, "min-replicas-max-lag", c.MinReplicasMaxLag, "seconds since its last word after which a replica does not count")
	fs.IntVar(&c.ReplTimeout, "repl-timeout", c.ReplTimeout, "seconds of silence after which a replication link is cut")
	fs.StringVar(&c.ConfigFile, "config", c.ConfigFile, "file of settings in redis.conf's syntax; the command line wins. CONFIG REWRITE writes it")
	version = fs.Bool("version", false, "print the version and end")
	fs.Usage = func() {
		fmt.Fprintf(os.Stderr, "counterd %s: a counter service for posts, speaking the Redis protocol\n\nusage: counterd [flags]\n\n%s", server.ServerVersion, fs.FlagUsages())
	}
	return fs, version
}

func run(args []string) error {
	config := server.DefaultConfig()
	fs, version := flags(&config)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("got argument %q, want flags only (see --help)", fs.Arg(0))
	}
	if *version {
		fmt.Println("counterd", server.ServerVersion)
		return nil
	}
	passed, err := readConfig(fs, &config)
	if err != nil {
		return err
	}
	if err := config.Validate(); err != nil {
		return err
	}
	level := new(slog.LevelVar)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if len(passed) > 0 {
		log.Info("settings of Redis that have no meaning here are passed over", "file", config.ConfigFile, "settings", strings.Join(passed, " "))
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	// A terminal that goes away does not end the server, and nothing is read again: CONFIG SET changes what can be changed.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	go func() {
		for range hangups {
			log.Warn("SIGHUP is ignored: settings are changed by CONFIG SET, and read from the file at the start alone")
		}
	}()

	srv, err := server.New(config, log, level)
	if err != nil {
		return err
	}
	srv.Terminate = stop
	srv.Open = func() (*counter.Store, error) { return open(config, srv, log) }
	if err := srv.Listen(); err != nil { // before loading: clients are told LOADING, and a taken port is seen at once
		return err
	}
	store, err := open(config, srv, log)
	if err != nil {
		_ = shutdown(srv)
		return err
	}
	srv.Serve(store)
	log.Info("ready", "version", server.ServerVersion, "address", srv.Addr().String(), "unixsocket", config.UnixSocket, "pid", os.Getpid(),
		"counters", len(store.Schema().Counters()), "dir", config.Dir, "durability", durability(config))

	<-ctx.Done()
	stop() // a second signal ends the process at once
	log.Info("shutting down")
	if err := shutdown(srv); err != nil {
		log.Warn("some connections were cut", "error", err)
	}
	if err := srv.Store().Close(); err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	log.Info("bye")
	return nil
}

func shutdown(srv *server.Server) error {
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return srv.Shutdown(grace)
}

// durability says in a word or two what an acknowledged change survives.
func durability(c server.Config) string {
	if !c.AppendOnly {
		return "none: data is in memory only"
	}
	return "appendfsync " + c.AppendFsync
}

// open opens the store of the data directory and runs the schema script.
func open(c server.Config, srv *server.Server, log *slog.Logger) (*counter.Store, error) {
	options, err := c.StoreOptions()
	if err != nil {
		return nil, err
	}
	options.Logger = log
	options.Progress = srv.Loading
	dir := c.Dir
	if !c.AppendOnly {
		dir = ""
		log.Warn("data is kept in memory only (appendonly no): it is gone when this process ends")
	}
	store, err := counter.Open(dir, options)
	if err != nil {
		return nil, err
	}
	if c.ReplicaOf != "" || store.Replica() {
		return store, nil // the schema is the primary's
	}
	if err := loadSchema(store, c.SchemaFile); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// loadSchema runs the script of --schema.
func loadSchema(store *counter.Store, file string) error {
	if file == "" {
		return nil
	}
	script, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--schema: %w", err)
	}
	if err := store.AlterScript(string(script)); err != nil {
		return fmt.Errorf("--schema: %s: %w", file, err)
	}
	return nil
}
