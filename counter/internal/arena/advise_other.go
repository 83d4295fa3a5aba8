//go:build !linux

package arena

func adviseHuge([]byte) {}

// release: elsewhere MADV_DONTNEED does not promise zeros.
func release(mem []byte) { clear(mem) }
