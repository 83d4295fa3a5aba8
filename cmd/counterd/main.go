// Command counterd is a counter service for posts that speaks the Redis protocol. See docs/.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/server"
	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/secretargs"
	"github.com/counterd/counterd/counter"
)

func main() {
	if err := run(secretargs.Take(config.SecretFlag)[1:]); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return
		}
		if said := (saidError{}); !errors.As(err, &said) {
			fmt.Fprintln(os.Stderr, "counterd:", err)
		}
		os.Exit(1)
	}
}

func run(args []string) error {
	conf := config.Default()
	fs, version := config.Flags(&conf)
	asked := questions(fs)
	fs.Usage = func() {
		fmt.Printf("counterd %s: a counter service for posts that speaks the Redis protocol\n\n"+
			"usage: counterd [flags] [FILE]\n\n"+
			"FILE has settings in the syntax of redis.conf, one \"name value\" per line, under the same names as the flags.\n"+
			"Settings marked CONFIG SET can be changed while the server runs.\n\n", server.ServerVersion)
		config.Help(os.Stdout, fs)
	}
	if err := config.ParseFlags(fs, args); err != nil {
		return err
	}
	switch {
	case fs.NArg() == 1 && conf.ConfigFile == "": // as redis-server takes it
		conf.ConfigFile = fs.Arg(0)
	case fs.NArg() > 0:
		return fmt.Errorf("got arguments %q, want flags and at most one configuration file (see --help)", fs.Args())
	}
	if *version {
		fmt.Println("counterd", server.ServerVersion)
		return nil
	}
	if done, err := asked.answer(fs); done {
		return err
	}
	passed, err := config.Load(fs, &conf)
	if err != nil {
		return err
	}
	if conf.Dir, err = filepath.Abs(conf.Dir); err != nil { // as CONFIG GET shows it
		return err
	}
	if err := conf.ReadSecrets(); err != nil {
		return err
	}
	if err := conf.Validate(); err != nil {
		return err
	}
	if err := conf.CheckMemoryOnly(); err != nil {
		return err
	}
	if *asked.check {
		return checked(conf, passed)
	}
	if err := conf.CheckDir(); err != nil {
		return err
	}
	level := new(slog.LevelVar)
	log := newLog(os.Stderr, conf.LogFormat, level)
	if err = serve(conf, passed, log, level); err != nil && conf.LogFormat == config.LogJSON {
		log.Error("server stopped", "error", err)
		return saidError{err}
	}
	return err
}

// serve is the server's life. passed are settings that mean nothing here.
func serve(conf config.Config, passed []string, log *slog.Logger, level *slog.LevelVar) error {
	if len(passed) > 0 {
		log.Info("ignored settings of Redis that have no meaning in counterd", "file", conf.ConfigFile, "settings", strings.Join(passed, " "))
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()

	hangups := make(chan os.Signal, 1) // from here on: a terminal that goes away does not end the server
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	srv, err := server.New(conf, log, level)
	if err != nil {
		return err
	}
	go func() {
		for range hangups {
			srv.Reload()
		}
	}()
	manager := newServiceManager(log)
	srv.Terminate = stop
	srv.Open = func() (*counter.Store, error) { return open(conf, srv, log, manager) }
	if err := srv.Listen(); err != nil { // before loading: clients are told LOADING, and a taken port is seen at once
		return err
	}
	reg, err := openRegistry(conf)
	if err != nil {
		_ = shutdown(srv)
		return err
	}
	if reg != nil {
		srv.Cluster().UseRegistry(reg)
	}
	defer context.AfterFunc(ctx, srv.EndOpening)()
	store, err := srv.OpenStore()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil { // it waited for another node
		log.Info("shutting down before the data was loaded", "error", err)
		err = nil
	}
	if store == nil {
		_ = shutdown(srv)
		return errors.Join(err, closeRegistry(reg))
	}
	if reg != nil {
		if err := srv.Cluster().Join(store); err != nil {
			_ = shutdown(srv)
			return errors.Join(err, closeRegistry(reg), store.Close())
		}
	}
	srv.Serve(store)
	log.Info("ready", "version", server.ServerVersion, "address", srv.Addr().String(), "unixsocket", conf.UnixSocket, "pid", os.Getpid(),
		"counters", len(store.Schema().Counters()), "dir", conf.Dir, "durability", durability(conf))

	manager.ready()

	<-ctx.Done()
	manager.stopping()
	stop() // a second signal ends the process at once
	log.Info("shutting down")
	if err := shutdown(srv); err != nil {
		log.Warn("closed connections before they had finished", "error", err)
	}
	if err := srv.Store().Close(); err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	log.Info("shutdown complete")
	return nil
}

// openRegistry opens the registry of a node of a cluster; nil: the node is of none.
func openRegistry(c config.Config) (registry.Registry, error) {
	if !c.Cluster.Enabled {
		return nil, nil
	}
	return registry.OpenEtcd(registry.EtcdConfig{Endpoints: c.Cluster.Etcd, User: c.Cluster.EtcdUser, PasswordFile: c.Cluster.EtcdPasswordFile,
		CACert: c.Cluster.EtcdCACert, Cert: c.Cluster.EtcdCert, Key: c.Cluster.EtcdKey}, c.Cluster.Name)
}

func closeRegistry(reg registry.Registry) error {
	if reg == nil {
		return nil
	}
	return reg.Close()
}

func shutdown(srv *server.Server) error {
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return srv.Shutdown(grace)
}

// durability says in a word or two what an acknowledged change survives.
func durability(c config.Config) string {
	if !c.AppendOnly {
		return "none: data is in memory only"
	}
	return "appendfsync " + c.AppendFsync
}

// open opens the store of the data directory and runs the schema script.
func open(c config.Config, srv *server.Server, log *slog.Logger, manager *serviceManager) (*counter.Store, error) {
	options, err := c.StoreOptions()
	if err != nil {
		return nil, err
	}
	options.Logger = log
	options.Progress = func(what string, done, total uint64) {
		srv.Loading(what, done, total)
		manager.loading(what, done, total)
	}
	dir := c.Dir
	if !c.AppendOnly {
		dir = ""
		log.Warn("appendonly no: data is kept in memory only and will be lost when this process ends")
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
