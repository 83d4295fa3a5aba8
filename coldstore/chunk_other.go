//go:build !unix

package coldstore

func newChunk(bool) []byte { return make([]byte, chunkBytes) }

func freeChunk([]byte) {}

func releasePages([]byte) {}
