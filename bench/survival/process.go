package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// Process is a server that this program started. Kill ends it at once.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	log  *os.File
}

// StartProcess appends what the program prints to a file below logs, which is no simulated disk.
func StartProcess(logs, name string, argv ...string) (*Process, error) {
	log, err := os.OpenFile(filepath.Join(logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), log: log}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	go func() {
		_ = p.cmd.Wait() // it was killed
		close(p.done)
	}()
	return p, nil
}

// Kill sends SIGKILL and waits for the end. A second call does nothing.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
	p.log.Close()
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

// freePorts returns different ports.
func freePorts(n int) (ports []int, err error) {
	seen := map[int]bool{}
	for len(ports) < n {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		if !seen[port] {
			seen[port] = true
			ports = append(ports, port)
		}
	}
	return ports, nil
}
