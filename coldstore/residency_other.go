//go:build !linux

package coldstore

func adviseWillNeed([]byte) {}

func advisePopulate([]byte) {}

func adviseRandom([]byte) {}

func mappedBytes() (n int64, known bool) { return 0, false }

func adviseHuge([]byte) {}

func adviseSmall([]byte) {}
