//go:build !linux

package durable

import "time"

var processStart = time.Now()

// threadTime stands for the processor time of the thread. A wait for a disk counts too.
func threadTime() time.Duration { return time.Since(processStart) }

// processTime is not known: the process counts as idle.
func processTime() time.Duration { return 0 }
