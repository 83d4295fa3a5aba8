//go:build !hangs

package simulation

// lockWaitsAreIdle tells that disks may hang: see locks.go.
const lockWaitsAreIdle = false
