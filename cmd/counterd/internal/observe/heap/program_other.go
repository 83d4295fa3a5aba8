//go:build !linux

package heap

// releaseProgram leaves the pages where they are: /proc and MADV_DONTNEED are Linux's.
func releaseProgram() {}
