package config

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/counter"
)

// A server with appendonly no keeps its data in memory only. redis.conf's appendonly no seldom means that: Redis keeps
// data by snapshots as well (save), and by default it does. So a file must turn both off, and memory only is refused over
// a directory with data, which the server would neither serve nor change.

// UnservedDataError refuses appendonly no over a directory that holds data.
type UnservedDataError struct{ Dir string }

func (e *UnservedDataError) Error() string {
	return fmt.Sprintf("appendonly no: the directory %s holds data, which a server in memory only would not serve; "+
		"set appendonly yes to serve that data, or set dir to another directory to start empty, in memory only", e.Dir)
}

// errSnapshots refuses a file with appendonly no that leaves Redis's snapshots on.
var errSnapshots = errors.New(`appendonly no: Redis would still keep the data on disk by snapshots (save), which counterd does not have; ` +
	`set appendonly yes to keep the data on disk, or add the line save "" to keep it in memory only`)

// snapshotsOff tells whether the lines of a file turn off the snapshots that Redis makes by default. save "" removes all
// points before it, and each point behind it turns snapshots on again.
func snapshotsOff(lines []Line) (off bool) {
	for _, l := range lines {
		if l.Name == "save" {
			off = l.Value == ""
		}
	}
	return off
}

// CheckMemoryOnly returns a *UnservedDataError if data is to be kept in memory only while the directory holds a store.
// It reads the directory and changes nothing.
func (c *Config) CheckMemoryOnly() error {
	if c.AppendOnly {
		return nil
	}
	switch holds, err := counter.HoldsData(c.Dir); {
	case err != nil:
		return fmt.Errorf("appendonly no: %w", err)
	case holds:
		return &UnservedDataError{c.Dir}
	}
	return nil
}
