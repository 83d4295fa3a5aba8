//go:build !linux

package coldstore

func adviseWillNeed([]byte) {}

func adviseRandom([]byte) {}

func inMemory([]byte) bool { return true }
