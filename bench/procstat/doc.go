// Package procstat observes the process of a server under test: its processor time, its memory, and the processors that
// it runs on.
//
// A server on this machine is measured through /proc. A server on another machine is measured through its INFO.
package procstat
