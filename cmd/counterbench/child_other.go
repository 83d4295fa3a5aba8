//go:build !linux

package main

import "syscall"

// childAttributes puts a server into a process group of its own: a Ctrl-C on the terminal goes to this process alone,
// which stops the server when it is done with it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
