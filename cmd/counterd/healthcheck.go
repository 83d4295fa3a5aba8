package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/internal/wire"
)

// healthTimeout bounds a health check: Docker's default is 30 s, and the image's 3 s.
const healthTimeout = 2 * time.Second

// healthCheck asks the counterd that runs as a process whether it serves. It takes the port, TLS and the unix socket from
// the settings of that process, so that the health check of an image fits whatever the image is started with. A server that
// asks for a password serves. One that loads data does not.
func healthCheck(pid int) error {
	conf, err := settingsOf(pid)
	if err != nil {
		return fmt.Errorf("the settings of process %d: %w", pid, err)
	}
	addr, secure := clientAddress(&conf)
	if addr == "" {
		return errors.New("the server has no port, TLS port or Unix socket for clients")
	}
	opts := wire.Options{Timeout: healthTimeout, Answer: healthTimeout}
	if secure {
		// The server's own certificate is what it is asked with, where clients must show one. Its name is not checked: the
		// address is this machine's.
		opts.TLS = &tls.Config{InsecureSkipVerify: true}
		if cert, err := tls.LoadX509KeyPair(conf.TLS.CertFile, conf.TLS.KeyFile); err == nil {
			opts.TLS.Certificates = []tls.Certificate{cert}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	return wire.Ping(ctx, addr, opts)
}

// settingsOf returns the settings of a process that runs counterd, by its command line. Secrets in it are asterisks.
func settingsOf(pid int) (config.Config, error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	line, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil {
		return config.Config{}, err
	}
	var args []string
	for _, a := range bytes.Split(bytes.TrimSuffix(line, []byte{0}), []byte{0}) {
		args = append(args, string(a))
	}
	return settingsIn(filepath.Join(proc, "cwd"), args)
}

// settingsIn returns the settings of a command line that was given in a directory.
func settingsIn(dir string, args []string) (config.Config, error) {
	conf := config.Default()
	fs, _ := config.Flags(&conf)
	questions(fs)
	if err := fs.Parse(args[1:]); err != nil {
		return conf, err
	}
	if fs.NArg() == 1 && conf.ConfigFile == "" {
		conf.ConfigFile = fs.Arg(0)
	}
	if conf.ConfigFile != "" && !filepath.IsAbs(conf.ConfigFile) {
		conf.ConfigFile = filepath.Join(dir, conf.ConfigFile)
	}
	// A pipe gives its text to one reader: a second one would wait for ever.
	if info, err := os.Stat(conf.ConfigFile); err == nil && !info.Mode().IsRegular() {
		return conf, fmt.Errorf("%s is not a regular file, so it cannot be read again: use counterctl ping HOST:PORT instead", conf.ConfigFile)
	}
	_, err := config.Load(fs, &conf)
	return conf, err
}

// clientAddress is where a client on this machine reaches a server, and whether it needs TLS there. Empty: nowhere.
func clientAddress(conf *config.Config) (addr string, secure bool) {
	host := "127.0.0.1"
	if len(conf.Bind) > 0 {
		switch b := strings.TrimPrefix(conf.Bind[0], "-"); b {
		case "*", "0.0.0.0", "":
		case "::", "::*":
			host = "::1"
		default:
			host = b
		}
	}
	switch {
	case conf.Port != 0:
		return net.JoinHostPort(host, strconv.Itoa(conf.Port)), false
	case conf.TLS.Port != 0:
		return net.JoinHostPort(host, strconv.Itoa(conf.TLS.Port)), true
	}
	return conf.UnixSocket, false
}
